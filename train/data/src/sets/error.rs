//! Errors in reading a data set.

use std::path::{Path, PathBuf};

use gradus_io::files::FileError;
use thiserror::Error;

use super::kinds::Split;

/// An error in reading a data set. Its message states what was expected, what was found, where, and the remedy.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum SetError {
    #[error("task: expected one of {names}; found `{name}`")]
    Task { name: String, names: String },
    #[error("split: expected one of {}; found `{name}`", split_names(&Split::ALL))]
    SplitName { name: String },
    #[error("{title} has no split `{split}`. Choose one of: {}", split_names(splits))]
    NoSplit { title: &'static str, split: Split, splits: &'static [Split] },
    /// A missing file or folder (`what`). `folder` describes the files that the data set's folder must contain.
    #[error("{path}: there is no such {what}. The folder of {title} must hold {folder}")]
    Missing { path: PathBuf, what: &'static str, title: &'static str, folder: &'static str },
    #[error(transparent)]
    File(#[from] FileError),
    /// A malformed line. Line and column count from 1; the column is a field in a table, otherwise a character.
    #[error("{path}, line {line}, column {column}: expected {expected}, found {found}. {remedy}")]
    Malformed { path: PathBuf, line: usize, column: usize, expected: String, found: String, remedy: String },
    #[error(
        "{title}, split `{split}`: expected at least one row, found none (skipped: {dropped}) in {}. Check that the files are \
             whole, or download them again",
        list(files)
    )]
    Empty { title: &'static str, split: Split, files: Vec<PathBuf>, dropped: usize },
    /// Predictions that do not form a valid submission to GLUE.
    #[error("{title}: expected {expected}, found {found}. {remedy}")]
    Submission { title: &'static str, expected: String, found: String, remedy: &'static str },
}

impl SetError {
    /// Returns the error for a line and column of a file.
    pub(super) fn malformed(
        path: &Path,
        (line, column): (usize, usize),
        expected: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (expected, found, remedy) = (expected.into(), found.into(), remedy.into());
        SetError::Malformed { path: path.into(), line, column, expected, found, remedy }
    }
}

fn split_names(splits: &[Split]) -> String {
    splits.iter().map(|split| split.name()).collect::<Vec<_>>().join(", ")
}

fn list(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns a text as one line, with invisible characters escaped.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\'' | '"' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// Quotes a text in a message, shortened if it is long.
pub(super) fn quote(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("`{}…`", visible(&text[..cut])),
        None if text.is_empty() => "nothing".into(),
        None => format!("`{}`", visible(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_escaped_and_shortened() {
        assert_eq!(quote("it's \"so\"\t\u{1b}[2J\\ é"), r#"`it's "so"\t\u{1b}[2J\\ é`"#);
        assert_eq!((quote(""), quote(&"é".repeat(60))), ("nothing".into(), format!("`{}`", "é".repeat(60))));
        assert_eq!(quote(&"é".repeat(61)), format!("`{}…`", "é".repeat(60)));
    }
}
