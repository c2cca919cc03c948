//! The paper's tasks in miniature, exactly labelled, from the stories that the model was pre-trained on.
//!
//! [`write()`] makes a folder per task, with the files of the original distribution, so that one reader serves both. The
//! labels follow from the facts of the stories, never from their wording; each row comes from a story of its own.
//!
//! | folder | question | metric | best possible |
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
//! QQP     a label is flipped with probability 1/10, half of the pairs are duplicates. Of n rows, predicting all
//!         duplicates hits 9n/20, with n/20 false positives and n/20 false negatives:
//!         F1 = 2·9/(2·9 + 1 + 1) = 9/10 for the expected counts; more positives would add rows with p = 1/10 < F1/2.
//! ```
//!
//! ```
//! use gradus_paper::tasks;
//!
//! let folder = tempfile::tempdir()?;
//! let written = tasks::write(1, &folder.path().join("tasks"), 20, |_| {})?;
//! assert_eq!(written.tasks.len(), tasks::names().count());
//! assert!(folder.path().join("tasks/rte/train.tsv").exists());
//! assert_eq!(tasks::bayes("sst-2"), Some(0.9));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod classify;
mod entail;
mod format;
mod hypotheses;
mod pronouns;
mod questions;
mod similarity;
mod tale;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use gradus_data::sets::Split;
use gradus_io::checksums::replace_directory;
use gradus_io::exit::{self, Exit};
use gradus_io::files::FileError;
use gradus_tensor::rng::Philox;
use gradus_train::hyperparameters::{RangeError, require};
use gradus_world::World;

use self::tale::Teller;

/// The first random stream of the tasks; pre-training takes its stories from streams 1 and 2.
const STREAMS: u64 = 1 << 32;
/// The inverse of the fraction of flipped labels in QQP.
const FLIPPED: usize = 10;

/// The range of the number of training rows: fewer leave a split of some task empty, and more different rows do not exist.
const ROWS: RangeInclusive<usize> = 7..=1_000_000;

/// A row of any task: its texts in the order of the model's input, and the number of its label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Labelled {
    texts: Vec<String>,
    label: usize,
    /// The genre of MNLI, the level of RACE, or the violation of CoLA.
    kind: &'static str,
}

/// The functions and sizes that make and write the rows of a task.
struct Maker {
    name: &'static str,
    bayes: f64,
    row: fn(&mut Teller<'_>, Split) -> Labelled,
    write: format::Write,
    splits: &'static [Split],
    /// The percentage of the requested training rows.
    share: usize,
}

const THREE: &[Split] = &[Split::Train, Split::Dev, Split::Test];
/// The splits of Story Cloze and DPRD, which have no dev file: their readers hold out the last fifth of the training file.
const TWO: &[Split] = &[Split::Train, Split::Test];

static MAKERS: [Maker; 14] = [
    Maker { name: "mnli", bayes: 1.0, row: entail::mnli, write: format::mnli, splits: &Split::ALL, share: 100 },
    Maker { name: "snli", bayes: 1.0, row: entail::snli, write: format::snli, splits: THREE, share: 100 },
    Maker { name: "scitail", bayes: 1.0, row: entail::scitail, write: format::scitail, splits: THREE, share: 100 },
    Maker { name: "qnli", bayes: 1.0, row: entail::qnli, write: format::qnli, splits: THREE, share: 100 },
    Maker { name: "rte", bayes: 1.0, row: entail::rte, write: format::rte, splits: THREE, share: 25 },
    Maker { name: "wnli", bayes: 1.0, row: entail::wnli, write: format::wnli, splits: THREE, share: 25 },
    Maker { name: "story-cloze", bayes: 1.0, row: questions::story_cloze, write: format::story_cloze, splits: TWO, share: 30 },
    Maker { name: "race", bayes: 1.0, row: questions::race, write: format::race, splits: THREE, share: 15 },
    Maker { name: "cola", bayes: 1.0, row: classify::cola, write: format::cola, splits: THREE, share: 50 },
    Maker { name: "sst-2", bayes: 0.9, row: classify::sst2, write: format::sst2, splits: THREE, share: 15 },
    Maker { name: "mrpc", bayes: 1.0, row: similarity::mrpc, write: format::mrpc, splits: THREE, share: 50 },
    Maker { name: "sts-b", bayes: 1.0, row: similarity::stsb, write: format::stsb, splits: THREE, share: 40 },
    Maker { name: "qqp", bayes: 0.9, row: similarity::qqp, write: format::qqp, splits: THREE, share: 60 },
    Maker { name: "dprd", bayes: 1.0, row: pronouns::dprd, write: format::dprd, splits: TWO, share: 100 },
];

/// Returns the names of the tasks, which are also the names of their folders.
pub fn names() -> impl Iterator<Item = &'static str> {
    MAKERS.iter().map(|task| task.name)
}

fn maker(task: &str) -> Option<&'static Maker> {
    MAKERS.iter().find(|maker| maker.name == task)
}

/// Returns the best possible expected score on a task, in the paper's metric for it (derived in the [module](self)); `None` for a
/// name that is not a task of the world.
pub fn bayes(task: &str) -> Option<f64> {
    Some(maker(task)?.bayes)
}

/// Returns the smallest expected cross-entropy of a task's labels, in nats per example, which is the entropy of their noise;
/// `None` for a name that is not a task of the world.
pub fn entropy(task: &str) -> Option<f64> {
    let p = bayes(task)?; // with noise, the probability of the likelier label of each row
    Some(if p < 1.0 { -p * p.ln() - (1.0 - p) * (1.0 - p).ln() } else { 0.0 })
}

/// Returns the number of training rows of a task if no task has more than `most`; `None` for a name that is not a task of the
/// world.
pub fn training_rows(task: &str, most: usize) -> Option<usize> {
    Some(maker(task)?.training_rows(most))
}

/// Returns the first training row of RACE in the files of a seed: its article, question and four answers, and the index of the
/// right answer.
pub fn question(seed: u64) -> (Vec<String>, usize) {
    let race = maker("race").expect("a task of the world");
    let row = race.rows(&World::default(), seed, *ROWS.start()).expect("a few rows").swap_remove(0).1.swap_remove(0);
    (row.texts, row.label)
}

/// Returns the beginning of the names of a split's files.
fn stem(task: &str, split: Split) -> &'static str {
    match (task, split) {
        ("mnli", Split::Dev) => "dev_matched",
        ("mnli", Split::DevMismatched) => "dev_mismatched",
        ("mnli", Split::Test) => "test_matched",
        ("mnli", Split::TestMismatched) => "test_mismatched",
        (_, split) => split.name(),
    }
}

/// Returns the path of the separate labels of a test set, in the form of a submission to GLUE.
pub fn test_labels(folder: &Path, task: &str, split: Split) -> PathBuf {
    folder.join(format!("{}_labels.tsv", stem(task, split)))
}

/// The reason why no tasks were written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum WriteTasksError {
    #[error("{} already exists, and tasks are not written over it; name another folder", path.display())]
    Exists { path: PathBuf },
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("{task}: expected {rows} different rows, but only {found} were found; use fewer rows")]
    Exhausted { task: &'static str, rows: usize, found: usize },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Exit for WriteTasksError {
    fn exit_code(&self) -> u8 {
        match self {
            WriteTasksError::Range(_) => exit::USAGE,
            _ => exit::FAILED,
        }
    }
}

/// The tasks that [`write()`] wrote.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Written {
    /// The folder that holds one folder per task.
    pub folder: PathBuf,
    /// One entry per task.
    pub tasks: Vec<WrittenTask>,
}

/// The statistics of a task.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct WrittenTask {
    /// The name of the task and its folder.
    pub name: &'static str,
    /// The number of rows of all splits.
    pub rows: usize,
    /// The mean number of words of a row, over all its texts, without punctuation.
    pub mean_words: f64,
    /// The number of words of the longest row.
    pub max_words: usize,
    /// The best possible score.
    pub bayes: f64,
}

/// Writes every task of the world into a new folder `dir`; on an error, no files remain. There are at most `rows` training rows
/// (some tasks have fewer, as in the originals: [`training_rows`]), three tenths of `rows` for dev and three fifths for test.
/// MNLI has equally many mismatched rows; Story Cloze and DPRD have a quarter as many dev rows as training rows. A seed gives
/// identical files on every machine. No row is in two splits of a task. Each row is made from its own story, which no
/// pre-training uses; short rows (of CoLA, DPRD) may occur word for word in other stories, without their labels. `done` receives
/// the number of tasks done, after each.
///
/// # Errors
/// Returns an error if `dir` exists, `rows` is out of range, or a file cannot be written.
pub fn write(seed: u64, dir: &Path, rows: usize, mut done: impl FnMut(usize)) -> Result<Written, WriteTasksError> {
    if dir.exists() {
        return Err(WriteTasksError::Exists { path: dir.to_owned() });
    }
    require("rows", rows, ROWS.contains(&rows), format!("a number from {} to {}", ROWS.start(), ROWS.end()))?;
    let (world, mut tasks) = (World::default(), Vec::new());
    replace_directory(dir, |fresh| {
        for maker in &MAKERS {
            let splits = maker.rows(&world, seed, rows)?;
            let folder = &fresh.join(maker.name);
            for (split, rows) in &splits {
                (maker.write)(&format::Files { folder, split: *split, stem: stem(maker.name, *split), rows })?;
            }
            tasks.push(maker.summary(splits.iter().flat_map(|(_, rows)| rows)));
            done(tasks.len());
        }
        Ok::<(), WriteTasksError>(())
    })?;
    Ok(Written { folder: dir.to_owned(), tasks })
}

impl Maker {
    /// Returns the task's share of `most` training rows.
    fn training_rows(&self, most: usize) -> usize {
        (most * self.share / 100).max(1)
    }

    /// Returns the rows of every split, each from its own random stream, without duplicates.
    fn rows(&self, world: &World, seed: u64, most: usize) -> Result<Vec<(Split, Vec<Labelled>)>, WriteTasksError> {
        let place = names().position(|name| name == self.name).unwrap_or(0) as u64;
        let train = self.training_rows(most);
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for (at, &split) in (0..).zip(self.splits) {
            let mut teller = Teller { world, rng: Philox::with_stream(seed, STREAMS + 8 * place + at) };
            let wanted = match split {
                Split::Train if self.splits == TWO => train + train / 4,
                Split::Train => train,
                Split::Dev | Split::DevMismatched => most * 3 / 10,
                Split::Test | Split::TestMismatched => most * 3 / 5,
            };
            let drawn = (0..20 * wanted + 1000).map(|_| (self.row)(&mut teller, split));
            let rows: Vec<Labelled> = drawn.filter(|row| seen.insert(row.texts.clone())).take(wanted).collect();
            if rows.len() < wanted {
                return Err(WriteTasksError::Exhausted { task: self.name, rows: wanted, found: rows.len() });
            }
            all.push((split, rows));
        }
        Ok(all)
    }

    fn summary<'r>(&self, rows: impl Iterator<Item = &'r Labelled>) -> WrittenTask {
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
