//! An update that could not be made, kept so that it can be made again alone.
//!
//! ```text
//! DIR/  config.json, model.safetensors     the parameters before it, in Hugging Face's format
//!       step.json                          its number, the recipe with the seed of its noise, its batch, and what was wrong
//! ```

use std::path::{Path, PathBuf};

use gradus_io::files::{FileError, replace_directory, write_atomically};
use gradus_model::checkpoint::{self, CheckpointError};
use gradus_model::{Batch, Form, HeadConfig, Labels, ModelConfig};
use serde::{Deserialize, Serialize};

use super::{Recipe, TrainError, Trainer};

/// The directory's name beside a run's files.
pub const ANOMALY: &str = "anomaly";
const STEP: &str = "step.json";

/// Why a kept update could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The file system said no.
    #[error(transparent)]
    File(#[from] FileError),
    /// The parameters are damaged.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The step is damaged.
    #[error("{path}: {problem}; give the `anomaly` directory of a run that stopped at a number that is not finite")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        problem: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Step {
    update: u64,
    error: String,
    recipe: Recipe,
    sequences: usize,
    inputs: Vec<u32>,
    targets: Vec<u32>,
    weights: Vec<f64>,
    labels: Option<StepLabels>,
}

#[derive(Serialize, Deserialize)]
struct StepLabels {
    per_example: usize,
    extract: Vec<u32>,
    targets: Vec<f64>,
    weights: Vec<f64>,
}

impl Trainer {
    /// Keeps the update that ended with this error. What stood in the directory is replaced, whole or not at all.
    ///
    /// # Errors
    /// [`DumpError::File`].
    pub fn dump(&self, batch: &Batch, error: &TrainError, dir: &Path) -> Result<(), DumpError> {
        let labels = batch.labels.as_ref().map(|l| StepLabels {
            per_example: l.per_example,
            extract: l.extract.to_vec(),
            targets: l.targets.to_vec(),
            weights: l.weights.to_vec(),
        });
        let step = Step {
            update: self.done + 1,
            error: error.to_string(),
            recipe: self.recipe.clone(),
            sequences: batch.sequences,
            inputs: batch.inputs.to_vec(),
            targets: batch.targets.to_vec(),
            weights: batch.weights.to_vec(),
            labels,
        };
        let text = serde_json::to_vec(&step).expect("plain values");
        replace_directory(dir, |fresh| -> Result<(), DumpError> {
            write_atomically(&fresh.join(STEP), |file| file.write_all(&text))?;
            Ok(checkpoint::save(fresh, &self.params)?)
        })
    }

    /// [`Trainer::dump`] beside a run's files where a number was not finite on the way, and a line that says so: how to see the
    /// update again, or why it was not kept.
    pub fn keep(&self, batch: &Batch, error: &TrainError, run: &Path) -> Option<String> {
        if !matches!(error, TrainError::NotFinite { .. } | TrainError::Anomaly { .. }) {
            return None;
        }
        let dir = run.join(ANOMALY);
        Some(match self.dump(batch, error, &dir) {
            Ok(()) => format!("the update is kept in {0}; `gradus audit replay {0}` makes it again", dir.display()),
            Err(e) => format!("the update could not be kept: {e}"),
        })
    }

    /// The trainer before a kept update, its batch, and what was said of it. The moments are not kept: they come after the gradient.
    ///
    /// # Errors
    /// Files that are not there, or damaged.
    pub fn replay(dir: &Path) -> Result<(Self, Batch, String), DumpError> {
        let path = dir.join(STEP);
        if !path.exists() && dir.join(ANOMALY).join(STEP).exists() {
            let problem = format!("the run's own directory, whose update is in {}", dir.join(ANOMALY).display());
            return Err(DumpError::Damaged { path: dir.to_owned(), problem });
        }
        let text = std::fs::read_to_string(&path).map_err(|e| FileError::new("read", &path, e))?;
        let damaged = |problem: String| DumpError::Damaged { path: path.clone(), problem };
        let step: Step = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        let params = checkpoint::load(dir)?;
        let labels = step.labels.map(|l| Labels {
            per_example: l.per_example,
            extract: l.extract.into(),
            targets: l.targets.into(),
            weights: l.weights.into(),
        });
        let batch = Batch {
            sequences: step.sequences,
            inputs: step.inputs.into(),
            targets: step.targets.into(),
            weights: step.weights.into(),
            labels,
        };
        fits(&batch, &params.config()).map_err(damaged)?;
        let mut trainer = Trainer::new(step.recipe, params);
        trainer.done = step.update.saturating_sub(1);
        Ok((trainer, batch, step.error))
    }
}

/// Is it a batch that this model can read?
fn fits(batch: &Batch, config: &ModelConfig) -> Result<(), String> {
    let (n, vocab) = (batch.inputs.len(), config.backbone.vocab());
    let whole = batch.sequences > 0 && n > 0 && n.is_multiple_of(batch.sequences) && batch.length() <= config.backbone.context();
    if !whole || batch.targets.len() != n || batch.weights.len() != n {
        return Err(format!(
            "{} sequences of {n} tokens in all, {} targets and {} weights",
            batch.sequences,
            batch.targets.len(),
            batch.weights.len()
        ));
    }
    if let Some(id) = batch.inputs.iter().chain(&batch.targets[..]).find(|&&id| id as usize >= vocab) {
        return Err(format!("token {id} in a vocabulary of {vocab}"));
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
    if fits { Ok(()) } else { Err("labels that do not belong to these sequences, or to this model".into()) }
}
