//! One seed of a fine-tuning run on disk: finished, resumed or new.
//!
//! ```text
//! DIR/  config.json, model.safetensors (head.safetensors), tokenizer    the model with the best dev score
//!       trainer.safetensors                                             the state, until the seed is done
//!       metrics.jsonl, seed.json                                        the measurements
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gradus_io::checksums::{self, Group};
use gradus_io::files::{json_text, make_own_folder, quoted};
use gradus_io::progress::{Job, Monitor};
use gradus_model::{Batch, checkpoint};
use gradus_tensor::Device;
use serde::{Deserialize, Serialize};

use super::manifest::{FinetuneManifest, Prepared, SeedRecord};
use super::{CurvePoint, FinetuneError, FinetuneSettings, Session};
use crate::model_dir;
use crate::run::{self, Control, Journal, METRICS_FILE, Manifest, Past, Run, RunError, load_state};
use crate::tasks::TaskError;
use crate::trainer::{PREVIOUS_FILE, StateError, TRAINER_FILE, Trainer};

/// The outcome of one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedOutcome {
    /// The seed.
    pub seed: u64,
    /// The measurement with the best dev score.
    pub best: CurvePoint,
    /// All measurements.
    pub curve: Vec<CurvePoint>,
    /// The seconds of training in all sessions.
    pub seconds: f64,
}

impl SeedOutcome {
    const FILE: &str = "seed.json";

    /// Reads the outcome of a finished seed with these settings; `None` if it is not finished.
    pub(super) fn read(dir: &Path, of: &Prepared, settings: &FinetuneSettings) -> Result<Option<Self>, FinetuneError> {
        let file = dir.join(Self::FILE);
        if !file.exists() {
            return Ok(None);
        }
        let damaged = |e: String| FinetuneError::resume(format!("{}: {e}{}", file.display(), again(&file)));
        let read = || {
            checksums::check_where(dir, |_| true)?;
            checksums::read(dir, Self::FILE)
        };
        let text = read().map_err(|e| if e.path == file { damaged(e.to_string()) } else { e.into() })?;
        model_dir::read(dir).map_err(|e| damaged(format!("its model cannot be read: {e}")))?;
        let done: Done = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
        if done.run != identity(of, settings) {
            let problem = "it belongs to another run (other settings, seed, task, data or model): put this run's own file back";
            return Err(damaged(problem.into()));
        }
        checksums::remove(dir, &[TRAINER_FILE, PREVIOUS_FILE])?; // a crash may have come between the two
        Ok(Some(done.outcome))
    }
}

/// Returns the remedy for a seed's unusable file.
fn again(file: &Path) -> String {
    format!("; to run this seed again, delete {}", quoted(file))
}

/// Returns a digest that identifies the state: it changes with the task, the data, the pre-trained model, and every setting.
fn identity(of: &Prepared, settings: &FinetuneSettings) -> String {
    gradus_io::identity(&(of.task.name, &of.digest, settings, of.manifest.precision.products.to_string()))
}

/// The contents of `seed.json`.
#[derive(Serialize, Deserialize)]
struct Done {
    /// The [`identity`] of the run.
    run: String,
    #[serde(flatten)]
    outcome: SeedOutcome,
}

/// The values that a resumed seed needs besides the trainer's state.
#[derive(Serialize, Deserialize)]
struct SeedProgress {
    curve: Vec<CurvePoint>,
    /// The losses of the steps since the last point.
    losses: Vec<f64>,
    tokens: u64,
}

/// A seed in progress.
pub(super) struct Seed<'w> {
    of: &'w Prepared,
    settings: FinetuneSettings,
    dir: PathBuf,
    session: Session<'w>,
    /// The number of tokens read so far.
    tokens: u64,
    /// The progress before this session.
    past: Past,
}

impl<'w> Seed<'w> {
    /// Opens a new seed, or a seed that was stopped, with its saved state.
    pub fn open(
        of: &'w Prepared,
        dir: PathBuf,
        settings: FinetuneSettings,
        monitor: &dyn Monitor,
    ) -> Result<Self, FinetuneError> {
        let session = Session::of_seed(of, &settings)?;
        let mut seed = Seed { of, settings, dir, session, tokens: 0, past: Past::NONE };
        seed.restore(monitor)?;
        Ok(seed)
    }

    fn state(&self) -> PathBuf {
        self.dir.join(TRAINER_FILE)
    }

    /// Restores the saved state, if there is one.
    fn restore(&mut self, monitor: &dyn Monitor) -> Result<(), FinetuneError> {
        let state = self.state();
        let both = [TRAINER_FILE, PREVIOUS_FILE].map(|name| quoted(self.dir.join(name))).join(" and ");
        let error = |problem: String| FinetuneError::resume(format!("{problem}; to run this seed again, delete {both}"));
        let (config, recipe) = (self.session.trainer.params.config(), self.session.trainer.recipe.clone());
        let identity = identity(self.of, &self.settings);
        let found = load_state(&self.dir, config, &recipe, &identity, monitor).map_err(|e| match e {
            StateError::File(e) if e.is_of_sums() => e.into(),
            e => error(e.to_string()),
        })?;
        let Some((trainer, progress, past)) = found else { return Ok(()) };
        let progress: SeedProgress = progress;
        let damaged = |problem: String| error(format!("{}: {problem}; the file is damaged", state.display()));
        self.session.go_on(trainer, progress.curve, progress.losses).map_err(damaged)?;
        if !self.session.curve.is_empty() {
            model_dir::read(&self.dir).map_err(|e| error(format!("the best model so far: {e}; put it back")))?;
        }
        (self.tokens, self.past) = (progress.tokens, past);
        Ok(())
    }

    /// Trains to the end; `None` if it was stopped before.
    pub fn run(mut self, name: &str, control: &Control<'_>) -> Result<Option<SeedOutcome>, FinetuneError> {
        let (state, total, done) = (self.state(), self.session.steps(), self.session.trainer.done());
        // The seed had begun, but its state is missing.
        let lost = done == 0 && !state.exists() && self.dir.join(METRICS_FILE).metadata().is_ok_and(|m| m.len() > 0);
        let job = Job::new(name, total, "steps").starting_at(done);
        let record = SeedRecord { manifest: self.of.manifest.clone(), seed: self.settings.seed };
        run::share(&record, Vec::new(), &self.of.digest, &self.session.trainer, control)?;
        self.of.begin()?;
        make_own_folder(&self.dir)?;
        let (mut journal, _) = Journal::open(&self.dir, job, self.past, control.monitor)?;
        if let (true, Some(own)) = (self.dir.parent() == Some(&self.of.out), self.dir.file_name().and_then(OsStr::to_str)) {
            checksums::list(&self.of.out, own, false)?; // one of several seeds
        }
        if lost {
            journal.progress.warn(&format!("{} is missing: seed {} begins again", state.display(), self.settings.seed));
        }
        run::train(&mut self, &mut journal, control)?;
        let (finished, seconds) = (self.session.trainer.done() == total, journal.seconds());
        if !finished {
            self.save(&mut journal)?;
        }
        let log = journal.sync()?;
        journal.progress.finish();
        if !finished {
            return Ok(None);
        }
        let best = self.session.best_point().expect("the last step ends an epoch").clone();
        let outcome = SeedOutcome { seed: self.settings.seed, best, curve: self.session.curve, seconds };
        let done = Done { run: identity(self.of, &self.settings), outcome };
        let mut group = Group::of(&self.dir);
        group.add(SeedOutcome::FILE, &json_text(&done))?;
        group.log(log);
        group.commit()?;
        checksums::remove(&self.dir, &[TRAINER_FILE, PREVIOUS_FILE])?; // nothing is left to continue
        Ok(Some(done.outcome))
    }
}

impl Run for Seed<'_> {
    type Error = FinetuneError;
    const SAVE_EVERY: Duration = Duration::from_secs(120);

    fn trainer(&mut self) -> &mut Trainer {
        &mut self.session.trainer
    }

    fn batch(&self, t: u64) -> Batch {
        self.session.batch(t)
    }

    fn made(&mut self, batch: &Batch, loss: f64) -> (f64, u64) {
        let read = self.session.made(batch, loss);
        self.tokens += read;
        (read as f64, self.tokens)
    }

    fn is_due(&self, t: u64, _: u64) -> bool {
        self.session.is_due_after(t)
    }

    /// Scores the dev split, and keeps the model if it is the best so far.
    fn evaluate(&mut self, journal: &mut Journal) -> Result<(), FinetuneError> {
        let step = self.session.trainer.done();
        let better = self.session.evaluate().map_err(|e| match e {
            FinetuneError::Task(TaskError::NotFinite { .. }) => FinetuneError::Diverged { step },
            e => e,
        })?;
        let CurvePoint { epoch, dev, .. } = self.session.curve.last().expect("just measured");
        let best = if better { ", the best so far" } else { "" };
        journal.progress.say(&format!("epoch {epoch:.2}: dev {} {:.4}, loss {:.4}{best}", dev.metric, dev.score, dev.loss));
        let Some(best) = self.session.best.as_ref().filter(|_| better) else { return Ok(()) };
        let mut files = self.of.task_model.tokenizer.files();
        files.extend(checkpoint::files(best).map_err(RunError::from)?);
        Ok(checksums::write(&self.dir, &files)?)
    }

    fn keep_kernels(&mut self, device: &Device) -> Result<(), FinetuneError> {
        let run = &self.of.out;
        Ok(FinetuneManifest::read(run)?.keep_kernels(device, run)?)
    }

    fn save(&mut self, journal: &mut Journal) -> Result<(), FinetuneError> {
        let (curve, losses) = (self.session.curve.clone(), self.session.losses.clone());
        let progress = SeedProgress { curve, losses, tokens: self.tokens };
        Ok(journal.save(&self.session.trainer, identity(self.of, &self.settings), progress, &[])?)
    }
}
