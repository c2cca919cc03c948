//! `gradus evaluate --ids FILE --targets FILE`: the loss of given targets, slot by slot.

use std::path::Path;

use gradus_model::{Model, ModelConfig, Tree, checkpoint};
use gradus_tensor::{Real, Tensor};
use gradus_train::answers::evaluate::TargetedSequence;
use gradus_train::hyperparameters::require;
use serde_json::{Map, Value, json};

use super::Args;
use crate::error::CliError;
use crate::ids::{read_ids, read_segments, read_targets};

/// Reads the sequence, its segments and its targets.
pub fn read(args: &Args, ids: &Path, targets: &Path, config: &ModelConfig) -> Result<TargetedSequence, CliError> {
    let tokens = read_ids(ids, config.sizes.vocab, "model")?;
    let (n, most) = (tokens.len(), config.sizes.context);
    let expected = format!("at most {most}, the model's context");
    require("ids", format!("{}: {n} tokens", ids.display()), n <= most, expected)?;
    let as_long = |flag, path: &Path, found: usize| {
        require(flag, format!("{}: {found} entries", path.display()), found == n, format!("{n}, one for each token of --ids"))
    };
    let targets_path = targets;
    let targets = read_targets(targets_path, config.sizes.vocab)?;
    as_long("targets", targets_path, targets.len())?;
    let asks = targets.iter().any(Option::is_some);
    require("targets", targets_path.display(), asks, "at least one token to predict, not only `-`")?;
    let segments = match &args.segments {
        None => None,
        Some(path) => {
            let rows = config.body.segments();
            require("segments", path.display(), rows > 0, "no segments with this model, which has none")?;
            let segments = read_segments(path, rows)?;
            as_long("segments", path, segments.len())?;
            Some(segments)
        }
    };
    Ok(TargetedSequence { tokens, segments, targets })
}

/// Computes the losses, their mean, and with `--gradients` the norms of its gradient.
pub fn measure<T: Real>(args: &Args, model: &Model<Tensor<T>>, sequence: &TargetedSequence) -> Result<Value, CliError> {
    let losses = sequence.losses(model);
    let nll = losses.iter().sum::<f64>() / losses.len() as f64;
    if !nll.is_finite() {
        return Err(CliError::NotFinite { nll });
    }
    let mut result = json!({ "tokens": losses.len(), "nll": nll, "dtype": args.dtype().name(), "token_nll": losses });
    if args.gradients {
        let mut norms = Map::new();
        let gradient = sequence.gradient(model);
        let reached = model.as_ref().zip(gradient).map(|_, (p, g)| g.unwrap_or_else(|| p.zeros_like(*p.shape())));
        for (name, g) in checkpoint::theirs(&reached) {
            norms.insert(name, json!(g.dot(&g).sqrt()));
        }
        result["gradient_norms"] = norms.into();
    }
    Ok(result)
}
