//! MultiNLI (Williams, Nangia, Bowman 2018): whether a premise entails a hypothesis, contradicts it, or neither.
//!
//! The files are GLUE's: `sentence1` (premise), `sentence2` (hypothesis) and, last, `gold_label`, in `train.tsv`,
//! `dev_matched.tsv` (the training set's genres) and `dev_mismatched.tsv` (other genres). `test_matched.tsv` and
//! `test_mismatched.tsv` have no labels. Rows may have more columns than the header, for further annotators: the gold label is a
//! row's last field. It is `-` if the annotators had no majority; such rows are skipped and counted.

use super::location::Location;
use super::tsv::{self, Columns};
use super::{Answer, Family, Loaded, Metric, SetError, Split, Task, Transformation};

/// 392,702 / 9,815 and 9,832 / 9,796 and 9,847 pairs.
pub static MNLI: Task = Task {
    name: "mnli",
    title: "MultiNLI",
    family: Family::Inference,
    transformation: Transformation::Entail,
    answer: Answer::Classes(&["entailment", "neutral", "contradiction"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.tsv`, `dev_matched.tsv`, `dev_mismatched.tsv`, `test_matched.tsv` and `test_mismatched.tsv` of GLUE's MNLI",
    splits: &Split::ALL,
    read,
};

fn read(folder: &Location<'_>, split: Split) -> Result<Loaded, SetError> {
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
    use super::super::rte::RTE;
    use super::super::testing::{folder, load, refused, rows};
    use super::*;

    const TRAIN: &str = "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n\
                         3\tletters\tIt rained all day.\tThe day was wet.\tentailment\tentailment\n\
                         4\tletters\tIt rained.\tIt was May.\tneutral\tcontradiction\tneutral\tneutral\tneutral\n\
                         5\tletters\tIt rained.\tIt poured.\tneutral\t-\n";

    /// In row 4, the field in the header's column `gold_label` is not the gold label, but an annotator's.
    #[test]
    fn the_gold_label_is_the_last_field_of_a_row() {
        let folder = folder(&[("train.tsv", TRAIN), ("dev_mismatched.tsv", TRAIN)]);
        for split in [Split::Train, Split::DevMismatched] {
            let loaded = MNLI.load(folder.path(), split).unwrap();
            assert_eq!(rows(&loaded), ["3: It rained all day.|The day was wet. = 0", "4: It rained.|It was May. = 1"]);
            assert_eq!((loaded.dropped[0].rows, loaded.dropped[0].reason.contains("no majority")), (1, true));
        }
    }

    #[test]
    fn each_split_has_its_file() {
        let test = "index\tgenre\tsentence1\tsentence2\n0\toup\tA.\tB.\n";
        let files = [("test_matched.tsv", test), ("test_mismatched.tsv", &test.replace("A.", "C."))];
        assert_eq!(load(&MNLI, &files, Split::Test), ["0: A.|B. = ?"]);
        assert_eq!(load(&MNLI, &files, Split::TestMismatched), ["0: C.|B. = ?"]);
        refused(&MNLI, &files, Split::Dev, "dev_matched.tsv: there is no such file");
        let words = "RTE has no split `dev-mismatched`. Choose one of: train, dev, test";
        refused(&RTE, &files, Split::DevMismatched, words);
    }

    /// An annotator's field may be empty or undecided.
    #[test]
    fn annotators_fields_may_be_empty_or_undecided() {
        for open in ["", "-", "neutral"] {
            let rows = format!(
                "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n4\tletters\tA.\tB.\tneutral\t{open}\tneutral\tcontradiction\n"
            );
            assert_eq!(load(&MNLI, &[("dev_matched.tsv", &rows)], Split::Dev), ["4: A.|B. = 2"], "{open:?}");
        }
    }

    /// MultiNLI's original columns have the gold label first and the annotators' labels last.
    #[test]
    fn a_gold_label_in_another_column_is_found() {
        let original = "gold_label\tsentence1\tsentence2\tgenre\tlabel1\tlabel2\nneutral\tA.\tB.\toup\tneutral\tentailment\n";
        assert_eq!(load(&MNLI, &[("dev_matched.tsv", original)], Split::Dev), ["0: A.|B. = 1"]);
        let wider = format!("{original}neutral\tA.\tB.\toup\tneutral\tentailment\tneutral\n");
        refused(&MNLI, &[("dev_matched.tsv", &wider)], Split::Dev, "line 3, column 7: expected 6 columns");
    }

    /// A tab in a text shifts the fields after it, so that a text is found in the column of the label.
    #[test]
    fn wrong_rows_are_rejected() {
        let labels = "expected one of the labels entailment, neutral, contradiction";
        for (row, words) in [
            ("One\tday.\tIt was.\tneutral\tneutral", format!("line 5, column 5: {labels}, found `It was.`")),
            ("A.\tB.\tneutral", "line 5, column 6: expected 6 columns".into()),
            ("A.\tB.\tneutral\tmaybe", format!("line 5, column 6: {labels}, found `maybe`")),
        ] {
            refused(&MNLI, &[("train.tsv", &format!("{TRAIN}6\tletters\t{row}\n"))], Split::Train, &words);
        }
        let test = "index\tgenre\tsentence1\tsentence2\n0\toup\tOne\tday.\tIt was.\n";
        refused(&MNLI, &[("test_matched.tsv", test)], Split::Test, "line 2, column 5: expected 4 columns");
    }
}
