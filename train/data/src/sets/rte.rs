//! RTE, Recognising Textual Entailment (Dagan et al. 2006 and the challenges after it): does the first text entail the second?
//!
//! GLUE's files: `index`, `sentence1` (premise), `sentence2` (hypothesis), `label`; `test.tsv` without the label.

use std::path::Path;

use super::error::SetError;
use super::scores::Metric;
use super::task::{Answer, Family, Form, Loaded, Split, Task};
use super::tsv::{self, Columns};

/// 2,490 / 277 / 3,000 pairs.
pub static RTE: Task = Task {
    name: "rte",
    title: "RTE",
    family: Family::Inference,
    form: Form::Entail,
    answer: Answer::Classes(&["entailment", "not_entailment"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's RTE",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

fn read(folder: &Path, split: Split) -> Result<Loaded, SetError> {
    tsv::read(&RTE, &folder.join(format!("{split}.tsv")), split, &Columns::GLUE)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{folder, message, texts};
    use super::super::{Label, wnli::WNLI};
    use super::*;

    const DEV: &str = "index\tsentence1\tsentence2\tlabel\n9\tThe owl \"sang\".\tAn owl sang.\tentailment\n";

    #[test]
    fn premise_and_hypothesis() {
        let folder = folder(&[("dev.tsv", DEV)]);
        let loaded = RTE.load(folder.path(), Split::Dev).unwrap();
        assert_eq!(texts(&loaded), ["The owl \"sang\".|An owl sang."]);
        assert_eq!((&*loaded.examples[0].id, loaded.examples[0].label), ("9", Some(Label::Class(0))));
    }

    /// RTE and WNLI have the same columns: the labels tell them apart.
    #[test]
    fn rte_is_not_taken_for_wnli() {
        let found = message(&WNLI, &[("dev.tsv", DEV)], Split::Dev);
        assert!(found.contains("line 2, column 4: expected one of the labels 0, 1, found `entailment`"), "{found}");
        let found = message(&RTE, &[("dev.tsv", &DEV.replace("\tentailment", "\t1"))], Split::Dev);
        assert!(found.contains("expected one of the labels entailment, not_entailment, found `1`"), "{found}");
    }
}
