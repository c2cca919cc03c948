//! What can go wrong with a data set, each with the place and the remedy.

use std::path::{Path, PathBuf};

use gradus_io::files::FileError;
use thiserror::Error;

use super::task::{Split, Task};

/// An error in reading a data set. Its message says what was expected, what was found, where, and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SetError {
    /// A task of that name there is not.
    #[error("task: expected one of {names}; found `{name}`")]
    Task {
        /// What was given.
        name: String,
        /// Those there are.
        names: String,
    },
    /// A split of that name there is not.
    #[error("split: expected one of {}; found `{name}`", split_names(&Split::ALL))]
    SplitName {
        /// What was given.
        name: String,
    },
    /// A split that this data set does not have.
    #[error("{title} has no split `{split}`. Choose one of: {}", split_names(splits))]
    NoSplit {
        /// The data set.
        title: &'static str,
        /// What was asked for.
        split: Split,
        /// What it has.
        splits: &'static [Split],
    },
    /// A file that should be there is not.
    #[error("{}: there is no such {what}. The folder of {title} must hold {folder}", path.display())]
    Missing {
        /// The file or folder.
        path: PathBuf,
        /// `file` or `folder`.
        what: &'static str,
        /// The data set.
        title: &'static str,
        /// What its folder must hold.
        folder: &'static str,
    },
    /// The operating system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// A place in a file that is not as the data set has it.
    #[error("{}, line {line}, column {column}: expected {expected}, found {found}. {remedy}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1: of tables the field, else the character.
        column: usize,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// A split without a row.
    #[error(
        "{title}, split `{split}`: expected at least one row, found none (passed over: {dropped}) in {}. \
             Check that the files are whole, or download them again",
        list(files)
    )]
    Empty {
        /// The data set.
        title: &'static str,
        /// The split.
        split: Split,
        /// The files that were read.
        files: Vec<PathBuf>,
        /// Rows passed over.
        dropped: usize,
    },
    /// Predictions that make no submission to GLUE.
    #[error("{title}: expected {expected}, found {found}. {remedy}")]
    Submission {
        /// The data set.
        title: &'static str,
        /// What a submission takes.
        expected: String,
        /// What was given.
        found: String,
        /// What to do.
        remedy: &'static str,
    },
}

impl SetError {
    /// A file operation that failed on one of a data set's files.
    pub(super) fn io(task: &Task, path: &Path, what: &'static str, cause: std::io::Error) -> Self {
        match cause.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                SetError::Missing { path: path.into(), what, title: task.title, folder: task.folder }
            }
            _ => FileError::new("read", path, cause).into(),
        }
    }
}

fn split_names(splits: &[Split]) -> String {
    splits.iter().map(|split| split.name()).collect::<Vec<_>>().join(", ")
}

fn list(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// What was found, short enough for a message.
pub(super) fn quote(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("`{}…`", text[..cut].escape_debug()),
        None if text.is_empty() => "nothing".into(),
        None => format!("`{}`", text.escape_debug()),
    }
}
