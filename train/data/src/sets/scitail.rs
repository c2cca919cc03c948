//! SciTail (Khot, Sabharwal, Clark 2018): does the sentence from the web entail the answer to the science question?
//!
//! The corpus's `tsv_format/scitail_1.0_{train,dev,test}.tsv`, or the same files in the folder itself: no header; premise,
//! hypothesis, label (`entails` or `neutral`).

use std::path::Path;

use super::error::SetError;
use super::scores::Metric;
use super::task::{Answer, Family, Form, Loaded, Split, Task};
use super::tsv::{self, Columns};

/// 23,596 / 1,304 / 2,126 pairs.
pub static SCITAIL: Task = Task {
    name: "scitail",
    title: "SciTail",
    family: Family::Inference,
    form: Form::Entail,
    answer: Answer::Classes(&["entails", "neutral"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`tsv_format/` with `scitail_1.0_train.tsv`, `scitail_1.0_dev.tsv` and `scitail_1.0_test.tsv`, or these files",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

fn read(folder: &Path, split: Split) -> Result<Loaded, SetError> {
    let (file, names) = (format!("scitail_1.0_{split}.tsv"), &["premise", "hypothesis", "label"]);
    let (path, inner) = (folder.join(&file), folder.join("tsv_format").join(&file));
    let columns = Columns { names: Some(names), texts: &["premise", "hypothesis"], ..Columns::GLUE };
    tsv::read(&SCITAIL, if inner.exists() { &inner } else { &path }, split, &columns)
}

#[cfg(test)]
mod tests {
    use super::super::Label;
    use super::super::testing::{folder, message, texts};
    use super::*;

    #[test]
    fn in_tsv_format_or_in_the_folder_itself() {
        let rows = "Owls \"see\" at night.\tOwls see.\tentails\nOwls see.\tOwls sing.\tneutral";
        for place in ["tsv_format/scitail_1.0_dev.tsv", "scitail_1.0_dev.tsv"] {
            let folder = folder(&[(place, rows)]);
            let loaded = SCITAIL.load(folder.path(), Split::Dev).unwrap();
            assert_eq!(texts(&loaded), ["Owls \"see\" at night.|Owls see.", "Owls see.|Owls sing."]);
            assert_eq!(loaded.examples[1].label, Some(Label::Class(1)));
        }
    }

    #[test]
    fn other_labels_are_refused() {
        let found = message(&SCITAIL, &[("scitail_1.0_test.tsv", "A.\tB.\tentailment")], Split::Test);
        assert!(found.contains("line 1, column 3: expected one of the labels entails, neutral, found `entailment`"), "{found}");
    }
}
