//! Story Cloze (Mostafazadeh et al. 2016): which of two endings completes a story of four sentences.
//!
//! The files are those of the release of spring 2016, which the paper used: `cloze_test_val__spring2016 - cloze_test_ALL_val.csv`
//! and `cloze_test_test__spring2016 - cloze_test_ALL_test.csv`; or those of winter 2018, whose test set has no answers; or either
//! as `val.csv` and `test.csv`. They are CSV with quotes. The columns are `InputStoryid`, `InputSentence1` to `InputSentence4`,
//! `RandomFifthSentenceQuiz1`, `RandomFifthSentenceQuiz2`, `AnswerRightEnding` (1 or 2).
//!
//! The stories of the training release have no wrong endings. As in OpenAI's code, the validation file is therefore split: of its
//! 1,871 stories, 1,497 are for training and 374 for validation. OpenAI's code draws the 374 from a seed; here they are the last
//! 374, or the last fifth of a smaller file.

use super::error::quote;
use super::file::{SetFile, choose};
use super::location::Location;
use super::tsv::wrong_folder;
use super::{Answer, Example, Family, Input, Label, Loaded, Metric, SetError, Split, Task, Transformation};

/// 1,497 / 374 / 1,871 stories.
pub static STORY_CLOZE: Task = Task {
    name: "story-cloze",
    title: "Story Cloze",
    family: Family::QuestionAnswering,
    transformation: Transformation::Choose,
    answer: Answer::Choice { of: 2 },
    metric: Metric::Accuracy,
    also: &[],
    folder: "`cloze_test_val__spring2016 - cloze_test_ALL_val.csv` and `cloze_test_test__spring2016 - cloze_test_ALL_test.csv`, \
             or those of winter 2018, or either as `val.csv` and `test.csv`; training rows are the validation file's, dev the last fifth of them",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

const TEXTS: [&str; 6] = [
    "InputSentence1",
    "InputSentence2",
    "InputSentence3",
    "InputSentence4",
    "RandomFifthSentenceQuiz1",
    "RandomFifthSentenceQuiz2",
];
const ANSWER: &str = "AnswerRightEnding";

/// The validation and the test file of each release, with the short names last.
const FILES: [[&str; 2]; 3] = [
    ["cloze_test_val__spring2016 - cloze_test_ALL_val.csv", "cloze_test_test__spring2016 - cloze_test_ALL_test.csv"],
    ["cloze_test_val__winter2018-cloze_test_ALL_val - 1 - 1.csv", "cloze_test_test__winter2018-cloze_test_ALL_test - 1.csv"],
    ["val.csv", "test.csv"],
];

fn read(folder: &Location<'_>, split: Split) -> Result<Loaded, SetError> {
    let files = FILES.map(|[validation, test]| if split == Split::Test { test } else { validation });
    let [a, b, c] = &FILES;
    let loaded = read_file(&folder.join(files[choose(folder, files, [a, b, c])]), split)?;
    let stories = loaded.examples.len();
    Ok(loaded.hold_out(split, if stories >= 1871 { 374 } else { (stories / 5).max(usize::from(stories > 1)) }))
}

fn read_file(place: &Location<'_>, split: Split) -> Result<Loaded, SetError> {
    let file = SetFile::read(&STORY_CLOZE, place)?;
    let malformed = |line, column, expected: String, found: String| {
        file.malformed((line, column), expected, found, wrong_folder(&STORY_CLOZE))
    };
    let mut loaded = Loaded::of(&file);
    // `flexible`, since the number of fields is checked below.
    let mut rows = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(file.text.as_bytes()).into_records();
    let no_row = |cause: csv::Error| {
        let line = cause.position().map_or(1, |position| position.line() as usize);
        malformed(line, 1, "a row of fields separated by commas".into(), cause.to_string())
    };
    let Some(header) = rows.next().transpose().map_err(no_row)? else { return Ok(loaded) };
    let find = |name: &&str| header.iter().position(|found| found.trim() == *name);
    let (id, answer) = (find(&"InputStoryid"), find(&ANSWER));
    let texts: Vec<usize> = TEXTS.iter().filter_map(find).collect();
    let (Some(id), 6, true) = (id, texts.len(), answer.is_some() || split.is_test()) else {
        let found = quote(&header.iter().collect::<Vec<_>>().join(","));
        return Err(malformed(1, 1, format!("a header with the columns InputStoryid, {}, {ANSWER}", TEXTS.join(", ")), found));
    };
    for row in rows {
        let row = row.map_err(no_row)?;
        let line = row.position().map_or(1, |position| position.line() as usize);
        if row.len() != header.len() {
            let column = row.len().min(header.len()) + 1;
            let expected = format!("{} columns separated by commas, and every quote closed", header.len());
            return Err(malformed(line, column, expected, row.len().to_string()));
        }
        let label = |column: usize| match row[column].trim() {
            "1" => Ok(Some(Label::Class(0))),
            "2" => Ok(Some(Label::Class(1))),
            "" if split.is_test() => Ok(None),
            found => Err(malformed(line, column + 1, "1 or 2, the number of the right ending".into(), quote(found))),
        };
        if let Some(column) = row.iter().position(|field| field.contains('\n')) {
            let expected = "a text within one line; an unclosed quote includes the lines that follow";
            return Err(malformed(line, column + 1, expected.into(), quote(&row[column])));
        }
        let text = |k: usize| row[texts[k]].to_owned();
        loaded.examples.push(Example {
            id: row[id].to_owned(),
            input: Input::Choices {
                document: [0, 1, 2, 3].map(text).join(" ").into(),
                question: String::new(),
                answers: vec![text(4), text(5)],
            },
            label: answer.map(label).transpose()?.flatten(),
            group: None,
        });
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, refused};
    use super::*;

    const HEADER: &str = "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,\
                          RandomFifthSentenceQuiz1,RandomFifthSentenceQuiz2,AnswerRightEnding\n";

    fn stories(n: usize) -> String {
        (0..n).map(|k| format!("s{k},One.,\"Two, \"\"ha\"\".\",Three.,Four.,Sad.,\"Glad, so.\",2\n")).collect()
    }

    #[test]
    fn quoted_fields_and_all_file_names_are_accepted() {
        for [_, name] in FILES {
            let file = format!("\u{feff}{HEADER}{}", stories(1).trim_end().replace('\n', "\r\n"));
            let expected = ["s0: One. Two, \"ha\". Three. Four.||Sad.|Glad, so. = 1"];
            assert_eq!(load(&STORY_CLOZE, &[(name, &file)], Split::Test), expected);
        }
    }

    /// If one file of a release exists, the error names the other.
    #[test]
    fn a_missing_file_is_named_as_in_the_release_that_is_present() {
        for [validation, test] in FILES {
            let words = format!("{validation}: there is no such file");
            refused(&STORY_CLOZE, &[(test, HEADER)], Split::Train, &words);
        }
        refused(&STORY_CLOZE, &[], Split::Test, &format!("{}: there is no such file", FILES[0][1]));
    }

    #[test]
    fn the_end_of_the_validation_file_is_the_dev_set() {
        for (n, held_out) in [(2, 1), (10, 2), (1870, 374), (1871, 374), (2000, 374)] {
            let file = format!("{HEADER}{}", stories(n));
            let [train, dev] = [Split::Train, Split::Dev].map(|split| load(&STORY_CLOZE, &[("val.csv", &file)], split));
            assert_eq!((train.len(), dev.len()), (n - held_out, held_out));
            assert!(train[0].starts_with("s0: ") && dev[0].starts_with(&format!("s{}: ", n - held_out)), "{}", dev[0]);
        }
    }

    #[test]
    fn a_single_story_is_used_for_training() {
        let file = format!("{HEADER}{}", stories(1));
        assert_eq!(load(&STORY_CLOZE, &[("val.csv", &file)], Split::Train).len(), 1);
        refused(&STORY_CLOZE, &[("val.csv", &file)], Split::Dev, "expected at least one row");
    }

    #[test]
    fn a_test_set_may_lack_its_answers() {
        let blank = [HEADER, &stories(1)].concat().replace(",2\n", ",\n");
        assert!(load(&STORY_CLOZE, &[("test.csv", &blank)], Split::Test)[0].ends_with(" = ?"));
        refused(&STORY_CLOZE, &[("val.csv", &blank)], Split::Train, "line 2, column 8: expected 1 or 2");
        let rows: String =
            [HEADER, &stories(1)].concat().lines().map(|row| format!("{}\n", row.rsplit_once(',').unwrap().0)).collect();
        assert!(load(&STORY_CLOZE, &[("test.csv", &rows)], Split::Test)[0].ends_with(" = ?"));
        let words = "line 1, column 1: expected a header with the columns InputStoryid, InputSentence1";
        refused(&STORY_CLOZE, &[("val.csv", &rows)], Split::Train, words);
    }

    #[test]
    fn faults_are_named_with_line_and_column() {
        let width = "line 3, column 8: expected 8 columns separated by commas, and every quote closed, found 7";
        for (row, words) in [
            (stories(1).replace(",2\n", ",3\n"), "line 3, column 8: expected 1 or 2, the number of the right ending, found `3`"),
            (stories(1).replace(",2\n", "\n"), width),
            (
                "a,\"One.,Two.,Three.,Four.,Sad.,Glad.,2\nb,One.\",Two.,Three.,Four.,Sad.,Glad.,1\n".into(),
                "line 3, column 2: expected a text within one line",
            ),
            (stories(1).replace("so.\"", "so."), width),
        ] {
            let file = format!("{HEADER}{}{row}", stories(1));
            refused(&STORY_CLOZE, &[("val.csv", &file)], Split::Train, words);
        }
    }
}
