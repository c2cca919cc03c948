//! DPRD, definite pronoun resolution (Rahman, Ng 2012): which of two candidates a pronoun refers to. It has the Winograd schemas
//! of the paper's zero-shot analysis (§5).
//!
//! `train.c.txt` and `test.c.txt`: four lines per example (sentence, pronoun, the two candidates separated by a comma, the
//! correct one), then a blank line. If the pronoun occurs more than once, its first occurrence is meant. The data set has no dev
//! set: here it is the last fifth of the training file, with both sentences of a twin pair in the same split. The paper does not
//! state which part it scores.

use super::location::Location;
use super::reference;
use super::{Answer, Family, Loaded, Metric, SetError, Split, Task, Transformation};

/// 1,058 / 264 / 564 sentences.
pub static DPRD: Task = Task {
    name: "dprd",
    title: "DPRD",
    family: Family::Commonsense,
    transformation: Transformation::Refer,
    answer: Answer::Choice { of: 2 },
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train.c.txt` (dev is the last fifth of its rows) and `test.c.txt`",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

fn read(folder: &Location<'_>, split: Split) -> Result<Loaded, SetError> {
    let file = if split == Split::Test { "test.c.txt" } else { "train.c.txt" };
    let loaded = reference::read(&DPRD, &folder.join(file), split)?;
    let twins = loaded.examples.len() / 2;
    Ok(loaded.hold_out(split, (twins / 5).max(usize::from(twins > 1)) * 2))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, refused};
    use super::*;

    const TWINS: &str = "The cup fell off the shelf because it shook, and it broke.\nit\nThe cup,the shelf\nthe shelf\n\n\
                         The cup fell off the shelf because it was round. \nit\nThe cup , the shelf\nthe cup\n\n";

    /// The case of the answer does not matter.
    #[test]
    fn the_first_occurrence_of_a_pronoun_is_used() {
        let expected = [
            "0: The cup fell off the shelf because _ shook, and it broke.|The cup|the shelf = 1",
            "1: The cup fell off the shelf because _ was round.|The cup|the shelf = 0",
        ];
        assert_eq!(load(&DPRD, &[("test.c.txt", TWINS.trim_end())], Split::Test), expected);
    }

    #[test]
    fn the_dev_set_is_the_end_of_the_training_file() {
        let files = [("train.c.txt", &*TWINS.repeat(9).replace('\n', "\r\n"))];
        let (train, dev) = (load(&DPRD, &files, Split::Train), load(&DPRD, &files, Split::Dev));
        assert_eq!((train.len(), dev.len()), (16, 2));
        assert!(dev[0].starts_with("16: "));
        // One twin pair is held out if there are few, and none if there is only one.
        let sizes = |pairs: usize| {
            let files = [("train.c.txt", &*TWINS.repeat(pairs))];
            let rows =
                |split| DPRD.load(crate::sets::testing::folder(&files).path(), split).map_or(0, |loaded| loaded.examples.len());
            (rows(Split::Train), rows(Split::Dev))
        };
        assert_eq!([1, 2, 4, 10].map(sizes), [(2, 0), (2, 2), (6, 2), (16, 4)]);
    }

    #[test]
    fn a_candidate_may_hold_a_comma() {
        let block = "Ann met Smith, the baker, and she sang.\nshe\nAnn,Smith, the baker\nSmith, the baker\n";
        let expected = ["0: Ann met Smith, the baker, and _ sang.|Ann|Smith, the baker = 1"];
        assert_eq!(load(&DPRD, &[("test.c.txt", block)], Split::Test), expected);
        let many = format!("x{}y", ",".repeat(31)); // with the comma between the candidates, the largest number allowed
        let block = format!("It fell as it shook.\nit\ncup,{many}\n{many}\n");
        assert_eq!(load(&DPRD, &[("test.c.txt", &block)], Split::Test), [format!("0: It fell as _ shook.|cup|{many} = 1")]);
    }

    #[test]
    fn rows_of_the_test_set_alone_may_lack_their_answer() {
        let block = "It fell as it shook.\nit\nthe cup,the shelf\n";
        assert_eq!(load(&DPRD, &[("test.c.txt", block)], Split::Test), ["0: It fell as _ shook.|the cup|the shelf = ?"]);
        let words = "line 1, column 1: expected four lines (sentence, pronoun, two candidates with a comma between, answer), then a \
                     blank one, found 3 lines";
        refused(&DPRD, &[("train.c.txt", block)], Split::Train, words);
    }

    #[test]
    fn faults_are_named_with_their_line() {
        let other = "expected one of two different candidates";
        for (content, words) in [
            (TWINS.replacen("the shelf\n\n", "the shelf\n", 1), "line 1, column 1: expected four lines"),
            (
                TWINS.replacen("it\nThe cup,", "its\nThe cup,", 1),
                "line 2, column 1: expected a word of the sentence above, found `its`",
            ),
            (TWINS.replacen("cup,the", "cup the", 1), "line 3, column 1: expected two candidates with a comma between"),
            (TWINS.replacen("\nthe cup\n", "\nthe mug\n", 1), &format!("line 9, column 1: {other}")),
            (TWINS.replacen("The cup,the shelf", "the shelf,The shelf", 1), &format!("line 4, column 1: {other}")),
            (TWINS.replacen("The cup,the shelf", ",the shelf", 1), &format!("line 4, column 1: {other}")),
            (
                TWINS.replacen("cup,the", &format!("cup{}the", ",".repeat(33)), 1),
                "line 3, column 1: expected two candidates with at most 32",
            ),
            ("\n\n".into(), "DPRD, split `test`: expected at least one row"),
        ] {
            refused(&DPRD, &[("test.c.txt", &content)], Split::Test, words);
        }
    }
}
