//! The files of the original distributions, with their names, headers and columns.

use std::fmt::Write as _;
use std::path::Path;

use gradus_data::sets::Split;
use gradus_io::disk;
use gradus_io::files::FileError;
use serde_json::json;

use super::Labelled;
use super::entail::{SCIENCE, THREE, TWO};

/// The rows of one split, and the paths of their files.
pub(super) struct Files<'r> {
    /// The task's folder.
    pub(super) folder: &'r Path,
    pub(super) split: Split,
    /// The beginning of the names of a table's files.
    pub(super) stem: &'static str,
    pub(super) rows: &'r [Labelled],
}

/// A function that writes the files of one split.
pub(super) type Write = fn(&Files<'_>) -> Result<(), FileError>;

impl Files<'_> {
    fn file(&self, name: &str, text: &str) -> Result<(), FileError> {
        let path = self.folder.join(name);
        let error = |cause| FileError::new("write", &path, cause);
        disk::make_folders(disk::parent(&path)).map_err(error)?;
        disk::write(&path, text.as_bytes()).map_err(error)
    }

    /// Writes a file with a header and a line for each row.
    fn lines(&self, name: &str, header: &str, line: impl Fn(usize, &Labelled) -> String) -> Result<(), FileError> {
        let lines = self.rows.iter().enumerate().map(|(i, row)| line(i, row));
        self.file(name, &(header.to_owned() + &lines.collect::<String>()))
    }

    /// Writes a table of GLUE: a header, and a line per row. The labels of a test set are in a separate file, in the form of a
    /// submission.
    fn glue(
        &self,
        [header, test_header]: [&str; 2],
        line: impl Fn(usize, &Labelled) -> String,
        label: impl Fn(&Labelled) -> String,
    ) -> Result<(), FileError> {
        let test = self.split.is_test();
        let mut text = if test { test_header } else { header }.replace(' ', "\t").replace('~', " ");
        if !text.is_empty() {
            text.push('\n');
        }
        let mut labels = String::from("index\tprediction\n");
        for (i, row) in self.rows.iter().enumerate() {
            let _ = match test {
                true => writeln!(text, "{}", line(i, row)),
                false => writeln!(text, "{}\t{}", line(i, row), label(row)),
            };
            let _ = writeln!(labels, "{i}\t{}", label(row));
        }
        self.file(&format!("{}.tsv", self.stem), &text)?;
        if test { self.file(&format!("{}_labels.tsv", self.stem), &labels) } else { Ok(()) }
    }

    /// Writes an entailment table with two named columns: QNLI, RTE, WNLI.
    fn entailment(&self, columns: &str, label: impl Fn(&Labelled) -> String) -> Result<(), FileError> {
        let headers = [format!("index {columns} label"), format!("index {columns}")];
        self.glue([&headers[0], &headers[1]], |i, row| format!("{i}\t{}", pair(row)), label)
    }
}

fn number(row: &Labelled) -> String {
    row.label.to_string()
}

fn pair(row: &Labelled) -> String {
    row.texts.join("\t")
}

/// Writes source, label, the author's mark and sentence; only the test set has a header.
pub(super) fn cola(files: &Files<'_>) -> Result<(), FileError> {
    if files.split.is_test() {
        return files.glue(["", "index sentence"], |i, row| format!("{i}\t{}", row.texts[0]), number);
    }
    let mark = |row: &Labelled| if row.label == 0 { "*" } else { "" };
    let line = |_, row: &Labelled| format!("world\t{}\t{}\t{}\n", row.label, mark(row), row.texts[0]);
    files.lines(&format!("{}.tsv", files.stem), "", line)
}

pub(super) fn sst2(files: &Files<'_>) -> Result<(), FileError> {
    let line = |i, row: &Labelled| if files.split.is_test() { format!("{i}\t{}", row.texts[0]) } else { row.texts[0].clone() };
    files.glue(["sentence label", "index sentence"], line, number)
}

/// Writes MRPC, with the label in the first column.
pub(super) fn mrpc(files: &Files<'_>) -> Result<(), FileError> {
    const STRINGS: &str = "#1~ID #2~ID #1~String #2~String";
    let ids = |i: usize, row: &Labelled| format!("{}\t{}\t{}", 2 * i, 2 * i + 1, pair(row));
    if files.split.is_test() {
        return files.glue(["", &format!("index {STRINGS}")], |i, row| format!("{i}\t{}", ids(i, row)), number);
    }
    let header = format!("Quality {STRINGS}\n").replace(' ', "\t").replace('~', " ");
    files.lines(&format!("{}.tsv", files.stem), &header, |i, row| format!("{}\t{}\n", row.label, ids(i, row)))
}

pub(super) fn qqp(files: &Files<'_>) -> Result<(), FileError> {
    let line = |i, row: &Labelled| match files.split.is_test() {
        true => format!("{i}\t{}", pair(row)),
        false => format!("{i}\t{}\t{}\t{}", 2 * i, 2 * i + 1, pair(row)),
    };
    files.glue(["id qid1 qid2 question1 question2 is_duplicate", "id question1 question2"], line, number)
}

pub(super) fn stsb(files: &Files<'_>) -> Result<(), FileError> {
    const HEADER: &str = "index genre filename year old_index source1 source2 sentence1 sentence2";
    let line = |i, row: &Labelled| format!("{i}\tstories\tworld\t2018\t{i:04}\tnone\tnone\t{}", pair(row));
    files.glue([&format!("{HEADER} score"), HEADER], line, |row| format!("{}.000", row.label))
}

pub(super) fn qnli(files: &Files<'_>) -> Result<(), FileError> {
    files.entailment("question sentence", |row| TWO[row.label].into())
}

pub(super) fn rte(files: &Files<'_>) -> Result<(), FileError> {
    files.entailment("sentence1 sentence2", |row| TWO[row.label].into())
}

pub(super) fn wnli(files: &Files<'_>) -> Result<(), FileError> {
    files.entailment("sentence1 sentence2", number)
}

/// Writes one annotator's label before the gold label in training and five in the dev sets, as in the original.
pub(super) fn mnli(files: &Files<'_>) -> Result<(), FileError> {
    const HEADER: &str = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse sentence1 sentence2";
    let test = files.split.is_test();
    let annotators = if files.split == Split::Train { 1 } else { 5 };
    let labels: String = (1..=annotators).map(|n| format!(" label{n}")).collect();
    let line = |i, row: &Labelled| format!("{i}\t{i}\t{i}w\t{}\t( )\t( )\t( )\t( )\t{}", row.kind, pair(row));
    let label = |row: &Labelled| vec![THREE[row.label]; if test { 1 } else { annotators + 1 }].join("\t");
    files.glue([&format!("{HEADER}{labels} gold_label"), HEADER], line, label)
}

/// Writes one JSON object per line.
pub(super) fn snli(files: &Files<'_>) -> Result<(), FileError> {
    files.lines(&format!("snli_1.0_{}.jsonl", files.stem), "", |i, row| {
        let label = THREE[row.label];
        let object = json!({
            "annotator_labels": [label], "captionID": format!("world{i}"), "gold_label": label, "pairID": format!("world{i}w"),
            "sentence1": row.texts[0], "sentence1_binary_parse": "", "sentence1_parse": "",
            "sentence2": row.texts[1], "sentence2_binary_parse": "", "sentence2_parse": "",
        });
        format!("{object}\n")
    })
}

/// Writes premise, hypothesis and label, without a header.
pub(super) fn scitail(files: &Files<'_>) -> Result<(), FileError> {
    let line = |_, row: &Labelled| format!("{}\t{}\n", pair(row), SCIENCE[row.label]);
    files.lines(&format!("tsv_format/scitail_1.0_{}.tsv", files.stem), "", line)
}

/// Writes one file per passage, in a folder for each level.
pub(super) fn race(files: &Files<'_>) -> Result<(), FileError> {
    // Both folders exist, even if one is empty for lack of rows.
    for level in ["middle", "high"] {
        let level = files.folder.join(files.stem).join(level);
        disk::make_folders(&level).map_err(|e| FileError::new("make the directory", &level, e))?;
    }
    for (i, row) in files.rows.iter().enumerate() {
        let id = format!("{}{i}.txt", row.kind);
        let letter = ["A", "B", "C", "D"][row.label];
        let passage = json!({
            "answers": [letter], "options": [row.texts[2..]], "questions": [row.texts[1]], "article": row.texts[0], "id": id,
        });
        files.file(&format!("{}/{}/{i}.txt", files.stem, row.kind), &format!("{passage}\n"))?;
    }
    Ok(())
}

/// Writes training and validation rows to one file, the latter at its end, because the original has no training file.
pub(super) fn story_cloze(files: &Files<'_>) -> Result<(), FileError> {
    const HEADER: &str = "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,\
        RandomFifthSentenceQuiz1,RandomFifthSentenceQuiz2,AnswerRightEnding\n";
    let name = if files.split.is_test() { "test" } else { "val" };
    files.lines(&format!("cloze_test_{name}__spring2016 - cloze_test_ALL_{name}.csv"), HEADER, |i, row| {
        let texts: String = row.texts.iter().map(|text| format!("\"{}\",", text.replace('"', "\"\""))).collect();
        format!("world-{i},{texts}{}\n", row.label + 1)
    })
}

/// Writes five lines per example: sentence, pronoun, candidates, answer, and an empty line.
pub(super) fn dprd(files: &Files<'_>) -> Result<(), FileError> {
    files.lines(&format!("{}.c.txt", files.stem), "", |_, row| {
        let [sentence, pronoun, first, second] = &row.texts[..] else { return String::new() };
        format!("{sentence}\n{pronoun}\n{first},{second}\n{}\n\n", row.texts[2 + row.label])
    })
}
