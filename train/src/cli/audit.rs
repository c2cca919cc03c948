//! `gradus audit …`.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Subcommand;

use super::common::{Threads, flag};
use super::{CliError, output};
use crate::audit::ledger;
use crate::audit::ops::Catalogue;
use crate::files::{FileError, write_atomically};
use crate::progress::{Display, Progress};

/// Show every step, and prove it
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    Ops(Ops),
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
