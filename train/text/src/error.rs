//! What can go wrong with text, each with the place and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// An error of the text layer. Its message says what was expected, what was found, where, and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TextError {
    /// The operating system refused a file operation.
    #[error("{path}: cannot {action} it: {source}. {remedy}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as a verb: `read`, `write`, `list`.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// There is nothing at this path, or nothing of the kind that is needed.
    #[error("{path}: {found}. {remedy}")]
    Missing {
        /// The file or folder asked for.
        path: PathBuf,
        /// What is the case instead.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// The text, or what is left of it after its licence is removed, is empty.
    #[error("{path}: the corpus holds no text. Give a file or folder of UTF-8 text")]
    Empty {
        /// The file or folder.
        path: PathBuf,
    },
    /// A NUL byte: the file is not text.
    #[error(
        "{path}: byte {offset} is NUL, so this is a binary file (or UTF-16), not UTF-8 text. \
         Remove it from the corpus, or convert it: iconv -f UTF-16 -t UTF-8"
    )]
    Binary {
        /// The file.
        path: PathBuf,
        /// Offset of the first NUL, from 0.
        offset: usize,
    },
    /// The file is not UTF-8.
    #[error(
        "{path}: byte {offset} (0x{byte:02x}) is not valid UTF-8. \
         Convert the file, for example: iconv -f LATIN1 -t UTF-8"
    )]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Offset of the first bad byte, from 0.
        offset: usize,
        /// That byte.
        byte: u8,
    },
    /// A tokenizer file that cannot be what it says it is, or that Gradus does not read.
    #[error("{path}, {place}: expected {expected}, found {found}. {remedy}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The field or line.
        place: Box<str>,
        /// What should stand there.
        expected: Box<str>,
        /// What stands there.
        found: String,
        /// What to do.
        remedy: Box<str>,
    },
    /// Tokens and merges that do not make a vocabulary.
    #[error("the vocabulary is inconsistent at {place}: expected {expected}, found {found}")]
    Vocabulary {
        /// Token, id or merge.
        place: String,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A character tokenizer met a character that its corpus did not hold.
    #[error(
        "byte {offset} of the text: the character {character:?} is not among the {known} characters of this \
         character tokenizer. Build it on a corpus that holds the character, or use the byte or BPE tokenizer"
    )]
    UnknownCharacter {
        /// The character.
        character: char,
        /// Its byte offset in the text given to `encode`.
        offset: usize,
        /// Size of the tokenizer's alphabet.
        known: usize,
    },
    /// An id outside the vocabulary.
    #[error(
        "token id {id} at position {position}: ids of this tokenizer are 0 to {}. \
         Check that the ids come from the same tokenizer",
        vocab_size.saturating_sub(1)
    )]
    UnknownId {
        /// The id.
        id: u32,
        /// Its index in the sequence given to `decode`.
        position: usize,
        /// Number of ids.
        vocab_size: usize,
    },
    /// The vocabulary asked for cannot even hold the characters.
    #[error(
        "a vocabulary of {requested} is too small: <unk>, {characters} characters, the same at a word's end and \
         {specials} specials need {needed}. Ask for more than {needed}, or keep only the commonest characters"
    )]
    TooSmall {
        /// What was asked for.
        requested: usize,
        /// The least that would do.
        needed: usize,
        /// Distinct characters of the corpus.
        characters: usize,
        /// Number of special tokens.
        specials: usize,
    },
    /// A special token that cannot be one.
    #[error("special token {token:?}: {reason}")]
    Special {
        /// The token.
        token: String,
        /// Why not, and what to do.
        reason: String,
    },
}

impl TextError {
    /// An [`TextError::Io`] about `path`.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        let remedy = match source.kind() {
            io::ErrorKind::NotFound => "Check the path",
            io::ErrorKind::PermissionDenied => "Check the permissions of the file and its folder",
            io::ErrorKind::StorageFull => "Free some space and try again; what stood there before is untouched",
            _ => "Check the file and its folder",
        };
        TextError::Io { path: path.to_owned(), action, source, remedy }
    }
}
