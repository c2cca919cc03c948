//! Fine-tuning (§3.2, §3.3, §4.1): a pre-trained model, a task, and the loop between them.
//!
//! ```text
//! L₃(C) = L₂(C) + λ·L₁(C)        λ = 0.5; batches of 32, 3 epochs, rate 6.25e-5, linear decay, warm-up over 0.2 %
//! ```
//!
//! Decided here, where the paper is silent; OpenAI's code where it says something:
//!
//! - **An epoch** is a permutation of the training rows of its own, from the seed; the last rows that fill no batch are left out
//!   (OpenAI's code), so T = (rows ÷ batch)·epochs.
//! - **The best model** is the one with the highest dev score, the first of equals. It is scored at the end of every epoch, and
//!   in the first also after 1000·2ᵏ updates (OpenAI's code). Test sets are never scored here.
//! - **L₁** is the mean over sequences of each sequence's mean (OpenAI's code); `--objective token_mean` is Hugging Face's.
//! - **Rows** (`--rows`) are taken evenly over the file, the same for every seed.

mod run;
mod score;
mod seed;
mod session;
mod settings;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gradus_data::sets::{self, Dropped, Loaded, SetError, Split, Task};
use gradus_io::files::{FileError, quoted};
use gradus_model::checkpoint::CheckpointError;
use gradus_model::{ConfigError, Head, Model, Tree};
use gradus_report::metrics::MetricsError;
use gradus_tensor::Tensor;
use gradus_text::{TextError, Tokenizer};

use crate::model_dir::{ModelDir, ModelDirError};
use crate::optim::OptimError;
use crate::tasks::{self, Encoded, Specials, TaskError};
use crate::trainer::{StateError, TrainError};

pub use run::{Control, Outcome, RunFile, Seeds, begin, resume};
pub use score::{Scored, answers, labels, logits, metrics, score};
pub use seed::SeedOutcome;
pub use session::{Point, Session};
pub use settings::Settings;

/// Why a fine-tuning could not begin, go on or end.
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
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The dev split's logits are no numbers any more.
    #[error(
        "after update {update} a logit of the dev split is not a number: training diverged; the best model before, if there was one, is as it \
         was; begin another run with a lower --lr or a longer --warmup"
    )]
    Diverged {
        /// Updates made.
        update: u64,
    },
    #[error(transparent)]
    Optimizer(#[from] OptimError),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{source}; what was done stays: go on with `gradus finetune --resume {}`", quoted(out))]
    Halted { source: Box<FinetuneError>, out: PathBuf },
    #[error("{title}, split `{split}` in {folder}: {source}", folder = folder.display())]
    Encode { title: &'static str, split: Split, folder: PathBuf, source: TaskError },
    #[error("--{flag} {found}: expected {expected}")]
    Range { flag: &'static str, found: String, expected: String },
    #[error("{dir}: {problem}", dir = dir.display())]
    Unfit { dir: PathBuf, problem: String },
    #[error("{dir} already holds {found}; nothing was changed: give another --out{}", continued(dir), dir = dir.display(), found = found.display())]
    Taken { dir: PathBuf, found: PathBuf },
    #[error("--labels: {title}, split `{split}` has labels of its own; give those of a split that is published without them")]
    Labelled { title: &'static str, split: Split },
    #[error("cannot resume: {problem}")]
    Resume { problem: String },
}

/// How the run of a directory goes on, if it is one.
fn continued(dir: &Path) -> String {
    if RunFile::read(dir).is_err() {
        return String::new();
    }
    format!("; the run there is continued with --resume {}", quoted(dir))
}

impl FinetuneError {
    /// Of a file that could not be written on the way: with the command that goes on.
    fn halted(self, out: &Path) -> Self {
        let file = match &self {
            Self::File(_) | Self::State(StateError::File(_)) => true,
            Self::Metrics(e) => matches!(e, MetricsError::File(_)),
            _ => false,
        };
        if file { Self::Halted { source: Box::new(self), out: out.to_owned() } } else { self }
    }

    /// Is it a task, a split or a hyperparameter that cannot be, whatever the files hold?
    pub fn is_of_settings(&self) -> bool {
        match self {
            Self::Range { .. } | Self::Optimizer(_) | Self::Labelled { .. } => true,
            Self::Set(e) => matches!(e, SetError::Task { .. } | SetError::NoSplit { .. } | SetError::Submission { .. }),
            Self::Task(e) => matches!(e, TaskError::ZeroShotOnly { .. } | TaskError::NoHeuristic { .. }),
            _ => false,
        }
    }
}

/// A model that can read the tasks' sequences: its tokenizer has the special tokens, its embedding their rows.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Those tokens that the pre-trained model did not know.
    fresh: Range<usize>,
    /// The model.
    pub model: Model<Tensor>,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// The special tokens.
    pub specials: Specials,
}

impl Reader {
    /// A pre-trained model with the special tokens appended, where it lacks them; a head that it has is dropped.
    ///
    /// # Errors
    /// The tokenizer's.
    pub fn prepare(model: Model<Tensor>, mut tokenizer: Tokenizer, seed: u64) -> Result<Self, FinetuneError> {
        let config = model.backbone.config();
        let known = tokenizer.vocab_size().min(config.vocab());
        let specials = Specials::append(&mut tokenizer)?;
        // Rows that a larger vocabulary has for them already were trained as tokens that never come.
        let fresh = known..tokenizer.vocab_size();
        let model = Model { score: None, ..model }.with_tokens(fresh.clone(), config.initializer_range(), seed);
        Ok(Reader { fresh, model, tokenizer, specials })
    }

    /// The same model with the special tokens' rows of another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        let std = self.model.backbone.config().initializer_range();
        Reader { model: self.model.clone().with_tokens(self.fresh.clone(), std, seed), ..self.clone() }
    }

    /// The same from a directory.
    ///
    /// # Errors
    /// No model there, one that has a parameter which is no number, or no tokenizer.
    pub fn pretrained(dir: &Path, seed: u64) -> Result<Self, FinetuneError> {
        let dir = ModelDir::open(dir)?;
        let model = dir.load().map_err(ModelDirError::from)?;
        let mut broken = None;
        model.as_ref().visit(|name, p| {
            if broken.is_none() && !p.is_finite() {
                broken = Some(name.to_owned());
            }
        });
        if let Some(name) = broken {
            let problem = format!("{name} holds a NaN or an infinity: there is nothing to fine-tune; take an earlier checkpoint");
            return Err(FinetuneError::Unfit { dir: dir.path().to_owned(), problem });
        }
        let tokenizer = tokenizer(&dir, &model)?;
        Self::prepare(model, tokenizer, seed)
    }

    /// A fine-tuned model as it is, for a task of its form.
    ///
    /// # Errors
    /// No head, another task's head, or a tokenizer without the special tokens.
    pub fn finetuned(dir: &Path, task: &'static Task) -> Result<Self, FinetuneError> {
        let wanted = tasks::head(task)?;
        let dir = ModelDir::open(dir)?;
        let model = dir.load().map_err(ModelDirError::from)?;
        let tokenizer = tokenizer(&dir, &model)?;
        let error = |problem: String| FinetuneError::Unfit { dir: dir.path().to_owned(), problem };
        let Some(head) = model.score.as_ref().map(Head::config) else {
            let problem = format!("a model without a head: expected one that `gradus finetune --task {}` made", task.name);
            return Err(error(problem));
        };
        if (head.form, head.classes) != (wanted.form, wanted.classes) {
            return Err(error(format!(
                "its head is of form {:?} with {} classes, but {} takes {:?} with {}: this model was fine-tuned for another task",
                head.form, head.classes, task.name, wanted.form, wanted.classes
            )));
        }
        // Two heads of one shape may answer different things.
        if !head.labels.is_empty() && !wanted.labels.is_empty() && head.labels != wanted.labels {
            let (has, wants) = (head.labels.join(", "), wanted.labels.join(", "));
            return Err(error(format!(
                "its head answers {has}; {} takes {wants}: this model was fine-tuned for another task",
                task.name
            )));
        }
        let specials = Specials::of(&tokenizer).ok_or_else(|| {
            error(format!(
                "the tokenizer lacks {}, which open, divide and close what the head reads: copy the tokenizer that was saved with \
                 this model, or fine-tune again",
                Specials::NAMES.join(", ")
            ))
        })?;
        Ok(Reader { fresh: 0..0, model, tokenizer, specials })
    }

    /// A split of a task, read from the folder of its files.
    ///
    /// # Errors
    /// The data set's, or a text without tokens.
    pub fn read(&self, task: &'static Task, folder: &Path, split: Split) -> Result<Data, FinetuneError> {
        self.loaded(task, folder, split, task.load(folder, split)?)
    }

    /// A split that is published without labels, with those of a file in the form of a submission ([`sets::label`]).
    ///
    /// # Errors
    /// Those of [`Reader::read`], and labels that are not this split's.
    pub fn read_labelled(&self, task: &'static Task, folder: &Path, split: Split, labels: &Path) -> Result<Data, FinetuneError> {
        let mut loaded = task.load(folder, split)?;
        if loaded.examples.iter().any(|example| example.label.is_some()) {
            return Err(FinetuneError::Labelled { title: task.title, split });
        }
        sets::label(task, split, &mut loaded.examples, labels)?;
        self.loaded(task, folder, split, loaded)
    }

    fn loaded(&self, task: &'static Task, folder: &Path, split: Split, loaded: Loaded) -> Result<Data, FinetuneError> {
        self.encode(task, loaded, split).map_err(|e| match e {
            FinetuneError::Task(source @ TaskError::Text { .. }) => {
                FinetuneError::Encode { title: task.title, split, folder: folder.to_owned(), source }
            }
            e => e,
        })
    }

    /// A split that was loaded.
    ///
    /// # Errors
    /// A text without tokens.
    pub fn encode(&self, task: &'static Task, loaded: Loaded, split: Split) -> Result<Data, FinetuneError> {
        let context = self.model.backbone.config().context();
        let encoded = tasks::encode_all(task, &loaded.examples, &self.tokenizer, self.specials, context)?;
        let examples = loaded.examples.into_iter().zip(encoded).map(|(example, encoded)| Row { example, encoded }).collect();
        Ok(Data { split, rows: examples, dropped: loaded.dropped })
    }
}

/// The tokenizer beside a model.
fn tokenizer(dir: &ModelDir, model: &Model<Tensor>) -> Result<Tokenizer, FinetuneError> {
    dir.tokenizer(model)?.ok_or_else(|| {
        let problem = "there is no tokenizer beside the model: copy its tokenizer.json there".into();
        FinetuneError::Unfit { dir: dir.path().to_owned(), problem }
    })
}

/// One row of a split, as it is and as the model reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The data set's.
    pub example: gradus_data::sets::Example,
    /// Its sequences.
    pub encoded: Encoded,
}

/// A split of a task.
#[derive(Clone, Debug)]
pub struct Data {
    /// Which.
    pub split: Split,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Rows that the file has and the data set leaves out, and why.
    pub dropped: Vec<Dropped>,
}

impl Data {
    /// At most so many rows, evenly over the split.
    #[must_use]
    pub fn at_most(self, rows: Option<usize>) -> Self {
        Data { rows: evenly(self.rows, rows), ..self }
    }

    /// Has every row a label, to be learnt from or scored by?
    ///
    /// # Errors
    /// [`TaskError::NoLabel`] for the first that has none.
    pub fn check_labels(&self) -> Result<(), TaskError> {
        score::labels(self.rows.iter().map(|row| &row.example)).map(drop)
    }

    /// How many rows the data set leaves out, by reason.
    pub fn left_out(&self) -> BTreeMap<String, usize> {
        left_out(&self.dropped)
    }

    /// Rows of which a text was cut.
    pub fn truncated(&self) -> usize {
        self.rows.iter().filter(|row| row.encoded.truncated).count()
    }

    /// Tokens of the longest row.
    pub fn longest(&self) -> usize {
        self.rows.iter().map(|row| row.encoded.length()).max().unwrap_or(0)
    }
}

/// How many rows a data set leaves out, by reason.
pub fn left_out(dropped: &[Dropped]) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    dropped.iter().for_each(|d| *all.entry(d.reason.to_string()).or_insert(0) += d.rows);
    all
}

/// At most so many of these, evenly over all.
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
    use gradus_model::GptConfig;

    use super::*;
    use gradus_data::sets::{Example, Input};

    /// Of a vocabulary that was made larger than the tokenizer, as of one that was not, the special tokens' rows are fresh.
    #[test]
    fn special_tokens_are_fresh_also_in_a_vocabulary_with_room() {
        for vocab in [256, 258, 300] {
            let config = GptConfig { vocab, ..GptConfig::preset("tiny").unwrap() };
            let model: Model<Tensor> = Model::init(&config.into(), 1);
            let row = |m: &Model<Tensor>, token: u32| {
                let table = &m.gpt().unwrap().tokens_embed.weight.0;
                let d = table.shape()[1];
                table.to_vec().get(token as usize * d..).map(|rest| rest[..d.min(rest.len())].to_vec())
            };
            let reader = Reader::prepare(model.clone(), Tokenizer::bytes(), 1).unwrap();
            assert_eq!(reader.model.backbone.config().vocab(), vocab.max(259));
            let other = reader.with_seed(2);
            for token in 0..259 {
                let special = token >= 256;
                assert_eq!(row(&reader.model, token) == row(&model, token), !special, "token {token} of {vocab}");
                assert_eq!(row(&reader.model, token) == row(&other.model, token), !special, "token {token} of {vocab}");
            }
        }
    }

    /// A text that the tokenizer cannot encode is told with the data set, the split, the folder and the row.
    #[test]
    fn what_cannot_be_encoded_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("dev.tsv"), "sentence\tlabel\nabba\t1\nabcba\t0\n").unwrap();
        let tokenizer = Tokenizer::characters(["ab"]);
        let config = GptConfig { vocab: tokenizer.vocab_size(), ..GptConfig::preset("tiny").unwrap() };
        let reader = Reader::prepare(Model::init(&config.into(), 1), tokenizer, 1).unwrap();
        let told = reader.read(Task::named("sst-2").unwrap(), folder.path(), Split::Dev).unwrap_err().to_string();
        for part in ["SST-2, split `dev`", &folder.path().display().to_string(), "example 1", "'c'"] {
            assert!(told.contains(part), "{part} in {told}");
        }
    }

    #[test]
    fn rows_are_taken_evenly() {
        let row = |i: usize| Row {
            example: Example { id: i.to_string(), input: Input::One(String::new()), label: None, group: None },
            encoded: Encoded { rows: Vec::new(), target: None, truncated: false },
        };
        let data = Data { split: Split::Dev, rows: (0..10).map(row).collect(), dropped: Vec::new() };
        let ids = |most| data.clone().at_most(most).rows.iter().map(|r| r.example.id.parse().unwrap()).collect::<Vec<usize>>();
        assert_eq!(ids(None).len(), 10);
        assert_eq!(ids(Some(10)).len(), 10);
        assert_eq!(ids(Some(5)), [1, 3, 5, 7, 9]);
        assert_eq!(ids(Some(3)).len(), 3);
        assert_eq!(ids(Some(1)), [9]);
    }
}
