//! QNLI, question inference (Wang et al. 2018, from SQuAD): whether a sentence contains the answer to a question.
//!
//! The files are GLUE's: `index`, `question`, `sentence`, `label`; `test.tsv` has no label. Neither the paper nor OpenAI's code
//! specifies the order of the two texts. Here the sentence is the premise and the question is the hypothesis, since the sentence
//! entails the answer.

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
