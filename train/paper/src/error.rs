//! Everything a reproduction can end with.

use std::path::PathBuf;

use gradus_data::sets::SetError;
use gradus_io::files::{FileError, quoted};
use gradus_train::finetune::FinetuneError;
use gradus_train::hyperparameters::RangeError;
use gradus_train::pretrain::PretrainError;

use crate::tasks;

/// Why a reproduction could not begin or continue; finished stages are kept.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum ReproduceError {
    #[error(transparent)]
    Pretrain(#[from] PretrainError),
    #[error(transparent)]
    Finetune(#[from] FinetuneError),
    #[error(transparent)]
    Set(#[from] SetError),
    #[error(transparent)]
    World(#[from] tasks::WriteTasksError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("{out} already holds another reproduction, made by `{there}`, whose size and seeds are laid down; give another --out (for more seeds too: fresh ones, by --seed), or continue it with --resume {again}", out = out.display(), again = quoted(out))]
    Taken { out: PathBuf, there: String },
    #[error("{out} already holds {found}, but no reproduction; nothing was changed: give another --out", out = out.display(), found = found.display())]
    Foreign { out: PathBuf, found: PathBuf },
    #[error("{path}: {problem}; expected the plan that an earlier `gradus reproduce` laid down there: put back a copy of it, or name another directory", path = path.display())]
    NoPlan { path: PathBuf, problem: String },
    #[error("{path}: {problem}; the file is damaged: delete it to run its stage again", path = path.display())]
    Damaged { path: PathBuf, problem: String },
    #[error("{problem}; the pre-trained model that this stage begins with is lost: put {model} back, or delete it and {result}, and continue: it is pre-trained again", model = model.display(), result = result.display())]
    Lost { model: PathBuf, result: PathBuf, problem: String },
    #[error("stopped; finished stages are kept: continue with `gradus reproduce --resume {out}`", out = quoted(out))]
    Interrupted { out: PathBuf },
}
