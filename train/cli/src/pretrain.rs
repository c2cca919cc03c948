//! `gradus pretrain`, and what the program does when it is asked for nothing.

use std::path::PathBuf;

use clap::ArgMatches;
use gradus_io::files::quoted;
use gradus_train::pretrain::{self, Control, PretrainError};
use gradus_train::settings::Options;

use crate::common::{Threads, cache, command, resumes_with, stop_on_ctrl_c, unless_interrupted};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// Pre-train a GPT on text (GPT-1 §3.1, §4.1)
#[derive(Clone, Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_long_help = "\
Examples:
  gradus pretrain --corpus novels/ --preset small --steps 2000 --out runs/novels
  gradus pretrain --corpus shakespeare.txt --tokenizer char --preset tiny --context 64 --batch 12 --dropout 0 --out runs/sh
  gradus pretrain --config run.toml --seed 2 --out runs/again     # fields of the file are the flags' names, `_` for `-`
  gradus pretrain --resume runs/novels                            # goes on from the last checkpoint, to the same bits

A window is context + 1 tokens: context inputs, and the same shifted by one as targets. --out becomes a model directory in \
Hugging Face's format (with best/, the one of the lowest held-out loss), with metrics.jsonl and report.html."
)]
pub struct Args {
    /// Text file, or folder of text files; without it the run is on stories of the micro-world
    #[arg(long, conflicts_with = "resume")]
    pub corpus: Option<PathBuf>,
    /// Directory to make, for the model, its tokenizer, metrics and report
    #[arg(long, required_unless_present = "resume", conflicts_with = "resume")]
    pub out: Option<PathBuf>,
    /// Continue the run in this directory; everything is read from there
    #[arg(long, conflicts_with = "config")]
    pub resume: Option<PathBuf>,
    /// TOML file of options; flags win over it
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// End after this many updates, the schedule unchanged, so that --resume can go on
    #[arg(long)]
    pub stop_at: Option<u64>,
    /// Where tokenised corpora are kept [default: gradus in the user's cache directory]
    #[arg(long)]
    pub cache: Option<PathBuf>,
    /// Look at every op's value and every summand of a gradient, and stop at the first NaN or infinity
    #[arg(long)]
    pub anomaly: bool,
    /// Print texts that the model writes as it learns
    #[arg(long)]
    pub samples: bool,
    /// Say nothing but warnings
    #[arg(long)]
    pub quiet: bool,
    /// Print one JSON object as the last line
    #[arg(long)]
    pub json: bool,
    /// How many threads
    #[command(flatten)]
    pub threads: Threads,
    /// Sizes and hyperparameters
    #[command(flatten)]
    pub options: Options,
}

/// Runs it.
pub fn run(args: Args, given: &ArgMatches) -> Result<(), CliError> {
    if args.resume.is_some() {
        let allowed = ["resume", "stop_at", "cache", "anomaly", "samples", "quiet", "json", "threads", "recompute"];
        resumes_with::<Args>(&allowed, given)?;
    }
    args.threads.start()?;
    stop_on_ctrl_c();
    let control = Control {
        stop_at: args.stop_at,
        within: None,
        samples: args.samples,
        monitor: &Display::choose(args.quiet),
        cache: args.cache.clone().unwrap_or_else(|| cache(args.out.as_deref().or(args.resume.as_deref()))),
        command: command(),
        threads: rayon::current_num_threads(),
        probe: None,
        recompute: args.options.recompute,
        anomaly: args.anomaly,
    };
    let outcome = match &args.resume {
        Some(dir) => pretrain::resume(dir, &control)?,
        None => {
            let file = args.config.as_deref().map(Options::read).transpose().map_err(PretrainError::from)?.unwrap_or_default();
            let options = args.options.over(file);
            let options = if args.corpus.is_none() {
                options.over(Options { context: Options::micro_world().context, ..Options::default() })
            } else {
                options
            };
            let settings = options.settle().map_err(PretrainError::from)?;
            let out = args.out.as_deref().expect("clap requires it without --resume");
            pretrain::begin(settings, args.corpus.as_deref(), out, &control)?
        }
    };
    let out = outcome.out.display();
    match &outcome.validation {
        _ if args.json => output::json(&outcome)?,
        Some(v) => output::line(&format!("{out}: {} updates, held-out loss {:.4} nats a token", outcome.steps, v.nll))?,
        None => output::line(&format!("{out}: {} updates", outcome.steps))?,
    }
    unless_interrupted(outcome.finished, || format!("gradus pretrain --resume {}", quoted(&outcome.out)))
}
