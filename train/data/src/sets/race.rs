//! RACE (Lai et al. 2017): English examinations of Chinese middle and high schools. Which of four answers fits the passage?
//!
//! `train/`, `dev/` and `test/`, each with `middle/` and `high/`, of files `*.txt`, one JSON object per passage: `article`,
//! `questions`, `options` (four for each question), `answers` as letters A to D. Every question is an example; examples are
//! ordered by school, then by the number in the file's name. Questions may be clozes with a `_`; they stay as they are.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::quote;
use super::{Answer, Example, Family, Input, Label, Loaded, Metric, SetError, Split, Task, Transformation};
use super::{json, tsv};

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
    article: String,
    questions: Vec<String>,
    options: Vec<Vec<String>>,
    answers: Vec<String>,
}

fn read(folder: &Path, split: Split) -> Result<Loaded, SetError> {
    let mut loaded = Loaded::default();
    for school in ["middle", "high"] {
        let folder = folder.join(split.name()).join(school);
        for path in passages(&folder)? {
            read_passage(&path, school, &mut loaded.examples)?;
        }
        loaded.files.push(folder);
    }
    Ok(loaded)
}

/// The files of a folder, by their numbers. Hidden ones, which some systems leave in archives, do not count.
fn passages(folder: &Path) -> Result<Vec<PathBuf>, SetError> {
    let io = |cause| SetError::io(&RACE, folder, "folder", cause);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(stem) = name.strip_suffix(".txt").filter(|stem| !stem.starts_with('.')) {
            files.push((stem.parse().unwrap_or(u64::MAX), name, path));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(.., path)| path).collect())
}

fn read_passage(path: &Path, school: &'static str, examples: &mut Vec<Example>) -> Result<(), SetError> {
    let text = tsv::text(&RACE, path)?;
    let passage: Passage = json::parse(&RACE, path, 1, &text, "article, questions, options and answers")?;
    let malformed = |key: &str, expected: String, found| json::malformed(path, 1, &text, key, expected, found);
    let n = passage.questions.len();
    for (key, found) in [("options", passage.options.len()), ("answers", passage.answers.len())] {
        if found != n {
            return Err(malformed(key, format!("{n} {key}, one for each question"), found.to_string()));
        }
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let rows = passage.questions.into_iter().zip(passage.options).zip(&passage.answers);
    for (k, ((question, answers), letter)) in rows.enumerate() {
        if answers.len() != LETTERS.len() {
            let expected = format!("{} answers to question {} to choose from", LETTERS.len(), k + 1);
            return Err(malformed("options", expected, answers.len().to_string()));
        }
        let class = LETTERS.iter().position(|known| known == letter).ok_or_else(|| {
            malformed("answers", format!("a letter from A to D as the answer to question {}", k + 1), quote(letter))
        })?;
        examples.push(Example {
            id: format!("{school}{stem}-{k}"),
            input: Input::Choices { document: passage.article.clone(), question, answers },
            label: Some(Label::Class(class)),
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
            (MIDDLE[..MIDDLE.len() - 4].into(), "3.txt, line 2, column"),
        ] {
            refused(&RACE, &[("dev/middle/3.txt", &content), ("dev/high/1.txt", HIGH)], Split::Dev, words);
        }
        let words = "high: there is no such folder. The folder of RACE must hold `train/`";
        refused(&RACE, &[("dev/middle/3.txt", MIDDLE)], Split::Dev, words);
    }
}
