//! What can go wrong with a world or with a text said to come from it.

use thiserror::Error;

/// Why a world cannot be made, or why a text is not one of its stories.
///
/// Places are given twice: `token` counts words and punctuation marks from 0, `byte` is the offset into the text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum WorldError {
    /// A list of the configuration is too short, or longer than the words the world knows; `list` is the field of
    /// [`WorldConfig`](crate::WorldConfig).
    #[error("the world needs between {min} and {max} {list}, but {found} were asked for; choose a number in this range")]
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
