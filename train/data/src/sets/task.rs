//! What a data set is, and what it holds.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;

use super::error::SetError;
use super::file::SetFile;
use super::place::{Disk, Files, Place};
use super::scores::Metric;

/// A data set: what it asks, how it is scored, and how its files are read.
#[derive(Debug)]
pub struct Task {
    /// The name on the command line: `sst-2`.
    pub name: &'static str,
    /// The name in tables: `SST-2`.
    pub title: &'static str,
    /// Its row in the paper's table 1.
    pub family: Family,
    /// Which input transformation it takes (paper §3.3, figure 1).
    pub transformation: Transformation,
    /// What an answer is.
    pub answer: Answer,
    /// The metric that the paper reports.
    pub metric: Metric,
    /// Metrics reported beside it.
    pub also: &'static [Metric],
    /// What the folder must hold, in words for help texts and errors.
    pub folder: &'static str,
    /// The splits that exist.
    pub splits: &'static [Split],
    /// Reads one of `splits`; [`Task::load`] also refuses an empty one.
    pub(super) read: fn(&Place<'_>, Split) -> Result<Loaded, SetError>,
}

impl Task {
    /// Reads a split from the folder of the data set's files.
    ///
    /// # Errors
    /// A split that the set does not have, files that are missing or cannot be read, a malformed row, no rows at all.
    pub fn load(&self, folder: &Path, split: Split) -> Result<Loaded, SetError> {
        self.load_from(&Disk, folder, split)
    }

    /// The same from a folder of these `files`.
    ///
    /// # Errors
    /// Those of [`Task::load`].
    pub fn load_from(&self, files: &dyn Files, folder: &Path, split: Split) -> Result<Loaded, SetError> {
        if !self.splits.contains(&split) {
            return Err(SetError::NoSplit { title: self.title, split, splits: self.splits });
        }
        let loaded = (self.read)(&Place::of(folder, files), split)?;
        if loaded.examples.is_empty() {
            return Err(SetError::Empty {
                title: self.title,
                split,
                files: loaded.files,
                dropped: loaded.dropped.iter().map(|dropped| dropped.rows).sum(),
            });
        }
        Ok(loaded)
    }

    /// How many answers there are to choose from: classes, choices, or the whole scores from 0 to the highest.
    pub fn answers(&self) -> usize {
        match self.answer {
            Answer::Classes(names) => names.len(),
            Answer::Score { max } => max + 1,
            Answer::Choice { of } => of,
        }
    }
}

/// The kinds of task in the paper's table 1, and the pronouns of its §5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Natural language inference.
    Inference,
    /// Question answering.
    QuestionAnswering,
    /// Sentence similarity.
    Similarity,
    /// Classification.
    Classification,
    /// Pronouns that take common sense to resolve; in the paper only zero-shot.
    Commonsense,
}

impl fmt::Display for Family {
    /// As table 1 calls it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Family::Inference => "natural language inference",
            Family::QuestionAnswering => "question answering",
            Family::Similarity => "sentence similarity",
            Family::Classification => "classification",
            Family::Commonsense => "commonsense reasoning",
        })
    }
}

/// The input transformations of the paper's figure 1, and pronoun resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Transformation {
    /// `[start; x; extract]`, of an [`Input::One`].
    Classify,
    /// `[start; premise; delimiter; hypothesis; extract]`, of an [`Input::Pair`].
    Entail,
    /// Both orders of an [`Input::Pair`], their hidden vectors added.
    Similar,
    /// `[start; context; delimiter; answer; extract]` for each answer of [`Input::Choices`].
    Choose,
    /// Each candidate of an [`Input::Reference`] in the pronoun's place.
    Refer,
}

impl fmt::Display for Transformation {
    /// One word: `classify`, `entail`, …
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What an answer to a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One of these classes, in GLUE's order of label ids: [`Label::Class`] is the place in this list.
    Classes(&'static [&'static str]),
    /// A number from 0 to `max`: [`Label::Score`].
    Score {
        /// The highest.
        max: usize,
    },
    /// One of the answers that the example itself offers: [`Label::Class`] is its place among them.
    Choice {
        /// How many each example offers.
        of: usize,
    },
}

/// A part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Split {
    /// To train on.
    Train,
    /// To choose by (validation); MultiNLI: genres of the training set.
    Dev,
    /// MultiNLI: other genres than the training set's.
    DevMismatched,
    /// To report on; often without labels.
    Test,
    /// MultiNLI: other genres than the training set's.
    TestMismatched,
}

impl Split {
    /// Every split.
    pub const ALL: [Split; 5] = [Split::Train, Split::Dev, Split::DevMismatched, Split::Test, Split::TestMismatched];

    /// The name on the command line: `dev-mismatched`.
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Dev => "dev",
            Split::DevMismatched => "dev-mismatched",
            Split::Test => "test",
            Split::TestMismatched => "test-mismatched",
        }
    }

    /// Whether rows may lack their labels, as where a benchmark keeps them to itself.
    pub fn is_test(self) -> bool {
        matches!(self, Split::Test | Split::TestMismatched)
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Split {
    type Err = SetError;

    fn from_str(name: &str) -> Result<Self, SetError> {
        Split::ALL.into_iter().find(|split| split.name() == name).ok_or_else(|| SetError::SplitName { name: name.into() })
    }
}

/// One row of a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The data set's own id of the row; where it has none, the row's number from 0.
    pub id: String,
    /// The texts.
    pub input: Input,
    /// The answer; `None` in unlabelled test sets.
    pub label: Option<Label>,
    /// The subset that it is also reported under: RACE's `middle` and `high`.
    pub group: Option<&'static str>,
}

/// The texts of an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A text to classify.
    One(String),
    /// Premise and hypothesis, or the two texts of a similarity task.
    Pair(String, String),
    /// A document, a question and the answers to it. Story Cloze: the four sentences, no question, the two endings.
    Choices {
        /// What is read first; the questions on one text share it.
        document: Arc<str>,
        /// What is asked; may be empty.
        question: String,
        /// What can be answered.
        answers: Vec<String>,
    },
    /// A sentence around a pronoun: `before` + candidate + `after` is the sentence with the candidate in the pronoun's place.
    Reference {
        /// Up to the pronoun, the blank before it included.
        before: String,
        /// From the pronoun on, without it.
        after: String,
        /// What the pronoun may stand for.
        candidates: [String; 2],
    },
}

/// The answer to an example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Label {
    /// A class, or the answer chosen, counted from 0.
    Class(usize),
    /// A degree of similarity.
    Score(f64),
}

impl Label {
    /// The class or the score as a number.
    pub fn value(self) -> f64 {
        match self {
            Label::Class(class) => class as f64,
            Label::Score(score) => score,
        }
    }
}

/// A split in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// Its rows, in the order of the files.
    pub examples: Vec<Example>,
    /// Rows of its files that make another split.
    pub elsewhere: usize,
    /// What was passed over, and why.
    pub dropped: Vec<Dropped>,
    /// What may be wrong with the files, though they can be read.
    pub notes: Vec<String>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

/// Rows passed over for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Why, in words.
    pub reason: String,
    /// How many.
    pub rows: usize,
}

impl Loaded {
    /// Nothing yet, of this file.
    pub(super) fn of(file: &SetFile) -> Self {
        let note = || {
            let path = file.path.display();
            format!("{path}: the last line has no end; if the file was cut off, rows are missing")
        };
        let notes = file.is_unfinished().then(note).into_iter().collect();
        Loaded { files: vec![file.path.clone()], notes, ..Loaded::default() }
    }

    /// Rows in the files: those of this split, those of another, and those passed over.
    pub fn rows(&self) -> usize {
        self.examples.len() + self.elsewhere + self.dropped.iter().map(|dropped| dropped.rows).sum::<usize>()
    }

    /// Counts one more row passed over for `reason`.
    pub(super) fn drop_row(&mut self, reason: &str) {
        match self.dropped.iter_mut().find(|dropped| dropped.reason == reason) {
            Some(dropped) => dropped.rows += 1,
            None => self.dropped.push(Dropped { reason: reason.into(), rows: 1 }),
        }
    }

    /// Keeps the first rows for [`Split::Train`], the last `held_out` for [`Split::Dev`], and all for others.
    pub(super) fn hold_out(mut self, split: Split, held_out: usize) -> Self {
        let all = self.examples.len();
        match split {
            Split::Train => self.examples.truncate(all - held_out),
            Split::Dev => drop(self.examples.drain(..all - held_out)),
            _ => {}
        }
        self.elsewhere = all - self.examples.len();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_has_as_many_answers_as_whole_numbers() {
        let answers = ["sts-b", "mnli", "race", "story-cloze"].map(|name| Task::named(name).unwrap().answers());
        assert_eq!(answers, [6, 3, 4, 2]);
    }

    #[test]
    fn rows_are_counted_wherever_they_went() {
        let example = Example { id: "0".into(), input: Input::One(String::new()), label: None, group: None };
        let all = Loaded { examples: vec![example; 10], ..Loaded::default() };
        for (split, rows, elsewhere) in [(Split::Train, 7, 3), (Split::Dev, 3, 7), (Split::Test, 10, 0)] {
            let mut held = all.clone().hold_out(split, 3);
            assert_eq!((held.examples.len(), held.elsewhere, held.rows()), (rows, elsewhere, 10), "{split}");
            ["a", "b", "a"].iter().for_each(|reason| held.drop_row(reason));
            assert_eq!((held.dropped.len(), held.rows()), (2, 13), "{split}");
        }
    }
}
