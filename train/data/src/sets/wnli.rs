//! WNLI, Winograd schemas as inference (Levesque, Davis, Morgenstern 2012; Wang et al. 2018): does the sentence with a noun in
//! the pronoun's place follow?
//!
//! GLUE's files: `index`, `sentence1`, `sentence2`, `label` as 0 or 1; `test.tsv` without the label. Many dev
//! sentences stand in the training set with the other label, so a model that learns may do worse than chance on them. The paper
//! leaves WNLI out; GLUE's average counts it.

use std::path::Path;

use super::error::SetError;
use super::scores::Metric;
use super::task::{Answer, Family, Form, Loaded, Split, Task};
use super::tsv::{self, Columns, Written};

/// 635 / 71 / 146 pairs.
pub static WNLI: Task = Task {
    name: "wnli",
    title: "WNLI",
    family: Family::Inference,
    form: Form::Entail,
    answer: Answer::Classes(&["not_entailment", "entailment"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's WNLI",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

fn read(folder: &Path, split: Split) -> Result<Loaded, SetError> {
    let columns = Columns { written: Written::Numbers, ..Columns::GLUE };
    tsv::read(&WNLI, &folder.join(format!("{split}.tsv")), split, &columns)
}

#[cfg(test)]
mod tests {
    use super::super::Label;
    use super::super::testing::folder;
    use super::*;

    #[test]
    fn labels_are_numbers_and_1_is_entailment() {
        let folder = folder(&[("train.tsv", "index\tsentence1\tsentence2\tlabel\n0\tIt fell.\tThe cup fell.\t1\n")]);
        let Answer::Classes(names) = WNLI.answer else { panic!("classes") };
        let Some(Label::Class(class)) = WNLI.load(folder.path(), Split::Train).unwrap().examples[0].label else {
            panic!("class")
        };
        assert_eq!(names[class], "entailment");
    }
}
