//! Tests of the program: the real binary, its output, its errors and its exit codes.

mod audit;
mod bench;
mod bf16;
mod compare;
mod counts;
#[cfg(unix)]
mod damages;
mod devices;
mod documents;
mod evaluate;
mod finetune;
mod generate;
#[cfg(unix)]
mod kills;
#[cfg(all(target_os = "linux", feature = "distributed"))]
mod launch;
mod relatives;
mod release;
mod reproduce;
#[cfg(unix)]
mod resume;
mod survey;
mod tokenizer;
mod trust;
mod world;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gradus_model::{Model, ModelConfig, Sizes, Tree, checkpoint};
use gradus_tensor::Tensor;
use gradus_text::Tokenizer;
use serde_json::Value;

/// The result of a run of the program.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Returns `gradus` with the arguments of a line; `golden/NAME` is the directory of a fixture made by `transformers`.
fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gradus"));
    command.args(line.split_whitespace().map(|word| match word.strip_prefix("golden/") {
        Some(name) => golden(name).into_os_string(),
        None => OsString::from(word),
    }));
    command
}

/// Runs [`command`] to its end, if it reads and writes no files.
fn gradus(line: &str) -> Run {
    command(line).output().expect("the program starts").into()
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Run {
    /// Returns the output of a successful run.
    #[track_caller]
    fn printed(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        &self.stdout
    }

    /// Returns the JSON object of a successful run: the last line of stdout.
    #[track_caller]
    fn json(&self) -> Value {
        self.json_with(0)
    }

    /// Returns the JSON object of a run that ended with this exit code.
    #[track_caller]
    fn json_with(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        let value: Value = serde_json::from_str(self.stdout.lines().last().expect("a line")).expect("JSON");
        assert!(value.is_object(), "{value}");
        value
    }

    /// Asserts that the run failed with exit code 1, without a result, and that its error contains all of these words.
    #[track_caller]
    fn fails_with(&self, words: &[&str]) {
        self.ends_with(1, words);
    }

    /// Asserts that the run failed with exit code 2, wrong usage, and that its error contains all of these words.
    #[track_caller]
    fn misused(&self, words: &[&str]) {
        self.ends_with(2, words);
    }

    #[track_caller]
    fn ends_with(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        let named = self.stderr.lines().any(|line| line.starts_with("error: "));
        assert!(named && !self.stderr.contains("panicked"), "{}", self.stderr);
        assert_holds(&self.stderr, words);
    }
}

/// A folder in which the program works.
struct Desk {
    folder: PathBuf,
    /// The guard that removes the folder at the end.
    _temporary: Option<tempfile::TempDir>,
}

/// Restores the default action of SIGINT and SIGHUP in the programs that these tests start, since a shell ignores the signals for
/// tests in the background. A signal that a process handles has its default action in a program that it executes.
#[cfg(unix)]
fn take_signals() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
            let to_default = std::sync::Arc::new(true.into());
            signal_hook::flag::register_conditional_default(signal, to_default).expect("a handler");
        }
    });
}

impl Desk {
    /// Creates a temporary folder.
    fn new() -> Self {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        Desk { folder: temporary.path().to_owned(), _temporary: Some(temporary) }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes `command` work only in this folder.
    fn prepare(&self, mut command: Command) -> Command {
        #[cfg(unix)]
        take_signals();
        command.env("XDG_CACHE_HOME", self.path("cache")).current_dir(&self.folder);
        // Mesa's software renderer keeps its compiled shaders, which are slow to make, for all tests.
        command.env("MESA_SHADER_CACHE_DIR", env!("CARGO_TARGET_TMPDIR"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs [`command`] in this folder, to its end.
    fn gradus(&self, line: &str) -> Run {
        self.prepare(command(line)).output().expect("the program starts").into()
    }

    /// Runs the program with a limit on the size of files, in blocks of the shell, which fails like a full disk. A trainer's
    /// state does not fit, but the model does.
    #[cfg(unix)]
    fn on_a_full_disk(&self, blocks: usize, line: &str) -> Run {
        let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_gradus")]).args(line.split_whitespace());
        self.prepare(shell).output().expect("a shell").into()
    }

    fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).expect("UTF-8")
    }

    /// Reads a file of JSON.
    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).expect("JSON")
    }

    /// Reads the records of a run's metrics.
    #[cfg(unix)]
    fn records(&self, run: &str) -> Vec<Value> {
        let log = self.text(&format!("{run}/metrics.jsonl"));
        log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Writes a file, and creates the folders that it needs.
    fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file in a temporary directory");
    }

    /// Writes the training and development rows of a task of pairs in this folder, with these labels in turn.
    fn write_pairs(&self, folder: &str, column: &str, labels: &[&str], rows: [usize; 2]) {
        for (split, rows) in ["train", "dev"].into_iter().zip(rows) {
            let lines: String = (0..rows).map(|i| format!("{i}\ta{i}\tb\t{}\n", labels[i % labels.len()])).collect();
            self.write(format!("{folder}/{split}.tsv"), format!("index\tsentence1\tsentence2\t{column}\n{lines}"));
        }
    }

    /// Writes token ids, as `--ids` takes them.
    fn write_ids(&self, name: &str, ids: &[u32]) {
        self.write(name, words(ids));
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    }

    /// Removes the checksums of a folder, every statement that it has some, and its last state but one. Then only the code that
    /// reads a damaged file can detect the damage.
    fn forget(&self, name: &str) {
        let path = self.path(name);
        for above in path.ancestors().skip(1).take_while(|above| above.starts_with(&self.folder)) {
            let inner = path.strip_prefix(above).unwrap().to_str().expect("Unicode");
            gradus_io::checksums::unlist(above, inner).expect("sums that can be read");
        }
        for file in ["checksums.json", "trainer.previous.safetensors"] {
            let _ = fs::remove_file(self.path(name).join(file));
        }
        for settings in ["run.json", "plan.json"].map(|file| path.join(file)) {
            if let Ok(text) = fs::read_to_string(&settings) {
                fs::write(settings, text.replace(",\n  \"checksums\": true", "")).expect("a file in a temporary directory");
            }
        }
    }

    /// Returns every file below a folder, with its bytes.
    fn files(&self, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        files(&self.path(name))
    }

    /// Copies the contents of a folder.
    fn copy(&self, from: &Path) {
        files(from).into_iter().for_each(|(path, bytes)| self.write(path.strip_prefix(from).unwrap(), bytes));
    }

    /// Writes a random byte-level model of context 8, with its tokenizer.
    fn byte_model(&self, name: &str, change: impl FnOnce(&mut ModelConfig)) -> Model<Tensor<f32>> {
        let sizes = Sizes { vocab: 256, context: 8, width: 12 };
        let mut config = ModelConfig::gpt(sizes, 2, 3).with_transformer(|c| c.initializer_range = 0.4);
        change(&mut config);
        self.model_with(name, &Tokenizer::bytes(), config)
    }

    /// Writes a random model with a tokenizer.
    fn model_with(&self, name: &str, tokenizer: &Tokenizer, config: ModelConfig) -> Model<Tensor<f32>> {
        let model = Model::init(&config, 5);
        fs::create_dir_all(self.path(name)).expect("a directory");
        self.save(name, &model);
        self.tokenizer(name, tokenizer);
        model
    }

    fn load(&self, name: &str) -> Model<Tensor<f32>> {
        checkpoint::load(&self.path(name)).expect("a model")
    }

    fn save(&self, name: &str, model: &Model<Tensor<f32>>) {
        checkpoint::save(&self.path(name), model).expect("saved");
    }

    fn tokenizer(&self, name: &str, tokenizer: &Tokenizer) {
        tokenizer.save(&self.path(name)).expect("saved");
    }

    /// Changes an element of one of a model's parameters.
    fn spoil(&self, model: &str, parameter: &str, value: f32) {
        let mut params = self.load(model);
        params.as_mut().visit(|name, p| {
            if name == parameter {
                p.set(0, value);
            }
        });
        self.save(model, &params);
    }
}

/// Returns the directory of a fixture made by `transformers`.
fn golden(name: &str) -> PathBuf {
    gradus_tests::golden().join(name)
}

#[track_caller]
fn assert_holds(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} in {} bytes: {}", text.len(), text.chars().take(2000).collect::<String>());
    }
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, found {value}"))
}

#[track_caller]
fn assert_near(found: &Value, expected: f64, tolerance: f64) {
    let found = number(found);
    assert!((found - expected).abs() <= tolerance, "{found} for {expected}");
}

fn items(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

fn ids_of(value: &Value) -> Vec<u32> {
    items(value).iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    items(value).iter().map(number).collect()
}

/// Returns ids separated by spaces.
fn words(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// Checks that a rate in 10⁹ operations or bytes per second is plausible for a present computer, and returns it.
#[track_caller]
fn giga(json: &Value, field: &str) -> f64 {
    let rate = number(&json[field]);
    assert!((1e-4..1e6).contains(&rate), "{field}: {rate}");
    rate
}

/// Returns every file below a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { drop(all.insert(path.clone(), fs::read(path).unwrap())) }
    }
    all
}

#[test]
fn wrong_usage_ends_with_2_and_names_the_flag() {
    let (missing, unlike) = ("required arguments were not provided", "cannot be used with");
    for (line, words) in [
        ("nonsense", &["'nonsense'"][..]),
        ("evaluate", &[missing, "\n  --model <DIR>\n  <--corpus <PATH>|--task <NAME>|--ids <FILE>>\n"]),
        ("evaluate --model m", &[missing, "\n  <--corpus <PATH>|--task <NAME>|--ids <FILE>>\n"]),
        ("evaluate --model m --corpus c --ids i", &["'--corpus <PATH>'", unlike, "'--ids <FILE>'"]),
        ("evaluate --model m --task rte", &[missing, "\n  --data <DIR>\n"]),
        ("evaluate --model m --task rte --data d --context 3", &["'--task <NAME>'", unlike, "'--context <T>'"]),
        ("evaluate --model m --task rte --data d --stride 3", &["'--task <NAME>'", unlike, "'--stride <S>'"]),
        ("evaluate --model m --task rte --data d --gradients", &["'--task <NAME>'", unlike, "'--gradients'"]),
        ("evaluate --model m --task rte --data d --dtype f64", &["'--task <NAME>'", unlike, "'--dtype <DTYPE>'"]),
        ("evaluate --model m --task rte --data d --opening x", &[missing, "\n  --zero-shot\n"]),
        ("evaluate --model m --corpus c --zero-shot", &["'--corpus <PATH>'", unlike, "'--zero-shot'"]),
        ("evaluate --model m --corpus c --data d", &["'--corpus <PATH>'", unlike, "'--data <DIR>'"]),
        ("evaluate --model m --task rte --data d --split never", &["'--split <SPLIT>'", "`never`"]),
        ("predict --model m --task rte --data d --overwrite", &[missing, "\n  --glue <DIR>\n"]),
        ("generate --model m --ids i", &[missing, "\n  --tokens <N>\n"]),
        ("generate --model m --ids i --tokens x", &["'x'", "'--tokens <N>'"]),
        ("generate --model m --ids i --tokens 1 --greedy --seed 1", &["'--greedy'", unlike, "'--seed <S>'"]),
        ("tokenizer encode --tokenizer t --mode words --file f", &["'words'", "'--mode <MODE>'", "expected basic or spacy"]),
        ("world --rows 10", &[missing, "\n  --tasks <DIR>\n"]),
        ("world --tasks x --rows 10 --overwrite", &["'--tasks <DIR>'", unlike, "'--overwrite'"]),
        ("import --out m", &[missing, "\n  --openai <DIR>\n"]),
        ("export --openai r", &[missing, "\n  --model <DIR>\n"]),
        ("bench train --workload huge", &["'huge'", "'--workload <WORKLOAD>'", "values: tiny, small, gpt1]"]),
        ("compare a", &["2 values required", "'<DIR> <DIR>...'"]),
        ("compare a b --overwrite", &[missing, "\n  --html <FILE>\n"]),
        ("pretrain --out none --vocab 99", &["--vocab in the micro-world", "expected a --corpus with it, or no --vocab"]),
        ("pretrain --out none --held-out 0.2", &["--held-out in the micro-world", "expected a --corpus with it"]),
        ("pretrain --corpus c --out none --tokenizer byte --vocab 99", &["--vocab with --tokenizer byte", "or no --vocab"]),
        ("reproduce --resume mini --seeds 2", &["'--resume <DIR>'", unlike, "'--seeds <N>'"]),
    ] {
        gradus(line).misused(words);
    }
}

#[test]
fn help_ends_with_0_and_has_an_example() {
    for command in ["evaluate", "generate", "tokenizer train", "world", "import", "export", "bench train"] {
        let help = gradus(&format!("{command} --help"));
        let (_, after) = help.printed().split_once("\nExample").expect("examples");
        assert_holds(after, &[&format!("\n  gradus {command} --")]);
    }
    assert_holds(gradus("--help").printed(), &["\nTo begin:\n  gradus  ", "\n  gradus pretrain --corpus "]);
    assert_holds(gradus("evaluate --help").printed(), &["in nats"]);
}
