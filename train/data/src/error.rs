//! Errors of token corpora.

use std::path::PathBuf;

use gradus_io::files::FileError;
use gradus_text::TextError;
use thiserror::Error;

/// The remedy for a corpus with too few tokens.
pub(crate) const FEW: &str = "Give more text, or hold out less of it (--held-out)";

/// An error of the data layer. Its message states what was expected, what was found, where, and the remedy. Positions and rows
/// count from 0.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum DataError {
    /// The text is missing, empty, binary or not UTF-8.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A file operation on the cache failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The tokenizer rejected a text. The offset in `source` counts from the beginning of the piece.
    #[error("{path}, in the piece from byte {offset} of its text: {source}")]
    Encode { path: PathBuf, offset: u64, source: Box<TextError> },
    #[error("{path}: the file changed while it was being read. Start again when nothing writes to the corpus")]
    Changed { path: PathBuf },
    #[error("{path}: not a valid token cache: {found}. Delete the file; it will be rebuilt from the corpus")]
    Corrupt { path: PathBuf, found: String },
    #[error(
        "token id {id} at position {position}: this vocabulary has ids 0 to {}. \
         Check that tokenizer, ids and model belong together",
        vocab_size.saturating_sub(1)
    )]
    Id { id: u32, position: usize, vocab_size: usize },
    /// There are fewer tokens than one window needs.
    #[error("{part} of the corpus: expected at least {needed} tokens, found {tokens}. {remedy}")]
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
    #[error("held-out: expected a fraction of the corpus from 0 to below 1, found {held_out}. For the last tenth, give 0.1")]
    HeldOut { held_out: f64 },
}
