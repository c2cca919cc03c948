//! STS-B, the Semantic Textual Similarity benchmark (Cer et al. 2017): the similarity of two sentences, from 0 to 5.
//!
//! The files are GLUE's if present: `index`, …, `sentence1`, `sentence2`, `score`; `test.tsv` has no score. Otherwise they are
//! the original benchmark, all with scores: `sts-train.tsv`, `sts-dev.tsv`, `sts-test.tsv` (or `.csv`, the published names,
//! though separated by tabs), which GLUE keeps in `original/`. They have no header and seven columns (genre, file, year, number,
//! score, the two sentences); some rows have two more, the sources.

use super::file::choose;
use super::location::Location;
use super::tsv::{self, Columns, Written};
use super::{Answer, Family, Loaded, Metric, SetError, Split, Task, Transformation};

/// 5,749 / 1,500 / 1,379 pairs.
pub static STSB: Task = Task {
    name: "sts-b",
    title: "STS-B",
    family: Family::Similarity,
    transformation: Transformation::Similar,
    answer: Answer::Score { max: 5 },
    metric: Metric::Pearson,
    also: &[Metric::Spearman],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's STS-B, or `sts-train.tsv`, `sts-dev.tsv` and `sts-test.tsv`",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read,
};

fn read(folder: &Location<'_>, split: Split) -> Result<Loaded, SetError> {
    let marks: &[_] = if split == Split::Test { &["genre"] } else { &[] }; // without scores, the file could be RTE's
    let glue = Columns { label: "score", written: Written::Scores, marks, ..Columns::GLUE };
    let [own, tsv, csv] = [format!("{split}.tsv"), format!("sts-{split}.tsv"), format!("sts-{split}.csv")];
    let relatives: [&[_]; 3] = [
        &["train.tsv", "dev.tsv", "test.tsv"],
        &["sts-train.tsv", "sts-dev.tsv", "sts-test.tsv"],
        &["sts-train.csv", "sts-dev.csv", "sts-test.csv"],
    ];
    let kind = choose(folder, [&own, &tsv, &csv], relatives);
    let path = folder.join([&own, &tsv, &csv][kind]);
    let names: &[_] = &["genre", "filename", "year", "old_index", "score", "sentence1", "sentence2"];
    match kind {
        0 => tsv::read(&STSB, &path, split, &glue),
        _ => tsv::read(&STSB, &path, split, &Columns { names: Some(names), longer: true, ..glue }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rte::RTE;
    use super::super::testing::{load, refused};
    use super::*;

    const HEADER: &str = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";

    #[test]
    fn the_files_of_glue_and_the_original_ones() {
        let glue = format!("{HEADER}4\tg\tf\t2012\t1\tnone\tnone\tA dog runs.\tA dog is running.\t4.750\n");
        let original = "g\tf\t2012\t1\t2.5\tA cat.\tA hat.\ng\tf\t2012\t2\t0\tOne.\tTwo.\tsource\tsource\n";
        let files = [("train.tsv", &*glue), ("sts-train.tsv", "not read"), ("sts-test.csv", original)];
        assert_eq!(load(&STSB, &files, Split::Train), ["4: A dog runs.|A dog is running. = 4.75"]);
        assert_eq!(load(&STSB, &files, Split::Test), ["0: A cat.|A hat. = 2.5", "1: One.|Two. = 0.0"]);
    }

    /// The test files of both have no labels that distinguish them.
    #[test]
    fn sts_b_is_not_taken_for_rte() {
        let test = format!("{}0\tg\tf\t2012\t1\tnone\tnone\tA.\tB.\n", HEADER.replace("\tscore", ""));
        let words = "expected a header with the columns sentence1, sentence2 and no texts but these";
        refused(&RTE, &[("test.tsv", &test)], Split::Test, words);
        let words = "expected a header with the columns genre, sentence1, sentence2";
        refused(&STSB, &[("test.tsv", "index\tsentence1\tsentence2\n0\tA.\tB.\n")], Split::Test, words);
    }

    #[test]
    fn scores_are_numbers_from_0_to_5() {
        for wrong in ["5.001", "-1", "NaN", "inf", "high", ""] {
            let row = format!("{HEADER}0\tg\tf\t2012\t1\tnone\tnone\tA.\tB.\t{wrong}\n");
            refused(&STSB, &[("dev.tsv", &row)], Split::Dev, "line 2, column 10: expected a score from 0 to 5, found");
        }
    }
}
