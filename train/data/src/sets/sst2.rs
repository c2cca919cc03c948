//! SST-2, the Stanford Sentiment Treebank with two classes (Socher et al. 2013): whether a film review is positive.
//!
//! The files are GLUE's: `sentence` and `label` in `train.tsv` (which includes phrases) and `dev.tsv`, `index` and `sentence` in
//! `test.tsv`. Sentences are tokenised, in lower case, and end with a blank.

use super::tsv::{self, Columns, Written};
use super::{Answer, Family, Metric, Split, Task, Transformation};

/// 67,349 / 872 / 1,821 texts.
pub static SST2: Task = Task {
    name: "sst-2",
    title: "SST-2",
    family: Family::Classification,
    transformation: Transformation::Classify,
    answer: Answer::Classes(&["negative", "positive"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's SST-2",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read: |folder, split| {
        tsv::glue(&SST2, folder, split, &Columns { texts: &["sentence"], written: Written::Numbers, ..Columns::GLUE })
    },
};
