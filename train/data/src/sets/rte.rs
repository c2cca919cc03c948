//! RTE, Recognising Textual Entailment (Dagan et al. 2006 and later challenges): whether the first text entails the second.
//!
//! The files are GLUE's: `index`, `sentence1` (premise), `sentence2` (hypothesis), `label`; `test.tsv` has no label.

use super::tsv::{self, Columns};
use super::{Answer, Family, Metric, Split, Task, Transformation};

/// 2,490 / 277 / 3,000 pairs.
pub static RTE: Task = Task {
    name: "rte",
    title: "RTE",
    family: Family::Inference,
    transformation: Transformation::Entail,
    answer: Answer::Classes(&["entailment", "not_entailment"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's RTE",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read: |folder, split| tsv::glue(&RTE, folder, split, &Columns::GLUE),
};

#[cfg(test)]
mod tests {
    use super::super::testing::refused;
    use super::super::wnli::WNLI;
    use super::*;

    const DEV: &str = "index\tsentence1\tsentence2\tlabel\n9\tThe owl \"sang\".\tAn owl sang.\tentailment\n";

    /// RTE and WNLI have the same columns: only the labels differ.
    #[test]
    fn rte_is_not_taken_for_wnli() {
        let words = "line 2, column 4: expected one of the labels 0, 1, found `entailment`";
        refused(&WNLI, &[("dev.tsv", DEV)], Split::Dev, words);
        let words = "expected one of the labels entailment, not_entailment, found `1`";
        refused(&RTE, &[("dev.tsv", &DEV.replace("\tentailment", "\t1"))], Split::Dev, words);
    }
}
