//! SNLI, the Stanford Natural Language Inference corpus (Bowman et al. 2015): entailment between captions of pictures.
//!
//! The files are the original corpus: `snli_1.0_train.jsonl`, `snli_1.0_dev.jsonl`, `snli_1.0_test.jsonl`, one object per line
//! with `sentence1` (premise), `sentence2` (hypothesis), `gold_label`, `pairID`. Otherwise they are GLUE's copy, `train.tsv` and
//! so on, whose rows may have more columns than the header: the gold label is a row's last field. It is `-` if the annotators had
//! no majority; such rows are skipped and counted.

use serde::Deserialize;

use super::error::quote;
use super::file::{SetFile, choose};
use super::json;
use super::location::Location;
use super::tsv::{self, Columns, UNDECIDED};
use super::{Answer, Example, Family, Input, Label, Loaded, Metric, SetError, Split, Task, Transformation};

const LABELS: &[&str] = &["entailment", "neutral", "contradiction"];

/// 549,367 / 9,842 / 9,824 pairs with a label.
pub static SNLI: Task = Task {
    name: "snli",
    title: "SNLI",
    family: Family::Inference,
    transformation: Transformation::Entail,
    answer: Answer::Classes(LABELS),
    metric: Metric::Accuracy,
    also: &[],
    folder: "`snli_1.0_train.jsonl`, `snli_1.0_dev.jsonl` and `snli_1.0_test.jsonl`, or GLUE's `train.tsv`, `dev.tsv` and \
             `test.tsv` of SNLI",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

#[derive(Deserialize)]
struct Record {
    #[serde(rename = "pairID")]
    pair_id: String,
    gold_label: Option<String>,
    sentence1: String,
    sentence2: String,
}

fn read(folder: &Location<'_>, split: Split) -> Result<Loaded, SetError> {
    let (own, glue) = (format!("snli_1.0_{split}.jsonl"), format!("{split}.tsv"));
    let relatives: [&[_]; 2] =
        [&["snli_1.0_train.jsonl", "snli_1.0_dev.jsonl", "snli_1.0_test.jsonl"], &["train.tsv", "dev.tsv", "test.tsv"]];
    if choose(folder, [&own, &glue], relatives) == 1 {
        let marks = &["captionID"];
        let columns = Columns { id: &["pairID"], label: "gold_label", marks, wide: true, narrow: true, ..Columns::GLUE };
        return tsv::read(&SNLI, &folder.join(glue), split, &columns);
    }
    let file = SetFile::read(&SNLI, &folder.join(own))?;
    let mut loaded = Loaded::of(&file);
    for (line, text) in file.lines().filter(|(_, text)| !text.trim().is_empty()) {
        let fields = "the strings sentence1, sentence2, gold_label and pairID";
        let record: Record = json::parse(&SNLI, &file, line, text, fields)?;
        let label = match record.gold_label.as_deref() {
            Some(label) if label == UNDECIDED.0 => {
                loaded.drop_row(UNDECIDED.1);
                continue;
            }
            None | Some("") if split.is_test() => None,
            label => {
                let class = LABELS.iter().position(|known| Some(*known) == label).ok_or_else(|| {
                    let expected = format!("one of the labels {}, or {}", LABELS.join(", "), UNDECIDED.0);
                    json::malformed(&file, line, text, "gold_label", expected, quote(label.unwrap_or_default()))
                })?;
                Some(Label::Class(class))
            }
        };
        let input = Input::Pair(record.sentence1, record.sentence2);
        loaded.examples.push(Example { id: record.pair_id, input, label, group: None });
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{folder, load, refused, rows};
    use super::*;

    fn row(label: &str) -> String {
        format!(r#"{{"gold_label": "{label}", "pairID": "7#1", "sentence1": "A \"man\" sits.", "sentence2": "He sits."}}"#)
    }

    #[test]
    fn rows_without_a_majority_are_skipped_and_counted() {
        let dev = ["neutral", "-", "contradiction", "-"].map(row).join("\r\n");
        let folder = folder(&[("snli_1.0_dev.jsonl", &format!("\u{feff}{dev}\n\n")), ("dev.tsv", "not read")]);
        let loaded = SNLI.load(folder.path(), Split::Dev).unwrap();
        assert_eq!(rows(&loaded), ["7#1: A \"man\" sits.|He sits. = 1", "7#1: A \"man\" sits.|He sits. = 2"]);
        assert_eq!(loaded.dropped[0].rows, 2);
    }

    /// A row may have more or fewer annotators than the header has columns for, but at least one.
    #[test]
    fn the_glue_copy_of_the_file_is_accepted() {
        const HEADER: &str = "index\tcaptionID\tpairID\tsentence1\tsentence2\tlabel1\tgold_label\n";
        let dev = |row: &str| format!("{HEADER}{row}\n");
        for labels in ["neutral\tentailment\tneutral\tneutral", "neutral"] {
            let dev = dev(&format!("0\t7#\t7#1\tA.\tB.\t{labels}"));
            assert_eq!(load(&SNLI, &[("dev.tsv", &dev)], Split::Dev), ["7#1: A.|B. = 1"]);
        }
        let wrong = dev("0\t7#\t7#1\tA.\tneutral");
        refused(&SNLI, &[("dev.tsv", &wrong)], Split::Dev, "line 2, column 6: expected 7 columns");
        let words = "expected a header with the columns captionID, sentence1, sentence2, gold_label";
        refused(&SNLI, &[("dev.tsv", &wrong.replace("captionID", "genre"))], Split::Dev, words);
    }

    #[test]
    fn faults_are_named_with_line_and_column() {
        let labels = "expected one of the labels entailment, neutral, contradiction, or -, found `maybe`";
        for (line, words) in [
            (row("maybe"), &*format!("snli_1.0_train.jsonl, line 2, column 2: {labels}")),
            (row(""), "line 2, column 2: expected one of the labels entailment, neutral, contradiction, or -, found nothing"),
            (row("neutral").replace("sentence2", "sentence3"), "missing field `sentence2`"),
            (
                row("neutral").replace("He sits.", "He\tsits."),
                "line 2, column 92: expected a JSON object with the strings sentence1",
            ),
            ("[".repeat(500), "line 2, column"),
            (String::new(), "expected at least one row, found none (skipped: 1)"),
        ] {
            refused(&SNLI, &[("snli_1.0_train.jsonl", &format!("{}\n{line}\n", row("-")))], Split::Train, words);
        }
    }
}
