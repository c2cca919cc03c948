//! The contents of the ledger: the file `model/ledger.toml`.

use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

/// A section: its heading and its rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// The rows, in the order of the paper.
    pub row: Vec<Row>,
}

/// A row of the ledger.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The place in the paper.
    pub place: String,
    /// The statement, or the difference.
    pub statement: String,
    /// The treatment in Gradus.
    pub here: String,
    /// The file and the item in it that implements the statement: `name`, or `Type::name`.
    pub source: (String, String),
    /// The files and the tests in them that pin the statement.
    pub tests: Vec<(String, String)>,
}

/// Figure 1 of the paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The left side, from the tokens up.
    pub model: Vec<FigurePart>,
    /// The parts of the left side that are stacked n times.
    pub repeated: Range<usize>,
    /// The right side: the input of each kind of task.
    pub tasks: Vec<FigurePart>,
}

/// A part of the figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigurePart {
    /// The part's name in the figure.
    pub name: String,
    /// The computation of the part.
    pub text: String,
    /// The beginnings of the statements of the part's rows.
    pub rows: Vec<String>,
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    pub figure: Figure,
    pub section: Vec<Section>,
}

pub static CONTENTS: LazyLock<Contents> = LazyLock::new(|| {
    let text = include_str!("../../../../model/ledger.toml");
    toml::from_str(text).unwrap_or_else(|e| panic!("model/ledger.toml: {e}"))
});

/// Returns the rows of all sections.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    CONTENTS.section.iter().flat_map(|section| &section.row)
}

/// Returns the row whose statement begins with `begins`, and its index from 0.
pub fn row(begins: &str) -> (usize, &'static Row) {
    rows().enumerate().find(|(_, row)| row.statement.starts_with(begins)).expect("a row of the ledger")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_tests_and_an_implementation_note() {
        for row in rows() {
            assert!(!row.tests.is_empty() && !row.here.is_empty(), "{}", row.statement);
        }
        assert!(CONTENTS.section.iter().all(|section| !section.row.is_empty()) && CONTENTS.section.len() == 5);
    }

    #[test]
    fn every_part_of_the_figure_leads_to_one_row_each() {
        for part in CONTENTS.figure.model.iter().chain(&CONTENTS.figure.tasks) {
            assert!(!part.rows.is_empty(), "{}", part.name);
            for begins in &part.rows {
                let found = rows().filter(|row| row.statement.starts_with(begins)).count();
                assert_eq!(found, 1, "{}: {begins}", part.name);
            }
        }
    }
}
