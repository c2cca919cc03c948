//! A pre-training run as stored in its directory: what `--resume` continues, and what can be inspected.

use std::path::{Path, PathBuf};

use gradus_io::checksums;
use gradus_io::progress::Monitor;
use gradus_model::checkpoint::WEIGHTS_FILE;
use gradus_model::{Batch, Model, Objective};
use gradus_text::Tokenizer;
use gradus_world::World;
use serde::{Deserialize, Serialize};

use super::{Corpus, PretrainControl, PretrainError, PretrainSettings, TextSource, Validation, Viewer, WorldSource, weighted};
use crate::precision::Precision;
use crate::run::{self, Manifest, Past, RunError, load_state};
use crate::trainer::{Recipe, StateError, TRAINER_FILE, Trainer};

/// What a pre-training run was begun with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PretrainManifest {
    /// Its settings.
    pub settings: PretrainSettings,
    /// Its corpus; `None`: the micro-world.
    pub corpus: Option<PathBuf>,
    /// The micro-world's name, with its version; `None`: a corpus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// Number of steps of the whole run.
    pub steps: u64,
    /// Digest of its data.
    pub digest: String,
    /// The command that began it.
    pub command: String,
    /// The GPU that it was begun on; `None`: the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// How precisely it multiplies.
    #[serde(default, skip_serializing_if = "Precision::is_full")]
    pub precision: Precision,
}

impl Manifest for PretrainManifest {
    const COMMAND: &'static str = "pretrain";

    fn precision(&mut self) -> &mut Precision {
        &mut self.precision
    }
}

impl run::SharedManifest for PretrainManifest {
    const COMMAND: &'static str = <Self as Manifest>::COMMAND;
}

impl PretrainManifest {
    /// What the trainer needs of it.
    pub(super) fn recipe(&self) -> Recipe {
        self.settings.recipe(self.steps)
    }

    /// Changes with everything that the run's parameters depend on.
    pub(super) fn identity(&self) -> String {
        let settings = PretrainSettings { recompute: false, ..self.settings.clone() };
        gradus_io::identity(&(settings, self.steps, &self.digest, self.precision.products.to_string()))
    }
}

/// A run after its last checkpoint.
pub struct Stored {
    /// Its directory.
    pub dir: PathBuf,
    /// What it was begun with.
    pub manifest: PretrainManifest,
    /// Its data.
    pub source: Box<dyn TextSource>,
    /// How it is viewed; `None`: the next token is asked.
    pub viewer: Option<Viewer>,
    /// Its model, moments and number of steps.
    pub trainer: Trainer,
    /// How far it has come.
    pub past: Past,
    /// The lowest held-out loss so far, over the tokens that the evaluations before the last read.
    pub(super) best: f64,
}

/// What is kept with the trainer's state.
#[derive(Serialize, Deserialize)]
pub(super) struct Progress {
    /// The lowest held-out loss so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<f64>,
}

impl Stored {
    /// Reads a run. Nothing is written but the tokens of its corpus into `cache`, if they are missing.
    ///
    /// # Errors
    /// No run, a damaged one, or a corpus that is not the one it began with.
    pub fn read(dir: &Path, cache: &Path, monitor: &dyn Monitor) -> Result<Self, PretrainError> {
        let manifest = PretrainManifest::read(dir)?;
        let settings = &manifest.settings;
        let here = World::named(settings.retold).name();
        if let Some(begun) = manifest.world.as_ref().filter(|begun| **begun != here) {
            let problem =
                format!("it was begun in {begun}, and this gradus has {here}; continue it with the gradus that began it");
            return Err(RunError::Resume { problem }.into());
        }
        settings.check()?;
        let tokenizer = Tokenizer::load(dir)?;
        let source: Box<dyn TextSource> = match &manifest.corpus {
            Some(path) => Box::new(Corpus::open(settings, path, tokenizer, cache, monitor)?),
            None => Box::new(WorldSource::new(settings, Some(tokenizer))?),
        };
        if source.digest() != manifest.digest {
            let problem = "the corpus has changed since the run began; put the old one back, or begin a new run".into();
            return Err(RunError::Resume { problem }.into());
        }
        let viewer = Viewer::new(settings, &*source)?;
        let (model, recipe) = (settings.model_config(), manifest.recipe());
        let found = load_state(dir, model.clone(), &recipe, &manifest.identity(), monitor).map_err(RunError::from)?;
        let (trainer, best, past) = match found {
            Some((trainer, Progress { best }, past)) => (trainer, best.unwrap_or(f64::INFINITY), past),
            // With sums, a state that was never there is told from one that was lost.
            None if !checksums::check(dir, &[TRAINER_FILE])? && dir.join(WEIGHTS_FILE).exists() => {
                let problem = "this file is missing, though the run has a model".into();
                return Err(RunError::from(StateError::Damaged { path: dir.join(TRAINER_FILE), problem }).into());
            }
            // Stopped before its first checkpoint: the seed alone determines where it began.
            None => (Trainer::new(recipe, Model::init(&model, settings.seed)), f64::INFINITY, Past::NONE),
        };
        Ok(Stored { dir: dir.to_owned(), manifest, source, viewer, trainer, past, best })
    }

    /// Tells the other processes of the run what it is.
    pub(super) fn share(&self, control: &PretrainControl<'_>) -> Result<(), RunError> {
        let Stored { manifest, source, trainer, .. } = self;
        run::share(manifest, source.tokenizer().files(), &manifest.digest, trainer, &control.run)
    }

    /// The first `sequences` of the batch of step `t`.
    pub fn batch(&self, t: u64, sequences: usize) -> Batch {
        batch(&*self.source, self.viewer.as_ref(), self.manifest.settings.objective, t, sequences)
    }

    /// The loss on at most `limit` held-out tokens; `None` where nothing is held out.
    pub fn validate(&self, limit: usize) -> Option<Validation> {
        let (source, model) = (&*self.source, &self.trainer.params);
        match &self.viewer {
            None => source.validate(model, limit),
            Some(viewer) => viewer.validate(source, model, limit),
        }
    }

    /// The number of held-out tokens that [`Stored::validate`] reads with this limit.
    pub(super) fn validated(&self, limit: usize) -> u64 {
        validated(&*self.source, self.viewer.as_ref(), limit)
    }
}

/// The first `rows` of the batch of step `t`.
pub(super) fn batch(source: &dyn TextSource, viewer: Option<&Viewer>, objective: Objective, t: u64, rows: usize) -> Batch {
    match viewer {
        None => weighted(source.batch(t, rows), objective),
        Some(viewer) => viewer.batch(source, t, rows),
    }
}

/// The number of held-out tokens that an evaluation with this limit reads.
pub(super) fn validated(source: &dyn TextSource, viewer: Option<&Viewer>, limit: usize) -> u64 {
    match viewer {
        None => source.validated(limit),
        Some(_) => Viewer::validated(source, limit),
    }
}
