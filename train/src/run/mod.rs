//! The code common to all training on disk: a directory that one process works in, the training loop, and resuming.
//!
//! ```text
//! OUT/  run.json               the manifest of the run; --resume reads it first
//!       trainer.safetensors    the trainer's state, the identity of its run, and the progress of the run
//!       metrics.jsonl          the measurements
//! ```
//!
//! Pre-training and fine-tuning define the differences: each has a [`Manifest`], and a [`Run`] for the loop, [`train`].

mod distributed;
mod journal;
mod manifest;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gradus_collective::{Collective, PeerError, SingleProcess};
use gradus_io::files::FileError;
use gradus_io::interrupt;
use gradus_io::numbers::count_of;
use gradus_io::progress::Monitor;
use gradus_model::Batch;
use gradus_report::metrics::{MetricsError, Record, StepRecord};
use gradus_tensor::device::MatmulPrecision;
use gradus_tensor::{Device, DeviceError};

use crate::trainer::{StateError, TrainError, Trainer};

pub use distributed::{Begun, SharedManifest, end, follow, is_common, same_precision, same_settings, share};
pub use journal::{Journal, METRICS_FILE, Past, State, load_state};
pub(crate) use manifest::FILE;
pub use manifest::Manifest;

/// The options of a session, besides the run's settings.
#[derive(Clone, Debug)]
pub struct Control<'m> {
    /// The number of steps after which to end. The schedule is unchanged, so that the run can be resumed.
    pub stop_at: Option<u64>,
    /// The receiver of progress reports.
    pub monitor: &'m dyn Monitor,
    /// The command line.
    pub command: String,
    /// The command that continues the run; `None`: its own with `--resume`.
    pub next: Option<String>,
    /// The device to compute on. A run may be continued on another device, though not to the same bits.
    pub device: Device,
    /// Whether to check every op's value and every gradient that an op passes back, and to stop at the first non-finite one.
    pub anomaly: bool,
    /// The processes that compute the run.
    pub collective: Arc<dyn Collective<f32>>,
    /// Whether each process keeps the moments only of its own part of the parameters.
    pub shard_moments: bool,
    /// The folder of a pre-training run's TensorBoard event files, if any.
    pub tensorboard: Option<PathBuf>,
}

impl<'m> Control<'m> {
    /// Creates the options of a run to its end, on the CPU, in a single process.
    pub fn new(monitor: &'m dyn Monitor) -> Self {
        let (command, device, collective) = (String::new(), Device::CPU, Arc::new(SingleProcess));
        Control {
            stop_at: None,
            monitor,
            command,
            next: None,
            device,
            anomaly: false,
            collective,
            shard_moments: false,
            tensorboard: None,
        }
    }

    /// Returns the step at which this session ends, for a run of `steps` steps.
    pub fn stop(&self, steps: u64) -> u64 {
        self.stop_at.map_or(steps, |at| at.min(steps))
    }
}

/// The reason why a run could not begin, continue or end, whatever it trains.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RunError {
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{dir} already holds {found}; nothing was changed: give another --out{hint}", dir = dir.display(), found = found.display())]
    Taken { dir: PathBuf, found: PathBuf, hint: String },
    #[error("cannot resume: {problem}")]
    Resume { problem: String },
    #[error("cannot compare: {problem}")]
    Compare { problem: String },
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// This process was started with other options than process 0; another attempt would fail in the same way.
    #[error("{0}; no step was made")]
    Differs(String),
    /// A difference between the processes that each of them detects.
    #[error("{0}; no step was made")]
    Disagree(String),
}

/// The training of a run and the work between its steps.
pub trait Run {
    /// The error of the run.
    type Error: From<RunError>;
    /// The longest time between two saves. The state is saved with each evaluation, and in between if evaluations are further
    /// apart.
    const SAVE_EVERY: Duration = Duration::MAX;

    /// Returns the trainer.
    fn trainer(&mut self) -> &mut Trainer;
    /// Returns the batch of step `t`, from 1: a function of the seed and `t`.
    fn batch(&self, t: u64) -> Batch;
    /// Records a completed step. Returns the number of tokens that it read, and the run's total so far.
    fn made(&mut self, batch: &Batch, loss: f64) -> (f64, u64);
    /// Returns whether the model should be evaluated after step `t`; `stop` is the last step of this session.
    fn is_due(&self, t: u64, stop: u64) -> bool;
    /// Evaluates the model, and keeps it if it is the best so far.
    fn evaluate(&mut self, journal: &mut Journal) -> Result<(), Self::Error>;
    /// Records the kernels that the device chose, if their bits differ.
    fn keep_kernels(&mut self, device: &Device) -> Result<(), Self::Error>;
    /// Saves everything that a resumed run needs.
    fn save(&mut self, journal: &mut Journal) -> Result<(), Self::Error>;
    /// Displays samples of the model's output, if they are due.
    fn show(&mut self, _: &mut Journal, _evaluated: bool) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Makes steps until `stop` or an interruption, with evaluations, logging and saves. On an error the checkpoint before remains.
pub fn train<R: Run>(run: &mut R, journal: &mut Journal, control: &Control<'_>) -> Result<(), R::Error> {
    let trainer = run.trainer();
    trainer.place(&control.device).map_err(RunError::from)?;
    if let Some(record) = place(&control.device, trainer.done(), journal) {
        journal.write(&record)?;
    }
    trainer.watches = control.anomaly;
    trainer.collective = Arc::clone(&control.collective);
    trainer.recipe.doubt().iter().for_each(|doubt| journal.progress.warn(doubt));
    let (stop, mut saved) = (control.stop(trainer.recipe.steps), Instant::now());
    let (mut chosen, mut is_told) = (control.device.measured(), false);
    if control.shard_moments {
        trainer.shard_moments().map_err(RunError::from)?;
    }
    journal.progress.skip();
    while run.trainer().done() < stop && !run.trainer().stops() {
        let next = run.trainer().done() + 1;
        let due = run.is_due(next, stop);
        run.trainer().ask_to_save(due || saved.elapsed() > R::SAVE_EVERY);
        step(run, journal)?;
        if !is_told && let Some(doubt) = doubt_of_kernels(&control.device) {
            journal.progress.warn(&doubt);
            journal.warn(run.trainer().done(), doubt)?;
            is_told = true;
        }
        if due {
            run.evaluate(journal)?;
        }
        if name_kernels(&control.device, &mut chosen, run.trainer().done(), journal)? {
            run.keep_kernels(&control.device)?;
        }
        run.show(journal, due)?; // before the state records the length of the log
        if run.trainer().saves() {
            tell_times(run.trainer(), journal)?;
            run.trainer().gather_moments().map_err(RunError::from)?;
            run.save(journal)?;
            run.trainer().forget_moments();
            saved = Instant::now();
        }
        journal.progress.skip(); // the rate counts only the time of steps
    }
    if run.trainer().stops() {
        interrupt::request(); // a request to one process interrupts all
    }
    tell_times(run.trainer(), journal)?;
    run.trainer().gather_moments().map_err(RunError::from)?;
    Ok(run.trainer().compare().map_err(RunError::from)?)
}

/// Logs the breakdown of the time of several processes.
fn tell_times(trainer: &mut Trainer, journal: &mut Journal) -> Result<(), RunError> {
    let (step, elapsed, times) = (trainer.done(), journal.seconds(), trainer.take_times());
    if times.is_empty() { Ok(()) } else { journal.write(&Record::Processes { step, elapsed, times }) }
}

/// Returns the record of this session's device from step `step` on, and displays a GPU. `None` if the run has only been on the
/// CPU.
fn place(device: &Device, step: u64, journal: &mut Journal) -> Option<Record> {
    let (elapsed, products) = (journal.seconds(), device.matmul_precision().to_string());
    let arithmetic = match device.arithmetic() {
        Some(measured) => {
            journal.progress.say(&format!("{device}: {measured}; products are in {products}"));
            measured.to_string()
        }
        None if journal.was_on_gpu => "as in IEEE 754".into(),
        None => return None,
    };
    Some(Record::Device { step, elapsed, device: device.to_string(), arithmetic, products })
}

/// Logs the kernels that the device chose by measurement since it had `chosen` these; returns whether there are any.
fn name_kernels(
    device: &Device,
    chosen: &mut BTreeMap<String, String>,
    step: u64,
    journal: &mut Journal,
) -> Result<bool, RunError> {
    let all = device.measured();
    let kernels: BTreeMap<String, String> = all.iter().filter(|(kind, _)| !chosen.contains_key(*kind)).map(owned).collect();
    if kernels.is_empty() {
        return Ok(false);
    }
    journal.progress.say(&format!("{device}: measured which kernels are fastest for {} kinds of products", kernels.len()));
    let elapsed = journal.seconds();
    journal.write(&Record::Kernels { step, elapsed, kernels })?;
    *chosen = all;
    Ok(true)
}

/// Returns a warning if the device lacks kernels that a resumed run's files name.
fn doubt_of_kernels(device: &Device) -> Option<String> {
    let missing = device.missing().len();
    let (which, whose) = (count_of(missing, "kernel"), if missing == 1 { "its" } else { "their" });
    (missing > 0 && device.matmul_precision() != MatmulPrecision::F32).then(|| {
        format!(
            "{device} lacks {which} chosen before; others take {whose} place and may sum in another order: results may differ \
             from those of the run so far in their last digits"
        )
    })
}

fn owned((kind, kernel): (&String, &String)) -> (String, String) {
    (kind.clone(), kernel.clone())
}

/// Makes one step, and logs it with the alarms that it raised. A step that fails is saved beside the run.
fn step<R: Run>(run: &mut R, journal: &mut Journal) -> Result<(), RunError> {
    let (step, begin) = (run.trainer().done() + 1, Instant::now());
    let batch = run.batch(step);
    let summary = match run.trainer().step(&batch) {
        Ok(summary) => summary,
        Err(error) => {
            journal.warn(step, error.to_string())?;
            journal.keep(run.trainer(), &batch, &error);
            return Err(error.into());
        }
    };
    let (read, tokens) = run.made(&batch, summary.loss);
    let (tokens_per_second, elapsed) = (read / begin.elapsed().as_secs_f64(), journal.seconds());
    let (loss, lr, grad_norm) = (summary.loss, summary.rate, summary.gradient_norm);
    journal.write(&Record::Step(StepRecord { step, tokens, loss, lr, grad_norm, tokens_per_second, elapsed }))?;
    for text in run.trainer().alarms.take() {
        journal.progress.warn(&format!("step {step}: {text}"));
        journal.warn(step, text)?;
    }
    journal.rates.push(tokens_per_second);
    journal.loss = Some(loss);
    journal.progress.note(format!("loss {loss:.3}"));
    journal.progress.reach(step);
    Ok(())
}
