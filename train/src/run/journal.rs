//! What a run records and shows as it goes.

use std::path::{Path, PathBuf};
use std::time::Instant;

use gradus_io::progress::{Job, Monitor, Progress};
use gradus_model::ModelConfig;
use gradus_report::metrics::{MetricsLog, Record};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::RunError;
use crate::trainer::{Recipe, StateError, TRAINER_FILE, Trainer};

/// The log's name in a run's directory.
pub const METRICS_FILE: &str = "metrics.jsonl";

/// A run's log, its clock, and who watches.
pub struct Journal {
    pub(super) dir: PathBuf,
    log: MetricsLog,
    /// Who is told of progress.
    pub progress: Box<dyn Progress>,
    began: Instant,
    /// Seconds of training in earlier sessions.
    before: f64,
    /// Tokens per second in each step of this session.
    pub rates: Vec<f64>,
    /// The loss of the last step of this session, dropout on.
    pub loss: Option<f64>,
    /// Has a session before this one computed on a GPU?
    pub(super) was_on_gpu: bool,
}

impl Journal {
    /// Opens that of the run in `dir`, which has made `job.done` steps in `before` seconds; also their records.
    pub fn open(dir: &Path, job: Job, before: f64, monitor: &dyn Monitor) -> Result<(Self, Vec<Record>), RunError> {
        let (log, records) = MetricsLog::resume(&dir.join(METRICS_FILE), job.done)?;
        let (dir, progress, began) = (dir.to_owned(), monitor.begin(job), Instant::now());
        let was_on_gpu = records.iter().any(|record| matches!(record, Record::Device { .. }));
        Ok((Journal { dir, log, progress, began, before, rates: Vec::new(), loss: None, was_on_gpu }, records))
    }

    /// Seconds of training in all sessions.
    pub fn seconds(&self) -> f64 {
        self.before + self.began.elapsed().as_secs_f64()
    }

    /// Appends a record to the log.
    pub fn write(&mut self, record: &Record) -> Result<(), RunError> {
        Ok(self.log.append(record)?)
    }

    /// Appends a warning to the log.
    pub fn warn(&mut self, step: u64, text: String) -> Result<(), RunError> {
        let elapsed = self.seconds();
        self.write(&Record::Warning { step, elapsed, text })
    }

    /// Keeps the step that ended with this error, if it can be repeated, and says so.
    pub fn keep(&mut self, trainer: &Trainer, batch: &gradus_model::Batch, error: &crate::trainer::TrainError) {
        trainer.keep(batch, error, &self.dir).iter().for_each(|kept| self.progress.warn(kept));
    }

    /// Saves the trainer's state, with the identity of its run and what else the run needs to continue.
    pub fn save(&self, trainer: &Trainer, identity: String, progress: impl Serialize) -> Result<(), RunError> {
        let meta = StateMeta { run: identity, progress, seconds: self.seconds() };
        Ok(trainer.save(&self.dir.join(TRAINER_FILE), &serde_json::to_string(&meta).expect("plain values"))?)
    }
}

/// What is kept with a trainer's state.
#[derive(Serialize, Deserialize)]
struct StateMeta<P> {
    /// Changes with everything that the run's parameters depend on.
    run: String,
    #[serde(flatten)]
    progress: P,
    /// Seconds of training so far.
    seconds: f64,
}

/// The state in a run's directory, what was kept with it, and the seconds of training so far.
///
/// # Errors
/// A damaged state, or that of another run.
pub fn load_state<P: DeserializeOwned>(
    dir: &Path,
    config: impl Into<ModelConfig>,
    recipe: Recipe,
    identity: &str,
) -> Result<(Trainer, P, f64), StateError> {
    let path = dir.join(TRAINER_FILE);
    let (trainer, meta) = Trainer::load(&path, config, recipe)?;
    let problem = match serde_json::from_str::<StateMeta<P>>(&meta) {
        Ok(meta) if meta.run == identity => return Ok((trainer, meta.progress, meta.seconds)),
        Ok(_) => "it is the state of another run (with other settings, seed or data)".to_owned(),
        Err(e) => format!("what is kept with the state cannot be read: {e}"),
    };
    Err(StateError::Damaged { path, problem })
}
