//! MultiNLI (Williams, Nangia, Bowman 2018): does the premise entail the hypothesis, contradict it, or neither?
//!
//! GLUE's files: `sentence1` (premise), `sentence2` (hypothesis) and, last, `gold_label`, in `train.tsv`, `dev_matched.tsv`
//! (the training set's genres) and `dev_mismatched.tsv` (others); `test_matched.tsv` and `test_mismatched.tsv` have no labels.
//! Rows may have more columns than the header, for further annotators: the gold label is a row's last field. Where it is
//! `-`, the annotators had no majority; such rows are passed over and counted.

use std::path::Path;

use super::error::SetError;
use super::scores::Metric;
use super::task::{Answer, Family, Form, Loaded, Split, Task};
use super::tsv::{self, Columns};

/// 392,702 / 9,815 and 9,832 / 9,796 and 9,847 pairs.
pub static MNLI: Task = Task {
    name: "mnli",
    title: "MultiNLI",
    family: Family::Inference,
    form: Form::Entail,
    answer: Answer::Classes(&["entailment", "neutral", "contradiction"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.tsv`, `dev_matched.tsv`, `dev_mismatched.tsv`, `test_matched.tsv` and `test_mismatched.tsv` of GLUE's MNLI",
    splits: &Split::ALL,
    read,
};

fn read(folder: &Path, split: Split) -> Result<Loaded, SetError> {
    let file = match split {
        Split::Train => "train.tsv",
        Split::Dev => "dev_matched.tsv",
        Split::DevMismatched => "dev_mismatched.tsv",
        Split::Test => "test_matched.tsv",
        Split::TestMismatched => "test_mismatched.tsv",
    };
    let columns = Columns { label: "gold_label", marks: &["genre"], wide: true, ..Columns::GLUE };
    tsv::read(&MNLI, &folder.join(file), split, &columns)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{folder, message, texts};
    use super::super::{Label, rte::RTE};
    use super::*;

    const TRAIN: &str = "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n\
                         3\tletters\tIt rained all day.\tThe day was wet.\tentailment\tentailment\n\
                         4\tletters\tIt rained.\tIt was May.\tneutral\tcontradiction\tneutral\tneutral\tneutral\n\
                         5\tletters\tIt rained.\tIt poured.\tneutral\t-\n";

    #[test]
    fn the_gold_label_is_the_last_field_of_a_row() {
        let folder = folder(&[("train.tsv", TRAIN), ("dev_mismatched.tsv", TRAIN)]);
        for split in [Split::Train, Split::DevMismatched] {
            let loaded = MNLI.load(folder.path(), split).unwrap();
            assert_eq!(texts(&loaded), ["It rained all day.|The day was wet.", "It rained.|It was May."]);
            assert_eq!(loaded.examples[1].label, Some(Label::Class(1)), "not the header's `gold_label`, a contradiction");
            assert_eq!((loaded.dropped[0].rows, loaded.dropped[0].reason.contains("no majority")), (1, true));
        }
    }

    #[test]
    fn each_split_has_its_file() {
        let test = "index\tgenre\tsentence1\tsentence2\n0\toup\tA.\tB.\n";
        let folder = folder(&[("test_matched.tsv", test), ("test_mismatched.tsv", &test.replace("A.", "C."))]);
        assert_eq!(texts(&MNLI.load(folder.path(), Split::Test).unwrap()), ["A.|B."]);
        assert_eq!(texts(&MNLI.load(folder.path(), Split::TestMismatched).unwrap()), ["C.|B."]);
        let found = MNLI.load(folder.path(), Split::Dev).unwrap_err().to_string();
        assert!(found.contains("dev_matched.tsv: there is no such file"), "{found}");
        let found = RTE.load(folder.path(), Split::DevMismatched).unwrap_err().to_string();
        assert_eq!(found, "RTE has no split `dev-mismatched`. Choose one of: train, dev, test");
    }

    /// As MultiNLI itself has its columns: the gold label first, the annotators' last.
    #[test]
    fn a_gold_label_that_stands_elsewhere_is_found_there() {
        let original = "gold_label\tsentence1\tsentence2\tgenre\tlabel1\tlabel2\nneutral\tA.\tB.\toup\tneutral\tentailment\n";
        let folder = folder(&[("dev_matched.tsv", original)]);
        assert_eq!(MNLI.load(folder.path(), Split::Dev).unwrap().examples[0].label, Some(Label::Class(1)));
        let wider = format!("{original}neutral\tA.\tB.\toup\tneutral\tentailment\tneutral\n");
        let found = message(&MNLI, &[("dev_matched.tsv", &wider)], Split::Dev);
        assert!(found.contains("line 3, column 7: expected 6 columns"), "{found}");
    }

    /// A tab in a text moves all that follows: what stands where a label should is the text.
    #[test]
    fn a_tab_in_a_text_is_an_error() {
        let torn = format!("{TRAIN}6\tletters\tOne\tday.\tIt was.\tneutral\tneutral\n");
        let found = message(&MNLI, &[("train.tsv", &torn)], Split::Train);
        assert!(found.contains("line 5, column 5: expected one of the labels") && found.contains("`It was.`"), "{found}");
        let test = "index\tgenre\tsentence1\tsentence2\n0\toup\tOne\tday.\tIt was.\n";
        let found = message(&MNLI, &[("test_matched.tsv", test)], Split::Test);
        assert!(found.contains("line 2, column 5: expected 4 columns"), "{found}");
    }

    #[test]
    fn short_rows_and_other_labels_are_refused() {
        let found = message(&MNLI, &[("train.tsv", &format!("{TRAIN}6\tletters\tA.\tB.\tneutral\n"))], Split::Train);
        assert!(found.contains("line 5, column 6: expected 6 columns"), "{found}");
        let found = message(&MNLI, &[("train.tsv", &format!("{TRAIN}6\tletters\tA.\tB.\tneutral\tmaybe\n"))], Split::Train);
        assert!(found.contains("line 5, column 6: expected one of the labels entailment, neutral, contradiction, found `maybe`"));
    }
}
