//! `gradus audit model`.

use std::path::{Path, PathBuf};

use gradus_audit::model::{self, AuditedModel, Depth};
use gradus_io::progress::Job;
use gradus_model::check::{Loss, labelled_batch, masked_batch};
use gradus_model::{DropoutSeed, Objective, Predicts, Tree};
use gradus_train::hyperparameters::require;
use serde_json::json;

use super::{Page, Talk, columns, refuse};
use crate::common::{open_model, within};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// Check the gradient of whole models, parameter by parameter, in f64
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus audit model                                  # GPT in its three forms, every objective and head, the LSTM
  gradus audit model --html model.html --json
  gradus audit model --model runs/novels --coordinates 2   # a checkpoint: a minute for a million parameters or so

Per parameter tensor: the derivative along a random direction against central differences, the slope of the Taylor remainder (2, \
or 1 if a gradient is wrong), single elements, the gradient's norm, the share of zeros. Of the whole model: exact forward mode and \
second order (up to 300,000 parameters), causality, independence of the batch, padding, cache, shards. Exit code 1 if anything \
fails.")]
pub struct Args {
    /// Directory of a model, with or without a head; a masked model predicts every third token [default: the standard models]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Number of elements of each parameter tensor to perturb, one by one
    #[arg(long, value_name = "N", default_value_t = 4)]
    coordinates: usize,
    /// Number of sequences of random tokens
    #[arg(long, value_name = "B", default_value_t = 4, requires = "model")]
    sequences: usize,
    /// Number of tokens per sequence
    #[arg(long, value_name = "T", default_value_t = 8, requires = "model")]
    tokens: usize,
    /// Keep the model's dropout enabled
    #[arg(long, requires = "model")]
    dropout: bool,
    /// Seed of tokens, directions, elements and dropout
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.start()?;
    within("coordinates", args.coordinates, 0..=1000, "")?;
    args.page.check()?;
    let depth = Depth { coordinates: args.coordinates, seed: args.seed };
    let models = match &args.model {
        Some(path) => vec![checkpoint(args, path, depth)?],
        None => model::standard(depth),
    };
    let mut all = Vec::new();
    for (name, loss) in &models {
        let mut tensors = 0;
        loss.model.as_ref().visit(|_, _| tensors += 1);
        let audit = |reach: &mut dyn FnMut(usize)| Ok(model::audit(name, loss, depth, reach));
        all.push(Display::choose(args.talk.quiet).during(Job::new(name, tensors, "tensors"), audit)?);
    }
    args.page.write(|| model::report(&all, depth).render())?;
    let faults: Vec<String> = all.iter().flat_map(AuditedModel::faults).collect();
    if args.talk.json {
        output::json(&json!({ "models": all.iter().map(AuditedModel::json).collect::<Vec<_>>(), "faults": faults }))?;
    } else {
        let heads = [AuditedModel::HEADS.map(str::to_owned)];
        columns([30, 16], heads.into_iter().chain(all.iter().map(AuditedModel::line)))?;
        if faults.is_empty() {
            output::line(&format!("\n{}", model::ALL_HOLDS))?;
        }
    }
    refuse(faults)
}

/// Loads a model from a directory, to compute its loss on random tokens.
fn checkpoint(args: &Args, path: &Path, depth: Depth) -> Result<(String, Loss), CliError> {
    let dir = open_model(path)?;
    let model = dir.read()?;
    let config = model.config();
    let context = config.sizes.context;
    if context < 2 {
        return Err(CliError::Usage(format!("{}: a context of {context}; the audit needs at least two tokens", path.display())));
    }
    within("tokens", args.tokens, 2..=context, ", the model's context")?;
    let fits = (2..=1024).contains(&args.sequences) && args.sequences.is_multiple_of(2);
    require("sequences", args.sequences, fits, "an even number from 2 to 1024: an example may take two")?;
    let lambda = if config.heads.is_empty() { 1.0 } else { 0.5 };
    let batch = labelled_batch(&config, Objective::SequenceMean, lambda, (args.sequences, args.tokens), depth.seed);
    let masked = config.predicts() == Predicts::Masked;
    let batch = if masked { masked_batch(batch, &config, lambda) } else { batch };
    let dropout = args.dropout.then(|| DropoutSeed::new(depth.seed, 1));
    Ok((dir.path().display().to_string(), Loss { model: model.cast(), batch, dropout }))
}
