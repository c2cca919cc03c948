//! A run as it stands in its directory: what `--resume` goes on from, and what can be looked at.

use std::path::Path;

use gradus_model::{Batch, Model, ModelConfig};

use super::corpus::Corpus;
use super::run_dir::{RunDir, RunFile};
use super::source::{Source, weighted};
use super::world::WorldSource;
use super::{PretrainError, Tokenizer, Trainer};
use crate::progress::Display;

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
    pub fn read(path: &Path, cache: &Path, display: Display) -> Result<Self, PretrainError> {
        let (dir, run) = RunDir::open(path)?;
        run.settings.check()?;
        let tokenizer = Tokenizer::load(dir.path())?;
        let source: Box<dyn Source> = match &run.corpus {
            Some(path) => Box::new(Corpus::open(&run.settings, path, tokenizer, cache, display)?),
            None => Box::new(WorldSource::new(&run.settings, Some(tokenizer))?),
        };
        if source.digest() != run.digest {
            let problem = "the corpus is not the one the run began with; put that one back, or begin a new run".into();
            return Err(PretrainError::Resume { problem });
        }
        let (model, recipe) = (run.settings.model.clone(), run.settings.recipe(run.updates));
        let (trainer, extra) = if dir.trainer().exists() {
            Trainer::load(&dir.trainer(), model, recipe)?
        } else {
            // Stopped before its first checkpoint: the seed alone determines where it began.
            let params = Model::init(&ModelConfig::from(model.clone()), run.settings.seed);
            (Trainer::new(model, recipe, params), String::new())
        };
        Ok(Stored { dir, run, source, trainer, seconds: extra.parse().unwrap_or(0.0) })
    }

    /// The first `sequences` of the batch that the next update is made of.
    pub fn next_batch(&self, sequences: usize) -> Batch {
        weighted(self.source.batch(self.trainer.done() + 1, sequences), self.run.settings.objective)
    }
}
