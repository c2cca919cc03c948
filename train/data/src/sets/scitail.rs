//! SciTail (Khot, Sabharwal, Clark 2018): whether a sentence from the web entails the answer to a science question.
//!
//! The files are the corpus's `tsv_format/scitail_1.0_{train,dev,test}.tsv`, or the same files directly in the folder. They have
//! no header; the columns are premise, hypothesis, label (`entails` or `neutral`).

use super::file::choose;
use super::location::Location;
use super::tsv::{self, Columns};
use super::{Answer, Family, Loaded, Metric, SetError, Split, Task, Transformation};

/// 23,596 / 1,304 / 2,126 pairs.
pub static SCITAIL: Task = Task {
    name: "scitail",
    title: "SciTail",
    family: Family::Inference,
    transformation: Transformation::Entail,
    answer: Answer::Classes(&["entails", "neutral"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`tsv_format/` with `scitail_1.0_train.tsv`, `scitail_1.0_dev.tsv` and `scitail_1.0_test.tsv`, or these files",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

fn read(folder: &Location<'_>, split: Split) -> Result<Loaded, SetError> {
    let file = format!("scitail_1.0_{split}.tsv");
    let inner = format!("tsv_format/{file}");
    let relatives: [&[_]; 2] = [&["tsv_format"], &["scitail_1.0_train.tsv", "scitail_1.0_dev.tsv", "scitail_1.0_test.tsv"]];
    let path = folder.join([&inner, &file][choose(folder, [&inner, &file], relatives)]);
    let columns = Columns {
        names: Some(&["premise", "hypothesis", "label"]),
        texts: &["premise", "hypothesis"],
        short: true,
        ..Columns::GLUE
    };
    tsv::read(&SCITAIL, &path, split, &columns)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, refused};
    use super::*;

    #[test]
    fn both_locations_of_the_files_are_accepted() {
        let rows = "Owls \"see\" at night.\tOwls see.\tentails\nOwls see.\tOwls sing.\tneutral";
        for place in ["tsv_format/scitail_1.0_dev.tsv", "scitail_1.0_dev.tsv"] {
            let expected = ["0: Owls \"see\" at night.|Owls see. = 0", "1: Owls see.|Owls sing. = 1"];
            assert_eq!(load(&SCITAIL, &[(place, rows)], Split::Dev), expected);
        }
    }

    #[test]
    fn other_labels_are_rejected() {
        let words = "line 1, column 3: expected one of the labels entails, neutral, found `entailment`";
        refused(&SCITAIL, &[("scitail_1.0_test.tsv", "A.\tB.\tentailment")], Split::Test, words);
    }
}
