//! `gradus export`.

use std::path::PathBuf;

use gradus_io::files::{replace_directory, write_atomically};
use gradus_model::checkpoint::openai;
use gradus_train::model_dir::ModelDirError;

use crate::common::open_model;
use crate::error::CliError;
use crate::import::{belong_together, replaceable, report};
use crate::output;

/// Write a model in the format of OpenAI's release of GPT-1.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Write a model as OpenAI released GPT-1: params_0.npy to params_9.npy, params_shapes.json, \
        encoder_bpe_40000.json and vocab_40000.bpe, which OpenAI's train.py reads from its `model/`, and the converter of \
        `transformers` 4.\n\n\
        The numbers stay the same to the bit. Special tokens come last in the vocabulary, where train.py adds its own. What this \
        layout does not contain is written to config.json and tokenizer_config.json beside it, for `gradus import`; the flags \
        that give it to train.py are printed. An LSTM, sinusoidal positions, GELU by the error function, a layer norm with \
        another ε, a task's head and tokenizers of bytes and characters are rejected: train.py does not support them.",
    after_long_help = "Example:\n  gradus export --model runs/novels --openai release"
)]
pub struct Args {
    /// Directory of the model: a GPT that was pre-trained with a BPE
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Directory to write, new or empty; existing contents are kept unless --overwrite is given
    #[arg(long, value_name = "DIR")]
    openai: PathBuf,
    /// Replace the release in --openai
    #[arg(long)]
    overwrite: bool,
    /// Print only the result, warnings and errors, without notes
    #[arg(long)]
    quiet: bool,
    /// Print one JSON object: `out`, `parameters`, the sizes `vocab`, `context`, `width`, `layers`, `heads`, and the tokenizer's `mode`
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    if args.quiet {
        output::be_quiet();
    }
    let names: Vec<String> = openai::file_names().collect();
    let more = ["tokenizer_config.json"].into_iter().chain(openai::VOCABULARY_FILES);
    replaceable(&args.openai, args.overwrite, &names.iter().map(String::as_str).chain(more).collect::<Vec<_>>())?;
    let dir = open_model(&args.model)?;
    let model = dir.load()?;
    let files = openai::files(&model).map_err(ModelDirError::from)?;
    let tokenizer = dir.required_tokenizer(model.sizes().vocab)?;
    tokenizer.released(dir.path())?;
    belong_together(dir.path(), &model, &tokenizer)?;
    replace_directory(&args.openai, |fresh| {
        for (name, bytes) in files {
            write_atomically(&fresh.join(name), |file| file.write_all(&bytes))?;
        }
        Ok::<_, CliError>(tokenizer.save_release(fresh)?)
    })?;
    if let Some(flags) = model.config().transformer().map(|gpt| openai::flags(model.sizes(), gpt)) {
        output::aside(&format!("train.py reads it with {flags}"));
    }
    report(&args.openai, &model, &tokenizer, args.json)
}
