//! The errors of all commands.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gradus_audit::step::StepInputsError;
#[cfg(feature = "distributed")]
use gradus_cluster::launch::LaunchError;
use gradus_collective::PeerError;
use gradus_io::exit::{self, Exit};
use gradus_io::files::{FileError, quoted};
use gradus_io::numbers::count_of;
use gradus_paper::ReproduceError;
use gradus_paper::tasks::WriteTasksError;
use gradus_survey::SurveyError;
use gradus_tensor::DeviceError;
use gradus_text::{IdsError, TextError};
use gradus_train::answers::AnswersError;
use gradus_train::answers::fill::FillError;
use gradus_train::answers::generate::GenerateError;
use gradus_train::finetune::FinetuneError;
use gradus_train::hyperparameters::RangeError;
use gradus_train::model_dir::ModelDirError;
use gradus_train::pretrain::PretrainError;
use gradus_train::run::RunError;
use gradus_train::trainer::{DumpError, TrainError};
use gradus_world::WorldError;

/// The reason why a command failed. The message names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Model(#[from] ModelDirError),
    #[error(transparent)]
    Generate(#[from] GenerateError),
    #[error(transparent)]
    Fill(#[from] FillError),
    /// A model that cannot make the requested predictions.
    #[error("{model}: {error}")]
    OfModel { model: PathBuf, error: AnswersError },
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A device error in a run that began on that device.
    #[error("{error}; the run was begun there: --device cpu continues it on the CPU, to other bits")]
    OfRun { error: DeviceError },
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Pretrain(#[from] PretrainError),
    #[error(transparent)]
    Finetune(#[from] FinetuneError),
    #[error(transparent)]
    Reproduce(#[from] ReproduceError),
    #[error(transparent)]
    Survey(#[from] SurveyError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Dump(#[from] DumpError),
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error(transparent)]
    StepInputs(#[from] StepInputsError),
    #[error(transparent)]
    Tasks(#[from] WriteTasksError),
    /// A file of a corpus that the tokenizer cannot encode.
    #[error("{path}: {source}")]
    Encode { path: PathBuf, source: Box<TextError> },
    /// A line, counted from 1, that is not a story.
    #[error("{path}, line {line}: {source}")]
    Story { path: PathBuf, line: usize, source: StoryError },
    #[error(transparent)]
    Ids(#[from] IdsError),
    #[error(
        "the system starts no more threads; end other programs, raise the bound on them (`ulimit -u`), or compute with fewer (--threads)"
    )]
    NoThread,
    /// A bug in Gradus.
    #[error("{what}: this is a bug in gradus; please report it with the command line")]
    Bug { what: String },
    /// A failure of the processes of a run to find one another.
    #[cfg(feature = "distributed")]
    #[error(transparent)]
    Rendezvous(#[from] gradus_cluster::rendezvous::RendezvousError),
    #[cfg(feature = "distributed")]
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The loss of another process after the run began; `next` is the command that continues the run.
    #[error("{error}; to go on with the run: `{next}`, with the flags of several processes as before")]
    LostPeer { error: Box<CliError>, next: String },
    /// A stop request to a run that another process leads.
    #[error("interrupted; process 0 has saved a checkpoint")]
    Stopped,
    /// A run that belongs to a study, which also takes measurements that the run itself does not.
    #[error(
        "{run}: expected a run outside of a study, since a study also measures its models as they learn; continue it with `{next}`"
    )]
    OfStudy { run: PathBuf, next: String },
    /// Flags that contradict one another.
    #[error("{0}")]
    Usage(String),
    /// An interruption by Ctrl-C, with all work saved; `next` is the command that continues.
    #[error("interrupted; continue with `{next}`")]
    Interrupted { next: String },
    /// The faults that an audit found.
    #[error("{} found:\n  {}", if faults.len() == 1 { "a fault was".into() } else { format!("{} faults were", faults.len()) }, faults.join("\n  "))]
    Refused { faults: Vec<String> },
    /// An existing file in the place of the result.
    #[error("{path} already exists and was not replaced; name another path, or give --overwrite")]
    Exists { path: PathBuf },
    /// A text too short to predict any token.
    #[error("{path}: {} in all, and the first of a text is not predicted; give a text of at least two tokens", count_of(*tokens, "token"))]
    TooShort { path: PathBuf, tokens: usize },
    /// An error of the text on one line of a file; lines are counted from 1.
    #[error("{path}, line {line}: {error}")]
    OfLine { path: PathBuf, line: usize, error: Box<CliError> },
    #[error("{path}: expected texts with [MASK] where a token is missing, a line each; found none")]
    NoTexts { path: PathBuf },
    #[error("{path}: expected a text, found no token in it")]
    Empty { path: PathBuf },
    #[error("expected a finite loss on this text, found {nll}: the model is damaged or diverged; take an earlier checkpoint")]
    NotFinite { nll: f64 },
    #[error("cannot start {threads} threads: {source}; give a smaller --threads")]
    Threads { threads: usize, source: rayon::ThreadPoolBuildError },
    #[error("cannot write the result to standard output: {0}; free some space, or redirect it elsewhere")]
    Output(#[from] std::io::Error),
}

/// The reason why a line is not a story of the given world.
#[derive(Debug, thiserror::Error)]
pub enum StoryError {
    #[error("expected a story of this world, found one of {found}: {remedy}")]
    Other { found: String, remedy: &'static str },
    #[error(transparent)]
    None(WorldError),
}

impl CliError {
    /// Returns the error of a model that cannot make the requested predictions.
    pub fn of_model(model: &Path) -> impl FnOnce(AnswersError) -> Self {
        |error| CliError::OfModel { model: model.into(), error }
    }

    /// Returns the exit code: 2 for wrong usage, 130 for an interruption (as shells count SIGINT), 75 for a lost process, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Usage(_) | CliError::Range(_) => exit::USAGE,
            CliError::OfLine { error, .. } => error.exit_code(),
            CliError::Device(e) if e.is_of_usage() => exit::USAGE,
            CliError::Interrupted { .. } | CliError::Stopped => exit::INTERRUPTED,
            #[cfg(feature = "distributed")]
            CliError::Rendezvous(e) => e.exit_code(),
            #[cfg(feature = "distributed")]
            CliError::Launch(e) => e.exit_code(),
            e if e.is_of_peer() => PeerError::EXIT_CODE,
            CliError::Pretrain(e) => e.exit_code(),
            CliError::Finetune(e) => e.exit_code(),
            CliError::Reproduce(e) => e.exit_code(),
            CliError::Survey(e) => e.exit_code(),
            CliError::Generate(e) => e.exit_code(),
            CliError::Fill(e) => e.exit_code(),
            CliError::StepInputs(e) => e.exit_code(),
            CliError::Tasks(e) => e.exit_code(),
            _ => exit::FAILED,
        }
    }
}

impl CliError {
    fn of_run(&self) -> Option<&RunError> {
        match self {
            CliError::Pretrain(PretrainError::Run(e)) | CliError::Finetune(FinetuneError::Run(e)) => Some(e),
            CliError::LostPeer { error, .. } => error.of_run(),
            _ => None,
        }
    }

    /// Adds the command that continues the run in `out`, if another process of the run was lost.
    pub fn with_next(self, command: &str, out: &Path) -> Self {
        match next(command, out).filter(|_| self.is_of_peer()) {
            Some(next) => CliError::LostPeer { error: Box::new(self), next },
            None => self,
        }
    }

    /// Returns whether another process of the run was lost.
    pub fn is_of_peer(&self) -> bool {
        match self.of_run() {
            Some(RunError::Peer(e) | RunError::Train(TrainError::Peer { error: e, .. })) => !e.is_told,
            _ => false,
        }
    }

    /// Returns the message for the other processes of the run.
    #[cfg(feature = "distributed")]
    pub fn told(&self) -> String {
        match self.of_run() {
            Some(RunError::Peer(e) | RunError::Train(TrainError::Peer { error: e, .. })) => e.problem.clone(),
            _ => with_causes(self),
        }
    }

    /// Returns whether all processes of the run end with this error.
    #[cfg(feature = "distributed")]
    pub fn is_common(&self) -> bool {
        self.of_run().is_some_and(gradus_train::run::is_common)
    }
}

/// Returns the command that continues the run in a directory, if one has begun there.
pub fn next(command: &str, out: &Path) -> Option<String> {
    out.join("run.json").exists().then(|| format!("gradus {command} --resume {}", quoted(out)))
}

/// The number of this process among the processes of a run.
static PROCESS: OnceLock<usize> = OnceLock::new();

/// Sets the process number that precedes the errors of this process.
#[cfg(feature = "distributed")]
pub fn speaks_as(process: usize) {
    let _ = PROCESS.set(process);
}

/// Returns the prefix of an error of one of several processes; empty for a single process.
pub fn speaker() -> String {
    PROCESS.get().map_or(String::new(), |process| format!("process {process}: "))
}

/// Returns the message, followed by those of its causes that it does not quote.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let message = cause.to_string();
        if !text.contains(&message) {
            text += &format!("\n  because: {message}");
        }
    }
    text
}
