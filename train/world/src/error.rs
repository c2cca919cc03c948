//! What can go wrong with a world or with a text said to come from it.

use thiserror::Error;

/// Why a world cannot be made, or why a text is not one of its stories.
///
/// Places are given twice: `token` counts words and punctuation marks from 0, `byte` is the
/// offset into the text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WorldError {
    /// A list of the configuration is too short or longer than the words the world knows.
    #[error("the world needs between {min} and {max} {list}, but {found} were asked for; choose a number in this range")]
    Size {
        /// The field of [`WorldConfig`](crate::WorldConfig).
        list: &'static str,
        /// The number asked for.
        found: usize,
        /// The smallest number with which every story can be told.
        min: usize,
        /// The number of words there are.
        max: usize,
    },
    /// A character that no story contains.
    #[error("no story contains the character {found:?} (byte {byte}): use English letters, blanks and the marks . , ? \"")]
    Character {
        /// The character.
        found: char,
        /// Where it stands.
        byte: usize,
    },
    /// The text leaves the grammar.
    #[error("token {token} (byte {byte}) is \"{found}\", but here a story goes on with {expected}")]
    Unexpected {
        /// The place of the first token that no story could have here.
        token: usize,
        /// Its byte offset.
        byte: usize,
        /// The token.
        found: String,
        /// What could have stood here instead.
        expected: String,
    },
    /// The text stops in the middle of a story.
    #[error("the text ends after {tokens} tokens, but here a story goes on with {expected}")]
    Unfinished {
        /// The number of tokens read.
        tokens: usize,
        /// What could have followed.
        expected: String,
    },
    /// Something follows the end of the story.
    #[error("the story ended, but token {token} (byte {byte}) is \"{found}\": give one story at a time")]
    Trailing {
        /// The place of the first token too many.
        token: usize,
        /// Its byte offset.
        byte: usize,
        /// The token.
        found: String,
    },
}
