//! MRPC, the Microsoft Research Paraphrase Corpus (Dolan, Brockett 2005): whether two sentences are paraphrases.
//!
//! The files are GLUE's if present: `Quality`, `#1 ID`, `#2 ID`, `#1 String`, `#2 String`, and in `test.tsv` `index` for
//! `Quality`. Otherwise they are the original corpus, with the same columns: `msr_paraphrase_train.txt`, of which the pairs in
//! GLUE's `dev_ids.tsv` are the dev set, and `msr_paraphrase_test.txt`, which has labels. Files may begin with a byte order mark,
//! and contain many bare double quotes.

use super::error::quote;
use super::file::{SetFile, choose};
use super::location::Location;
use super::tsv::{self, Columns, Written};
use super::{Answer, Family, Loaded, Metric, SetError, Split, Task, Transformation};
use std::collections::{HashMap, HashSet};

/// 3,668 / 408 / 1,725 pairs.
pub static MRPC: Task = Task {
    name: "mrpc",
    title: "MRPC",
    family: Family::Similarity,
    transformation: Transformation::Similar,
    answer: Answer::Classes(&["not_equivalent", "equivalent"]),
    metric: Metric::F1,
    also: &[Metric::Accuracy],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's MRPC, or `msr_paraphrase_train.txt`, `msr_paraphrase_test.txt` and \
             GLUE's `dev_ids.tsv`",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

fn read(folder: &Location<'_>, split: Split) -> Result<Loaded, SetError> {
    let glue = format!("{split}.tsv");
    let original = if split == Split::Test { "msr_paraphrase_test.txt" } else { "msr_paraphrase_train.txt" };
    let relatives: [&[_]; 2] = [&["train.tsv", "dev.tsv", "test.tsv"], &["msr_paraphrase_train.txt", "msr_paraphrase_test.txt"]];
    let is_glue = choose(folder, [&glue, original], relatives) == 0;
    let columns = Columns {
        id: if is_glue && split == Split::Test { &["index"] } else { &["#1 ID", "#2 ID"] },
        texts: &["#1 String", "#2 String"],
        label: "Quality",
        written: Written::Numbers,
        marks: &["#1 ID"],
        ..Columns::GLUE
    };
    let mut loaded = tsv::read(&MRPC, &folder.join(if is_glue { &glue } else { original }), split, &columns)?;
    if !is_glue && split != Split::Test {
        let file = SetFile::read(&MRPC, &folder.join("dev_ids.tsv"))?;
        let dev = dev_ids(&file)?;
        let known: HashSet<&String> = loaded.examples.iter().map(|example| &example.id).collect();
        if let Some((id, &line)) = dev.iter().filter(|(id, _)| !known.contains(id)).min_by_key(|(_, line)| **line) {
            let expected = format!("the ids of a pair of `{original}`");
            return Err(file.malformed((line, 1), expected, quote(id), tsv::wrong_folder(&MRPC)));
        }
        let all = loaded.examples.len();
        loaded.examples.retain(|example| dev.contains_key(&example.id) == (split == Split::Dev));
        loaded.elsewhere = all - loaded.examples.len();
        loaded.files.push(file.path);
    }
    if !is_glue && split == Split::Test {
        // GLUE's test set has these rows in the same order, with their numbers as ids.
        loaded.examples.iter_mut().enumerate().for_each(|(i, example)| example.id = i.to_string());
    }
    Ok(loaded)
}

/// Returns the ids of the pairs in the dev set, each with its line number. The file has two ids per line.
fn dev_ids(file: &SetFile) -> Result<HashMap<String, usize>, SetError> {
    let mut ids = HashMap::new();
    for (line, text) in file.lines() {
        match text.split('\t').collect::<Vec<_>>()[..] {
            [first, second] => drop(ids.insert(format!("{}-{}", first.trim(), second.trim()), line)),
            _ if text.trim().is_empty() => {}
            _ => {
                let (expected, remedy) = ("two ids with a tab between", tsv::wrong_folder(&MRPC));
                return Err(file.malformed((line, 1), expected, quote(text), remedy));
            }
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{folder, load, refused};
    use super::*;

    const MSR: &str = "\u{feff}Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n\
                       1\t10\t11\tHe said \" no .\tHe refused .\r\n0\t12\t13\tRain fell .\tSnow fell .\r\n";

    /// The ids of the test set are row numbers, as in a submission to GLUE.
    #[test]
    fn original_files_are_used_where_those_of_glue_are_absent() {
        let mut files = vec![("msr_paraphrase_train.txt", MSR), ("msr_paraphrase_test.txt", MSR), ("dev_ids.tsv", "12\t13\n")];
        let [said, fell] = ["He said \" no .|He refused . = 1", "Rain fell .|Snow fell . = 0"];
        assert_eq!(load(&MRPC, &files, Split::Train), [format!("10-11: {said}")]);
        assert_eq!(load(&MRPC, &files, Split::Dev), [format!("12-13: {fell}")]);
        assert_eq!(load(&MRPC, &files, Split::Test), [format!("0: {said}"), format!("1: {fell}")]);
        let elsewhere = |split| MRPC.load(folder(&files).path(), split).unwrap().elsewhere;
        assert_eq!([Split::Train, Split::Dev, Split::Test].map(elsewhere), [1, 1, 0]);
        files[2].1 = "\n12\t13\n \n";
        assert_eq!(load(&MRPC, &files, Split::Dev), [format!("12-13: {fell}")], "blank lines are no ids");
        files.push(("train.tsv", &MSR[3..]));
        assert_eq!(load(&MRPC, &files, Split::Train), [format!("10-11: {said}"), format!("12-13: {fell}")]);
        files.push(("test.tsv", "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t10\t11\tA .\tB ."));
        assert_eq!(load(&MRPC, &files, Split::Test), ["0: A .|B . = ?"], "GLUE's comes first");
    }

    #[test]
    fn splits_require_the_list_of_dev_pairs() {
        let train = ("msr_paraphrase_train.txt", MSR);
        refused(&MRPC, &[train], Split::Train, "dev_ids.tsv: there is no such file");
        for (ids, words) in [
            ("12\t13\tx", "line 1, column 1: expected two ids"),
            ("12\t13\n12\t14", "line 2, column 1: expected the ids of a pair"),
            ("12\t13\n14", "dev_ids.tsv, line 2, column 1: expected two ids with a tab between, found `14`"),
        ] {
            refused(&MRPC, &[train, ("dev_ids.tsv", ids)], Split::Train, words);
        }
    }
}
