//! QNLI, question inference (Wang et al. 2018, from SQuAD): does the sentence hold the answer to the question?
//!
//! GLUE's files: `index`, `question`, `sentence`, `label`; `test.tsv` without the label. Neither the paper nor OpenAI's code
//! says which of the two comes first. Here the sentence is the premise and the question the hypothesis, since entailment runs
//! from the sentence to what is asked.

use super::tsv::{self, Columns};
use super::{Answer, Family, Metric, Split, Task, Transformation};

/// 104,743 / 5,463 / 5,463 pairs, in GLUE's second release.
pub static QNLI: Task = Task {
    name: "qnli",
    title: "QNLI",
    family: Family::Inference,
    transformation: Transformation::Entail,
    answer: Answer::Classes(&["entailment", "not_entailment"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's QNLI",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read: |folder, split| tsv::glue(&QNLI, folder, split, &Columns { texts: &["sentence", "question"], ..Columns::GLUE }),
};
