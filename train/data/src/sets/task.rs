//! Data sets, their splits and examples.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use gradus_io::files::FileError;
use serde::Serialize;

use super::error::SetError;
use super::kinds::{Label, Split};
use super::location::{Disk, Files, Location};
use super::scores::Metric;

/// A data set: its task, its metrics, and the reader of its files.
#[derive(Debug)]
pub struct Task {
    /// The name on the command line: `sst-2`.
    pub name: &'static str,
    /// The name in tables: `SST-2`.
    pub title: &'static str,
    /// The row in the paper's table 1.
    pub family: Family,
    /// The input transformation (paper §3.3, figure 1).
    pub transformation: Transformation,
    /// The kind of answer.
    pub answer: Answer,
    /// The metric that the paper reports.
    pub metric: Metric,
    /// Further metrics to report.
    pub also: &'static [Metric],
    /// The files that the folder must contain, in words for help texts and errors.
    pub folder: &'static str,
    /// The available splits.
    pub splits: &'static [Split],
    /// Reads one of `splits`; [`Task::load`] also rejects an empty split.
    pub(super) read: fn(&Location<'_>, Split) -> Result<Loaded, SetError>,
}

impl Task {
    /// Reads a split from the folder of the data set's files.
    ///
    /// # Errors
    /// Returns an error if the data set does not have the split, if files are missing or cannot be read, if a row is malformed,
    /// or if there are no rows.
    pub fn load(&self, folder: &Path, split: Split) -> Result<Loaded, SetError> {
        self.load_from(&Disk, folder, split)
    }

    /// Reads a split as [`Task::load`] does, from a folder in `files`.
    ///
    /// # Errors
    /// Returns an error in the cases of [`Task::load`].
    pub fn load_from(&self, files: &dyn Files, folder: &Path, split: Split) -> Result<Loaded, SetError> {
        if !self.splits.contains(&split) {
            return Err(SetError::NoSplit { title: self.title, split, splits: self.splits });
        }
        let loaded = (self.read)(&Location::of(folder, files), split)?;
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

    /// Returns the error for a file operation that failed on a file of a data set.
    pub(super) fn io_error(&self, path: &Path, what: &'static str, cause: std::io::Error) -> SetError {
        match cause.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                SetError::Missing { path: path.into(), what, title: self.title, folder: self.folder }
            }
            _ => FileError::new("read", path, cause).into(),
        }
    }

    /// Returns the number of possible answers: classes, choices, or the integer scores from 0 to the highest.
    pub fn answers(&self) -> usize {
        match self.answer {
            Answer::Classes(names) => names.len(),
            Answer::Score { max } => max + 1,
            Answer::Choice { of } => of,
        }
    }
}

/// The kinds of task in the paper's table 1, and the pronoun resolution of its §5.
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
    /// Pronoun resolution that requires common sense; the paper evaluates it zero-shot only.
    Commonsense,
}

impl fmt::Display for Family {
    /// Writes the name in table 1.
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
    /// Writes the name as one word: `classify`, `entail`, …
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The kind of answer to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One of these classes, in GLUE's order of label ids: [`Label::Class`] is the index in this list.
    Classes(&'static [&'static str]),
    /// A number from 0 to `max`: [`Label::Score`].
    Score {
        /// The highest score.
        max: usize,
    },
    /// One of the answers of the example: [`Label::Class`] is its index among them.
    Choice {
        /// The number of answers per example.
        of: usize,
    },
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
    /// The id of the row in the data set; without ids, the row number from 0.
    pub id: String,
    /// The texts.
    pub input: Input,
    /// The correct answer; `None` in unlabelled test sets.
    pub label: Option<Label>,
    /// The subset that is also reported separately: RACE's `middle` and `high`.
    pub group: Option<&'static str>,
}

/// The texts of an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A text to classify.
    One(String),
    /// Premise and hypothesis, or the two texts of a similarity task.
    Pair(String, String),
    /// A document, a question and the answers to choose from. In Story Cloze, the four sentences, no question, and the two
    /// endings.
    Choices {
        /// The text before the question, shared by all questions on it.
        document: Arc<str>,
        /// The question; may be empty.
        question: String,
        /// The answers to choose from.
        answers: Vec<String>,
    },
    /// A sentence around a pronoun: `before` + candidate + `after` is the sentence with the candidate in the pronoun's place.
    Reference {
        /// The text before the pronoun, including the blank before it.
        before: String,
        /// The text after the pronoun.
        after: String,
        /// The candidates that the pronoun may refer to.
        candidates: [String; 2],
    },
}

/// A split in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The rows of the split, in the order of the files.
    pub examples: Vec<Example>,
    /// The number of rows of its files that belong to another split.
    pub elsewhere: usize,
    /// The rows that were skipped, by reason.
    pub dropped: Vec<Dropped>,
    /// Notes on possible errors in files that were read.
    pub notes: Vec<String>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

/// The rows skipped for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The reason, in words.
    pub reason: String,
    /// The number of rows.
    pub rows: usize,
}

impl Loaded {
    /// Returns the number of rows in the files: the rows of this split, of another, and the skipped ones.
    pub fn rows(&self) -> usize {
        self.examples.len() + self.elsewhere + self.dropped.iter().map(|dropped| dropped.rows).sum::<usize>()
    }

    /// Counts one more row skipped for `reason`.
    pub(super) fn drop_row(&mut self, reason: &str) {
        match self.dropped.iter_mut().find(|dropped| dropped.reason == reason) {
            Some(dropped) => dropped.rows += 1,
            None => self.dropped.push(Dropped { reason: reason.into(), rows: 1 }),
        }
    }

    /// Keeps the first rows for [`Split::Train`], the last `held_out` for [`Split::Dev`], and all for other splits.
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
    fn a_score_has_one_answer_per_whole_number() {
        let answers = ["sts-b", "mnli", "race", "story-cloze"].map(|name| Task::named(name).unwrap().answers());
        assert_eq!(answers, [6, 3, 4, 2]);
    }

    #[test]
    fn held_out_and_dropped_rows_are_counted() {
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
