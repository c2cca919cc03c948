//! `gradus audit ledger`.

use std::path::PathBuf;

use gradus_audit::ledger;
use gradus_io::disk;
use gradus_io::files::FileError;
use gradus_train::hyperparameters::{RangeError, require};

use super::{Pages, refuse};
use crate::error::CliError;
use crate::output;

/// Compare the paper with the code: each statement, the line that implements it, and the test that checks it
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gradus audit ledger                                       # in a checkout; exit code 1 if a source or a test is missing
  cargo test --workspace 2>&1 | tee tests.log
  gradus audit ledger --results tests.log --html ledger.html   # with the outcome of each test
  gradus audit ledger --markdown model/LEDGER.md --overwrite      # the page in the repository")]
pub struct Args {
    /// Root of a checkout of Gradus
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Output of `cargo test`, to show which tests passed
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    #[command(flatten)]
    pages: Pages,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.pages.check()?;
    let is_checkout = args.root.join("autograd/src/ops/mod.rs").is_file();
    let expected = "the root of a checkout of Gradus";
    require("root", args.root.display(), is_checkout, expected)?;
    let printed = args.results.as_ref().map(|path| disk::read_text(path).map_err(|e| FileError::new("read", path, e)));
    let outcomes = ledger::outcomes(&printed.transpose()?.unwrap_or_default());
    if let Some(path) = args.results.as_ref().filter(|_| outcomes.is_empty()) {
        return Err(RangeError::new("results", path.display(), "the output of `cargo test`, one line per test").into());
    }
    let ledger = ledger::Ledger::of(&args.root, &outcomes);
    args.pages.write(|| ledger.markdown(), || ledger.report().render())?;
    if args.json {
        output::json(&ledger.json())?;
    } else {
        output::write(&(ledger.lines().join("\n\n") + "\n"))?;
    }
    refuse(ledger.faults())
}
