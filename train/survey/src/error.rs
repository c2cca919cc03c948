//! The errors of a survey.

use std::path::PathBuf;

use gradus_io::exit::{self, Exit};
use gradus_io::files::FileError;
use gradus_study::StudyError;
use gradus_train::hyperparameters::RangeError;
use gradus_train::pretrain::PretrainError;
use gradus_world::WorldError;

use crate::lexicon::LexiconError;

/// The reason why a survey could not begin or continue; finished stages are kept.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum SurveyError {
    #[error(transparent)]
    Pretrain(#[from] PretrainError),
    #[error(transparent)]
    Lexicon(#[from] LexiconError),
    #[error(transparent)]
    World(#[from] WorldError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Study(#[from] StudyError),
    #[error("{run}: expected a run on the micro-world, found one on a corpus: name another run", run = run.display())]
    Corpus { run: PathBuf },
    #[error("{run}: expected the run of this survey's {stage}, with its settings, found something else; move it away, and continue", run = run.display())]
    AnotherRun { run: PathBuf, stage: String },
    #[error(
        "{system}: expected a rate at which {budget} steps of gpt's work do not diverge, found none among {rates}; leave it out of --systems"
    )]
    NoRate { system: String, budget: u64, rates: String },
    #[error(transparent)]
    Range(#[from] RangeError),
}

impl Exit for SurveyError {
    fn exit_code(&self) -> u8 {
        match self {
            SurveyError::Range(_) => exit::USAGE,
            SurveyError::Study(e) => e.exit_code(),
            _ => exit::FAILED,
        }
    }
}
