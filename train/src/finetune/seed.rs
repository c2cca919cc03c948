//! One seed of a fine-tuning on disk: done before, taken up where it was stopped, or begun.
//!
//! ```text
//! DIR/  config.json, model.safetensors (head.safetensors), tokenizer    the model with the best dev score
//!       trainer.safetensors                                             the state, until the seed is done
//!       metrics.jsonl, seed.json                                        what was measured
//! ```

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gradus_io::files::{FileError, quoted, write_json, write_together};
use gradus_io::progress::{Job, Progress};
use gradus_io::{hex, interrupt};
use gradus_model::checkpoint;
use gradus_report::metrics::{MetricsLog, Record, StepRecord};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::run::{Control, Work};
use super::{FinetuneError, Point, Session, Settings};
use crate::tasks::TaskError;
use crate::trainer::{TRAINER_FILE, Trainer};

/// A state is written at least this often.
const EVERY: Duration = Duration::from_secs(120);
const METRICS: &str = "metrics.jsonl";

/// What one seed came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedOutcome {
    /// The seed.
    pub seed: u64,
    /// The measurement with the best dev score.
    pub best: Point,
    /// All measurements.
    pub curve: Vec<Point>,
    /// Seconds of training in all sessions.
    pub seconds: f64,
}

impl SeedOutcome {
    const NAME: &str = "seed.json";

    /// That of a directory whose seed is done, with these settings.
    pub(super) fn read(dir: &Path, work: &Work, settings: &Settings) -> Result<Option<Self>, FinetuneError> {
        let file = dir.join(Self::NAME);
        if !file.exists() {
            return Ok(None);
        }
        let damaged = |e: String| FinetuneError::Resume {
            problem: format!("{}: {e}; to run this seed again, delete {}", file.display(), quoted(&file)),
        };
        let text = std::fs::read_to_string(&file).map_err(|e| damaged(e.to_string()))?;
        checkpoint::load(dir).map_err(|e| damaged(format!("its model cannot be read: {e}")))?;
        let done: Done = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        if done.run != identity(work, settings) {
            return Err(damaged(ANOTHER.into()));
        }
        let _ = std::fs::remove_file(dir.join(TRAINER_FILE)); // a crash may have come between the two
        Ok(Some(done.outcome))
    }
}

/// Of a file whose run is not this one.
const ANOTHER: &str = "this is of another run (other settings, seed, task, data or model): put the run's own back";

/// What stands in `seed.json`.
#[derive(Serialize, Deserialize)]
struct Done {
    /// [`identity`].
    run: String,
    #[serde(flatten)]
    outcome: SeedOutcome,
}

/// What is kept beside a trainer's state.
#[derive(Serialize, Deserialize)]
struct Extra {
    /// [`identity`].
    run: String,
    curve: Vec<Point>,
    /// Losses of the updates since the last point.
    losses: Vec<f64>,
    tokens: u64,
    seconds: f64,
}

/// A seed on its way.
pub struct Seed<'w> {
    work: &'w Work,
    settings: Settings,
    dir: PathBuf,
    session: Session<'w>,
    log: MetricsLog,
    /// Tokens read so far.
    tokens: u64,
    /// Seconds of training in earlier sessions.
    before: f64,
    began: Instant,
    /// It had begun, but there is no state to go on from.
    lost: bool,
}

impl<'w> Seed<'w> {
    /// A seed at its beginning, or where it was stopped.
    pub fn open(work: &'w Work, dir: PathBuf, settings: Settings) -> Result<Self, FinetuneError> {
        std::fs::create_dir_all(&dir).map_err(|e| FileError::new("make the directory", &dir, e))?;
        let reader = work.reader.with_seed(settings.seed);
        let mut session = Session::new(&reader, work.task, &work.train, &work.dev, &settings)?;
        let state = dir.join(TRAINER_FILE);
        let (mut tokens, mut before, mut lost) = (0, 0.0, false);
        if state.exists() {
            let extra = take_up(&mut session, work, &dir, &settings)?;
            (tokens, before) = (extra.tokens, extra.seconds);
        } else {
            lost = dir.join(METRICS).metadata().is_ok_and(|m| m.len() > 0);
        }
        let (log, _) = MetricsLog::resume(&dir.join(METRICS), session.trainer.done())?;
        Ok(Seed { work, settings, dir, session, log, tokens, before, began: Instant::now(), lost })
    }

    /// Trains to the end; `None` if it was stopped on its way.
    pub fn run(mut self, name: &str, control: &Control<'_>) -> Result<Option<SeedOutcome>, FinetuneError> {
        self.session.trainer.watches = control.anomaly;
        let total = self.session.updates();
        let stop = control.stop_at.map_or(total, |s| s.min(total));
        let mut progress = control.monitor.begin(Job::new(name, total, "updates").starting_at(self.session.trainer.done()));
        self.session.trainer.recipe.doubt().iter().for_each(|doubt| progress.warn(doubt));
        if self.lost {
            progress.warn(&format!("{} is not there: seed {} begins again", self.state().display(), self.settings.seed));
        }
        let mut saved = Instant::now();
        while self.session.trainer.done() < stop && !interrupt::requested() {
            self.update(&mut *progress)?;
            let due = self.session.is_due();
            if due {
                self.score(&mut *progress)?;
            }
            if due || saved.elapsed() > EVERY {
                self.save()?;
                saved = Instant::now();
            }
        }
        progress.finish();
        if self.session.trainer.done() < total {
            self.save()?;
            return Ok(None);
        }
        let best = self.session.best_point().expect("the last update ends an epoch").clone();
        let outcome = SeedOutcome { seed: self.settings.seed, best, curve: self.session.curve.clone(), seconds: self.seconds() };
        let done = Done { run: identity(self.work, &self.settings), outcome };
        write_json(&self.dir.join(SeedOutcome::NAME), &done)?;
        let state = self.state();
        std::fs::remove_file(&state).map_err(|e| FileError::new("remove", &state, e))?; // nothing is left to continue
        Ok(Some(done.outcome))
    }

    /// One update, written down.
    fn update(&mut self, progress: &mut dyn Progress) -> Result<(), FinetuneError> {
        let at = Instant::now();
        let (step, tokens) = match self.session.step() {
            Ok(made) => made,
            Err(e) => {
                self.write(Record::Warning {
                    step: self.session.trainer.done() + 1,
                    elapsed: self.seconds(),
                    text: e.to_string(),
                })?;
                if let FinetuneError::Train(error) = &e {
                    let batch = self.session.batch(self.session.trainer.done() + 1);
                    self.session.trainer.keep(&batch, error, &self.dir).iter().for_each(|kept| progress.warn(kept));
                }
                return Err(e);
            }
        };
        self.tokens += tokens;
        let done = self.session.trainer.done();
        for text in self.session.trainer.alarms.take() {
            progress.warn(&format!("update {done}: {text}"));
            self.write(Record::Warning { step: done, elapsed: self.seconds(), text })?;
        }
        self.write(Record::Step(StepRecord {
            step: done,
            tokens: self.tokens,
            loss: step.loss,
            lr: step.rate,
            grad_norm: step.gradient_norm,
            tokens_per_second: tokens as f64 / at.elapsed().as_secs_f64(),
            elapsed: self.seconds(),
        }))?;
        progress.note(format!("loss {:.3}", step.loss));
        progress.reach(done);
        Ok(())
    }

    /// Scores the dev split, and keeps the model if it is the best so far.
    fn score(&mut self, progress: &mut dyn Progress) -> Result<(), FinetuneError> {
        let update = self.session.trainer.done();
        let better = self.session.evaluate().map_err(|e| match e {
            FinetuneError::Task(TaskError::NotFinite { .. }) => FinetuneError::Diverged { update },
            e => e,
        })?;
        let Point { epoch, dev, .. } = self.session.curve.last().expect("just measured");
        let best = if better { ", the best so far" } else { "" };
        progress.say(&format!("epoch {epoch:.2}: dev {} {:.4}, loss {:.4}{best}", dev.metric, dev.score, dev.loss));
        let Some(best) = self.session.best.as_ref().filter(|_| better) else { return Ok(()) };
        self.work.reader.tokenizer.save(&self.dir)?;
        Ok(write_together(&self.dir, &checkpoint::files(best))?)
    }

    fn write(&mut self, record: Record) -> Result<(), FinetuneError> {
        Ok(self.log.append(&record)?)
    }

    fn save(&self) -> Result<(), FinetuneError> {
        let extra = Extra {
            run: identity(self.work, &self.settings),
            curve: self.session.curve.clone(),
            losses: self.session.losses().to_vec(),
            tokens: self.tokens,
            seconds: self.seconds(),
        };
        Ok(self.session.trainer.save(&self.state(), &serde_json::to_string(&extra).expect("plain values"))?)
    }

    fn state(&self) -> PathBuf {
        self.dir.join(TRAINER_FILE)
    }

    /// Seconds of training in all sessions.
    fn seconds(&self) -> f64 {
        self.before + self.began.elapsed().as_secs_f64()
    }
}

/// Puts a fresh session where the state in `dir` left it.
fn take_up<'w>(session: &mut Session<'w>, work: &'w Work, dir: &Path, settings: &Settings) -> Result<Extra, FinetuneError> {
    let state = dir.join(TRAINER_FILE);
    let error = |problem: String| FinetuneError::Resume {
        problem: format!("{problem}; to run this seed again, delete {}", quoted(&state)),
    };
    let damaged = |problem: String| error(format!("{}: {problem}; the file is damaged", state.display()));
    let (config, recipe) = (session.trainer.params.config(), session.trainer.recipe.clone());
    let (trainer, extra) = Trainer::load(&state, config, recipe).map_err(|e| error(e.to_string()))?;
    let extra: Extra = serde_json::from_str(&extra).map_err(|e| damaged(e.to_string()))?;
    if extra.run != identity(work, settings) {
        return Err(error(format!("{}: {ANOTHER}", state.display())));
    }
    *session = Session::with(trainer, work.task, &work.train, &work.dev, settings)?;
    session.go_on(extra.curve.clone(), extra.losses.clone()).map_err(damaged)?;
    if !session.curve.is_empty() {
        checkpoint::load(dir).map_err(|e| error(format!("the best model so far: {e}; put it back")))?;
    }
    Ok(extra)
}

/// Whose state it is: changes with the task, the data, the pre-trained model, and every setting.
fn identity(work: &Work, settings: &Settings) -> String {
    let settings = serde_json::to_string(settings).expect("plain values");
    hex::encode(Sha256::digest(format!("{} {} {settings}", work.task.name, work.digest)))
}
