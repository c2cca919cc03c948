//! `gradus audit ops`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use gradus_audit::ops::Catalogue;
use gradus_io::progress::{Job, Monitor};

use super::{Pages, Talk, refuse};
use crate::common::within;
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// List the ops: equations, code, and evidence that each derivative is correct
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus audit ops                                    # one line per witness; exit code 1 if one rejects an op
  gradus audit ops --html ops.html
  gradus audit ops --markdown autograd/OPS.md --overwrite      # the page in the repository

Each op's samples are drawn from seeds 0, 1, … at sizes 1 to 5. A failure names the op, the sample, the seed and the size, and \
`check::Subject::cases(seed, size)` reproduces it.")]
pub struct Args {
    /// Number of draws of each op's samples
    #[arg(long, value_name = "N", default_value_t = 256)]
    draws: u64,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.start()?;
    within("draws", args.draws, 1..=100_000, "")?;
    args.pages.check()?;
    let total = gradus_autograd::ops::all::<f64>().len() as u64;
    let progress = Mutex::new(Display::choose(args.talk.quiet).begin(Job::new("ops", total, "ops")));
    let done = AtomicU64::new(0);
    let catalogue = Catalogue::of(args.draws, || {
        let n = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.lock().unwrap_or_else(|e| e.into_inner()).reach(n);
    });
    progress.into_inner().unwrap_or_else(|e| e.into_inner()).finish();
    args.pages.write(|| catalogue.markdown(), || catalogue.report().render())?;
    if args.talk.json {
        output::json(&catalogue.json())?;
    } else {
        for [witness, samples, compared, error, op] in catalogue.summary() {
            output::line(&format!("{witness:<14} {samples:>8} samples {compared:>11} numbers   worst {error:>8}  {op}"))?;
        }
        if catalogue.faults().is_empty() {
            output::line(&format!("\n{}", catalogue.verdict()))?;
        }
    }
    refuse(catalogue.faults())
}
