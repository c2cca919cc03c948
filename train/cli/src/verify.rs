//! `gradus verify`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gradus_io::checksums::{self, CHECKSUMS_FILE, Checksums, LOG_FILE, Verdict};
use gradus_io::disk;
use gradus_io::files::{FileError, Lock, quoted};
use gradus_io::numbers::count_of;
use gradus_model::checkpoint::WEIGHTS_FILE;
use gradus_train::model_dir::BEST;
use gradus_train::trainer::TRAINER_FILE;
use serde_json::json;

use crate::error::CliError;
use crate::output;

/// The settings of a run, which state that it has checksums.
const SETTINGS: &str = "run.json";
/// Files of a run.
const OF_RUNS: [&str; 3] = [LOG_FILE, TRAINER_FILE, WEIGHTS_FILE];

/// Compare a directory's files with the checksums kept when they were written
///
/// The files that Gradus writes and reads again have their SHA-256 in a `checksums.json` beside them: states, weights, tokenizers,
/// settings, logs, results. Each file or directory that is damaged, missing, or replaced by a link is named. The exit code is 1 if
/// there is one, if no file has a checksum, or if a run has lost both its settings and its checksums. Files without a checksum, such
/// as pages, are counted. Bytes that metrics.jsonl gained after its checksum was computed are not compared.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus verify runs/novel
  gradus verify runs/novel --accept     # after changing a file by hand")]
pub struct Args {
    /// Directory of a run, a model, a tokenizer or a reproduction; its subdirectories are compared too
    dir: PathBuf,
    /// Accept the files as they are now: write new checksums
    #[arg(long)]
    accept: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    if !args.dir.is_dir() {
        let found = if args.dir.exists() { "expected a directory, found a file" } else { "there is no such directory" };
        return Err(CliError::Usage(format!("{}: {found}", args.dir.display())));
    }
    if args.accept {
        let before = checksums::verify(&args.dir)?;
        accept(&args.dir)?;
        checksums::accept_above(&args.dir)?;
        for Verdict { path, .. } in before.iter().filter(|verdict| verdict.found.is_err()) {
            let now = match path.exists() {
                true if path.ends_with(CHECKSUMS_FILE) => "written anew",
                true => "accepted as it is",
                false => "missing, no longer expected",
            };
            output::say(&format!("{}: {now}", path.display()));
        }
    }
    let mut verdicts = checksums::verify(&args.dir)?;
    verdicts.extend(lost_runs(&verdicts));
    let sound = verdicts.iter().filter(|verdict| matches!(verdict.found, Ok(true))).count();
    let unlisted: Vec<String> =
        verdicts.iter().filter(|v| matches!(v.found, Ok(false))).map(|v| v.path.display().to_string()).collect();
    let faults: Vec<String> = verdicts.iter().filter_map(|v| v.found.as_ref().err()).map(FileError::to_string).collect();
    let shown = if args.json {
        output::json(&json!({ "dir": args.dir.display().to_string(), "sound": sound, "unlisted": unlisted, "faults": faults }))
    } else {
        let words = format!(
            "{} unchanged, {} without a checksum, {} damaged or missing",
            count_of(sound, "file"),
            unlisted.len(),
            faults.len()
        );
        verdicts.iter().try_for_each(print).and_then(|()| output::line(&words))
    };
    if sound + faults.len() == 0 {
        let dir = args.dir.display();
        let what = format!("{dir}: expected files with checksums, found no {CHECKSUMS_FILE}, so nothing could be compared");
        let remedy =
            format!("put it back, or write checksums of the existing files: `gradus verify {} --accept`", quoted(&args.dir));
        return Err(CliError::Refused { faults: vec![format!("{what}; {remedy}")] });
    }
    // A reader that closed stdout early does not change the exit code of damage.
    if faults.is_empty() { shown } else { Err(CliError::Refused { faults }) }
}

/// Returns the runs without settings and checksums, which look like directories of another program.
fn lost_runs(verdicts: &[Verdict]) -> Vec<Verdict> {
    let unlisted = verdicts.iter().filter(|verdict| matches!(verdict.found, Ok(false)));
    let mut left: BTreeMap<&Path, Vec<&str>> = BTreeMap::new();
    for path in unlisted.map(|verdict| &verdict.path) {
        if let (Some(folder), Some(name)) = (path.parent(), OF_RUNS.into_iter().find(|name| path.ends_with(name))) {
            left.entry(folder).or_default().push(name);
        }
    }
    let is_run = |folder: &Path, names: &[&str]| names != [WEIGHTS_FILE] || folder.join(BEST).is_dir();
    // A seed of a fine-tuning is in the directory of its run.
    let is_lost = |folder: &Path| [Some(folder), folder.parent()].into_iter().flatten().all(|f| !f.join(SETTINGS).exists());
    let has_sums = |folder: &Path| folder.join(CHECKSUMS_FILE).exists();
    left.retain(|folder, names| is_run(folder, names) && is_lost(folder) && !has_sums(folder));
    let fault = |(folder, names): (&Path, Vec<&str>)| {
        let there = names.join(", ");
        let problem = format!("it is missing, and so is {CHECKSUMS_FILE}, though the directory has files of a run: {there}");
        let path = folder.join(SETTINGS);
        Verdict { found: Err(FileError::damaged(&path, problem)), path }
    };
    left.into_iter().map(fault).collect()
}

fn print(Verdict { path, found }: &Verdict) -> Result<(), CliError> {
    let word = match found {
        Ok(true) => "as written",
        Ok(false) => "no sum",
        Err(error) if error.cause.kind() == ErrorKind::NotFound || !path.exists() => "MISSING",
        Err(error) if error.cause.kind() != ErrorKind::InvalidData => "UNREADABLE",
        Err(_) => "DAMAGED",
    };
    output::line(&format!("{word:<10}  {}", output::plain(&path.display().to_string())))
}

/// Writes new checksums of this directory, and of all directories below it that have checksums.
fn accept(dir: &Path) -> Result<(), CliError> {
    let _lock = Lock::take(dir)?;
    refuse_unlisted_link(dir)?;
    accept_below(dir)?;
    Ok(checksums::accept(dir)?)
}

/// Returns an error for a link in place of a run's best model if the checksums are lost: new ones would not list it, so its
/// target could change unnoticed.
fn refuse_unlisted_link(dir: &Path) -> Result<(), CliError> {
    let best = dir.join(BEST);
    if !best.is_symlink() || matches!(Checksums::of(dir), Ok(Some(_))) {
        return Ok(());
    }
    let what = format!("{}: expected a directory, found a link, which no {CHECKSUMS_FILE} lists", best.display());
    Err(CliError::Refused { faults: vec![format!("{what}; put the directory in its place")] })
}

/// Accepts all directories below this one that have checksums.
fn accept_below(dir: &Path) -> Result<(), CliError> {
    for entry in disk::list(dir).map_err(|cause| FileError::new("list", dir, cause))? {
        if entry.is_dir() && !entry.is_symlink() {
            if checksums::has_checksums(&entry) { accept(&entry)? } else { accept_below(&entry)? }
        }
    }
    Ok(())
}
