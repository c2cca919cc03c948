//! WNLI, Winograd schemas as inference (Levesque, Davis, Morgenstern 2012; Wang et al. 2018): whether the text entails a sentence
//! with a noun in place of the pronoun.
//!
//! The files are GLUE's: `index`, `sentence1`, `sentence2`, `label` as 0 or 1; `test.tsv` has no label. Many dev sentences are in
//! the training set with the other label, so a trained model may score below chance on them. The paper excludes WNLI; GLUE's
//! average includes it.

use super::tsv::{self, Columns, Written};
use super::{Answer, Family, Metric, Split, Task, Transformation};

/// 635 / 71 / 146 pairs.
pub static WNLI: Task = Task {
    name: "wnli",
    title: "WNLI",
    family: Family::Inference,
    transformation: Transformation::Entail,
    answer: Answer::Classes(&["not_entailment", "entailment"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's WNLI",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read: |folder, split| tsv::glue(&WNLI, folder, split, &Columns { written: Written::Numbers, ..Columns::GLUE }),
};
