//! Errors of worlds and of texts that are read as stories.

use thiserror::Error;

/// An error in a world's configuration, or in a text that is not one of its stories.
///
/// Positions are given twice: `token` counts words and punctuation marks from 0, and `byte` is the offset in the text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum WorldError {
    /// A list of the configuration is too short, or longer than the list of available words; `list` is the field of
    /// [`WorldConfig`](crate::WorldConfig).
    #[error("the world needs between {min} and {max} {list}, but {found} were requested; choose a number in this range")]
    Size { list: &'static str, found: usize, min: usize, max: usize },
    #[error("no story contains the character {found:?} (byte {byte}): use English letters, blanks and the marks . , ? \"")]
    Character { found: char, byte: usize },
    #[error("token {token} (byte {byte}) is \"{found}\", but here a story continues with {expected}")]
    Unexpected { token: usize, byte: usize, found: String, expected: String },
    #[error("the text ends after {tokens} tokens, but here a story continues with {expected}")]
    Unfinished { tokens: usize, expected: String },
    #[error("the story ended, but token {token} (byte {byte}) is \"{found}\": give one story at a time")]
    Trailing { token: usize, byte: usize, found: String },
}
