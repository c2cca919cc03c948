//! A step that failed, kept so that it can be repeated on its own.
//!
//! ```text
//! DIR/  config.json, model.safetensors     the parameters before it, in Hugging Face's format
//!       step.json                          its number, the recipe with the seed of its noise, its batch, and the error
//! ```

use std::path::{Path, PathBuf};

use gradus_io::checksums;
use gradus_io::files::{FileError, replace_directory};
use gradus_model::checkpoint::{self, CheckpointError};
use gradus_model::{Batch, Form, HeadConfig, Labels, Model, ModelConfig};
use gradus_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::{Recipe, TrainError, Trainer};
use crate::model_dir::{self, ModelDirError};
use crate::precision::{self, Precision};

/// The directory's name beside a run's files.
pub const ANOMALY: &str = "anomaly";
const STEP: &str = "step.json";

/// Why a kept step could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum DumpError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Model(#[from] ModelDirError),
    #[error("{path}: {problem}; give the `anomaly` directory of a run that stopped at a non-finite number")]
    Damaged { path: PathBuf, problem: String },
}

/// The contents of `step.json`.
#[derive(Serialize, Deserialize)]
struct KeptStep {
    #[serde(rename = "update")]
    step: u64,
    error: String,
    recipe: Recipe,
    #[serde(default, skip_serializing_if = "Precision::is_full")]
    precision: Precision,
    #[serde(flatten)]
    batch: Batch,
}

/// A step that was kept, to be made again.
#[derive(Debug)]
pub struct Replay {
    /// The trainer before it, on the CPU. Moments are not kept: they matter only after the gradient.
    pub trainer: Trainer,
    /// Its batch.
    pub batch: Batch,
    /// How precisely it multiplied.
    pub precision: Precision,
    /// The error that it ended with.
    pub error: String,
}

impl Trainer {
    /// Keeps the step that ended with this error. The directory's contents are replaced, whole or not at all.
    pub fn dump(&self, batch: &Batch, error: &TrainError, dir: &Path) -> Result<(), DumpError> {
        let (error, recipe, batch) = (error.to_string(), self.recipe.clone(), batch.clone());
        let (step, precision) = (self.done + 1, Precision::of(&self.device()));
        let text = serde_json::to_vec(&KeptStep { step, error, recipe, precision, batch }).expect("plain values");
        let mut files = checkpoint::files(&self.params).map_err(CheckpointError::from)?;
        files.push((STEP, text));
        Ok(replace_directory(dir, |fresh| checksums::write(fresh, &files))?)
    }

    /// [`Trainer::dump`] beside a run's files if a number was non-finite, and a line that says so: how to repeat the step, or why
    /// it was not kept.
    pub fn keep(&self, batch: &Batch, error: &TrainError, run: &Path) -> Option<String> {
        if !matches!(error, TrainError::NotFinite { .. } | TrainError::Anomaly { .. }) {
            return None;
        }
        let dir = run.join(ANOMALY);
        Some(match self.dump(batch, error, &dir) {
            Ok(()) => {
                let on = precision::named(&self.device()).map_or(String::new(), |device| format!(" --device '{device}'"));
                format!("the step is kept in {0}; `gradus audit replay {0}{on}` repeats it", dir.display())
            }
            Err(e) => format!("the step could not be kept: {e}"),
        })
    }

    /// The step that was kept in a directory.
    pub fn replay(dir: &Path) -> Result<Replay, DumpError> {
        let path = dir.join(STEP);
        if !path.exists() && dir.join(ANOMALY).join(STEP).exists() {
            let problem = format!("this is the run's own directory; its step is in {}", dir.join(ANOMALY).display());
            return Err(DumpError::Damaged { path: dir.to_owned(), problem });
        }
        let text = checksums::read(dir, STEP)?;
        Self::replay_of(&path, &text, || Ok(model_dir::load(dir)?))
    }

    /// The same from the bytes of `step.json`, whose errors name `path`, and the parameters.
    ///
    /// # Errors
    /// [`DumpError::Damaged`], and those of `params`.
    pub fn replay_of(
        path: &Path,
        bytes: &[u8],
        params: impl FnOnce() -> Result<Model<Tensor<f32>>, DumpError>,
    ) -> Result<Replay, DumpError> {
        let damaged = |problem: String| DumpError::Damaged { path: path.to_owned(), problem };
        let kept: KeptStep = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
        let params = params()?;
        fits(&kept.batch, &params.config()).map_err(damaged)?;
        let mut trainer = Trainer::new(kept.recipe, params);
        trainer.done = kept.step.saturating_sub(1);
        Ok(Replay { trainer, batch: kept.batch, precision: kept.precision, error: kept.error })
    }
}

/// Checks that this model can read the batch.
fn fits(batch: &Batch, config: &ModelConfig) -> Result<(), String> {
    let (n, targets, weights) = (batch.inputs.len(), batch.targets.len(), batch.weights.len());
    let vocab = config.backbone.vocab();
    let whole = batch.sequences > 0 && n > 0 && n.is_multiple_of(batch.sequences) && batch.length() <= config.backbone.context();
    if !whole || targets != n || weights != n {
        return Err(format!(
            "expected sequences of one length within the context, with a target and a weight for each token; found {} sequences, {n} tokens, {targets} targets and {weights} weights",
            batch.sequences
        ));
    }
    if let Some(id) = batch.inputs.iter().chain(&batch.targets[..]).find(|&&id| id as usize >= vocab) {
        return Err(format!("expected token ids below {vocab}, the model's vocabulary, found {id}"));
    }
    let labelled = |l: &Labels, head: &HeadConfig| {
        let examples = l.weights.len();
        let extracts = l.extract.len() == batch.sequences && l.extract.iter().all(|&at| (at as usize) < batch.length());
        let (each, classes) = match head.form {
            Form::Classify => (1, head.classes),
            Form::Similar => (2, head.classes),
            Form::Choose => (l.per_example, l.per_example),
        };
        let whole = examples > 0 && examples.checked_mul(l.per_example) == Some(batch.sequences);
        extracts && whole && l.per_example == each && l.targets.len() == examples * classes
    };
    let fits = match (&batch.labels, &config.head) {
        (Some(labels), Some(head)) => labelled(labels, head),
        (labels, head) => labels.is_none() && head.is_none(),
    };
    if fits { Ok(()) } else { Err("found labels that do not belong to these sequences, or to this model".into()) }
}
