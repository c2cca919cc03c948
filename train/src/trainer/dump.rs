//! A failed step, saved so that it can be repeated.
//!
//! ```text
//! DIR/  config.json, model.safetensors     the parameters before the step, in Hugging Face's format
//!       step.json                          the step's number, recipe with the seed of dropout, batch, and error
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use gradus_io::checksums;
use gradus_io::disk::parent;
use gradus_io::files::FileError;
use gradus_model::checkpoint::{self, CheckpointError};
use gradus_model::{Batch, Model};
use gradus_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::{Recipe, TrainError, Trainer};
use crate::model_dir::{self, ModelDirError};
use crate::trainer::precision::{self, Precision};

/// The name of the directory of a saved step, in a run's directory.
pub const ANOMALY: &str = "anomaly";
const STEP: &str = "step.json";

/// The reason why a saved step could not be read or written.
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
    step: u64,
    error: String,
    recipe: Recipe,
    #[serde(default, skip_serializing_if = "Precision::is_full")]
    precision: Precision,
    #[serde(flatten)]
    batch: Batch,
}

/// A saved step, to be repeated.
#[derive(Debug)]
pub struct Replay {
    /// The trainer before the step, on the CPU. Moments are not saved: they matter only after the gradient.
    pub trainer: Trainer,
    /// The batch.
    pub batch: Batch,
    /// The precision of the step's products.
    pub precision: Precision,
    /// The error with which the step ended.
    pub error: String,
}

impl Trainer {
    /// Saves the step that ended with this error. The directory's contents are replaced atomically.
    pub fn dump(&self, batch: &Batch, error: &TrainError, dir: &Path) -> Result<(), DumpError> {
        let (error, recipe, batch) = (error.to_string(), self.recipe.clone(), batch.clone());
        let (step, precision) = (self.done + 1, Precision::of(&self.device()));
        let text = serde_json::to_vec(&KeptStep { step, error, recipe, precision, batch }).expect("plain values");
        let mut files = checkpoint::files(&self.params).map_err(CheckpointError::from)?;
        files.push((STEP, text));
        let name = dir.file_name().and_then(OsStr::to_str).unwrap_or(ANOMALY);
        Ok(checksums::replace_within(parent(dir), name, &files)?)
    }

    /// Saves the step in a run's directory ([`Trainer::dump`]) if a number was non-finite. Returns a line that states how to
    /// repeat the step, or why it could not be saved.
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

    /// Reads the step saved in a directory.
    pub fn replay(dir: &Path) -> Result<Replay, DumpError> {
        let path = dir.join(STEP);
        if !path.exists() && dir.join(ANOMALY).join(STEP).exists() {
            let problem = format!("this is the run's own directory; its step is in {}", dir.join(ANOMALY).display());
            return Err(DumpError::Damaged { path: dir.to_owned(), problem });
        }
        if !path.exists() {
            let problem = "it is missing; a run writes it when a value is not finite".into();
            return Err(DumpError::Damaged { path, problem });
        }
        let text = checksums::read(dir, STEP)?;
        Self::replay_of(&path, &text, || Ok(model_dir::read(dir)?))
    }

    /// Decodes a saved step from the bytes of `step.json`, whose errors name `path`, and the parameters.
    ///
    /// # Errors
    /// Returns [`DumpError::Damaged`] if the bytes are malformed or do not fit the model, or the error of `params`.
    pub fn replay_of(
        path: &Path,
        bytes: &[u8],
        params: impl FnOnce() -> Result<Model<Tensor<f32>>, DumpError>,
    ) -> Result<Replay, DumpError> {
        let damaged = |problem: String| DumpError::Damaged { path: path.to_owned(), problem };
        let kept: KeptStep = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
        let params = params()?;
        kept.batch.check(&params.config()).map_err(damaged)?;
        let mut trainer = Trainer::new(kept.recipe, params);
        trainer.done = kept.step.saturating_sub(1);
        Ok(Replay { trainer, batch: kept.batch, precision: kept.precision, error: kept.error })
    }
}

#[cfg(test)]
mod tests {
    use gradus_model::check::tiny_gpt;
    use gradus_tensor::DeviceError;
    use gradus_tensor::device::MatmulPrecision;

    use super::*;

    #[test]
    fn only_steps_with_a_non_finite_number_are_stored() {
        let run = tempfile::tempdir().unwrap();
        let mut trainer: Trainer = Trainer::new(Recipe::new(5, 1), Model::init(&tiny_gpt(), 1));
        let batch = Batch::next(4, [1; 12], [2; 12], [0.5; 12]);
        trainer.step(&batch).unwrap();
        for error in [TrainError::Device { step: 2, error: DeviceError::NotBuilt }, TrainError::Broken { name: "x".into() }] {
            assert_eq!(trainer.keep(&batch, &error, run.path()), None);
        }
        assert!(!run.path().join(ANOMALY).exists());
        let error =
            TrainError::NotFinite { step: 2, loss: f64::NAN, norm: 1.0, matmul_precision: MatmulPrecision::F32, anomaly: None };
        let message = trainer.keep(&batch, &error, run.path()).unwrap();
        let kept = run.path().join(ANOMALY);
        assert_eq!(message, format!("the step is kept in {0}; `gradus audit replay {0}` repeats it", kept.display()));
        let replay = Trainer::replay(&kept).unwrap();
        assert_eq!((replay.trainer.done(), &replay.batch, replay.error), (1, &batch, error.to_string()));
        assert!(replay.trainer.params == trainer.params);
        let own = Trainer::replay(run.path()).unwrap_err().to_string();
        assert!(own.contains("this is the run's own directory"), "{own}");
        assert!(Trainer::replay(&kept.join("none")).unwrap_err().to_string().contains("step.json"));
        // A run's directory with a step.json is read as a saved step.
        std::fs::write(run.path().join(STEP), "{").unwrap();
        let damaged = Trainer::replay(run.path()).unwrap_err().to_string();
        assert!(!damaged.contains("own directory"), "{damaged}");
        let nowhere = trainer.keep(&batch, &error, &run.path().join(STEP)).unwrap(); // a file, not a folder
        assert!(nowhere.starts_with("the step could not be kept: "), "{nowhere}");
    }
}
