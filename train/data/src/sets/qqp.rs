//! QQP, Quora Question Pairs (Iyer, Dandekar, Csernai 2017): whether two questions are duplicates.
//!
//! The files are GLUE's: `id`, `qid1`, `qid2`, `question1`, `question2`, `is_duplicate`; in `test.tsv` `id`, `question1`,
//! `question2`. A question that contains a `"` is quoted, with each `"` doubled (3 % of the rows, as published). A question that
//! contains a line break is quoted too; the line break tears its row in two, and the parts are joined again. Torn rows without
//! quotes have too few columns. They are skipped and counted, up to a limit.

use super::tsv::{self, Columns, Written};
use super::{Answer, Family, Metric, Split, Task, Transformation};

/// About 364,000 / 40,000 / 391,000 pairs.
pub static QQP: Task = Task {
    name: "qqp",
    title: "QQP",
    family: Family::Similarity,
    transformation: Transformation::Similar,
    answer: Answer::Classes(&["not_duplicate", "duplicate"]),
    metric: Metric::F1,
    also: &[Metric::Accuracy],
    folder: "`train.tsv`, `dev.tsv` and `test.tsv` of GLUE's QQP",
    splits: &[Split::Train, Split::Dev, Split::Test],
    read: |folder, split| {
        let columns = Columns {
            id: &["id"],
            texts: &["question1", "question2"],
            label: "is_duplicate",
            written: Written::Numbers,
            torn: split != Split::Test, // no row of the test set is torn, and a submission needs every row
            quoted: true,
            ..Columns::GLUE
        };
        tsv::glue(&QQP, folder, split, &columns)
    },
};

#[cfg(test)]
mod tests {
    use super::super::testing::{folder, load, refused, rows};
    use super::*;

    #[test]
    fn torn_rows_are_skipped_and_counted() {
        let train = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n\
                     5\t1\t2\tWhat is rain?\tHow does rain form?\t0\n\
                     6\t3\t4\tIs \"soup\" a drink?\n\n\tIs soup drunk?\t1\n\
                     7\t5\t6\tWho sings?\tWhich one sings?\t1\n";
        let folder = folder(&[("train.tsv", train), ("test.tsv", "id\tquestion1\tquestion2\n0\tWhy?\tHow?\n")]);
        let train = QQP.load(folder.path(), Split::Train).unwrap();
        assert_eq!(rows(&train), ["5: What is rain?|How does rain form? = 0", "7: Who sings?|Which one sings? = 1"]);
        assert_eq!(train.dropped.len(), 1);
        assert_eq!((train.dropped[0].rows, train.dropped[0].reason.contains("splits its row")), (3, true));
        assert_eq!(rows(&QQP.load(folder.path(), Split::Test).unwrap()), ["0: Why?|How? = ?"]);
    }

    #[test]
    fn quotes_are_removed_and_quoted_line_breaks_are_joined() {
        let row = |questions: &str| {
            let header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate";
            let dev = format!("{header}\n5\t1\t2\t{questions}\t0\n6\t3\t4\tx\ty\t1\n");
            load(&QQP, &[("dev.tsv", &dev)], Split::Dev)
        };
        for (questions, expected) in [
            ("\"What is \"\"rain\"\"?\"\t\"\"\"How?\"", "5: What is \"rain\"?|\"How? = 0"),
            ("\"\"\"Rain\"\"\"\t\"\"\"\"", "5: \"Rain\"|\" = 0"),
            ("\"What is rain?\"\tHow", "5: What is rain?|How = 0"),
            ("\"What\nis\n\nrain?\"\tHow?", "5: What\nis\n\nrain?|How? = 0"),
            ("What?\t\"How \"\"long\"\"\nis it?\"", "5: What?|How \"long\"\nis it? = 0"),
            ("\"a\tb\"\tc", "5: a\tb|c = 0"),
            // Quotes that are not well formed are part of the text.
            ("\"Rain\" is what?\tIs \"it\" wet?", "5: \"Rain\" is what?|Is \"it\" wet? = 0"),
            ("\"Rain\tis wet", "5: \"Rain|is wet = 0"),
            ("\"Rain\tis wet\"", "5: \"Rain|is wet\" = 0"),
        ] {
            assert_eq!(row(questions), [expected, "6: x|y = 1"], "{questions}");
        }
    }

    #[test]
    fn many_torn_rows_or_one_of_the_test_set_are_an_error() {
        let row = "5\t1\t2\tWhy?\tHow?\n";
        let dev = format!("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n{}{}\t0\n", row.repeat(11), row.trim_end());
        refused(&QQP, &[("dev.tsv", &dev)], Split::Dev, "line 2, column 6: expected 6 columns");
        // Ten torn rows are allowed.
        let dev = dev.replacen(row, "", 1);
        assert_eq!(load(&QQP, &[("dev.tsv", &dev)], Split::Dev), ["5: Why?|How? = 0"]);
        // A file without a final line end: an error built for each torn row would count the lines of the whole file each time.
        let torn = format!("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n{}x", "x\n".repeat(200_000));
        refused(&QQP, &[("dev.tsv", &torn)], Split::Dev, "line 2, column 2: expected 6 columns");
        let test = [("test.tsv", "id\tquestion1\tquestion2\n0\tWhy?\n")];
        refused(&QQP, &test, Split::Test, "line 2, column 3: expected 3 columns");
    }
}
