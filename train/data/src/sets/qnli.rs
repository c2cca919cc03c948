//! QNLI, question inference (Wang et al. 2018, from SQuAD): does the sentence hold the answer to the question?
//!
//! GLUE's files: `index`, `question`, `sentence`, `label`; `test.tsv` without the label. Neither the paper nor OpenAI's code
//! says which of the two comes first. Here the sentence is the premise and the question the hypothesis, since entailment runs
//! from the sentence to what is asked.

use std::path::Path;

use super::error::SetError;
use super::scores::Metric;
use super::task::{Answer, Family, Form, Loaded, Split, Task};
use super::tsv::{self, Columns};

/// 104,743 / 5,463 / 5,463 pairs, in GLUE's second release.
pub static QNLI: Task = Task {
    name: "qnli",
    title: "QNLI",
    family: Family::Inference,
    form: Form::Entail,
    answer: Answer::Classes(&["entailment", "not_entailment"]),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's QNLI",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

fn read(folder: &Path, split: Split) -> Result<Loaded, SetError> {
    let columns = Columns { texts: &["sentence", "question"], ..Columns::GLUE };
    tsv::read(&QNLI, &folder.join(format!("{split}.tsv")), split, &columns)
}

#[cfg(test)]
mod tests {
    use super::super::Label;
    use super::super::testing::{folder, texts};
    use super::*;

    #[test]
    fn the_sentence_is_the_premise() {
        let folder = folder(&[("dev.tsv", "index\tquestion\tsentence\tlabel\n0\tWho sang?\tThe owl sang.\tnot_entailment\n")]);
        let loaded = QNLI.load(folder.path(), Split::Dev).unwrap();
        assert_eq!(texts(&loaded), ["The owl sang.|Who sang?"]);
        assert_eq!(loaded.examples[0].label, Some(Label::Class(1)));
    }
}
