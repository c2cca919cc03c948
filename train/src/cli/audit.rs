//! `gradus audit …`.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Subcommand;
use gradus_model::{Noise, Objective, Tree};
use serde_json::json;

use super::common::{Threads, flag, open_model};
use super::{CliError, output};
use crate::audit::ledger;
use crate::audit::model::{self, Audited, Depth, Subject};
use crate::audit::ops::Catalogue;
use crate::files::{FileError, write_atomically};
use crate::progress::{Display, Progress};

/// Show every step, and prove it
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    Ops(Ops),
    Model(Model),
    Ledger(Ledger),
}

/// The catalogue of ops: equations, code, and the evidence that each derivative is right
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus audit ops                                    # a line a witness; exit code 1 where one refuses an op
  gradus audit ops --html ops.html
  gradus audit ops --markdown OPS.md --overwrite      # the page in the repository

Each op's samples are drawn from seeds 0, 1, … at sizes 1 to 5. A failure names the op, the sample, the seed and the size, and
`check::Subject::cases(seed, size)` draws it again.")]
pub struct Ops {
    /// Draws of each op's samples
    #[arg(long, value_name = "N", default_value_t = 256)]
    draws: u64,
    #[command(flatten)]
    pages: Pages,
    /// Say nothing but warnings
    #[arg(long)]
    quiet: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: Threads,
}

/// The gradient of whole models, parameter by parameter, in f64
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus audit model                                  # GPT in its three forms, every objective and head, the LSTM
  gradus audit model --html model.html --json
  gradus audit model --model runs/novels --coordinates 2   # a checkpoint: a minute for a million parameters or so

Per parameter tensor: the derivative along a random direction against central differences, the slope of the Taylor remainder (2,
or 1 where a gradient is wrong), single elements, the gradient's norm, the share of zeros. Of the whole: exact forward mode and
second order (up to 300,000 parameters), causality, independence of the batch, padding, cache, shards. Exit code 1 where
anything fails.")]
pub struct Model {
    /// Directory of a model, with a head or without; without this the standard ones are audited
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Elements of each parameter tensor that are moved alone
    #[arg(long, value_name = "N", default_value_t = 4)]
    coordinates: usize,
    /// Sequences of random tokens
    #[arg(long, value_name = "B", default_value_t = 4, requires = "model")]
    sequences: usize,
    /// Tokens a sequence
    #[arg(long, value_name = "T", default_value_t = 8, requires = "model")]
    tokens: usize,
    /// With the model's dropouts
    #[arg(long, requires = "model")]
    dropout: bool,
    /// Seed of tokens, directions, elements and dropout
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Write a report to this file as HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace a file that stands there
    #[arg(long, requires = "html")]
    overwrite: bool,
    /// Say nothing but warnings
    #[arg(long)]
    quiet: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: Threads,
}

/// Paper against code: each statement with the line that does it and the test that pins it
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus audit ledger                                       # in a checkout; exit code 1 where a source or a test is gone
  cargo test --workspace 2>&1 | tee tests.log
  gradus audit ledger --results tests.log --html ledger.html   # with what became of each test
  gradus audit ledger --markdown LEDGER.md --overwrite      # the page in the repository")]
pub struct Ledger {
    /// Root of a checkout of Gradus
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// What `cargo test` printed, to say which tests passed
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    #[command(flatten)]
    pages: Pages,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Files to write.
#[derive(Clone, Debug, clap::Args)]
struct Pages {
    /// Write it to this file as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write it to this file as HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace files that stand there
    #[arg(long)]
    overwrite: bool,
}

impl Pages {
    /// Is each place free?
    fn check(&self) -> Result<(), CliError> {
        match self.markdown.iter().chain(&self.html).find(|path| !self.overwrite && path.exists()) {
            Some(path) => Err(CliError::Exists { path: path.clone(), found: "there is something of this name" }),
            None => Ok(()),
        }
    }

    fn write(&self, markdown: &str, html: &str) -> Result<(), CliError> {
        for (path, text) in [(&self.markdown, markdown), (&self.html, html)] {
            if let Some(path) = path {
                write_atomically(path, |file| file.write_all(text.as_bytes()))?;
            }
        }
        Ok(())
    }
}

/// Runs it.
pub fn run(command: &Command) -> Result<(), CliError> {
    match command {
        Command::Ops(args) => ops(args),
        Command::Model(args) => model(args),
        Command::Ledger(args) => ledger(args),
    }
}

fn ops(args: &Ops) -> Result<(), CliError> {
    args.threads.start()?;
    if !(1..=100_000).contains(&args.draws) {
        return Err(flag("--draws", args.draws, "a number from 1 to 100000"));
    }
    args.pages.check()?;
    let total = gradus_autograd::ops::all::<f64>().len() as u64;
    let progress = Mutex::new(Progress::new("ops", total, "ops", Display::choose(args.quiet)));
    let done = AtomicU64::new(0);
    let catalogue = Catalogue::of(args.draws, || {
        let n = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.lock().unwrap_or_else(|e| e.into_inner()).reach(n);
    });
    progress.into_inner().unwrap_or_else(|e| e.into_inner()).finish();
    args.pages.write(&catalogue.markdown(), &catalogue.report().render())?;
    if args.json {
        output::json(&catalogue.json())?;
    } else {
        for [witness, samples, compared, error, op] in catalogue.summary() {
            output::line(&format!("{witness:<14} {samples:>8} samples {compared:>11} numbers   worst {error:>8}  {op}"))?;
        }
    }
    refuse(catalogue.faults())
}

fn model(args: &Model) -> Result<(), CliError> {
    args.threads.start()?;
    if !(0..=1000).contains(&args.coordinates) {
        return Err(flag("--coordinates", args.coordinates, "a number from 0 to 1000"));
    }
    if let Some(path) = args.html.as_ref().filter(|path| !args.overwrite && path.exists()) {
        return Err(CliError::Exists { path: path.clone(), found: "there is something of this name" });
    }
    let depth = Depth { coordinates: args.coordinates, seed: args.seed };
    let subjects = match &args.model {
        Some(path) => vec![checkpoint(args, path, depth)?],
        None => model::standard(depth),
    };
    let mut all = Vec::new();
    for subject in &subjects {
        let mut tensors = 0;
        subject.params.as_ref().visit(|_, _| tensors += 1);
        let mut progress = Progress::new(&subject.name, tensors, "tensors", Display::choose(args.quiet));
        all.push(model::audit(subject, depth, |done| progress.reach(done)));
        progress.finish();
    }
    if let Some(path) = &args.html {
        let page = model::report(&all, depth).render();
        write_atomically(path, |file| file.write_all(page.as_bytes()))?;
    }
    let faults = all.iter().flat_map(Audited::faults).collect();
    if args.json {
        output::json(&json!({ "models": all.iter().map(Audited::json).collect::<Vec<_>>(), "faults": faults }))?;
    } else {
        let line = |[name, rest @ ..]: [String; 8]| {
            let rest: String = rest.iter().map(|cell| format!("{cell:>16}")).collect();
            output::line(&format!("{name:<30}{rest}"))
        };
        line(Audited::HEADS.map(str::to_owned))?;
        all.iter().try_for_each(|audited| line(audited.line()))?;
    }
    refuse(faults)
}

/// A model from a directory, on random tokens.
fn checkpoint(args: &Model, path: &Path, depth: Depth) -> Result<Subject, CliError> {
    let dir = open_model(path)?;
    let (config, params) = dir.load()?;
    let context = config.backbone.context();
    if !(2..=context).contains(&args.tokens) {
        return Err(flag("--tokens", args.tokens, format!("a number from 2 to {context}, the model's context")));
    }
    if !(2..=1024).contains(&args.sequences) || !args.sequences.is_multiple_of(2) {
        return Err(flag("--sequences", args.sequences, "an even number from 2 to 1024: an example may have two"));
    }
    let lambda = if config.head.is_some() { 0.5 } else { 1.0 };
    let batch = model::batch(&config, Objective::SequenceMean, lambda, (args.sequences, args.tokens), depth.seed);
    let noise = args.dropout.then(|| Noise::new(depth.seed, 1));
    Ok(Subject { name: dir.path().display().to_string(), config, params: params.cast(), batch, noise })
}

fn ledger(args: &Ledger) -> Result<(), CliError> {
    args.pages.check()?;
    if !args.root.join("autograd/src/ops/mod.rs").is_file() {
        return Err(flag(
            "--root",
            args.root.display(),
            "the root of a checkout of Gradus, where sources and tests are looked up",
        ));
    }
    let printed = args.results.as_ref().map(|path| std::fs::read_to_string(path).map_err(|e| FileError::new("read", path, e)));
    let outcomes = ledger::outcomes(&printed.transpose()?.unwrap_or_default());
    if let Some(path) = args.results.as_ref().filter(|_| outcomes.is_empty()) {
        return Err(flag("--results", path.display(), "what `cargo test` printed, with a line a test"));
    }
    let ledger = ledger::Ledger::of(&args.root, &outcomes);
    args.pages.write(&ledger.markdown(), &ledger.report().render())?;
    if args.json {
        output::json(&ledger.json())?;
    } else {
        output::write(&(ledger.lines().join("\n\n") + "\n"))?;
    }
    refuse(ledger.faults())
}

fn refuse(faults: Vec<String>) -> Result<(), CliError> {
    if faults.is_empty() { Ok(()) } else { Err(CliError::Refused { faults }) }
}
