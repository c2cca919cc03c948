//! CoLA, the Corpus of Linguistic Acceptability (Warstadt, Singh, Bowman 2018): is the sentence acceptable English?
//!
//! GLUE's files. `train.tsv` and `dev.tsv` have no header and four columns: source, label, the author's own mark (`*` or
//! nothing), sentence. `test.tsv` has a header, `index` and `sentence`, and no labels.

use std::path::Path;

use super::error::SetError;
use super::scores::Metric;
use super::task::{Answer, Family, Form, Loaded, Split, Task};
use super::tsv::{self, Columns, Written};

/// 8,551 / 1,043 / 1,063 sentences.
pub static COLA: Task = Task {
    name: "cola",
    title: "CoLA",
    family: Family::Classification,
    form: Form::Classify,
    answer: Answer::Classes(&["unacceptable", "acceptable"]),
    metric: Metric::Matthews,
    also: &[Metric::Accuracy],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's CoLA",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

fn read(folder: &Path, split: Split) -> Result<Loaded, SetError> {
    let columns = Columns {
        names: (split != Split::Test).then_some(&["source", "label", "mark", "sentence"]),
        texts: &["sentence"],
        written: Written::Numbers,
        ..Columns::GLUE
    };
    tsv::read(&COLA, &folder.join(format!("{split}.tsv")), split, &columns)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{folder, message, texts};
    use super::super::{Label, sst2::SST2};
    use super::*;

    const TRAIN: &str = "x1\t1\t\tThe owl slept.\nx1\t0\t*\tOwl the slept.\n";

    #[test]
    fn train_has_no_header_and_test_has_one() {
        let folder = folder(&[("train.tsv", TRAIN), ("test.tsv", "index\tsentence\n0\tAn owl sings.\n1\tOwls an.\n")]);
        let train = COLA.load(folder.path(), Split::Train).unwrap();
        assert_eq!(texts(&train), ["The owl slept.", "Owl the slept."]);
        assert_eq!(train.examples[1].label, Some(Label::Class(0)));
        let test = COLA.load(folder.path(), Split::Test).unwrap();
        assert_eq!((test.examples[1].id.as_str(), test.examples[1].label), ("1", None));
    }

    #[test]
    fn the_folder_of_another_set_is_refused_both_ways() {
        let found = message(&COLA, &[("train.tsv", "sentence\tlabel\nfine \t1\n")], Split::Train);
        assert!(
            found.contains("line 1, column 3: expected 4 columns separated by tabs (source, label, mark, sentence), found 2"),
            "{found}"
        );
        assert!(found.contains("the folder is CoLA's"), "{found}");
        let found = message(&SST2, &[("train.tsv", TRAIN)], Split::Train);
        assert!(
            found.contains("expected a header with the columns sentence, label, found `x1\\t1\\t\\tThe owl slept.`"),
            "{found}"
        );
    }
}
