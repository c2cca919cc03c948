//! The files of the original distributions: names, headers and columns as there.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use gradus_io::files::FileError;
use serde_json::json;

use super::entail::{SCIENCE, THREE, TWO};
use super::{Row, Split};

/// Writes the rows of one split into the folder of a task.
pub(super) type Write = fn(&Path, Split, &[Row]) -> Result<(), FileError>;

fn file(folder: &Path, name: &str, text: &str) -> Result<(), FileError> {
    let path = folder.join(name);
    let error = |cause| FileError::new("write", &path, cause);
    fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(error)?;
    fs::write(&path, text).map_err(error)
}

/// A table of GLUE: a header, and a line a row. A test set has no labels; they lie beside it, in the form of a submission.
fn glue(
    (folder, split, rows): (&Path, Split, &[Row]),
    [header, test_header]: [&str; 2],
    line: impl Fn(usize, &Row) -> String,
    label: impl Fn(&Row) -> String,
) -> Result<(), FileError> {
    let test = split.is_test();
    let mut text = if test { test_header } else { header }.replace(' ', "\t").replace('~', " ");
    if !text.is_empty() {
        text.push('\n');
    }
    let mut labels = String::from("index\tprediction\n");
    for (i, row) in rows.iter().enumerate() {
        let _ = match test {
            true => writeln!(text, "{}", line(i, row)),
            false => writeln!(text, "{}\t{}", line(i, row), label(row)),
        };
        let _ = writeln!(labels, "{i}\t{}", label(row));
    }
    file(folder, &format!("{}.tsv", split.name()), &text)?;
    if test { file(folder, &format!("{}_labels.tsv", split.name()), &labels) } else { Ok(()) }
}

fn number(row: &Row) -> String {
    row.label.to_string()
}

fn pair(row: &Row) -> String {
    row.texts.join("\t")
}

/// Source, label, the author's mark, sentence; no header but in the test set.
pub(super) fn cola(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    if split.is_test() {
        return glue((folder, split, rows), ["", "index sentence"], |i, row| format!("{i}\t{}", row.texts[0]), number);
    }
    let lines =
        rows.iter().map(|row| format!("world\t{}\t{}\t{}\n", row.label, if row.label == 0 { "*" } else { "" }, row.texts[0]));
    file(folder, &format!("{}.tsv", split.name()), &lines.collect::<String>())
}

pub(super) fn sst2(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    let line = |i, row: &Row| if split.is_test() { format!("{i}\t{}", row.texts[0]) } else { row.texts[0].clone() };
    glue((folder, split, rows), ["sentence label", "index sentence"], line, number)
}

/// The label comes first in MRPC.
pub(super) fn mrpc(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    const STRINGS: &str = "#1~ID #2~ID #1~String #2~String";
    let ids = |i: usize, row: &Row| format!("{}\t{}\t{}", 2 * i, 2 * i + 1, pair(row));
    if split.is_test() {
        return glue((folder, split, rows), ["", &format!("index {STRINGS}")], |i, row| format!("{i}\t{}", ids(i, row)), number);
    }
    let header = format!("Quality {STRINGS}\n").replace(' ', "\t").replace('~', " ");
    let lines = rows.iter().enumerate().map(|(i, row)| format!("{}\t{}\n", row.label, ids(i, row)));
    file(folder, &format!("{}.tsv", split.name()), &(header + &lines.collect::<String>()))
}

pub(super) fn qqp(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    let line = |i, row: &Row| match split.is_test() {
        true => format!("{i}\t{}", pair(row)),
        false => format!("{i}\t{}\t{}\t{}", 2 * i, 2 * i + 1, pair(row)),
    };
    glue((folder, split, rows), ["id qid1 qid2 question1 question2 is_duplicate", "id question1 question2"], line, number)
}

pub(super) fn stsb(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    const HEADER: &str = "index genre filename year old_index source1 source2 sentence1 sentence2";
    let line = |i, row: &Row| format!("{i}\tstories\tworld\t2018\t{i:04}\tnone\tnone\t{}", pair(row));
    glue((folder, split, rows), [&format!("{HEADER} score"), HEADER], line, |row| format!("{}.000", row.label))
}

/// Entailment of two named columns: QNLI, RTE, WNLI.
fn entailment(at: (&Path, Split, &[Row]), columns: &str, label: impl Fn(&Row) -> String) -> Result<(), FileError> {
    let headers = [format!("index {columns} label"), format!("index {columns}")];
    glue(at, [&headers[0], &headers[1]], |i, row| format!("{i}\t{}", pair(row)), label)
}

pub(super) fn qnli(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    entailment((folder, split, rows), "question sentence", |row| TWO[row.label].into())
}

pub(super) fn rte(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    entailment((folder, split, rows), "sentence1 sentence2", |row| TWO[row.label].into())
}

pub(super) fn wnli(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    entailment((folder, split, rows), "sentence1 sentence2", number)
}

/// One annotator's label before the gold label in training, five in the dev sets, as in the original.
pub(super) fn mnli(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    const HEADER: &str = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse sentence1 sentence2";
    let annotators = if split == Split::Train { 1 } else { 5 };
    let labels: String = (1..=annotators).map(|n| format!(" label{n}")).collect();
    let line = |i, row: &Row| format!("{i}\t{i}\t{i}w\t{}\t( )\t( )\t( )\t( )\t{}", row.kind, pair(row));
    let header = format!("{HEADER}{labels} gold_label");
    if split.is_test() {
        return glue((folder, split, rows), ["", HEADER], line, |row| THREE[row.label].into());
    }
    glue((folder, split, rows), [&header, ""], line, |row| vec![THREE[row.label]; annotators + 1].join("\t"))
}

/// One JSON object a line.
pub(super) fn snli(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    let lines = rows.iter().enumerate().map(|(i, row)| {
        let label = THREE[row.label];
        let object = json!({
            "annotator_labels": [label], "captionID": format!("world{i}"), "gold_label": label, "pairID": format!("world{i}w"),
            "sentence1": row.texts[0], "sentence1_binary_parse": "", "sentence1_parse": "",
            "sentence2": row.texts[1], "sentence2_binary_parse": "", "sentence2_parse": "",
        });
        format!("{object}\n")
    });
    file(folder, &format!("snli_1.0_{}.jsonl", split.name()), &lines.collect::<String>())
}

/// Premise, hypothesis, label; no header.
pub(super) fn scitail(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    let lines = rows.iter().map(|row| format!("{}\t{}\n", pair(row), SCIENCE[row.label]));
    file(folder, &format!("tsv_format/scitail_1.0_{}.tsv", split.name()), &lines.collect::<String>())
}

/// One file a passage, in a folder for each level.
pub(super) fn race(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    // Both are there, even where few rows leave one empty.
    for level in ["middle", "high"] {
        let level = folder.join(split.name()).join(level);
        std::fs::create_dir_all(&level).map_err(|e| FileError::new("make the directory", &level, e))?;
    }
    for (i, row) in rows.iter().enumerate() {
        let id = format!("{}{i}.txt", row.kind);
        let letter = ["A", "B", "C", "D"][row.label];
        let passage = json!({
            "answers": [letter], "options": [row.texts[2..]], "questions": [row.texts[1]], "article": row.texts[0], "id": id,
        });
        file(folder, &format!("{}/{}/{i}.txt", split.name(), row.kind), &format!("{passage}\n"))?;
    }
    Ok(())
}

/// The original has no training file: what is trained on and what is validated on lie in one, the latter at its end.
pub(super) fn story_cloze(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    const HEADER: &str = "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,\
        RandomFifthSentenceQuiz1,RandomFifthSentenceQuiz2,AnswerRightEnding\n";
    let lines = rows.iter().enumerate().map(|(i, row)| {
        let texts: String = row.texts.iter().map(|text| format!("\"{}\",", text.replace('"', "\"\""))).collect();
        format!("world-{i},{texts}{}\n", row.label + 1)
    });
    let name = if split.is_test() { "test" } else { "val" };
    let name = format!("cloze_test_{name}__spring2016 - cloze_test_ALL_{name}.csv");
    file(folder, &name, &(HEADER.to_owned() + &lines.collect::<String>()))
}

/// Five lines an example: sentence, pronoun, candidates, answer, nothing.
pub(super) fn dprd(folder: &Path, split: Split, rows: &[Row]) -> Result<(), FileError> {
    let examples = rows.iter().map(|row| {
        let [sentence, pronoun, first, second] = &row.texts[..] else { return String::new() };
        format!("{sentence}\n{pronoun}\n{first},{second}\n{}\n\n", row.texts[2 + row.label])
    });
    file(folder, &format!("{}.c.txt", split.name()), &examples.collect::<String>())
}
