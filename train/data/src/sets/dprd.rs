//! DPRD, definite pronoun resolution (Rahman, Ng 2012): which of two candidates does the pronoun mean? The Winograd schemas of
//! the paper's zero-shot analysis (§5).
//!
//! `train.c.txt` and `test.c.txt`: four lines an example (sentence, pronoun, the two candidates with a comma between, the
//! right one), then a blank line. Where the pronoun occurs more than once, the first occurrence is meant; so the data set has
//! it. It has no dev set: here the last fifth of the training file, twin sentences kept together, is one. The paper does
//! not say which part it scores.

use std::path::Path;

use super::error::SetError;
use super::reference;
use super::scores::Metric;
use super::task::{Answer, Family, Form, Loaded, Split, Task};

/// 1,058 / 264 / 564 sentences.
pub static DPRD: Task = Task {
    name: "dprd",
    title: "DPRD",
    family: Family::Commonsense,
    form: Form::Refer,
    answer: Answer::Choice { of: 2 },
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.c.txt` (dev is the last fifth of its rows) and `test.c.txt`",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

fn read(folder: &Path, split: Split) -> Result<Loaded, SetError> {
    let file = if split == Split::Test { "test.c.txt" } else { "train.c.txt" };
    let loaded = reference::read(&DPRD, &folder.join(file))?;
    let twins = loaded.examples.len() / 2;
    Ok(loaded.hold_out(split, (twins / 5).max(usize::from(twins > 1)) * 2))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{folder, message};
    use super::super::{Input, Label};
    use super::*;

    const TWINS: &str = "The cup fell off the shelf because it shook, and it broke.\nit\nThe cup,the shelf\nthe shelf\n\n\
                         The cup fell off the shelf because it was round. \nit\nThe cup , the shelf\nthe cup\n\n";

    #[test]
    fn the_first_occurrence_of_the_pronoun_is_meant() {
        let folder = folder(&[("test.c.txt", TWINS.trim_end())]);
        let loaded = DPRD.load(folder.path(), Split::Test).unwrap();
        assert_eq!(
            loaded.examples[0].input,
            Input::Reference {
                before: "The cup fell off the shelf because ".into(),
                after: " shook, and it broke.".into(),
                candidates: ["The cup".into(), "the shelf".into()],
            }
        );
        let labels: Vec<_> = loaded.examples.iter().filter_map(|example| example.label).collect();
        assert_eq!(labels, [Label::Class(1), Label::Class(0)], "the answer's case does not matter");
    }

    #[test]
    fn the_dev_set_is_the_end_of_the_training_file() {
        let folder = folder(&[("train.c.txt", &TWINS.repeat(9).replace('\n', "\r\n"))]);
        let load = |split| DPRD.load(folder.path(), split).unwrap().examples;
        assert_eq!((load(Split::Train).len(), load(Split::Dev).len(), &*load(Split::Dev)[0].id), (16, 2, "16"));
    }

    #[test]
    fn a_candidate_may_hold_a_comma() {
        let block = "Ann met Smith, the baker, and she sang.\nshe\nAnn,Smith, the baker\nSmith, the baker\n";
        let folder = folder(&[("test.c.txt", block)]);
        let example = &DPRD.load(folder.path(), Split::Test).unwrap().examples[0];
        let Input::Reference { candidates, .. } = &example.input else { panic!("a reference") };
        assert_eq!((candidates, example.label), (&["Ann".into(), "Smith, the baker".into()], Some(Label::Class(1))));
    }

    #[test]
    fn faults_are_named_with_their_line() {
        let cases = [
            (TWINS.replacen("the shelf\n\n", "the shelf\n", 1), "line 1, column 1: expected four lines"),
            (
                TWINS.replacen("it\nThe cup,", "its\nThe cup,", 1),
                "line 2, column 1: expected a word of the sentence above, found `its`",
            ),
            (TWINS.replacen("cup,the", "cup the", 1), "line 3, column 1: expected two candidates with a comma between"),
            (TWINS.replacen("\nthe cup\n", "\nthe mug\n", 1), "line 9, column 1: expected one of two different candidates"),
            (TWINS.replacen("The cup,the shelf", "the shelf,The shelf", 1), "line 4, column 1: expected one of two different"),
            (TWINS.replacen("The cup,the shelf", ",the shelf", 1), "line 4, column 1: expected one of two different"),
            ("\n\n".into(), "DPRD, split `test`: expected at least one row"),
        ];
        for (content, expected) in cases {
            let found = message(&DPRD, &[("test.c.txt", &content)], Split::Test);
            assert!(found.contains(expected) && found.contains("test.c.txt"), "{found}");
        }
    }
}
