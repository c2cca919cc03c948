//! Predictions in the format of GLUE's server: one file per test set, `index` and `prediction` separated by a tab. Labels that
//! are published separately from a test set are read in the same format.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use gradus_io::files::write_atomically;
use gradus_io::numbers::count_of;

use super::file::SetFile;
use super::location::{Disk, Files, Location};
use super::tsv::Written;
use super::{Answer, Example, Label, SetError, Split, Task};

/// GLUE's file name for each test set, and whether its labels are words.
const FILES: [(&str, Split, &str, bool); 10] = [
    ("cola", Split::Test, "CoLA.tsv", false),
    ("sst-2", Split::Test, "SST-2.tsv", false),
    ("mrpc", Split::Test, "MRPC.tsv", false),
    ("sts-b", Split::Test, "STS-B.tsv", false),
    ("qqp", Split::Test, "QQP.tsv", false),
    ("mnli", Split::Test, "MNLI-m.tsv", true),
    ("mnli", Split::TestMismatched, "MNLI-mm.tsv", true),
    ("qnli", Split::Test, "QNLI.tsv", true),
    ("rte", Split::Test, "RTE.tsv", true),
    ("wnli", Split::Test, "WNLI.tsv", false),
];

const HEADER: &str = "index\tprediction";

/// One file of a submission to GLUE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The file name that the server expects: `MNLI-mm.tsv`.
    pub file: &'static str,
    /// The content of the file.
    pub text: String,
}

impl Submission {
    /// Writes the file into `folder` atomically and returns its path.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, SetError> {
        let path = folder.join(self.file);
        write_atomically(&path, |out| out.write_all(self.text.as_bytes()))?;
        Ok(path)
    }
}

/// Returns GLUE's file of the predictions for all `examples` of a test split: words for MultiNLI, QNLI and RTE, numbers for the
/// others, scores with three decimals. The index is the example's id.
///
/// # Errors
/// Returns an error if the split is not a test set of GLUE, if there is not one prediction per example, if a prediction is not an
/// answer to the task, or if examples share an id ([`SetError::Submission`]).
pub fn submission(task: &Task, split: Split, examples: &[Example], predictions: &[Label]) -> Result<Submission, SetError> {
    let refuse = |expected: String, found: String, remedy| SetError::Submission { title: task.title, expected, found, remedy };
    let Some(&(.., file, words)) = FILES.iter().find(|row| (row.0, row.1) == (task.name, split)) else {
        let remedy = "The server takes CoLA, SST-2, MRPC, STS-B, QQP, MultiNLI (both), QNLI, RTE and WNLI";
        return Err(refuse("a test set of GLUE".into(), format!("the split `{split}`"), remedy));
    };
    if predictions.len() != examples.len() {
        let expected = format!("{}, one for each row", count_of(examples.len(), "prediction"));
        return Err(refuse(expected, predictions.len().to_string(), "Predict the whole test set"));
    }
    let (mut text, mut seen) = (format!("{HEADER}\n"), HashSet::new());
    for (example, prediction) in examples.iter().zip(predictions) {
        let answer = match (*prediction, task.answer) {
            (Label::Class(class), Answer::Classes(names)) if class < names.len() && words => names[class].to_owned(),
            (Label::Class(class), Answer::Classes(names)) if class < names.len() => class.to_string(),
            (Label::Score(score), Answer::Score { .. }) if score.is_finite() => format!("{score:.3}"),
            (found, _) => {
                let expected = format!("an answer to row {}, one of {:?}", example.id, task.answer);
                return Err(refuse(expected, format!("{found:?}"), "Check that the predictions are this task's"));
            }
        };
        if !seen.insert(&example.id) {
            let remedy = "Download the test file again: two of its rows have this index";
            return Err(refuse("an index of its own for each row".into(), format!("`{}` twice", example.id), remedy));
        }
        text += &format!("{}\t{answer}\n", example.id);
    }
    Ok(Submission { file, text })
}

/// Sets the labels of the `examples` of a test split from a file in the format of a submission: one line per example, with its
/// id, in the same order.
///
/// # Errors
/// Returns an error if the file cannot be read, if a line has no label or the id of another example, or if the number of lines is
/// wrong.
pub fn label(task: &Task, split: Split, examples: &mut [Example], path: &Path) -> Result<(), SetError> {
    label_from(&Disk, task, split, examples, path)
}

/// Sets the labels as [`label`] does, from a file in `files`.
///
/// # Errors
/// Returns an error in the cases of [`label`].
pub fn label_from(files: &dyn Files, task: &Task, split: Split, examples: &mut [Example], path: &Path) -> Result<(), SetError> {
    let words = FILES.iter().find(|row| (row.0, row.1) == (task.name, split)).is_some_and(|row| row.3);
    let written = match task.answer {
        Answer::Score { .. } => Written::Scores,
        _ if words => Written::Words,
        _ => Written::Numbers,
    };
    let file = SetFile::read(task, &Location::of(path, files))?;
    let malformed = |line, column, expected: String, found: &str| {
        let remedy = "Give the labels of this test set, as a submission would have them";
        file.malformed((line, column), expected, format!("`{found}`"), remedy)
    };
    let mut count = 0;
    for (number, line) in file.lines() {
        match number {
            1 if line == HEADER => continue,
            1 => return Err(malformed(1, 1, "index and prediction, separated by a tab".into(), line)),
            _ => count += 1,
        }
        let Some(example) = examples.get_mut(number - 2) else {
            return Err(malformed(number, 1, format!("the end, after {}", count_of(number - 2, "row")), line));
        };
        let (id, answer) = line.split_once('\t').unwrap_or((line, ""));
        if id != example.id {
            return Err(malformed(number, 1, format!("the row `{}`", example.id), id));
        }
        let label = written.parse(task, answer);
        example.label = Some(label.ok_or_else(|| malformed(number, id.chars().count() + 2, written.expected(task), answer))?);
    }
    match count == examples.len() {
        true => Ok(()),
        false => Err(malformed(count + 2, 1, count_of(examples.len(), "row"), &count.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Input, cola::COLA, mnli::MNLI, race::RACE, stsb::STSB, wnli::WNLI};
    use super::*;

    fn examples(n: usize) -> Vec<Example> {
        let row = |k: usize| Example { id: k.to_string(), input: Input::One(String::new()), label: None, group: None };
        (0..n).map(row).collect()
    }

    #[test]
    fn words_numbers_and_scores() {
        let of = |task, split, predictions: &[Label]| submission(task, split, &examples(2), predictions).unwrap();
        let classes = [Label::Class(1), Label::Class(0)];
        let mismatched = of(&MNLI, Split::TestMismatched, &classes);
        assert_eq!((mismatched.file, &*mismatched.text), ("MNLI-mm.tsv", "index\tprediction\n0\tneutral\n1\tentailment\n"));
        assert_eq!(of(&MNLI, Split::Test, &classes).file, "MNLI-m.tsv");
        assert_eq!(of(&WNLI, Split::Test, &classes).text, "index\tprediction\n0\t1\n1\t0\n");
        let scores = of(&STSB, Split::Test, &[Label::Score(4.0), Label::Score(0.12345)]);
        assert_eq!((scores.file, &*scores.text), ("STS-B.tsv", "index\tprediction\n0\t4.000\n1\t0.123\n"));

        let folder = tempfile::tempdir().unwrap();
        let path = scores.write(folder.path()).unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), scores.text);
    }

    #[test]
    fn a_submission_is_read_back_as_the_same_labels() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("labels.tsv");
        let classes = [Label::Class(1), Label::Class(0)];
        let scores = [Label::Score(4.0), Label::Score(0.125)];
        for (task, split, labels) in
            [(&MNLI, Split::TestMismatched, classes), (&WNLI, Split::Test, classes), (&STSB, Split::Test, scores)]
        {
            std::fs::write(&path, submission(task, split, &examples(2), &labels).unwrap().text).unwrap();
            let mut rows = examples(2);
            label(task, split, &mut rows, &path).unwrap();
            assert_eq!([rows[0].label, rows[1].label], labels.map(Some));
        }
        for (text, rows, expected) in [
            ("0\t1\n", 1, "expected index and prediction"),
            ("index\tprediction\n0\t2\n", 1, "line 2, column 3: expected one of the labels 0, 1, found `2`"),
            ("index\tprediction\n1\t0\n", 1, "expected the row `0`, found `1`"),
            ("index\tprediction\n0\t0\n", 2, "line 3, column 1: expected 2 rows, found `1`"),
            ("index\tprediction\n0\t0\n1\t1\n", 1, "expected the end, after 1 row"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = label(&WNLI, Split::Test, &mut examples(rows), &path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn invalid_submissions_are_rejected() {
        let twice = [examples(1), examples(1)].concat();
        let twice = submission(&COLA, Split::Test, &twice, &[Label::Class(0); 2]).unwrap_err().to_string();
        let refused =
            |task, split, predictions: &[Label]| submission(task, split, &examples(1), predictions).unwrap_err().to_string();
        let cases = [
            (twice, "expected an index of its own for each row, found `0` twice"),
            (refused(&RACE, Split::Test, &[Label::Class(0)]), "RACE: expected a test set of GLUE"),
            (refused(&COLA, Split::Dev, &[Label::Class(0)]), "found the split `dev`"),
            (refused(&COLA, Split::Test, &[]), "expected 1 prediction, one for each row, found 0"),
            (refused(&COLA, Split::Test, &[Label::Class(2)]), "found Class(2)"),
            (refused(&MNLI, Split::Test, &[Label::Class(3)]), "found Class(3)"),
            (refused(&COLA, Split::Test, &[Label::Score(1.0)]), "found Score(1.0)"),
            (refused(&STSB, Split::Test, &[Label::Score(f64::NAN)]), "found Score(NaN)"),
        ];
        for (found, expected) in cases {
            assert!(found.contains(expected), "{found}");
        }
    }
}
