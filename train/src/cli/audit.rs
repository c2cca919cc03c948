//! `gradus audit …`.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Subcommand;

use super::common::{Threads, flag};
use super::{CliError, output};
use crate::audit::ops::Catalogue;
use crate::files::write_atomically;
use crate::progress::{Display, Progress};

/// Show every step, and prove it
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    Ops(Ops),
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
    /// Write the catalogue to this file as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the catalogue to this file as HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace files that stand there
    #[arg(long)]
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

/// Runs it.
pub fn run(command: &Command) -> Result<(), CliError> {
    match command {
        Command::Ops(args) => ops(args),
    }
}

fn ops(args: &Ops) -> Result<(), CliError> {
    args.threads.start()?;
    if !(1..=100_000).contains(&args.draws) {
        return Err(flag("--draws", args.draws, "a number from 1 to 100000"));
    }
    if let Some(path) = args.markdown.iter().chain(&args.html).find(|path| !args.overwrite && path.exists()) {
        return Err(CliError::Exists { path: path.clone(), found: "there is something of this name" });
    }
    let total = gradus_autograd::ops::all::<f64>().len() as u64;
    let progress = Mutex::new(Progress::new("ops", total, "ops", Display::choose(args.quiet)));
    let done = AtomicU64::new(0);
    let catalogue = Catalogue::of(args.draws, || {
        let n = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.lock().unwrap_or_else(|e| e.into_inner()).reach(n);
    });
    progress.into_inner().unwrap_or_else(|e| e.into_inner()).finish();
    for (path, text) in [(&args.markdown, catalogue.markdown()), (&args.html, catalogue.report().render())] {
        if let Some(path) = path {
            write_atomically(path, |file| file.write_all(text.as_bytes()))?;
        }
    }
    if args.json {
        output::json(&catalogue.json())?;
    } else {
        for [witness, samples, compared, error, op] in catalogue.summary() {
            output::line(&format!("{witness:<14} {samples:>8} samples {compared:>11} numbers   worst {error:>8}  {op}"))?;
        }
    }
    let faults = catalogue.faults();
    if faults.is_empty() { Ok(()) } else { Err(CliError::Refused { faults }) }
}
