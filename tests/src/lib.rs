//! Code shared by the integration tests: the golden fixtures, batches and parameters; the parsers with their fuzz inputs; the
//! commands in documents.

pub mod allocations;
pub mod lines;
pub mod parsers;

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use gradus_model::{Batch, GradientMode, Model, Objective, Tree, checkpoint};
use gradus_tensor::{Real, Tensor};
use gradus_train::trainer::Trainer;
use safetensors::{Dtype, SafeTensors};

/// Returns the directory of the fixtures that `transformers` made.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Returns the directories of the language models among the fixtures.
pub fn golden_models() -> Vec<PathBuf> {
    golden_directories(|name| {
        ["heads-", "lstm-", "published-", "relative-", "tuned-"].iter().all(|other| !name.starts_with(other))
    })
}

/// Returns the directories of the models whose name `chosen` accepts.
pub fn golden_directories(chosen: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(golden()).expect("tests/golden exists");
    let mut dirs: Vec<PathBuf> = entries
        .map(|e| e.expect("readable").path())
        .filter(|p| p.join("config.json").exists() && chosen(&p.file_name().unwrap_or_default().to_string_lossy()))
        .collect();
    dirs.sort();
    dirs
}

/// The arrays of a fixture, by name.
#[derive(Debug)]
pub struct Arrays {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Arrays {
    /// Reads a file of arrays.
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Arrays { path: path.to_owned(), bytes }
    }

    fn file(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).expect("a safetensors file")
    }

    /// Returns the names in the file, in order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.file().names().into_iter().map(str::to_owned).collect();
        names.sort();
        names
    }

    /// Returns a floating-point array (f64 or f32), as f64.
    pub fn get(&self, name: &str) -> Tensor<f64> {
        let file = self.file();
        let view = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let values = match view.dtype() {
            Dtype::F64 => view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            Dtype::F32 => view.data().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
            other => panic!("{name}: expected F64 or F32, found {other:?}"),
        };
        Tensor::new(view.shape(), values)
    }

    /// Returns an array of token ids, and its shape.
    pub fn ids(&self, name: &str) -> (Vec<u32>, Vec<usize>) {
        let file = self.file();
        let view = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(view.dtype(), Dtype::I64, "{name}");
        let ids = view.data().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as u32).collect();
        (ids, view.shape().to_vec())
    }

    /// Asserts that values differ from an array by at most `tolerance` of its largest entry (by `tolerance` if it is all zeros).
    #[track_caller]
    pub fn assert_agrees<T: Real>(&self, name: &str, found: &Tensor<T>, tolerance: f64) {
        let (found, expected) = (found.cast(), self.get(name));
        // A parameter that shifts all answers of a head equally has a gradient of 0 up to rounding.
        let error = if largest(&expected) < 1e-15 { largest(&found) } else { worst(&found, &expected) };
        assert!(error <= tolerance, "{}: {name}: {error:e} of its largest entry, more than {tolerance:e}", self.path.display());
    }

    /// Asserts agreement for all arrays whose names begin with `prefix`: a tree's values, under Hugging Face's names.
    #[track_caller]
    pub fn assert_all_agree<T: Real>(&self, prefix: &str, found: &Model<Tensor<T>>, tolerance: f64) {
        self.assert_all_named_agree(prefix, checkpoint::theirs(found), tolerance);
    }

    /// Asserts agreement for tensors with their names.
    #[track_caller]
    pub fn assert_all_named_agree<T: Real>(&self, prefix: &str, mut found: Vec<(String, Tensor<T>)>, tolerance: f64) {
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let names: Vec<String> = found.iter().map(|(name, _)| format!("{prefix}{name}")).collect();
        let all: Vec<String> = self.names().into_iter().filter(|name| name.starts_with(prefix)).collect();
        assert_eq!(names, all, "{}: every array of {prefix}", self.path.display());
        names.iter().zip(&found).for_each(|(name, (_, value))| self.assert_agrees(name, value, tolerance));
    }

    /// Asserts that a model's loss on a batch agrees with `{prefix}loss`, and the gradient of each parameter with
    /// `{prefix}gradient.{parameter}`.
    #[track_caller]
    pub fn assert_loss_and_gradient_agree<T: Real>(
        &self,
        prefix: &str,
        model: &Model<Tensor<T>>,
        batch: &Batch,
        mode: GradientMode,
        tolerance: f64,
    ) {
        let (loss, gradient) = model.gradient(batch, None, mode);
        self.assert_agrees(&format!("{prefix}loss"), &loss, tolerance);
        let gradient = gradient.map(|name, g| g.unwrap_or_else(|| panic!("{}: no gradient of {name}", self.path.display())));
        self.assert_all_agree(&format!("{prefix}gradient."), &gradient, tolerance);
    }
}

/// Asserts that ten steps of a trainer agree with a fixture under `name`: losses, norms, factors of the rate, and each parameter
/// at the end.
#[track_caller]
pub fn assert_ten_steps_agree(mut trainer: Trainer<f64>, batch: impl Fn(usize) -> Batch, expected: &Arrays, name: &str) {
    // Rounding moves the numbers by at most 6e-11.
    const TOLERANCE: f64 = 1e-9;
    let seen: Vec<_> = (0..10).map(|t| trainer.step(&batch(t)).expect("finite")).collect();
    let series = |what: &str, of: &dyn Fn(usize) -> f64| {
        expected.assert_agrees(&format!("{name}.{what}"), &Tensor::new([10], (0..10).map(of).collect()), TOLERANCE);
    };
    series("loss", &|t| seen[t].loss);
    series("gradient_norm", &|t| seen[t].gradient_norm);
    series("schedule", &|t| seen[t].rate / trainer.recipe.optimizer.lr);
    expected.assert_all_agree(&format!("{name}.parameter."), &trainer.params, TOLERANCE);
    assert_eq!(trainer.done(), 10);
}

/// Returns a batch of sequences (B, T) whose first `lengths` tokens count: each of them except the last predicts the next.
pub fn next_tokens(ids: &[u32], lengths: &[u32], objective: Objective) -> Batch {
    let (b, t) = (lengths.len(), ids.len() / lengths.len());
    let predicts = |i: usize| i % t + 1 < lengths[i / t] as usize;
    let mask: Vec<f64> = (0..b * t).map(|i| if predicts(i) { 1.0 } else { 0.0 }).collect();
    let targets: Vec<u32> = (0..b * t).map(|i| if predicts(i) { ids[i + 1] } else { 0 }).collect();
    Batch::next(b, ids, targets, objective.weights(&mask, b))
}

/// Returns the largest difference, relative to the largest entry of `expected`.
pub fn worst(found: &Tensor<f64>, expected: &Tensor<f64>) -> f64 {
    assert_eq!(found.shape(), expected.shape());
    largest(&found.zip(expected, |a, b| a - b)) / largest(expected).max(f64::MIN_POSITIVE)
}

/// Returns both ends of a connection of this process with itself.
pub fn loopback() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    (near, listener.accept().expect("the connection").0)
}

fn largest(values: &Tensor<f64>) -> f64 {
    values.to_vec().iter().fold(0.0, |most: f64, x| most.max(x.abs()))
}
