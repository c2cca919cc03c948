//! What can go wrong with token corpora, each with the place and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use gradus_text::TextError;
use thiserror::Error;

/// An error of the data layer. Its message says what was expected, what was found, where, and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// The text itself: missing, empty, binary, not UTF-8.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The operating system refused a file operation on the cache.
    #[error("{path}: cannot {action} the token cache: {source}. {remedy}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as a verb.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// The tokenizer refused a text.
    #[error("{path}, in the piece from byte {offset} of its text: {source}")]
    Encode {
        /// The file.
        path: PathBuf,
        /// Where the piece begins.
        offset: u64,
        /// The tokenizer's error; its own offset counts from there.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file changed while it was being tokenised.
    #[error("{path}: the file changed while it was being read. Start again when nothing writes to the corpus")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A cache that is not what was written.
    #[error("{path}: not a sound token cache: {found}. Delete the file; it is made anew from the corpus")]
    Corrupt {
        /// The cache.
        path: PathBuf,
        /// What is wrong.
        found: String,
    },
    /// An id outside the vocabulary.
    #[error("token id {id} at position {position}: this vocabulary has ids 0 to {}. \
             Check that tokenizer, ids and model belong together", vocab_size.saturating_sub(1))]
    Id {
        /// The id.
        id: u32,
        /// Its place.
        position: usize,
        /// Number of ids.
        vocab_size: usize,
    },
    /// Fewer tokens than one window.
    #[error("the {part} of the corpus has {tokens} tokens, but a window needs {needed}. {remedy}")]
    TooShort {
        /// `training part` or `held-out part`.
        part: &'static str,
        /// Tokens there are.
        tokens: usize,
        /// Tokens that one window takes.
        needed: usize,
        /// What to do.
        remedy: String,
    },
    /// A sequence that does not fit a row.
    #[error(
        "sequence {row} takes {found} positions, but the context has {context}. \
             Shorten it, or use a model with a longer context"
    )]
    RowTooLong {
        /// Its index, from 0.
        row: usize,
        /// Positions it takes, the separator included.
        found: usize,
        /// Positions there are.
        context: usize,
    },
    /// A sequence in which nothing is predicted.
    #[error("sequence {row} is empty, so there is nothing to predict. Remove it")]
    RowEmpty {
        /// Its index, from 0.
        row: usize,
    },
    /// A context or stride of 0, or a stride beyond the context.
    #[error("{field}: expected {expected}, found {found}. {remedy}")]
    Size {
        /// `context` or `stride`.
        field: &'static str,
        /// What may stand there.
        expected: String,
        /// What stands there.
        found: usize,
        /// What to do.
        remedy: &'static str,
    },
    /// A share that leaves nothing to train on, or is none.
    #[error("held-out: expected a share of the corpus from 0 to below 1, found {held_out}. For the last tenth, give 0.1")]
    HeldOut {
        /// What was given.
        held_out: f64,
    },
}

impl DataError {
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        let remedy = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "Free some space and try again; what stood there before is untouched"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "Choose a folder that you may write to",
            _ => "Check the file and its folder",
        };
        DataError::Io { path: path.to_owned(), action, source, remedy }
    }

    pub(crate) fn context_is_0() -> Self {
        let remedy = "The context is the number of tokens that the model reads at once";
        DataError::Size { field: "context", expected: "at least 1".into(), found: 0, remedy }
    }
}
