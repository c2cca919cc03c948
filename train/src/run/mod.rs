//! What all training on disk has in common: a directory that one process works in, the loop, and how it goes on after a stop.
//!
//! ```text
//! OUT/  run.json               what the run was begun with; --resume reads it first
//!       trainer.safetensors    the trainer's state, whose it is, and how far the run was
//!       metrics.jsonl          what was measured
//! ```
//!
//! Pre-training and fine-tuning say what differs: each has a [`Manifest`], and a [`Run`] for the loop, [`train`].

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

pub use distributed::{Begun, SharedManifest, end, follow, is_common, same_settings, share};
pub use journal::{Journal, METRICS_FILE, Past, State, load_state};
pub use manifest::Manifest;

/// How a run is made, beyond its settings.
#[derive(Clone, Debug)]
pub struct Control<'m> {
    /// End after this many steps, the schedule unchanged, so that the run can be resumed.
    pub stop_at: Option<u64>,
    /// Who is told of progress.
    pub monitor: &'m dyn Monitor,
    /// The command line.
    pub command: String,
    /// The command that continues the run; `None`: its own with `--resume`.
    pub next: Option<String>,
    /// Where it computes. A run may be continued on another device, though not to the same bits.
    pub device: Device,
    /// Look at every op's value and every summand of a gradient, and stop at the first non-finite one.
    pub anomaly: bool,
    /// The processes that make it.
    pub collective: Arc<dyn Collective<f32>>,
    /// Does each of them keep the moments of its own part of the parameters alone?
    pub shard_moments: bool,
    /// The folder of a pre-training run's TensorBoard event files, if any.
    pub tensorboard: Option<PathBuf>,
}

impl<'m> Control<'m> {
    /// To the end, on the CPU, in this process alone.
    pub fn new(monitor: &'m dyn Monitor) -> Self {
        let (command, device, collective) = (String::new(), Device::Cpu, Arc::new(SingleProcess));
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

    /// The step that a run of so many ends after, this time.
    pub fn stop(&self, steps: u64) -> u64 {
        self.stop_at.map_or(steps, |at| at.min(steps))
    }
}

/// Why a run could not begin, go on or end, whatever it trains.
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
    /// This process was started otherwise than process 0; another attempt would find the same.
    #[error("{0}; no step was made")]
    Differs(String),
    /// What each process finds as this one does.
    #[error("{0}; no step was made")]
    Disagree(String),
}

/// What a run trains, and what is done between its steps.
pub trait Run {
    /// What it can end with.
    type Error: From<RunError>;
    /// The state is saved with each evaluation, and where those are further apart than this, between them.
    const SAVE_EVERY: Duration = Duration::MAX;

    /// The trainer.
    fn trainer(&mut self) -> &mut Trainer;
    /// The batch of step `t`, from 1: a function of the seed and `t`.
    fn batch(&self, t: u64) -> Batch;
    /// Takes note of a step that was made. The tokens that it read, and those of the run so far.
    fn made(&mut self, batch: &Batch, loss: f64) -> (f64, u64);
    /// Is the model to be evaluated after step `t`? `stop` is the last of this session.
    fn is_due(&self, t: u64, stop: u64) -> bool;
    /// Evaluates the model, and keeps it if it is the best so far.
    fn evaluate(&mut self, journal: &mut Journal) -> Result<(), Self::Error>;
    /// Writes down which kernels the device chose, where their bits differ.
    fn keep_kernels(&mut self, device: &Device) -> Result<(), Self::Error>;
    /// Saves all that a resumed run needs.
    fn save(&mut self, journal: &mut Journal) -> Result<(), Self::Error>;
    /// Shows what the model has learnt, if it is time to.
    fn show(&mut self, _: &mut Journal, _evaluated: bool) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Steps until `stop` or an interruption, evaluated, logged and saved on the way. On an error the checkpoint before stays.
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
        run.show(journal, due)?; // before the log is known to the state
        if run.trainer().saves() {
            tell_times(run.trainer(), journal)?;
            run.trainer().gather_moments().map_err(RunError::from)?;
            run.save(journal)?;
            run.trainer().forget_moments();
            saved = Instant::now();
        }
        journal.progress.skip(); // the rate counts the time of steps alone
    }
    if run.trainer().stops() {
        interrupt::request(); // if another process was asked, so was this one
    }
    tell_times(run.trainer(), journal)?;
    run.trainer().gather_moments().map_err(RunError::from)?;
    Ok(run.trainer().compare().map_err(RunError::from)?)
}

/// Logs where the time of several processes went.
fn tell_times(trainer: &mut Trainer, journal: &mut Journal) -> Result<(), RunError> {
    let (step, elapsed, times) = (trainer.done(), journal.seconds(), trainer.take_times());
    if times.is_empty() { Ok(()) } else { journal.write(&Record::Processes { step, elapsed, times }) }
}

/// Where this session computes, after so many steps; a GPU is said too. `None` of a run that has only been on the CPU.
fn place(device: &Device, step: u64, journal: &mut Journal) -> Option<Record> {
    let (elapsed, products) = (journal.seconds(), device.matmul_precision().to_string());
    let arithmetic = match device.arithmetic() {
        Some(measured) => {
            journal.progress.say(&format!("{device}: {measured}; products are in {products}"));
            measured.to_string()
        }
        None if journal.was_on_gpu => "as IEEE 754 says".into(),
        None => return None,
    };
    Some(Record::Device { step, elapsed, device: device.to_string(), arithmetic, products })
}

/// Logs the kernels that the device chose by measurement since it had `chosen` these; says whether there are any.
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

/// A resumed run takes its kernels from its files, as far as its device has them.
fn doubt_of_kernels(device: &Device) -> Option<String> {
    let missing = device.missing().len();
    let (which, whose) = (count_of(missing, "kernel"), if missing == 1 { "its" } else { "their" });
    (missing > 0 && device.matmul_precision() != MatmulPrecision::F32).then(|| {
        format!(
            "{device} lacks {which} chosen before; others take {whose} place and may add in another order: numbers may differ from \
             those of the run so far in their last digits"
        )
    })
}

fn owned((kind, kernel): (&String, &String)) -> (String, String) {
    (kind.clone(), kernel.clone())
}

/// One step, logged with the alarms that it raised. A step that cannot be made is kept beside the run.
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
