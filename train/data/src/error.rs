//! What can go wrong with token corpora, each with the place and the remedy.

use std::path::PathBuf;

use gradus_io::files::FileError;
use gradus_text::TextError;
use thiserror::Error;

/// What to do where there is hardly a token.
pub(crate) const FEW: &str =
    "Give more text, or hold out less of it (a word that the tokenizer does not know may be one token, however long)";

/// An error of the data layer. Its message says what was expected, what was found, where, and what to do. Positions and rows
/// count from 0.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum DataError {
    /// The text itself: missing, empty, binary, not UTF-8.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The operating system refused a file operation on the cache.
    #[error(transparent)]
    File(#[from] FileError),
    /// The tokenizer refused a text; its own offset counts from the beginning of the piece.
    #[error("{path}, in the piece from byte {offset} of its text: {source}")]
    Encode { path: PathBuf, offset: u64, source: Box<TextError> },
    #[error("{path}: the file changed while it was being read. Start again when nothing writes to the corpus")]
    Changed { path: PathBuf },
    #[error("{path}: not a sound token cache: {found}. Delete the file; it will be made again from the corpus")]
    Corrupt { path: PathBuf, found: String },
    #[error(
        "token id {id} at position {position}: this vocabulary has ids 0 to {}. \
         Check that tokenizer, ids and model belong together",
        vocab_size.saturating_sub(1)
    )]
    Id { id: u32, position: usize, vocab_size: usize },
    /// Fewer tokens than one window takes.
    #[error("the {part} of the corpus has {tokens} tokens, but a window needs {needed}. {remedy}")]
    TooShort { part: &'static str, tokens: usize, needed: usize, remedy: String },
    #[error(
        "sequence {row} takes {found} positions, but the context has {context}. \
         Shorten it, or use a model with a longer context"
    )]
    RowTooLong { row: usize, found: usize, context: usize },
    #[error("sequence {row} is empty, so there is nothing to predict. Remove it")]
    RowEmpty { row: usize },
    #[error("context: expected at least 1, found 0. The context is the number of tokens that the model reads at once")]
    NoContext,
    #[error("held-out: expected a share of the corpus from 0 to below 1, found {held_out}. For the last tenth, give 0.1")]
    HeldOut { held_out: f64 },
}
