//! The program as people and scripts meet it: the real binary, its output, its errors and its exit codes.

mod audit;
mod bench;
mod evaluate;
mod finetune;
mod generate;
mod reproduce;
#[cfg(unix)]
mod resume;
mod tokenizer;
mod world;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gradus_model::{GptConfig, Model, ModelConfig, checkpoint};
use gradus_tensor::Tensor;
use gradus_text::Tokenizer;
use serde_json::Value;

/// What a run of the program left behind.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// `gradus` with these arguments, separated by spaces; `{}` stands for each of `paths` in turn.
#[track_caller]
fn command(line: &str, paths: &[&Path]) -> Command {
    let mut paths = paths.iter();
    let arguments = line.split_whitespace().map(|word| match word {
        "{}" => paths.next().expect("a path for each {}").as_os_str().to_owned(),
        word => word.into(),
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_gradus"));
    command.args(arguments);
    command
}

/// Runs [`command`] to its end.
#[track_caller]
fn gradus(line: &str, paths: &[&Path]) -> Run {
    command(line, paths).output().expect("the program starts").into()
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Run {
    /// The JSON object of a run that succeeded: the last line of stdout.
    #[track_caller]
    fn json(&self) -> Value {
        self.json_with(0)
    }

    /// The same of a run that ended with this exit code.
    #[track_caller]
    fn json_with(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        let value: Value = serde_json::from_str(self.stdout.lines().last().expect("a line")).expect("JSON");
        assert!(value.is_object(), "{value}");
        value
    }

    /// A run that failed with exit code 1, without a result, and whose error holds all of these words.
    #[track_caller]
    fn fails_with(&self, words: &[&str]) {
        self.ends_with(1, words);
    }

    /// The same with exit code 2: wrong usage.
    #[track_caller]
    fn misused(&self, words: &[&str]) {
        self.ends_with(2, words);
    }

    #[track_caller]
    fn ends_with(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        let named = self.stderr.lines().any(|line| line.starts_with("error: "));
        assert!(named && !self.stderr.contains("panicked"), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} in {}", self.stderr);
        }
    }
}

/// The directory of a fixture that `transformers` made.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

fn ids_of(value: &Value) -> Vec<u32> {
    value.as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("numbers").iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, content).expect("a file in a temporary directory");
    path
}

/// A rate in 10⁹ operations or bytes per second, that some computer of this decade may have.
#[track_caller]
fn giga(json: &Value, field: &str) -> f64 {
    let rate = json[field].as_f64().unwrap_or_else(|| panic!("{field} in {json}"));
    assert!((1e-4..1e6).contains(&rate), "{field}: {rate}");
    rate
}

/// Copies what a folder holds into another.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).unwrap();
        }
    }
}

/// A random byte-level model of context 8, saved with its tokenizer.
fn byte_model(dir: &Path, change: impl FnOnce(&mut GptConfig)) -> Model<Tensor<f32>> {
    let mut config =
        GptConfig { vocab: 256, context: 8, width: 12, layers: 2, heads: 3, initializer_range: 0.4, ..Default::default() };
    change(&mut config);
    let model = Model::init(&config.into(), 5);
    std::fs::create_dir_all(dir).expect("a directory");
    checkpoint::save(dir, &model).expect("saved");
    Tokenizer::bytes().save(dir).expect("saved");
    model
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    let wrong = [
        "evaluate",
        "evaluate --model m",
        "generate --model m --ids i",
        "nonsense",
        "evaluate --model m --corpus c --ids i",
        "bench train --workload huge",
        "generate --model m --ids i --tokens x",
        "generate --model m --ids i --tokens 1 --greedy --seed 1",
    ];
    for line in wrong {
        let run = gradus(line, &[]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{line}: {}", run.stderr);
    }
    for line in ["--help", "evaluate --help", "generate --help", "tokenizer train --help", "world --help", "bench train --help"] {
        let run = gradus(line, &[]);
        assert_eq!(run.code, Some(0), "{line}");
        assert!(run.stdout.contains("gradus "), "{line} has an example");
    }
    assert!(gradus("evaluate --help", &[]).stdout.contains("in nats"));
}
