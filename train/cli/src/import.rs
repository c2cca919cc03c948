//! `gradus import`.

use std::path::{Path, PathBuf};

use gradus_io::checksums::{CHECKSUMS_FILE, replace_directory};
use gradus_io::disk;
use gradus_io::files::{FileError, occupant};
use gradus_io::numbers::{count, count_of};
use gradus_model::checkpoint::{self, CheckpointError, openai};
use gradus_model::{Embedding, Model};
use gradus_tensor::Tensor;
use gradus_text::{Mode, Tokenizer};
use gradus_train::model_dir::ModelDirError;
use gradus_train::trainer::non_finite;
use serde_json::json;

use crate::error::CliError;
use crate::output;

/// Convert OpenAI's release of GPT-1 to a model directory.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Convert OpenAI's release of GPT-1, the directory `model/` of github.com/openai/finetune-transformer-lm: \
        params_0.npy to params_9.npy, params_shapes.json, encoder_bpe_40000.json and vocab_40000.bpe.\n\n\
        The numbers stay the same to the bit. A directory in Hugging Face's format (GPT-1, GPT-2, BERT, RoBERTa, ERNIE) needs no \
        import: every command opens it.\n\n\
        Text is tokenized in mode `spacy`, as in OpenAI's code. `transformers` opens the result as an openai-gpt model; its own \
        tokenizer uses mode `basic`. The files that `gradus export` adds to a release (config.json, tokenizer_config.json) are \
        read.",
    after_long_help = "Examples:\n  gradus import --openai finetune-transformer-lm/model --out openai-gpt\n  \
        gradus import --openai small-release --heads 4 --out small --json"
)]
pub struct Args {
    /// Directory of the release
    #[arg(long, value_name = "DIR")]
    openai: PathBuf,
    /// Model directory to write, new or empty; existing contents are kept unless --overwrite is given
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Attention heads per block, which a release does not contain [default: those in a config.json beside it, else the paper's 12]
    #[arg(long, value_name = "N")]
    heads: Option<usize>,
    /// Use one matrix of tokens and positions, as OpenAI's code does: dropout applies to it, and the softmax includes its
    /// positions. Gradus-only; by default there are two, as in the paper's equation 2 and in `transformers`
    #[arg(long)]
    joint: bool,
    /// Replace the model in --out
    #[arg(long)]
    overwrite: bool,
    /// Print only the result, warnings and errors, without notes
    #[arg(long)]
    quiet: bool,
    /// Print one JSON object: `out`, `parameters`, the sizes `vocab`, `context`, `width`, `layers`, `heads`, and the tokenizer's `mode`
    #[arg(long)]
    json: bool,
}

/// The files of a model directory that this command writes.
const WRITTEN: [&str; 5] =
    [checkpoint::CONFIG_FILE, checkpoint::WEIGHTS_FILE, "vocab.json", "merges.txt", "tokenizer_config.json"];

pub fn run(args: &Args) -> Result<(), CliError> {
    if args.quiet {
        output::be_quiet();
    }
    replaceable(&args.out, args.overwrite, &[&WRITTEN[..], &["tokenizer.json", CHECKSUMS_FILE]].concat())?;
    if !args.openai.join(openai::SHAPES_FILE).exists() && args.openai.join(checkpoint::CONFIG_FILE).exists() {
        let dir = args.openai.display();
        return Err(CliError::Usage(format!(
            "--openai {dir}: expected OpenAI's release ({}), found a model in Hugging Face's format, which needs no import: give \
             it to --model, as in `gradus evaluate --model {dir}`",
            openai::SHAPES_FILE
        )));
    }
    let untold = openai::Untold { heads: args.heads, embedding: args.joint.then_some(Embedding::Joint) };
    let model = openai::load(&args.openai, untold).map_err(ModelDirError::from)?;
    if let Some(name) = non_finite(&model) {
        let fault = format!("{}: expected finite numbers, found a NaN or an infinity in {name}", args.openai.display());
        return Err(CliError::Refused { faults: vec![fault] });
    }
    let tokenizer = tokenizer(&args.openai, &model)?;
    replace_directory(&args.out, |fresh| {
        checkpoint::save(fresh, &model).map_err(ModelDirError::from)?;
        Ok::<_, CliError>(tokenizer.save(fresh)?)
    })?;
    report(&args.out, &model, &tokenizer, args.json)
}

/// Loads the release's tokenizer. Unless its files specify a mode, it reads text as OpenAI's code does.
fn tokenizer(dir: &Path, model: &Model<Tensor<f32>>) -> Result<Tokenizer, CliError> {
    let mut tokenizer = Tokenizer::load(&dir.join(openai::VOCABULARY_FILES[0]))?;
    if !dir.join("tokenizer_config.json").exists() {
        tokenizer = tokenizer.with_mode(Mode::Spacy)?;
    }
    belong_together(dir, model, &tokenizer)?;
    Ok(tokenizer)
}

/// Checks that every row of the token table has a token: `train.py` takes the number of rows from the vocabulary.
pub fn belong_together(path: &Path, model: &Model<Tensor<f32>>, tokenizer: &Tokenizer) -> Result<(), CliError> {
    let (tokenizer, model) = (tokenizer.vocab_size(), model.sizes().vocab);
    if tokenizer == model { Ok(()) } else { Err(ModelDirError::Vocabulary { path: path.to_owned(), tokenizer, model }.into()) }
}

/// Checks that a directory can be written: it is new or empty, or may be replaced and contains only `written` files.
///
/// # Errors
/// Returns [`CliError::Exists`], or [`CliError::Usage`] if other files would be lost.
pub fn replaceable(dir: &Path, overwrite: bool, written: &[&str]) -> Result<(), CliError> {
    let Some(found) = occupant(dir) else { return Ok(()) };
    if !overwrite {
        return Err(CliError::Exists { path: found });
    }
    let strange = |path: &PathBuf| !path.file_name().is_some_and(|name| written.iter().any(|known| name == *known));
    let entries = disk::list(dir).map_err(|e| FileError::new("list", dir, e))?;
    match entries.into_iter().find(strange) {
        None => Ok(()),
        Some(path) => Err(CliError::Usage(format!(
            "--overwrite would remove all of {}, also {}, which this command does not write; name another directory",
            dir.display(),
            path.display()
        ))),
    }
}

/// Reports the sizes of the written model, and its directory.
pub fn report(out: &Path, model: &Model<Tensor<f32>>, tokenizer: &Tokenizer, as_json: bool) -> Result<(), CliError> {
    let config = model.config();
    let gpt = config
        .transformer()
        .ok_or_else(|| CheckpointError::NotSayable { what: "an LSTM".into() })
        .map_err(ModelDirError::from)?;
    let (parameters, mode) = (config.parameters(), tokenizer.mode().map_or("none", Mode::name));
    let (blocks, heads) = (count_of(gpt.layers, "block"), count_of(gpt.heads, "head"));
    let sizes = format!("{blocks} of width {} and {heads}, context {}", config.sizes.width, config.sizes.context);
    let [shown, vocab] = [parameters, config.sizes.vocab].map(|n| count(n as u64));
    output::aside(&format!("{shown} parameters ({sizes}) and {vocab} tokens, mode {mode} → {}", out.display()));
    if !as_json {
        return Ok(());
    }
    output::json(&json!({
        "out": out.display().to_string(), "parameters": parameters, "vocab": config.sizes.vocab, "context": config.sizes.context, "width": config.sizes.width, "layers": gpt.layers,
        "heads": gpt.heads, "mode": mode,
    }))
}
