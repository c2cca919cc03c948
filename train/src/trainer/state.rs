//! The trainer's state in one file, so that it is whole or absent: parameters, both moments, and the number of steps.
//!
//! All other inputs of a run (data order, dropout, schedule) are functions of the seed and the number of steps.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use gradus_io::disk;
use gradus_io::files::{FileError, write_atomically};
use gradus_model::checkpoint::StoredTensor;
use gradus_model::{Model, ModelConfig, Param, Tree};
use gradus_tensor::{Device, DeviceError, Tensor};
use safetensors::{Dtype, SafeTensors};

use super::{Recipe, Trainer};

/// The file's name in a run's directory.
pub const TRAINER_FILE: &str = "trainer.safetensors";
/// The name of the previous state, which is used if the last one is damaged.
pub const PREVIOUS_FILE: &str = "trainer.previous.safetensors";

/// The reason why a trainer's state could not be saved or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum StateError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path}: {problem}; the run cannot be continued, but the model beside this file can still be evaluated and used")]
    Damaged { path: PathBuf, problem: String },
    #[error(
        "{path}: it does not belong to the run.json beside it (other settings, seed or data); put back the file that was changed"
    )]
    Another { path: PathBuf },
}

impl Trainer {
    /// Writes the state; the previous file survives any failure. `extra` is stored in the same file, for the caller.
    pub fn save(&self, path: &Path, extra: &str) -> Result<(), StateError> {
        let bytes = self.state(extra)?;
        Ok(write_atomically(path, |file| file.write_all(&bytes))?)
    }

    /// Returns the state as the bytes of its file.
    ///
    /// # Errors
    /// Returns an error if the parameters' GPU fails.
    pub fn state(&self, extra: &str) -> Result<Vec<u8>, StateError> {
        let mut all = Vec::new();
        let [params, m, v] = [self.params.to(&Device::CPU)?, self.m.to(&Device::CPU)?, self.v.to(&Device::CPU)?];
        for (kind, tree) in [("params", &params), ("m", &m), ("v", &v)] {
            tree.as_ref().visit(|name, t| all.push((format!("{kind}.{name}"), StoredTensor(t))));
        }
        let metadata = HashMap::from([("steps".to_owned(), self.done.to_string()), ("extra".to_owned(), extra.to_owned())]);
        Ok(safetensors::serialize(all, Some(metadata)).expect("each view has the length of its shape"))
    }

    /// Reads the file that [`Trainer::save`] wrote for this configuration. Returns the trainer and `extra`.
    pub fn load(path: &Path, config: ModelConfig, recipe: Recipe) -> Result<(Self, String), StateError> {
        let bytes = disk::read(path).map_err(|e| FileError::new("read", path, e))?;
        Self::from_state(path, &bytes, config, recipe)
    }

    /// Decodes the bytes of the file; errors name `path`.
    ///
    /// # Errors
    /// Returns [`StateError::Damaged`] if the bytes are malformed or do not fit the configuration.
    pub fn from_state(path: &Path, bytes: &[u8], config: ModelConfig, recipe: Recipe) -> Result<(Self, String), StateError> {
        let damaged = |problem: String| StateError::Damaged { path: path.to_owned(), problem };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| damaged(e.to_string()))?;
        let (done, extra) = metadata(header.metadata()).map_err(damaged)?;
        let file = SafeTensors::deserialize(bytes).map_err(|e| damaged(e.to_string()))?;
        let tree = |kind: &str| {
            let mut problem = None;
            let tree = Model::declare(&config).map(|name, Param { shape, .. }| match file.tensor(&format!("{kind}.{name}")) {
                Ok(view) if *view.shape() == shape[..] && view.dtype() == Dtype::F32 => {
                    let values = view.data().as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
                    Tensor::new(shape, values)
                }
                _ => {
                    problem.get_or_insert(format!("expected {kind}.{name} of shape {shape} in f32, found none or another"));
                    Tensor::zeros([0])
                }
            });
            problem.map_or(Ok(tree), |p| Err(damaged(p)))
        };
        let (params, m, v) = (tree("params")?, tree("m")?, tree("v")?);
        Ok((Trainer { m, v, done, ..Trainer::new(recipe, params) }, extra))
    }
}

fn metadata(found: &Option<HashMap<String, String>>) -> Result<(u64, String), String> {
    let fields = found.as_ref().ok_or("no metadata in the header")?;
    let steps = fields.get("steps").and_then(|n| n.parse().ok()).ok_or("metadata without a number of steps")?;
    Ok((steps, fields.get("extra").cloned().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use gradus_model::Objective;
    use gradus_model::check::{random_batch, tiny_gpt};
    use gradus_tensor::rng::Philox;
    use safetensors::tensor::TensorView;

    use super::*;

    fn recipe() -> Recipe {
        Recipe::new(20, 1)
    }

    fn trained() -> Trainer {
        let mut trainer: Trainer = Trainer::new(recipe(), Model::init(&tiny_gpt(), 1));
        let weights = Objective::TokenMean.weights(&[1.0; 8], 2);
        let batch = random_batch(&mut Philox::new(8), tiny_gpt().sizes.vocab, 2, weights);
        for _ in 0..3 {
            trainer.step(&batch).unwrap();
        }
        trainer
    }

    #[test]
    fn a_saved_trainer_state_loads_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(TRAINER_FILE);
        let trainer = trained();
        trainer.save(&path, "the caller's").unwrap();
        let (again, extra) = Trainer::load(&path, tiny_gpt(), recipe()).unwrap();
        assert_eq!((again.done, extra.as_str()), (3, "the caller's"));
        assert!(again.params == trainer.params && again.moments() == trainer.moments());
        let missing = Trainer::load(&folder.path().join("none"), tiny_gpt(), recipe()).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read "), "{missing}");
    }

    /// Returns the file with its tensors changed one by one, and other metadata.
    fn rewritten(change: impl Fn(&str, TensorView<'_>) -> (Dtype, Vec<usize>), metadata: &[(&str, &str)]) -> Vec<u8> {
        let bytes = trained().state("").unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let views = file.tensors().into_iter().map(|(name, view)| {
            let data = view.data();
            let (dtype, shape) = change(&name, view.clone());
            (name, TensorView::new(dtype, shape, data).unwrap())
        });
        let metadata = metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        safetensors::serialize(views.collect::<Vec<_>>(), Some(metadata)).unwrap()
    }

    #[test]
    fn an_invalid_state_is_rejected_by_name() {
        let loaded =
            |bytes: &[u8]| Trainer::from_state(Path::new("state"), bytes, tiny_gpt(), recipe()).map(|(trainer, _)| trainer.done);
        let refused = |bytes: &[u8], words: &str| {
            let error = loaded(bytes).unwrap_err().to_string();
            assert!(error.starts_with("state: ") && error.contains(words), "{error}");
        };
        let same = |_: &str, view: TensorView<'_>| (view.dtype(), view.shape().to_vec());
        let steps = [("steps", "7"), ("extra", "")];
        assert_eq!(loaded(&rewritten(same, &steps)).unwrap(), 7);
        let flat = |name: &str, view: TensorView<'_>| {
            let shape = if name == "m.h.0.mlp.c_fc.weight" { vec![view.shape().iter().product()] } else { view.shape().to_vec() };
            (view.dtype(), shape)
        };
        refused(&rewritten(flat, &steps), "expected m.h.0.mlp.c_fc.weight of shape [12, 48] in f32, found none or another");
        let whole = |name: &str, view: TensorView<'_>| {
            (if name == "v.tokens_embed.weight" { Dtype::I32 } else { view.dtype() }, view.shape().to_vec())
        };
        refused(&rewritten(whole, &steps), "expected v.tokens_embed.weight of shape [19, 12] in f32");
        refused(&rewritten(same, &[("steps", "many")]), "metadata without a number of steps");
        refused(&rewritten(same, &[("extra", "")]), "metadata without a number of steps");
        refused(b"not a file", "");
        let more = tiny_gpt().with_transformer(|c| c.layers = 3);
        let other = Trainer::from_state(Path::new("state"), &rewritten(same, &steps), more, recipe()).map(|_| ()).unwrap_err();
        assert!(other.to_string().contains("h.2.attn.c_attn.weight"), "{other}");
    }
}
