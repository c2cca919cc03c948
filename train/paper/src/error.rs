//! The errors of a reproduction.

use gradus_data::sets::SetError;
use gradus_io::exit::{self, Exit};
use gradus_io::files::FileError;
use gradus_study::StudyError;
use gradus_train::finetune::FinetuneError;
use gradus_train::hyperparameters::RangeError;
use gradus_train::pretrain::PretrainError;

use crate::tasks;

/// The reason why a reproduction could not begin or continue; finished stages are kept.
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
    Study(#[from] StudyError),
    #[error(transparent)]
    Range(#[from] RangeError),
}

impl Exit for ReproduceError {
    fn exit_code(&self) -> u8 {
        match self {
            ReproduceError::Range(_) => exit::USAGE,
            ReproduceError::Study(e) => e.exit_code(),
            _ => exit::FAILED,
        }
    }
}
