//! RACE (Lai et al. 2017): English examinations of Chinese middle and high schools, with four answers to each question on a
//! passage.
//!
//! The folders `train/`, `dev/` and `test/` each contain `middle/` and `high/`, with files `*.txt` of one JSON object per
//! passage: `article`, `questions`, `options` (four per question), `answers` as letters A to D, which a test set may lack. Every
//! question is an example. Examples are ordered by school, then by the number in the file's name. Questions may be cloze
//! sentences with a `_`, which is kept. A school without passages gives a note.

use std::sync::Arc;

use serde::Deserialize;

use super::error::quote;
use super::file::SetFile;
use super::json;
use super::location::Location;
use super::{Answer, Example, Family, Input, Label, Loaded, Metric, SetError, Split, Task, Transformation};

const LETTERS: [&str; 4] = ["A", "B", "C", "D"];

/// 87,866 / 4,887 / 4,934 questions on 27,933 passages.
pub static RACE: Task = Task {
    name: "race",
    title: "RACE",
    family: Family::QuestionAnswering,
    transformation: Transformation::Choose,
    answer: Answer::Choice { of: LETTERS.len() },
    metric: Metric::Accuracy,
    also: &[],
    folder: "`train/`, `dev/` and `test/`, each with `middle/` and `high/` of `*.txt`, one JSON object per passage",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

#[derive(Deserialize)]
struct Passage {
    article: Arc<str>,
    questions: Vec<String>,
    options: Vec<Vec<String>>,
    answers: Option<Vec<String>>,
}

fn read(folder: &Location<'_>, split: Split) -> Result<Loaded, SetError> {
    let mut loaded = Loaded::default();
    for school in ["middle", "high"] {
        let folder = folder.join(split.name()).join(school);
        let files = passages(&folder)?;
        if files.is_empty() {
            loaded.notes.push(format!(
                "{}: found no passages (`*.txt`), so the split has no questions of {school} schools",
                folder.path.display()
            ));
        }
        for file in files {
            read_passage(&file, school, split, &mut loaded.examples)?;
        }
        loaded.files.push(folder.path);
    }
    Ok(loaded)
}

/// Returns the files of a folder, sorted by number. Hidden files, which some systems add to archives, are skipped.
fn passages<'a>(folder: &Location<'a>) -> Result<Vec<Location<'a>>, SetError> {
    let io = |cause| RACE.io_error(&folder.path, "folder", cause);
    let mut files = Vec::new();
    for path in folder.list().map_err(io)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(stem) = name.strip_suffix(".txt").filter(|stem| !stem.starts_with('.')) {
            files.push((stem.parse().unwrap_or(u64::MAX), name, path));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(.., path)| folder.at(path)).collect())
}

fn read_passage(place: &Location<'_>, school: &'static str, split: Split, examples: &mut Vec<Example>) -> Result<(), SetError> {
    let file = SetFile::read(&RACE, place)?;
    let passage: Passage = json::parse(&RACE, &file, 1, &file.text, "article, questions, options and answers")?;
    let malformed = |key: &str, expected: String, found| json::malformed(&file, 1, &file.text, key, expected, found);
    let n = passage.questions.len();
    let letters = match passage.answers {
        Some(letters) => letters.into_iter().map(Some).collect(),
        None if split.is_test() => vec![None; n],
        None => return Err(malformed("questions", "answers to the questions".into(), "none".into())),
    };
    for (key, found) in [("options", passage.options.len()), ("answers", letters.len())] {
        if found != n {
            return Err(malformed(key, format!("{n} {key}, one for each question"), found.to_string()));
        }
    }
    let stem = place.path.file_stem().unwrap_or_default().to_string_lossy();
    let rows = passage.questions.into_iter().zip(passage.options).zip(letters);
    for (k, ((question, answers), letter)) in rows.enumerate() {
        if answers.len() != LETTERS.len() {
            let expected = format!("{} answers to question {} to choose from", LETTERS.len(), k + 1);
            return Err(malformed("options", expected, answers.len().to_string()));
        }
        let class = |letter: String| match LETTERS.iter().position(|known| *known == letter) {
            Some(class) => Ok(Label::Class(class)),
            None => {
                let expected = format!("a letter from A to D as the answer to question {}", k + 1);
                Err(malformed("answers", expected, quote(&letter)))
            }
        };
        examples.push(Example {
            id: format!("{school}{stem}-{k}"),
            input: Input::Choices { document: passage.article.clone(), question, answers },
            label: letter.map(class).transpose()?,
            group: Some(school),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{folder, refused, rows};
    use super::*;

    const MIDDLE: &str = r#"{"id": "m", "article": "Tom ran.\nHe fell.", "questions": ["Who ran?", "He _ ."],
        "options": [["Ann", "Tom", "Bob", "Eve"], ["fell", "slept", "sang", "ate"]], "answers": ["B", "A"]}"#;
    const HIGH: &str = r#"{"article": "It rained.", "questions": ["What fell?"], "options": [["Hail", "Snow", "Fog", "Rain"]],
        "answers": ["D"]}"#;

    #[test]
    fn every_question_is_an_example_of_its_school() {
        let folder = folder(&[
            ("dev/middle/10.txt", MIDDLE),
            ("dev/high/10.txt", &HIGH.replace("It", "Rain")),
            ("dev/high/9.txt", &format!("\u{feff}{HIGH}\n")),
            ("dev/high/._9.txt", "\u{0}"),
            ("dev/high/readme.md", "no passage"),
        ]);
        let loaded = RACE.load(folder.path(), Split::Dev).unwrap();
        let expected = [
            "middle10-0: Tom ran.\nHe fell.|Who ran?|Ann|Tom|Bob|Eve = 1",
            "middle10-1: Tom ran.\nHe fell.|He _ .|fell|slept|sang|ate = 0",
            "high9-0: It rained.|What fell?|Hail|Snow|Fog|Rain = 3",
            "high10-0: Rain rained.|What fell?|Hail|Snow|Fog|Rain = 3",
        ];
        assert_eq!(rows(&loaded), expected);
        let groups: Vec<_> = loaded.examples.iter().filter_map(|example| example.group).collect();
        assert_eq!(groups, ["middle", "middle", "high", "high"]);
    }

    #[test]
    fn a_test_set_may_lack_its_answers_and_an_empty_school_is_noted() {
        let folder = folder(&[("test/middle/1.txt", &MIDDLE.replace("\"answers\"", "\"replies\"")), ("test/high/readme.md", "")]);
        let loaded = RACE.load(folder.path(), Split::Test).unwrap();
        assert_eq!(loaded.examples.iter().filter(|example| example.label.is_none()).count(), 2);
        let [note] = &loaded.notes[..] else { panic!("{:?}", loaded.notes) };
        assert!(note.contains("high: found no passages (`*.txt`)"), "{note}");
    }

    /// A passage may have ten questions and take three pages, so it is stored once.
    #[test]
    fn the_questions_on_a_passage_share_it() {
        let folder = folder(&[("dev/middle/1.txt", MIDDLE), ("dev/high/1.txt", HIGH)]);
        let documents: Vec<_> = RACE
            .load(folder.path(), Split::Dev)
            .unwrap()
            .examples
            .into_iter()
            .map(|example| match example.input {
                Input::Choices { document, .. } => document,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(Arc::ptr_eq(&documents[0], &documents[1]) && !Arc::ptr_eq(&documents[1], &documents[2]));
    }

    #[test]
    fn faults_are_named_with_file_line_and_column() {
        for (content, words) in [
            (
                MIDDLE.replace("\"A\"]", "\"E\"]"),
                "3.txt, line 2, column 86: expected a letter from A to D as the answer to question 2, found `E`",
            ),
            (MIDDLE.replace("\"A\"]", "\"a\"]"), "found `a`"),
            (MIDDLE.replace(", \"A\"]", "]"), "expected 2 answers, one for each question, found 1"),
            (MIDDLE.replace(", \"Eve\"", ""), "line 2, column 9: expected 4 answers to question 1 to choose from, found 3"),
            (MIDDLE.replace("article", "text"), "missing field `article`"),
            (MIDDLE.replace("\"answers\"", "\"replies\""), "expected answers to the questions, found none"),
            (MIDDLE[..MIDDLE.len() - 4].into(), "3.txt, line 2, column"),
        ] {
            refused(&RACE, &[("dev/middle/3.txt", &content), ("dev/high/1.txt", HIGH)], Split::Dev, words);
        }
        let message = |content: &str| {
            let folder = folder(&[("dev/middle/3.txt", content), ("dev/high/1.txt", HIGH)]);
            RACE.load(folder.path(), Split::Dev).unwrap_err().to_string()
        };
        assert!(message(&MIDDLE[..MIDDLE.len() - 4]).contains("may be truncated"));
        assert!(!message(&MIDDLE.replace("\"A\"]", "\"E\"]")).contains("may be truncated"), "the object is whole");
        let words = "high: there is no such folder. The folder of RACE must hold `train/`";
        refused(&RACE, &[("dev/middle/3.txt", MIDDLE)], Split::Dev, words);
    }
}
