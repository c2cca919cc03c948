//! The paper's tasks in miniature, exactly labelled, from the stories that the model was pre-trained on.
//!
//! [`write()`] makes a folder a task, with the files of the original distribution, so that one reader serves both. The
//! labels follow from the facts of the stories, never from their wording; each row comes from a story of its own.
//!
//! | folder | asks | metric | best possible |
//! |-|-|-|-|
//! | `mnli`, `snli` | entailed, contradicted or open? | accuracy | 1 |
//! | `scitail` | does it follow by the world's physics? | accuracy | 1 |
//! | `rte` | do two facts follow? | accuracy | 1 |
//! | `qnli` | does the sentence answer the question? | accuracy | 1 |
//! | `wnli`, `dprd` | whom does the pronoun mean? | accuracy | 1 |
//! | `race` | which of four answers? | accuracy | 1 |
//! | `story-cloze` | which of two endings? | accuracy | 1 |
//! | `mrpc` | the same in other words? | F1 | 1 |
//! | `qqp` | the same question? | F1 | 0.9 |
//! | `sts-b` | how many of five facts agree? | Pearson | 1 |
//! | `cola` | is it grammatical? | Matthews | 1 |
//! | `sst-2` | will the mood be positive? | accuracy | 0.9 |
//!
//! Where the best possible score is below 1, the labels have noise of a known size ([`bayes`]):
//!
//! ```text
//! SST-2   p(positive | the tool overcomes the obstacle) = p(negative | none does) = 9/10, half of the rows each.
//!         Best accuracy: 9/10.
//! QQP     a label is flipped with probability 1/10, half of the pairs are duplicates. Of n rows, whoever predicts all
//!         duplicates hits 9n/20 and has n/20 false positives and n/20 false negatives:
//!         F1 = 2·9/(2·9 + 1 + 1) = 9/10 for the expected counts; more positives would add rows with p = 1/10 < F1/2.
//! ```
//!
//! ```
//! use gradus_paper::tasks;
//! use gradus_world::World;
//!
//! let folder = tempfile::tempdir()?;
//! let sizes = tasks::Sizes { train: 20, dev: 8, test: 8 };
//! let written = tasks::write(&World::default(), 1, &folder.path().join("tasks"), sizes)?;
//! assert_eq!(written.tasks.len(), tasks::names().count());
//! assert!(folder.path().join("tasks/rte/train.tsv").exists());
//! assert_eq!(tasks::bayes("sst-2"), Some(0.9));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod claims;
mod classify;
mod entail;
mod format;
mod pronouns;
mod questions;
mod similarity;
mod tale;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use gradus_data::sets;
use gradus_io::files::{FileError, replace_directory};
use gradus_tensor::rng::Philox;
use gradus_world::{World, WorldConfig};

use self::tale::Source;

/// The seeds' streams that belong to tasks begin here; pre-training takes its stories from streams 1 and 2.
const STREAMS: u64 = 1 << 32;
/// One label in this many is flipped in QQP.
const FLIPPED: usize = 10;

/// Rows of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Sizes {
    /// To learn from, at most: as in the originals, some tasks have fewer ([`training_rows`]).
    pub train: usize,
    /// To choose by; MNLI has as many once more, mismatched. Story Cloze and DPRD have a quarter of the rows to learn from.
    pub dev: usize,
    /// To report.
    pub test: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes::of(1000)
    }
}

/// Most rows that a task has to learn from.
pub const MOST_ROWS: usize = 1_000_000;

impl Sizes {
    /// This many to learn from, three tenths of them to choose by, three fifths to report.
    pub fn of(train: usize) -> Self {
        Sizes { train, dev: train * 3 / 10, test: train * 3 / 5 }
    }
}

/// A part of a task's rows that has files of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    Train,
    Dev,
    Test,
    DevMatched,
    DevMismatched,
    TestMatched,
    TestMismatched,
    /// Train, then dev, in one file: Story Cloze and DPRD have no dev file; their readers hold out the last fifth.
    TrainAndDev,
}

impl Split {
    /// As file names have it.
    fn name(self) -> &'static str {
        match self {
            Split::Train | Split::TrainAndDev => "train",
            Split::Dev => "dev",
            Split::Test => "test",
            Split::DevMatched => "dev_matched",
            Split::DevMismatched => "dev_mismatched",
            Split::TestMatched => "test_matched",
            Split::TestMismatched => "test_mismatched",
        }
    }

    fn is_test(self) -> bool {
        matches!(self, Split::Test | Split::TestMatched | Split::TestMismatched)
    }

    fn mismatched(self) -> bool {
        matches!(self, Split::DevMismatched | Split::TestMismatched)
    }
}

/// A row of any task: its texts in the order of the model's input, and the number of its label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    texts: Vec<String>,
    label: usize,
    /// Genre of MNLI, level of RACE, violation of CoLA.
    kind: &'static str,
}

/// How the rows of a task are made and written.
struct Task {
    name: &'static str,
    bayes: f64,
    row: fn(&mut Source<'_>, Split) -> Row,
    write: format::Write,
    splits: &'static [Split],
    /// Training rows a hundred.
    share: usize,
}

const THREE: &[Split] = &[Split::Train, Split::Dev, Split::Test];
const TWO: &[Split] = &[Split::TrainAndDev, Split::Test];
const FIVE: &[Split] = &[Split::Train, Split::DevMatched, Split::DevMismatched, Split::TestMatched, Split::TestMismatched];

const fn task(
    name: &'static str,
    bayes: f64,
    row: fn(&mut Source<'_>, Split) -> Row,
    write: format::Write,
    splits: &'static [Split],
    share: usize,
) -> Task {
    Task { name, bayes, row, write, splits, share }
}

static TASKS: [Task; 14] = [
    task("mnli", 1.0, entail::mnli, format::mnli, FIVE, 100),
    task("snli", 1.0, entail::snli, format::snli, THREE, 100),
    task("scitail", 1.0, entail::scitail, format::scitail, THREE, 100),
    task("qnli", 1.0, entail::qnli, format::qnli, THREE, 100),
    task("rte", 1.0, entail::rte, format::rte, THREE, 25),
    task("wnli", 1.0, entail::wnli, format::wnli, THREE, 25),
    task("story-cloze", 1.0, questions::story_cloze, format::story_cloze, TWO, 30),
    task("race", 1.0, questions::race, format::race, THREE, 15),
    task("cola", 1.0, classify::cola, format::cola, THREE, 50),
    task("sst-2", 0.9, classify::sst2, format::sst2, THREE, 15),
    task("mrpc", 1.0, similarity::mrpc, format::mrpc, THREE, 50),
    task("sts-b", 1.0, similarity::stsb, format::stsb, THREE, 40),
    task("qqp", 0.9, similarity::qqp, format::qqp, THREE, 60),
    task("dprd", 1.0, pronouns::dprd, format::dprd, TWO, 100),
];

/// The names of the tasks, which are their folders' names.
pub fn names() -> impl Iterator<Item = &'static str> {
    TASKS.iter().map(|task| task.name)
}

/// The best expected score that anybody can have on a task, in the metric the paper reports for it (derived in the
/// [module](self)); nothing for a name that is no task of the world.
pub fn bayes(task: &str) -> Option<f64> {
    TASKS.iter().find(|t| t.name == task).map(|t| t.bayes)
}

/// Where the labels lie of a test set that is published without them, in the form of a submission to GLUE: beside it.
pub fn test_labels(folder: &Path, task: &str, split: sets::Split) -> PathBuf {
    folder.join(match (task, split) {
        (_, sets::Split::TestMismatched) => "test_mismatched_labels.tsv",
        ("mnli", _) => "test_matched_labels.tsv",
        _ => "test_labels.tsv",
    })
}

/// The rows that a task has to learn from where [`Sizes::train`] is `most`; nothing for a name that is no task of the world.
pub fn training_rows(task: &str, most: usize) -> Option<usize> {
    TASKS.iter().find(|t| t.name == task).map(|t| t.training_rows(most))
}

/// Why no tasks were written.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// Something stands there.
    #[error("{}: there is something of this name, and tasks are not written over; name another folder", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A world of fewer words.
    #[error("tasks are made from the whole world: fewer words than its default leave too few wrong answers")]
    World,
    /// A split without a row.
    #[error("rows of {split}: expected at least {least}, found {found}; every task needs a row in each of its files")]
    Few {
        /// `train`, `dev` or `test`.
        split: &'static str,
        /// The least.
        least: usize,
        /// What was asked for.
        found: usize,
    },
    /// More rows than anybody would wait for.
    #[error("rows of train: expected at most {most}, found {found}; ask for fewer rows")]
    Many {
        /// The most.
        most: usize,
        /// What was asked for.
        found: usize,
    },
    /// The world does not have so many different rows.
    #[error("{task}: expected {rows} different rows, but only {found} were found; ask for fewer rows")]
    Exhausted {
        /// The task.
        task: &'static str,
        /// What was asked for.
        rows: usize,
        /// What there was.
        found: usize,
    },
    /// The operating system refused.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What [`write()`] wrote.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Written {
    /// The folder that holds a folder for each task.
    pub folder: PathBuf,
    /// One entry a task.
    pub tasks: Vec<WrittenTask>,
}

/// A task in numbers.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct WrittenTask {
    /// Its name and folder.
    pub name: &'static str,
    /// Rows of all splits.
    pub rows: usize,
    /// Mean number of words of a row: all its texts, without marks.
    pub mean_words: f64,
    /// Words of the longest row.
    pub max_words: usize,
    /// The best possible score.
    pub bayes: f64,
}

/// Writes every task of `world` into a new folder `dir`, as a whole or not at all. A seed gives the same files on every
/// machine. No row stands in two splits of a task. Each row is made from a story of its own, which no pre-training is told; short
/// rows (of CoLA, DPRD) may stand word for word in other stories, without their labels.
///
/// # Errors
/// If `dir` exists, the world is not the default one, a size is too small or too large, or a file cannot be written.
pub fn write(world: &World, seed: u64, dir: &Path, sizes: Sizes) -> Result<Written, TaskError> {
    write_observed(world, seed, dir, sizes, |_| ())
}

/// [`write()`], telling after each task how many are done.
///
/// # Errors
/// Those of [`write()`].
pub fn write_observed(
    world: &World,
    seed: u64,
    dir: &Path,
    sizes: Sizes,
    mut done: impl FnMut(usize),
) -> Result<Written, TaskError> {
    if dir.exists() {
        return Err(TaskError::Exists { path: dir.to_owned() });
    }
    if *world.config() != WorldConfig::default() {
        return Err(TaskError::World);
    }
    if sizes.train > MOST_ROWS {
        return Err(TaskError::Many { most: MOST_ROWS, found: sizes.train });
    }
    for (split, found, least) in [("train", sizes.train, 4), ("dev", sizes.dev, 2), ("test", sizes.test, 2)] {
        if found < least {
            return Err(TaskError::Few { split, least, found });
        }
    }
    let mut tasks = Vec::new();
    replace_directory(dir, |fresh| {
        for task in &TASKS {
            let splits = task.rows(world, seed, sizes)?;
            for (split, rows) in &splits {
                (task.write)(&fresh.join(task.name), *split, rows)?;
            }
            tasks.push(task.summary(splits.iter().flat_map(|(_, rows)| rows)));
            done(tasks.len());
        }
        Ok::<(), TaskError>(())
    })?;
    Ok(Written { folder: dir.to_owned(), tasks })
}

impl Task {
    /// Its share of `most` rows to learn from.
    fn training_rows(&self, most: usize) -> usize {
        (most * self.share / 100).max(1)
    }

    /// The rows of every split, each from a stream of its own; a row that came up before is passed over.
    fn rows(&self, world: &World, seed: u64, sizes: Sizes) -> Result<Vec<(Split, Vec<Row>)>, TaskError> {
        let place = TASKS.iter().position(|task| task.name == self.name).unwrap_or(0) as u64;
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for (at, &split) in (0..).zip(self.splits) {
            let mut source = Source::new(world, Philox::with_stream(seed, STREAMS + 8 * place + at));
            let train = self.training_rows(sizes.train);
            let wanted = match split {
                Split::Train => train,
                Split::TrainAndDev => train + train / 4,
                split if split.is_test() => sizes.test,
                _ => sizes.dev,
            };
            let mut rows: Vec<Row> = Vec::with_capacity(wanted);
            for _ in 0..20 * wanted + 1000 {
                if rows.len() == wanted {
                    break;
                }
                let row = (self.row)(&mut source, split);
                if seen.insert(row.texts.clone()) {
                    rows.push(row);
                }
            }
            if rows.len() < wanted {
                return Err(TaskError::Exhausted { task: self.name, rows: wanted, found: rows.len() });
            }
            all.push((split, rows));
        }
        Ok(all)
    }

    fn summary<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> WrittenTask {
        let words: Vec<usize> = rows.map(|row| row.texts.iter().map(|text| text.split(' ').count()).sum()).collect();
        WrittenTask {
            name: self.name,
            rows: words.len(),
            mean_words: words.iter().sum::<usize>() as f64 / words.len().max(1) as f64,
            max_words: words.iter().copied().max().unwrap_or(0),
            bayes: self.bayes,
        }
    }
}
