//! The log and the display of a run.

use std::path::{Path, PathBuf};
use std::time::Instant;

use gradus_io::checksums::{self, Group, Sum};
use gradus_io::progress::{Job, Monitor, Progress};
use gradus_model::ModelConfig;
use gradus_report::metrics::{Kept, MetricsLog, Record};
use gradus_report::tensorboard::EventFile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::RunError;
use crate::trainer::{PREVIOUS_FILE, Recipe, StateError, TRAINER_FILE, Trainer};

/// The log's name in a run's directory.
pub const METRICS_FILE: &str = checksums::LOG_FILE;

/// The log of a run, its clock, and its progress display.
pub struct Journal {
    pub(super) dir: PathBuf,
    log: MetricsLog,
    /// A copy of the records for TensorBoard. The run continues if it cannot be written.
    events: Option<EventFile>,
    /// The display of the progress.
    pub progress: Box<dyn Progress>,
    began: Instant,
    /// Seconds of training in earlier sessions.
    before: f64,
    /// Tokens per second in each step of this session.
    pub rates: Vec<f64>,
    /// The loss of the last step of this session, with dropout.
    pub loss: Option<f64>,
    /// Whether a session before this one computed on a GPU.
    pub(super) was_on_gpu: bool,
    /// Whether the last saved state is sound, so that it may replace the state before it.
    is_state_sound: bool,
}

impl Journal {
    /// Opens the journal of the run in `dir`, resumed after `past`. Also returns the records of the log that are kept.
    pub fn open(dir: &Path, job: Job, past: Past, monitor: &dyn Monitor) -> Result<(Self, Vec<Record>), RunError> {
        let Past { seconds: before, log, is_state_sound } = past;
        let (log, records, lost) = MetricsLog::resume(dir, log)?;
        let (dir, mut progress, began) = (dir.to_owned(), monitor.begin(job), Instant::now());
        if lost > 0 {
            progress.warn(&format!("the last {lost} bytes of {METRICS_FILE} are lost: its curves have a gap"));
        }
        let was_on_gpu = records.iter().any(|record| matches!(record, Record::Device { .. }));
        let (events, rates, loss) = (None, Vec::new(), None);
        Ok((Journal { dir, log, events, progress, began, before, rates, loss, was_on_gpu, is_state_sound }, records))
    }

    /// Returns the seconds of training in all sessions.
    pub fn seconds(&self) -> f64 {
        self.before + self.began.elapsed().as_secs_f64()
    }

    /// Starts to copy the records after step `step` to a TensorBoard event file in this folder.
    pub fn write_events(&mut self, folder: &Path, step: u64) -> Result<(), RunError> {
        self.events = Some(EventFile::create(folder, step)?);
        Ok(())
    }

    /// Appends a record to the log.
    pub fn write(&mut self, record: &Record) -> Result<(), RunError> {
        if let Some(Err(error)) = self.events.as_mut().map(|events| events.write(record)) {
            self.progress.warn(&format!("warning: {error}; nothing more is written for TensorBoard"));
            self.events = None;
        }
        Ok(self.log.append(record)?)
    }

    /// Appends a warning to the log.
    pub fn warn(&mut self, step: u64, text: String) -> Result<(), RunError> {
        let elapsed = self.seconds();
        self.write(&Record::Warning { step, elapsed, text })
    }

    /// Saves the step that ended with this error, if it can be repeated, and displays how to repeat it.
    pub fn keep(&mut self, trainer: &Trainer, batch: &gradus_model::Batch, error: &crate::trainer::TrainError) {
        trainer.keep(batch, error, &self.dir).iter().for_each(|kept| self.progress.warn(kept));
    }

    /// Flushes the log to the disk, and returns its length and checksum.
    pub fn sync(&self) -> Result<Sum, RunError> {
        Ok(self.log.sync()?)
    }

    /// Saves the trainer's state, with the identity of its run and the progress needed to continue, and the files `also`. The
    /// state before it is kept under another name, unless it is damaged.
    pub fn save(
        &mut self,
        trainer: &Trainer,
        identity: String,
        progress: impl Serialize,
        also: &[(&'static str, Vec<u8>)],
    ) -> Result<(), RunError> {
        // The part of the log that the state refers to is on the disk before the state is.
        let log = self.log.sync()?;
        let meta = StateMeta { run: identity, progress, seconds: self.seconds(), log: log.bytes };
        let mut group = Group::of(&self.dir);
        group.log(log);
        if self.is_state_sound {
            group.keep(TRAINER_FILE, PREVIOUS_FILE);
        }
        group.add_all(also)?;
        // It is added last: if it exists, everything that belongs to it exists.
        group.add(TRAINER_FILE, &trainer.state(&serde_json::to_string(&meta).expect("plain values"))?)?;
        group.commit()?;
        self.is_state_sound = true;
        Ok(())
    }
}

/// The metadata of a trainer's state.
#[derive(Serialize, Deserialize)]
struct StateMeta<P> {
    /// A digest of everything that the run's parameters depend on.
    run: String,
    #[serde(flatten)]
    progress: P,
    /// Seconds of training so far.
    seconds: f64,
    /// Bytes of the log so far.
    log: u64,
}

/// The progress of a run before this session.
#[derive(Clone, Copy, Debug)]
pub struct Past {
    /// Seconds of training in earlier sessions.
    pub seconds: f64,
    /// The part of its log to keep; `None` keeps nothing.
    pub log: Option<Kept>,
    /// Whether its last saved state is sound. If not, the run continues from the state before.
    pub is_state_sound: bool,
}

impl Past {
    /// The past of a run without a saved state.
    pub const NONE: Past = Past { seconds: 0.0, log: None, is_state_sound: true };
}

/// A saved run: the trainer, the metadata saved with it, and its past.
pub type State<P> = (Trainer, P, Past);

/// Loads the state in a run's directory or, if that is damaged, the one before it; `None` if there is neither.
///
/// # Errors
/// Returns an error if no state is sound, or if the state belongs to another run.
pub fn load_state<P: DeserializeOwned>(
    dir: &Path,
    config: ModelConfig,
    recipe: &Recipe,
    identity: &str,
    monitor: &dyn Monitor,
) -> Result<Option<State<P>>, StateError> {
    let load = |name: &str| -> Result<State<P>, StateError> {
        let path = dir.join(name);
        let bytes = checksums::read(dir, name)?;
        let (trainer, meta) = Trainer::from_state(&path, &bytes, config.clone(), recipe.clone())?;
        let meta: StateMeta<P> = serde_json::from_str(&meta).map_err(|e| {
            let problem = format!("the data stored with the state cannot be read: {e}");
            StateError::Damaged { path: path.clone(), problem }
        })?;
        if meta.run != identity {
            return Err(StateError::Another { path });
        }
        let log = Some(Kept { step: trainer.done(), bytes: Some(meta.log) });
        Ok((trainer, meta.progress, Past { seconds: meta.seconds, log, is_state_sound: true }))
    };
    let has_previous = dir.join(PREVIOUS_FILE).exists();
    if !dir.join(TRAINER_FILE).exists() && !has_previous {
        return Ok(None);
    }
    match load(TRAINER_FILE) {
        Err(error) if has_previous && !matches!(error, StateError::Another { .. }) => {
            let Ok(mut state) = load(PREVIOUS_FILE) else { return Err(error) };
            state.2.is_state_sound = false;
            let cause = match &error {
                StateError::File(error) => format!("{}: {}", error.path.display(), error.cause),
                other => other.to_string(),
            };
            let before =
                format!("continuing from the previous checkpoint, after step {}; the result is the same", state.0.done());
            monitor.warn(&format!("warning: {cause}; {before}"));
            Ok(Some(state))
        }
        other => other.map(Some),
    }
}
