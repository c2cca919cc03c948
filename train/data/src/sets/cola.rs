//! CoLA, the Corpus of Linguistic Acceptability (Warstadt, Singh, Bowman 2018): whether a sentence is acceptable English.
//!
//! The files are GLUE's. `train.tsv` and `dev.tsv` have no header and four columns: source, label, the author's annotation (`*`
//! or empty), sentence. `test.tsv` has the header `index`, `sentence` and no labels.

use super::tsv::{self, Columns, Written};
use super::{Answer, Family, Metric, Split, Task, Transformation};

/// 8,551 / 1,043 / 1,063 sentences.
pub static COLA: Task = Task {
    name: "cola",
    title: "CoLA",
    family: Family::Classification,
    transformation: Transformation::Classify,
    answer: Answer::Classes(&["unacceptable", "acceptable"]),
    metric: Metric::Matthews,
    also: &[Metric::Accuracy],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's CoLA",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read: |folder, split| {
        let columns = Columns {
            names: (split != Split::Test).then_some(&["source", "label", "mark", "sentence"]),
            texts: &["sentence"],
            written: Written::Numbers,
            ..Columns::GLUE
        };
        tsv::glue(&COLA, folder, split, &columns)
    },
};

#[cfg(test)]
mod tests {
    use super::super::sst2::SST2;
    use super::super::testing::{load, refused};
    use super::*;

    const TRAIN: &str = "x1\t1\t\tThe owl slept.\nx1\t0\t*\tOwl the slept.\n";

    #[test]
    fn train_has_no_header_and_test_has_one() {
        let files = [("train.tsv", TRAIN), ("test.tsv", "index\tsentence\n0\tAn owl sings.\n1\tOwls an.\n")];
        assert_eq!(load(&COLA, &files, Split::Train), ["0: The owl slept. = 1", "1: Owl the slept. = 0"]);
        assert_eq!(load(&COLA, &files, Split::Test), ["0: An owl sings. = ?", "1: Owls an. = ?"]);
    }

    #[test]
    fn the_folder_of_another_set_is_rejected_both_ways() {
        let other = [("train.tsv", "sentence\tlabel\nfine \t1\n")];
        let words = "line 1, column 3: expected 4 columns separated by tabs (source, label, mark, sentence), found 2";
        refused(&COLA, &other, Split::Train, words);
        refused(&COLA, &other, Split::Train, "the folder is CoLA's");
        let words = "expected a header with the columns sentence, label, found `x1\\t1\\t\\tThe owl slept.`";
        refused(&SST2, &[("train.tsv", TRAIN)], Split::Train, words);
    }
}
