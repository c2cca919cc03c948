//! SST-2, the Stanford Sentiment Treebank with two classes (Socher et al. 2013): does the review speak well of the film?
//!
//! GLUE's files: `sentence` and `label` in `train.tsv` (phrases too) and `dev.tsv`, `index` and `sentence` in `test.tsv`.
//! Sentences are tokenised, in lower case, and end in a blank.

use std::path::Path;

use super::error::SetError;
use super::scores::Metric;
use super::task::{Answer, Family, Form, Loaded, Split, Task};
use super::tsv::{self, Columns, Written};

/// 67,349 / 872 / 1,821 texts.
pub static SST2: Task = Task {
    name: "sst-2",
    title: "SST-2",
    family: Family::Classification,
    form: Form::Classify,
    answer: Answer::Classes(&["negative", "positive"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's SST-2",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

fn read(folder: &Path, split: Split) -> Result<Loaded, SetError> {
    let columns = Columns { texts: &["sentence"], written: Written::Numbers, ..Columns::GLUE };
    tsv::read(&SST2, &folder.join(format!("{split}.tsv")), split, &columns)
}

#[cfg(test)]
mod tests {
    use super::super::testing::folder;
    use super::super::{Input, Label};
    use super::*;

    #[test]
    fn the_test_set_has_no_labels() {
        let folder = folder(&[("train.tsv", "sentence\tlabel\na joy \t1"), ("test.tsv", "index\tsentence\n7\ta bore ")]);
        let train = &SST2.load(folder.path(), Split::Train).unwrap().examples[0];
        assert_eq!((&train.input, train.label), (&Input::One("a joy ".into()), Some(Label::Class(1))));
        let test = &SST2.load(folder.path(), Split::Test).unwrap().examples[0];
        assert_eq!((test.id.as_str(), &test.input, test.label), ("7", &Input::One("a bore ".into()), None));
    }
}
