//! Fine-tuning (§3.2, §3.3, §4.1) of a pre-trained model on a task.
//!
//! ```text
//! L₃(C) = L₂(C) + λ·L₁(C)        λ = 0.5; batches of 32, 3 epochs, rate 6.25e-5, linear decay, warm-up over 0.2 %
//! ```
//!
//! The paper leaves these points open; they follow OpenAI's code where it settles them:
//!
//! - **An epoch** has its own permutation of the training rows, drawn from the seed. Last rows that do not fill a batch are left
//!   out (OpenAI's code), so T = (rows ÷ batch)·epochs.
//! - **The best model** is the one with the highest dev score, the first on a tie. It is scored at the end of every epoch, and
//!   in the first also after 1000·2ᵏ steps (OpenAI's code). Test sets are never scored here.
//! - **L₁** is the mean over sequences of each sequence's mean (OpenAI's code); `--objective token_mean` is Hugging Face's.
//! - **Rows** (`--rows`) are taken evenly over the file, the same for every seed.

mod begin;
mod manifest;
mod score;
mod seed;
mod session;
mod settings;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gradus_data::sets::{self, Answer, Dropped, Loaded, SetError, Split, Task};
use gradus_io::exit::{self, Exit};
use gradus_io::files::{FileError, quoted};
use gradus_model::{ConfigError, Form, HeadConfig, Model, Predicts};
use gradus_report::metrics::MetricsError;
use gradus_tensor::Tensor;
use gradus_text::{TextError, Tokenizer};
use serde::{Deserialize, Serialize};

use crate::hyperparameters::RangeError;
use crate::model_dir::{ModelDir, ModelDirError};
use crate::optim::OptimError;
use crate::run::RunError;
use crate::tasks::{self, Encoded, Encoder, EncoderFormat, RowFormat, TaskError, TaskTokens};
use crate::trainer::{StateError, non_finite};
use crate::views::SpecialTokens;

pub use begin::{FinetuneOutcome, Own, begin, follow, resume};
pub use manifest::FinetuneManifest;
pub use score::{Scored, answers, labels, logits, metrics, score};
pub use seed::SeedOutcome;
pub use session::{CurvePoint, Session};
pub use settings::FinetuneSettings;

/// The reason why a fine-tuning run could not begin, continue or end.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum FinetuneError {
    #[error(transparent)]
    Set(#[from] SetError),
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Model(#[from] ModelDirError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(
        "after step {step} a logit of the dev split is non-finite: training diverged; the best model before, if any, is untouched; \
         begin another run with a lower --lr or a longer --warmup"
    )]
    Diverged { step: u64 },
    #[error(transparent)]
    Optimizer(#[from] OptimError),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{source}; finished work is kept: continue with `gradus finetune --resume {}`", quoted(out))]
    Halted { source: Box<FinetuneError>, out: PathBuf },
    #[error("{title}, split `{split}` in {folder}: {source}", folder = folder.display())]
    Encode { title: &'static str, split: Split, folder: PathBuf, source: TaskError },
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("{dir}: {problem}", dir = dir.display())]
    Unfit { dir: PathBuf, problem: String },
    #[error(
        "--labels: {title}, split `{split}` has labels of its own; leave --labels out: it is for splits published without them"
    )]
    Labelled { title: &'static str, split: Split },
}

impl FinetuneError {
    fn resume(problem: String) -> Self {
        RunError::Resume { problem }.into()
    }

    /// Adds the command that continues to the error of a file that could not be written.
    fn halted(self, out: &Path) -> Self {
        match self {
            Self::File(_)
            | Self::Run(RunError::File(_) | RunError::State(StateError::File(_)) | RunError::Metrics(MetricsError::File(_))) => {
                Self::Halted { source: Box::new(self), out: out.to_owned() }
            }
            other => other,
        }
    }

    /// Returns whether the task, the split or a hyperparameter is invalid for any files.
    pub fn is_of_settings(&self) -> bool {
        match self {
            Self::Range(_) | Self::Optimizer(_) | Self::Labelled { .. } | Self::Text(TextError::Mode { .. }) => true,
            Self::Set(e) => matches!(e, SetError::Task { .. } | SetError::NoSplit { .. } | SetError::Submission { .. }),
            Self::Task(e) => matches!(e, TaskError::ZeroShotOnly { .. } | TaskError::NoHeuristic { .. }),
            _ => false,
        }
    }
}

impl Exit for FinetuneError {
    fn exit_code(&self) -> u8 {
        if self.is_of_settings() { exit::USAGE } else { exit::FAILED }
    }
}

/// Reorders the classes of a model's heads to a task's order, if they have the task's names in another order or case.
fn in_the_tasks_order(mut model: Model<Tensor>, wanted: &HeadConfig) -> Model<Tensor> {
    for at in 0..model.heads.0.len() {
        let labels = &model.heads.0[at].config().labels;
        let place = |name: &String| labels.iter().position(|label| label.to_lowercase() == name.to_lowercase());
        let order: Option<Vec<usize>> = wanted.labels.iter().map(place).collect();
        let named = !wanted.labels.is_empty() && labels.len() == wanted.labels.len() && *labels != wanted.labels;
        let is_each_once =
            |order: &Vec<usize>| order.iter().all(|class| order.iter().filter(|other| *other == class).count() == 1);
        if let Some(order) = order.filter(|order| named && is_each_once(order)) {
            let head = model.heads.0.remove(at).reordered(&order, wanted.labels.clone());
            model.heads.0.insert(at, head);
        }
    }
    model
}

/// Returns the error of a tokenizer without the special tokens of a model that fills masks.
fn no_special_tokens(tokenizer: &Tokenizer) -> TaskError {
    TaskError::NoSpecialTokens { found: SpecialTokens::found(tokenizer) }
}

/// A model that can read the tasks' sequences: its tokenizer has the special tokens, and its embedding their rows.
#[derive(Clone, Debug)]
pub struct TaskModel {
    /// The tokens that are new to the pre-trained model.
    fresh: Range<usize>,
    /// The model.
    pub model: Model<Tensor>,
    /// The tokenizer of the model.
    pub tokenizer: Tokenizer,
    /// The special tokens around texts.
    pub format: RowFormat,
}

impl TaskModel {
    /// Prepares a pre-trained model: missing special tokens are appended, and heads without a pooler are dropped. A model that
    /// fills masks has its special tokens from pre-training; it loses the layers that predict tokens, since no token is a target.
    ///
    /// # Errors
    /// Returns an error if special tokens are missing, and the model fills masks or the tokenizer does not take new tokens.
    pub fn prepare(mut model: Model<Tensor>, mut tokenizer: Tokenizer, seed: u64) -> Result<Self, FinetuneError> {
        let config = model.config();
        let before = tokenizer.vocab_size();
        let format = match config.predicts() {
            Predicts::Next => TaskTokens::append(&mut tokenizer)?.into(),
            Predicts::Masked => {
                EncoderFormat::of(&tokenizer, config.body.segments()).ok_or_else(|| no_special_tokens(&tokenizer))?.into()
            }
        };
        model.heads.0.retain(|head| head.config().pooler);
        let model = if let RowFormat::Encoder(_) = format { model.with_plain_outputs() } else { model };
        // A larger embedding may already have rows for the appended tokens, trained as tokens that never occur; they are
        // initialized anew. A smaller embedding grows to hold them; texts with other ids that had no row are still rejected.
        // Without appended tokens it does not grow.
        let known = before.min(config.sizes.vocab);
        let fresh = if tokenizer.vocab_size() > before { known..tokenizer.vocab_size() } else { known..known };
        let model = model.with_tokens(fresh.clone(), config.body.initializer_range(), seed);
        Ok(TaskModel { fresh, model, tokenizer, format })
    }

    /// Returns the model with the special tokens' rows initialized from another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        let std = self.model.body.config().initializer_range();
        TaskModel { model: self.model.clone().with_tokens(self.fresh.clone(), std, seed), ..self.clone() }
    }

    /// Reads a pre-trained model from a directory and prepares it ([`TaskModel::prepare`]).
    ///
    /// # Errors
    /// Returns an error if the directory has no model, a model with a non-finite parameter, or no tokenizer.
    pub fn pretrained(dir: &Path, seed: u64) -> Result<Self, FinetuneError> {
        let dir = ModelDir::open(dir)?;
        let model = dir.read()?;
        if let Some(name) = non_finite(&model) {
            let problem = format!("expected finite parameters, found a NaN or an infinity in {name}; take an earlier checkpoint");
            return Err(FinetuneError::Unfit { dir: dir.path().to_owned(), problem });
        }
        let tokenizer = dir.required_tokenizer(model.sizes().vocab)?;
        Self::prepare(model, tokenizer, seed)
    }

    /// Reads a fine-tuned model from a directory, for a task of the same form.
    ///
    /// # Errors
    /// Returns an error if the model has no head or another task's head, or if the tokenizer lacks the special tokens.
    pub fn finetuned(dir: &Path, task: &'static Task) -> Result<Self, FinetuneError> {
        tasks::head(task)?; // before anything is read
        let dir = ModelDir::open(dir)?;
        let model = dir.read()?;
        let wanted = tasks::head_above(task, model.predicts())?;
        let tokenizer = dir.required_tokenizer(model.sizes().vocab)?;
        let error = |problem: String| FinetuneError::Unfit { dir: dir.path().to_owned(), problem };
        let model = in_the_tasks_order(model, &wanted);
        let Some(head) = model.task_head() else {
            let problem =
                format!("expected a model with a head, made by `gradus finetune --task {}`; this one has none", task.name);
            return Err(error(problem));
        };
        // A head with one output predicts the score itself, as in `run_glue.py` of `transformers`.
        let is_number = matches!(task.answer, Answer::Score { .. }) && head.form == Form::Classify && head.classes == 1;
        if (head.form, head.classes) != (wanted.form, wanted.classes) && !is_number {
            return Err(error(format!(
                "its head is of form {:?} with {} classes, but {} needs {:?} with {}: this model was fine-tuned for another task",
                head.form, head.classes, task.name, wanted.form, wanted.classes
            )));
        }
        // Two heads of one shape may have different classes.
        if !head.labels.is_empty() && !wanted.labels.is_empty() && head.labels != wanted.labels {
            let (has, wants) = (head.labels.join(", "), wanted.labels.join(", "));
            return Err(error(format!(
                "its head has the answers {has}; {} needs {wants}: this model was fine-tuned for another task",
                task.name
            )));
        }
        let format = match model.predicts() {
            Predicts::Next => TaskTokens::of(&tokenizer).map(RowFormat::from).ok_or_else(|| {
                error(format!(
                    "the tokenizer lacks {}, the special tokens of the head's input: copy the tokenizer that was saved with this \
                     model, or fine-tune again",
                    TaskTokens::NAMES.join(", ")
                ))
            })?,
            Predicts::Masked => EncoderFormat::of(&tokenizer, model.body.config().segments())
                .ok_or_else(|| error(no_special_tokens(&tokenizer).to_string()))?
                .into(),
        };
        Ok(TaskModel { fresh: 0..0, model, tokenizer, format })
    }

    /// Reads a split of a task from the folder of its files.
    pub fn read(&self, task: &'static Task, folder: &Path, split: Split) -> Result<Data, FinetuneError> {
        self.encode(task, folder, split, task.load(folder, split)?)
    }

    /// Reads a split published without labels, with labels from a file in the form of a submission ([`sets::label`]).
    pub fn read_labelled(&self, task: &'static Task, folder: &Path, split: Split, labels: &Path) -> Result<Data, FinetuneError> {
        let mut loaded = task.load(folder, split)?;
        if loaded.examples.iter().any(|example| example.label.is_some()) {
            return Err(FinetuneError::Labelled { title: task.title, split });
        }
        sets::label(task, split, &mut loaded.examples, labels)?;
        self.encode(task, folder, split, loaded)
    }

    fn encode(&self, task: &'static Task, folder: &Path, split: Split, loaded: Loaded) -> Result<Data, FinetuneError> {
        let context = self.model.sizes().context;
        let mut encoder = Encoder::new(task, &self.tokenizer, self.format, context)?;
        let file_rows = loaded.rows();
        let row = |example| match encoder.encode(&example) {
            Ok(encoded) => Ok(EncodedRow { example, encoded }),
            Err(source @ TaskError::Text { .. }) => {
                Err(FinetuneError::Encode { title: task.title, split, folder: folder.to_owned(), source })
            }
            Err(e) => Err(e.into()),
        };
        let rows = loaded.examples.into_iter().map(row).collect::<Result<_, _>>()?;
        Ok(Data { rows, file_rows, dropped: loaded.dropped, notes: loaded.notes })
    }
}

/// A row of a split, with the sequences that the model reads.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedRow {
    /// The example of the data set.
    pub example: gradus_data::sets::Example,
    /// The sequences of the example.
    pub encoded: Encoded,
}

/// A split of a task.
#[derive(Clone, Debug)]
pub struct Data {
    /// The rows of the split.
    pub rows: Vec<EncodedRow>,
    /// The number of rows in the files, with those of another split and those left out.
    pub file_rows: usize,
    /// The rows that the data set leaves out, with the reasons.
    pub dropped: Vec<Dropped>,
    /// Notes on possible errors in the files.
    pub notes: Vec<String>,
}

/// The numbers of rows of a split's files, by their use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowCounts {
    /// The rows in the files, with those of another split.
    pub file: usize,
    /// The rows in the split.
    pub used: usize,
    /// The rows in the split with a text cut to the context.
    pub cut: usize,
    /// The rows that the data set leaves out, by reason.
    pub dropped: BTreeMap<String, usize>,
}

impl Data {
    /// Keeps at most this many rows, evenly spaced over the split.
    #[must_use]
    pub fn at_most(self, rows: Option<usize>) -> Self {
        Data { rows: evenly(self.rows, rows), ..self }
    }

    /// Checks that every row has a label, which training and scores need.
    pub fn check_labels(&self) -> Result<(), TaskError> {
        score::labels(self.rows.iter().map(|row| &row.example)).map(drop)
    }

    /// Returns the numbers of rows by their use.
    pub fn counts(&self) -> RowCounts {
        RowCounts { file: self.file_rows, used: self.rows.len(), cut: self.truncated(), dropped: left_out(&self.dropped) }
    }

    /// Returns the number of rows with a text cut.
    pub fn truncated(&self) -> usize {
        self.rows.iter().filter(|row| row.encoded.truncated).count()
    }

    /// Returns the number of tokens of the longest row.
    pub fn longest(&self) -> usize {
        self.rows.iter().map(|row| row.encoded.length()).max().unwrap_or(0)
    }
}

/// Returns the numbers of rows that a data set leaves out, by reason.
pub fn left_out<'d>(dropped: impl IntoIterator<Item = &'d Dropped>) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    dropped.into_iter().for_each(|d| *all.entry(d.reason.to_string()).or_insert(0) += d.rows);
    all
}

/// Returns at most `most` of these rows, evenly spaced.
pub fn evenly<R>(mut rows: Vec<R>, most: Option<usize>) -> Vec<R> {
    let n = rows.len();
    if let Some(most) = most.filter(|&most| most < n) {
        let mut number = 0;
        rows.retain(|_| {
            number += 1;
            let share = |i: usize| i * most / n;
            share(number) > share(number - 1)
        });
    }
    rows
}

#[cfg(test)]
mod tests {
    use gradus_model::ModelConfig;

    use super::*;

    /// The special tokens' rows are fresh, whether or not the vocabulary was made larger than the tokenizer.
    #[test]
    fn special_tokens_are_fresh_also_in_a_vocabulary_with_room() {
        for vocab in [256, 258, 300] {
            let config = ModelConfig::preset("tiny").unwrap().with_vocab(vocab);
            let model: Model<Tensor> = Model::init(&config, 1);
            let row = |m: &Model<Tensor>, token: u32| {
                let table = &m.transformer().unwrap().tokens_embed.weight.0;
                let d = table.shape()[1];
                table.to_vec().get(token as usize * d..).map(|rest| rest[..d.min(rest.len())].to_vec())
            };
            let task_model = TaskModel::prepare(model.clone(), Tokenizer::bytes(), 1).unwrap();
            assert_eq!(task_model.model.sizes().vocab, vocab.max(259));
            let other = task_model.with_seed(2);
            for token in 0..259 {
                let special = token >= 256;
                assert_eq!(row(&task_model.model, token) == row(&model, token), !special, "token {token} of {vocab}");
                assert_eq!(row(&task_model.model, token) == row(&other.model, token), !special, "token {token} of {vocab}");
            }
        }
    }

    /// A text that the tokenizer cannot encode is reported with its data set, split, folder and row.
    #[test]
    fn a_text_that_cannot_be_encoded_is_an_error_with_its_row() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("dev.tsv"), "sentence\tlabel\nabba\t1\nabcba\t0\n").unwrap();
        let tokenizer = Tokenizer::characters(["ab"]);
        let config = ModelConfig::preset("tiny").unwrap().with_vocab(tokenizer.vocab_size());
        let task_model = TaskModel::prepare(Model::init(&config, 1), tokenizer, 1).unwrap();
        let error = task_model.read(Task::named("sst-2").unwrap(), folder.path(), Split::Dev).unwrap_err().to_string();
        for part in ["SST-2, split `dev`", &folder.path().display().to_string(), "example 1", "'c'"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    /// Returns a folder with a masked model with this head, and a tokenizer with BERT's special tokens.
    fn tuned(head: HeadConfig) -> (tempfile::TempDir, Model<Tensor>) {
        let dir = tempfile::tempdir().unwrap();
        let mut tokenizer = Tokenizer::bytes();
        ["[CLS]", "[SEP]", "[MASK]"].into_iter().for_each(|mark| _ = tokenizer.add_special(mark).unwrap());
        let bert = gradus_model::check::tiny_bert().with_vocab(tokenizer.vocab_size());
        let model = Model::init(&gradus_model::ModelConfig { heads: vec![head], ..bert }, 1);
        gradus_model::checkpoint::save(dir.path(), &model).unwrap();
        tokenizer.save(dir.path()).unwrap();
        (dir, model)
    }

    /// A masked model has all special tokens, so it gets no rows: an id without a row stays an error, also after saving.
    #[test]
    fn a_model_without_new_tokens_does_not_grow() {
        let (dir, model) = tuned(head_of(2, &[]));
        let mut tokenizer = Tokenizer::load(dir.path()).unwrap();
        let rows = tokenizer.vocab_size();
        tokenizer.add_special("<x>").unwrap();
        let found = TaskModel::prepare(model, tokenizer.with_rows(rows), 1).unwrap();
        assert_eq!(found.model.sizes().vocab, rows);
        assert!(found.tokenizer.encode("a").is_ok() && found.tokenizer.encode("a<x>").is_err());
    }

    /// A GPT grows for its special tokens. A text with an id that had no row before is refused before and after saving.
    #[test]
    fn ids_without_a_row_stay_rejected_after_growing() {
        let mut tokenizer = Tokenizer::bytes();
        tokenizer.add_special("<x>").unwrap();
        let config = ModelConfig::preset("tiny").unwrap().with_vocab(256);
        let found = TaskModel::prepare(Model::init(&config, 1), tokenizer.with_rows(256), 1).unwrap();
        let dir = tempfile::tempdir().unwrap();
        gradus_model::checkpoint::save(dir.path(), &found.model).unwrap();
        found.tokenizer.save(dir.path()).unwrap();
        let dir = ModelDir::open(dir.path()).unwrap();
        let saved = dir.required_tokenizer(dir.read().unwrap().sizes().vocab).unwrap();
        for tokenizer in [found.tokenizer, saved] {
            assert!(tokenizer.encode("a").is_ok() && tokenizer.encode("a<x>").is_err());
            assert_eq!(TaskTokens::of(&tokenizer), Some(TaskTokens { start: 257, delimiter: 258, extract: 259 }));
        }
    }

    fn head_of(classes: usize, labels: &[&str]) -> HeadConfig {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        HeadConfig { bias: true, pooler: true, labels, ..HeadConfig::new(Form::Classify, classes) }
    }

    /// Reads the development rows of a data set whose file has this text.
    fn rows(model: &TaskModel, task: &'static Task, file: &str, text: &str) -> Data {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(file), text).unwrap();
        model.read(task, folder.path(), Split::Dev).unwrap()
    }

    #[test]
    fn labels_in_another_order_or_case_are_mapped_by_name() {
        let task = Task::named("rte").unwrap();
        let text = "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n1\tcc\td\tnot_entailment\n";
        let names = ["entailment", "not_entailment"];
        let of = |labels: &[&str]| {
            let (dir, _) = tuned(head_of(2, labels));
            let found = TaskModel::finetuned(dir.path(), task)?;
            let data = rows(&found, task, "dev.tsv", text);
            assert_eq!(found.model.task_head().unwrap().labels, names);
            Ok::<_, FinetuneError>(logits(&found.model, &data.rows, &mut |_| {}))
        };
        let plain = of(&names).unwrap();
        let turned: Vec<Vec<f64>> = plain.iter().map(|z| z.iter().rev().copied().collect()).collect();
        assert_ne!(plain, turned);
        assert_eq!(of(&["Entailment", "NOT_ENTAILMENT"]).unwrap(), plain);
        assert_eq!(of(&["not_entailment", "entailment"]).unwrap(), turned);
        assert_eq!(of(&["NOT_ENTAILMENT", "ENTAILMENT"]).unwrap(), turned);
        for other in [["yes", "no"], ["entailment", "ENTAILMENT"]] {
            let error = of(&other).unwrap_err().to_string();
            assert!(error.contains(&format!("its head has the answers {}; rte needs entailment", other.join(", "))), "{error}");
        }
    }

    /// A head with one output predicts the score itself, as `run_glue.py` of `transformers` trains it on STS-B.
    #[test]
    fn a_head_with_one_output_predicts_the_score() {
        let (dir, _) = tuned(head_of(1, &[]));
        let stsb = Task::named("sts-b").unwrap();
        let model = TaskModel::finetuned(dir.path(), stsb).unwrap();
        let header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
        let data = rows(
            &model,
            stsb,
            "dev.tsv",
            &format!("{header}0\tg\tf\ty\t1\tnone\tnone\ta\tb\t2.500\n1\tg\tf\ty\t2\tnone\tnone\tcc\td\t4.000\n"),
        );
        let z = logits(&model.model, &data.rows, &mut |_| {});
        let scores: Vec<_> = z.iter().map(|z| sets::Label::Score(z[0])).collect();
        assert_eq!(answers(stsb, &data.rows, &z).unwrap(), scores);
        let loss = ((z[0][0] - 2.5).powi(2) + (z[1][0] - 4.0).powi(2)) / 2.0;
        assert!((score(stsb, &data.rows, &z).unwrap().loss - loss).abs() < 1e-12);
        let error = TaskModel::finetuned(dir.path(), Task::named("cola").unwrap()).unwrap_err().to_string();
        assert!(error.contains("with 1 classes, but cola needs"), "{error}");
    }

    #[test]
    fn rows_are_sampled_evenly() {
        let taken = |most| evenly((0..10).collect::<Vec<usize>>(), most);
        assert_eq!((taken(None).len(), taken(Some(10)).len(), taken(Some(3)).len()), (10, 10, 3));
        assert_eq!((taken(Some(5)), taken(Some(1))), (vec![1, 3, 5, 7, 9], vec![9]));
    }
}
