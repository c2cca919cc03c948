//! Errors of a study and its folder.

use std::path::PathBuf;

use gradus_io::exit::{self, Exit};
use gradus_io::files::{FileError, quoted};

/// The reason why a study cannot begin or continue; finished stages are kept.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum StudyError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{out} already holds another {what}, made by `{there}`, with other sizes or seeds; give another --out (for more seeds, together with --seed), or continue it with --resume {again}", out = out.display(), again = quoted(out))]
    Taken { what: &'static str, out: PathBuf, there: String },
    #[error("{out} already holds {found}, but no {what}; nothing was changed: give another --out", out = out.display(), found = found.display())]
    Foreign { what: &'static str, out: PathBuf, found: PathBuf },
    #[error("{path}: {problem}; expected the plan that an earlier `gradus {command}` wrote: put back a copy of it, or name another directory", path = path.display())]
    NoPlan { command: &'static str, path: PathBuf, problem: String },
    #[error("{path}: {problem}; delete it to run its stage again", path = path.display())]
    Damaged { path: PathBuf, problem: String },
    #[error("{problem}; where that cannot be mended, delete {run} and {result}, and continue: it is trained again, to the same result", run = run.display(), result = result.display())]
    Lost { run: PathBuf, result: PathBuf, problem: String },
    #[error("stopped; finished stages are kept: continue with `gradus {command} --resume {out}`", out = quoted(out))]
    Interrupted { command: &'static str, out: PathBuf },
}

impl Exit for StudyError {
    fn exit_code(&self) -> u8 {
        match self {
            StudyError::Interrupted { .. } => exit::INTERRUPTED,
            _ => exit::FAILED,
        }
    }
}
