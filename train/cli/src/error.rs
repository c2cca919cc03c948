//! Everything a command can end with.

use std::error::Error;
use std::path::PathBuf;

use gradus_audit::step::SceneError;
use gradus_io::files::FileError;
use gradus_io::numbers::many;
use gradus_model::checkpoint::CheckpointError;
use gradus_paper::ReproduceError;
use gradus_paper::tasks::TaskError;
use gradus_text::TextError;
use gradus_train::finetune::FinetuneError;
use gradus_train::generate::GenerateError;
use gradus_train::model_dir::ModelDirError;
use gradus_train::pretrain::PretrainError;
use gradus_train::trainer::{DumpError, TrainError};
use gradus_world::WorldError;

use crate::ids::IdsError;

/// Why a command failed; its message names the place and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// Text or tokenizer.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Model directory.
    #[error(transparent)]
    Model(#[from] ModelDirError),
    /// Checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Token ids in a file.
    #[error(transparent)]
    Ids(#[from] IdsError),
    /// Generation.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// Training.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A file of a corpus that the tokenizer cannot encode.
    #[error("{path}: {source}")]
    Encode {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<TextError>,
    },
    /// Flags that contradict one another; exit code 2.
    #[error("{problem}")]
    Usage {
        /// What does not fit.
        problem: String,
    },
    /// A run of pre-training.
    #[error(transparent)]
    Pretrain(Box<PretrainError>),
    /// Fine-tuning, and what comes after it.
    #[error(transparent)]
    Finetune(Box<FinetuneError>),
    /// The paper in miniature.
    #[error(transparent)]
    Reproduce(Box<ReproduceError>),
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// An update that was kept, and cannot be made again.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// A step that cannot be opened.
    #[error(transparent)]
    Scene(Box<SceneError>),
    /// Tasks of the micro-world that could not be made.
    #[error(transparent)]
    Tasks(#[from] TaskError),
    /// A text that is no story.
    #[error("{path}, line {line}: {source}")]
    Story {
        /// The file of stories.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why it is none.
        source: WorldError,
    },
    /// Ctrl-C, after everything that was done was saved; exit code 130.
    #[error("interrupted; go on with `{next}`")]
    Interrupted {
        /// The command that continues.
        next: String,
    },
    /// A flag whose value makes no sense here; exit code 2.
    #[error("{flag} {found}: expected {expected}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// Its value.
        found: String,
        /// What it may be, and what to do.
        expected: String,
    },
    /// An audit that found something wrong.
    #[error("{} found:\n  {}", if faults.len() == 1 { "a fault was".into() } else { format!("{} faults were", faults.len()) }, faults.join("\n  "))]
    Refused {
        /// What, one line each.
        faults: Vec<String>,
    },
    /// Something stands where the result would go.
    #[error("{path}: {found}, and nothing is written over; name another place, or give --overwrite")]
    Exists {
        /// The place.
        path: PathBuf,
        /// What stands there.
        found: &'static str,
    },
    /// Too little text to predict anything.
    #[error("{path}: {} in all, and the first of a text is not predicted; give a text of at least two tokens", many(*tokens, "token"))]
    TooShort {
        /// The corpus.
        path: PathBuf,
        /// Its number of tokens.
        tokens: usize,
    },
    /// Losses that are no numbers.
    #[error("the model's loss on this text is {nll}: its weights are not those of a trained model; take an earlier checkpoint")]
    NotFinite {
        /// The mean loss.
        nll: f64,
    },
    /// The worker threads could not be started.
    #[error("cannot start {threads} threads: {source}; give a smaller --threads")]
    Threads {
        /// How many.
        threads: usize,
        /// Why not.
        source: rayon::ThreadPoolBuildError,
    },
    /// Standard output refused the result.
    #[error("cannot write the result to standard output: {0}; free some space, or send it elsewhere")]
    Output(#[from] std::io::Error),
}

impl CliError {
    /// What the process ends with: 2 for wrong usage, 130 for an interruption (as shells count SIGINT), else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Usage { .. } | CliError::Flag { .. } => 2,
            CliError::Interrupted { .. } => 130,
            CliError::Pretrain(e) => match **e {
                PretrainError::Settings(_) => 2,
                PretrainError::Interrupted => 130,
                _ => 1,
            },
            CliError::Finetune(e) => 1 + u8::from(e.is_of_settings()),
            CliError::Reproduce(e) => match **e {
                ReproduceError::Range { .. } => 2,
                ReproduceError::Interrupted { .. } => 130,
                _ => 1,
            },
            CliError::Generate(GenerateError::Option { .. }) => 2,
            CliError::Scene(e) => 1 + u8::from(matches!(**e, SceneError::Tokens { .. } | SceneError::Sequences { .. })),
            CliError::Tasks(TaskError::Few { .. } | TaskError::Many { .. }) => 2,
            _ => 1,
        }
    }
}

impl From<FinetuneError> for CliError {
    fn from(error: FinetuneError) -> Self {
        CliError::Finetune(Box::new(error))
    }
}

impl From<SceneError> for CliError {
    fn from(error: SceneError) -> Self {
        match error {
            SceneError::Finetune(error) => CliError::Finetune(error),
            error => CliError::Scene(Box::new(error)),
        }
    }
}

impl From<ReproduceError> for CliError {
    fn from(error: ReproduceError) -> Self {
        CliError::Reproduce(Box::new(error))
    }
}

impl From<PretrainError> for CliError {
    fn from(error: PretrainError) -> Self {
        CliError::Pretrain(Box::new(error)) // by far the largest
    }
}

/// The message, and those of its causes that it does not quote itself.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        let message = e.to_string();
        if !text.contains(&message) {
            text.push_str("\n  because: ");
            text.push_str(&message);
        }
        cause = e.source();
    }
    text
}
