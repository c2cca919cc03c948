//! A run as it stands in its directory: what `--resume` goes on from, and what can be looked at.

use std::path::Path;

use gradus_io::hex;
use gradus_io::progress::Monitor;
use gradus_model::{Batch, Model};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::corpus::Corpus;
use super::run_dir::{RunDir, RunFile};
use super::source::{Source, weighted};
use super::world::WorldSource;
use super::{PretrainError, Tokenizer, Trainer};
use crate::settings::Settings;
use crate::trainer::StateError;

/// A run after its last checkpoint.
pub struct Stored {
    /// Its directory.
    pub dir: RunDir,
    /// What it was begun with.
    pub run: RunFile,
    /// Its data.
    pub source: Box<dyn Source>,
    /// Its model, moments and number of updates.
    pub trainer: Trainer,
    /// Seconds of training so far.
    pub seconds: f64,
}

impl Stored {
    /// Reads a run. Nothing is written but tokens of its corpus into `cache`, where they are not there yet.
    ///
    /// # Errors
    /// No run, a damaged one, or a corpus that is not the one it began with.
    pub fn read(path: &Path, cache: &Path, monitor: &dyn Monitor) -> Result<Self, PretrainError> {
        let (dir, run) = RunDir::open(path)?;
        run.settings.check()?;
        let tokenizer = Tokenizer::load(dir.path())?;
        let source: Box<dyn Source> = match &run.corpus {
            Some(path) => Box::new(Corpus::open(&run.settings, path, tokenizer, cache, monitor)?),
            None => Box::new(WorldSource::new(&run.settings, Some(tokenizer))?),
        };
        if source.digest() != run.digest {
            let problem = "the corpus is not the one the run began with; put that one back, or begin a new run".into();
            return Err(PretrainError::Resume { problem });
        }
        let (model, recipe) = (run.settings.model.clone(), run.settings.recipe(run.updates));
        let damaged = |problem: &str| StateError::Damaged { path: dir.trainer(), problem: problem.into() };
        let (trainer, seconds) = if dir.trainer().exists() {
            let (trainer, beside) = Trainer::load(&dir.trainer(), model, recipe)?;
            let beside = Beside::read(&beside, &run).ok_or_else(|| damaged("it is the state of another run"))?;
            (trainer, beside.seconds)
        } else if dir.path().join("model.safetensors").exists() {
            return Err(damaged("it is not there, though there is a model of this run's").into());
        } else {
            // Stopped before its first checkpoint: the seed alone determines where it began.
            let params = Model::init(&model.into(), run.settings.seed);
            (Trainer::new(recipe, params), 0.0)
        };
        Ok(Stored { dir, run, source, trainer, seconds })
    }

    /// The first `sequences` of the batch that the next update is made of.
    pub fn next_batch(&self, sequences: usize) -> Batch {
        weighted(self.source.batch(self.trainer.done() + 1, sequences), self.run.settings.objective)
    }
}

/// What is kept beside a trainer's state.
#[derive(Serialize, Deserialize)]
pub(super) struct Beside {
    /// Which run it is of.
    run: String,
    /// Seconds of training so far.
    seconds: f64,
}

impl Beside {
    pub(super) fn write(run: &RunFile, seconds: f64) -> String {
        serde_json::to_string(&Beside { run: identity(run), seconds }).expect("plain values")
    }

    /// `None` where it is of another run.
    fn read(text: &str, run: &RunFile) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|beside: &Beside| beside.run == identity(run))
    }
}

/// Changes with whatever a run's parameters depend on.
fn identity(run: &RunFile) -> String {
    let settings = Settings { recompute: false, ..run.settings.clone() };
    let text = serde_json::to_string(&(&settings, run.updates, &run.digest)).unwrap_or_default();
    let model = serde_json::to_string(&settings.model).unwrap_or_default();
    hex::encode(Sha256::digest(text.replacen(&model, &settings.model.frozen(), 1)))
}
