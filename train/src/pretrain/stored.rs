//! A pre-training run as stored in its directory, to be resumed or inspected.

use std::path::{Path, PathBuf};

use gradus_io::checksums;
use gradus_io::progress::Monitor;
use gradus_model::checkpoint::WEIGHTS_FILE;
use gradus_model::{Batch, Model};
use gradus_text::Tokenizer;
use gradus_world::World;
use serde::{Deserialize, Serialize};

use super::{Corpus, PretrainControl, PretrainError, PretrainSettings, TextSource, Validation, Viewer, WorldSource};
use crate::run::{self, Manifest, Past, RunError, load_state};
use crate::trainer::precision::Precision;
use crate::trainer::{Recipe, StateError, TRAINER_FILE, Trainer};

/// The manifest of a pre-training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PretrainManifest {
    /// The settings of the run.
    #[serde(with = "used")]
    pub settings: PretrainSettings,
    /// The path of the corpus; `None`: the micro-world.
    pub corpus: Option<PathBuf>,
    /// The micro-world's name, with its version; `None`: a corpus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// The number of steps of the whole run.
    pub steps: u64,
    /// The digest of the data.
    pub digest: String,
    /// The command that began the run.
    pub command: String,
    /// The GPU on which the run began; `None`: the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The precision of products.
    #[serde(default, skip_serializing_if = "Precision::is_full")]
    pub precision: Precision,
}

impl Manifest for PretrainManifest {
    const COMMAND: &'static str = "pretrain";

    fn precision(&mut self) -> &mut Precision {
        &mut self.precision
    }

    fn has_steps(&self) -> bool {
        self.settings.order.is_none()
    }
}

impl run::SharedManifest for PretrainManifest {
    const COMMAND: &'static str = <Self as Manifest>::COMMAND;
}

/// The settings in `run.json`: a run that counts n-grams has only those of its texts.
mod used {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use serde_json::{Map, Value};

    use super::PretrainSettings;
    use crate::pretrain::PretrainOptions;

    /// The settings of training.
    const TRAINING: [&str; 11] = [
        "model",
        "optimizer",
        "schedule",
        "batch",
        "accumulate",
        "shards",
        "length",
        "clip",
        "objective",
        "eval_every",
        "eval_tokens",
    ];

    pub fn serialize<S: Serializer>(settings: &PretrainSettings, to: S) -> Result<S::Ok, S::Error> {
        let mut all = serde_json::to_value(settings).expect("plain values");
        if let (Some(_), Value::Object(all)) = (settings.order, &mut all) {
            all.retain(|name, _| !TRAINING.contains(&name.as_str()));
        }
        all.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PretrainSettings, D::Error> {
        let mut all = Map::deserialize(from)?;
        if all.contains_key("order") {
            let counts = PretrainOptions { backbone: Some("ngram".into()), ..PretrainOptions::default() };
            let Value::Object(rest) = serde_json::to_value(counts.settle().expect("a body")).expect("plain values") else {
                unreachable!("an object")
            };
            rest.into_iter()
                .filter(|(name, _)| TRAINING.contains(&name.as_str()))
                .for_each(|(name, value)| _ = all.insert(name, value));
        }
        serde_json::from_value(all.into()).map_err(D::Error::custom)
    }
}

impl PretrainManifest {
    /// Returns an error that describes the run in `dir` if it counted n-grams.
    pub(super) fn check_steps(&self, dir: &Path) -> Result<(), String> {
        let of_counts = "expected a network, found counts of n-grams, which have no steps; `gradus evaluate` measures them";
        if self.has_steps() { Ok(()) } else { Err(format!("{}: {of_counts}", dir.display())) }
    }

    /// Returns the settings of the trainer.
    pub(super) fn recipe(&self) -> Recipe {
        self.settings.recipe(self.steps)
    }

    /// Opens the data of the run in a directory. Writes only the tokens of its corpus, into `cache`, if they are missing there.
    ///
    /// # Errors
    /// Returns an error if the corpus or the micro-world has changed since the run began.
    pub fn source(&self, dir: &Path, cache: &Path, monitor: &dyn Monitor) -> Result<Box<dyn TextSource>, PretrainError> {
        let settings = &self.settings;
        let here = World::named(settings.retold).name();
        if let Some(begun) = self.world.as_ref().filter(|begun| **begun != here) {
            let problem = format!(
                "it was begun with {begun}, and this version of gradus has {here}; continue it with the version that began it"
            );
            return Err(RunError::Resume { problem }.into());
        }
        settings.check().map_err(|e| RunError::Resume { problem: format!("{}: {e}", dir.join(run::FILE).display()) })?;
        let tokenizer = Tokenizer::load(dir)?;
        let source: Box<dyn TextSource> = match &self.corpus {
            Some(path) => Box::new(Corpus::open(settings, path, tokenizer, cache, monitor)?),
            None if self.world.is_some() => Box::new(WorldSource::new(settings, Some(tokenizer))?),
            None => {
                let problem = format!("{}: expected a corpus or a world, found neither", dir.join(run::FILE).display());
                return Err(RunError::Resume { problem }.into());
            }
        };
        if source.digest() != self.digest {
            let problem = "the corpus has changed since the run began; put the old one back, or begin a new run".into();
            return Err(RunError::Resume { problem }.into());
        }
        Ok(source)
    }

    /// Returns a digest that changes with everything that the run's parameters depend on.
    pub(super) fn identity(&self) -> String {
        let settings = PretrainSettings { recompute: false, ..self.settings.clone() };
        gradus_io::identity(&(settings, self.steps, &self.digest, self.precision.products.to_string()))
    }
}

/// A run after its last checkpoint.
pub struct Stored {
    /// The directory of the run.
    pub dir: PathBuf,
    /// The manifest.
    pub manifest: PretrainManifest,
    /// The data.
    pub source: Box<dyn TextSource>,
    /// The views of the texts.
    pub viewer: Viewer,
    /// The trainer, with the model, the moments and the number of steps.
    pub trainer: Trainer,
    /// The progress of the run before this session.
    pub past: Past,
    /// The lowest held-out loss so far, over the tokens that the evaluations before the last read.
    pub(super) best: f64,
}

/// The values stored with the trainer's state.
#[derive(Serialize, Deserialize)]
pub(super) struct Progress {
    /// The lowest held-out loss so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<f64>,
}

impl Stored {
    /// Reads a run. Only the tokens of its corpus are written, into `cache`, if they are missing there.
    ///
    /// # Errors
    /// Returns an error if the directory has no run or a damaged one, or if the corpus has changed.
    pub fn read(dir: &Path, cache: &Path, monitor: &dyn Monitor) -> Result<Self, PretrainError> {
        let manifest = PretrainManifest::read(dir)?;
        manifest.check_steps(dir).map_err(|problem| RunError::Resume { problem })?;
        let (settings, source) = (&manifest.settings, manifest.source(dir, cache, monitor)?);
        let viewer = Viewer::new(settings, &*source)?;
        let (model, recipe) = (settings.model.clone(), manifest.recipe());
        let found = load_state(dir, model.clone(), &recipe, &manifest.identity(), monitor).map_err(RunError::from)?;
        let (trainer, best, past) = match found {
            Some((trainer, Progress { best }, past)) => (trainer, best.unwrap_or(f64::INFINITY), past),
            // Checksums distinguish a state that never existed from a lost state.
            None if !checksums::check(dir, &[TRAINER_FILE])? && dir.join(WEIGHTS_FILE).exists() => {
                let problem = "this file is missing, though the run has a model".into();
                return Err(RunError::from(StateError::Damaged { path: dir.join(TRAINER_FILE), problem }).into());
            }
            // The run stopped before its first checkpoint: its beginning depends only on the seed.
            None => (Trainer::new(recipe, Model::init(&model, settings.seed)), f64::INFINITY, Past::NONE),
        };
        Ok(Stored { dir: dir.to_owned(), manifest, source, viewer, trainer, past, best })
    }

    /// Sends the run to its other processes.
    pub(super) fn share(&self, control: &PretrainControl<'_>) -> Result<(), RunError> {
        let Stored { manifest, source, trainer, .. } = self;
        run::share(manifest, source.tokenizer().files(), &manifest.digest, trainer, &control.run)
    }

    /// Returns the first `sequences` of the batch of step `t`.
    pub fn batch(&self, t: u64, sequences: usize) -> Batch {
        self.viewer.batch(&*self.source, t, sequences)
    }

    /// Computes the loss on at most `limit` held-out tokens; `None` if no text is held out.
    pub fn validate(&self, limit: usize) -> Option<Validation> {
        self.viewer.validate(&*self.source, &self.trainer.params, limit)
    }

    /// Returns the number of held-out tokens that [`Stored::validate`] reads with this limit.
    pub(super) fn validated(&self, limit: usize) -> u64 {
        self.viewer.validated(&*self.source, limit)
    }
}
