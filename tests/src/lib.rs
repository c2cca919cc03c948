//! What the integration tests in `tests/` share: the golden fixtures, random batches and parameters.

use std::path::{Path, PathBuf};

use gradus_model::Batch;
use gradus_tensor::Tensor;
use gradus_tensor::rng::Philox;
use safetensors::{Dtype, SafeTensors};

/// The directory of the fixtures that `transformers` made.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// The language models among the fixtures, by directory.
pub fn golden_models() -> Vec<PathBuf> {
    golden_directories(|name| !name.starts_with("heads-") && !name.starts_with("lstm-"))
}

/// The directories of models whose name is one of these.
pub fn golden_directories(chosen: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(golden()).expect("tests/golden exists");
    let mut dirs: Vec<PathBuf> = entries
        .map(|e| e.expect("readable").path())
        .filter(|p| p.join("config.json").exists() && chosen(&p.file_name().unwrap_or_default().to_string_lossy()))
        .collect();
    dirs.sort();
    dirs
}

/// Arrays of a fixture by name.
#[derive(Debug)]
pub struct Arrays(Vec<u8>);

impl Arrays {
    /// Reads a file of arrays.
    pub fn read(path: &Path) -> Self {
        Arrays(std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
    }

    /// The names in the file.
    pub fn names(&self) -> Vec<String> {
        let file = SafeTensors::deserialize(&self.0).expect("a safetensors file");
        file.names().into_iter().map(str::to_owned).collect()
    }

    /// A floating-point array (f64 or f32), as f64.
    pub fn get(&self, name: &str) -> Tensor<f64> {
        let file = SafeTensors::deserialize(&self.0).expect("a safetensors file");
        let view = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let values = match view.dtype() {
            Dtype::F64 => view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            Dtype::F32 => view.data().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
            other => panic!("{name}: F64 or F32, found {other:?}"),
        };
        Tensor::new(view.shape(), values)
    }

    /// An array of token ids, and its shape.
    pub fn ids(&self, name: &str) -> (Vec<u32>, Vec<usize>) {
        let file = SafeTensors::deserialize(&self.0).expect("a safetensors file");
        let view = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(view.dtype(), Dtype::I64, "{name}");
        let ids = view.data().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as u32).collect();
        (ids, view.shape().to_vec())
    }
}

/// Sequences of random tokens, each of which predicts a random one: as many as there are weights.
pub fn random_batch(rng: &mut Philox, vocab: usize, sequences: usize, weights: Vec<f64>) -> Batch {
    let mut ids = || weights.iter().map(|_| rng.below(vocab as u64) as u32).collect::<Vec<_>>();
    let (inputs, targets) = (ids(), ids());
    Batch { sequences, inputs: inputs.into(), targets: targets.into(), weights: weights.into(), labels: None }
}

/// For `Tree::map`: p + 0.1·N(0, 1), each leaf from random numbers of its own. Gains and biases are off 1 and 0 then, where some
/// gradients would vanish.
pub fn shaken(seed: u64) -> impl FnMut(&str, Tensor<f64>) -> Tensor<f64> {
    let mut stream = 0;
    move |_, p| {
        stream += 1;
        let noise = Tensor::normal(*p.shape(), 1.0, &mut Philox::with_stream(seed, stream));
        p.zip(&noise, |p, n| p + 0.1 * n)
    }
}

/// The largest difference, relative to the largest entry of `expected`.
pub fn worst(found: &Tensor<f64>, expected: &Tensor<f64>) -> f64 {
    assert_eq!(found.shape(), expected.shape());
    let largest = |t: &Tensor<f64>| t.to_vec().iter().fold(0.0f64, |m, x| m.max(x.abs()));
    largest(&found.zip(expected, |a, b| a - b)) / largest(expected).max(f64::MIN_POSITIVE)
}
