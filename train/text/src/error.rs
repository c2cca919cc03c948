//! The errors of the text layer, each with the place and the remedy.

use std::path::{Path, PathBuf};

use gradus_io::files::FileError;
use thiserror::Error;

use crate::mode::Mode;

/// An error of the text layer. Its message names the expected value, the value found, the place and the remedy. Offsets count
/// bytes from 0.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum TextError {
    #[error(transparent)]
    File(#[from] FileError),
    /// Nothing exists at this path, or nothing of the required kind.
    #[error("{path}: {found}. {remedy}")]
    Missing { path: PathBuf, found: String, remedy: String },
    /// The text, or the rest of it after its licence is removed, is empty.
    #[error("{path}: the corpus holds no text. Give a file or folder of UTF-8 text")]
    Empty { path: PathBuf },
    /// A file of another format, according to its first bytes.
    #[error("{path}: expected text in UTF-8, found {what}. Convert it: {command}")]
    Foreign { path: PathBuf, what: &'static str, command: &'static str },
    #[error(
        "{path}: byte {offset} is NUL, so this is a binary file (or UTF-16), not UTF-8 text. \
         Give text in UTF-8 instead, or convert it: iconv -f UTF-16 -t UTF-8"
    )]
    Binary { path: PathBuf, offset: usize },
    #[error("{path}: byte {offset} (0x{byte:02x}) is not valid UTF-8. Convert the file, for example: iconv -f LATIN1 -t UTF-8")]
    NotUtf8 { path: PathBuf, offset: usize, byte: u8 },
    /// A tokenizer file that is damaged, or that Gradus does not read.
    #[error("{path}, {place}: expected {expected}, found {found}. {remedy}")]
    Format { path: PathBuf, place: Box<str>, expected: Box<str>, found: String, remedy: Box<str> },
    /// Tokens and merges that do not form a vocabulary.
    #[error("the vocabulary is inconsistent at {place}: expected {expected}, found {found}")]
    Vocabulary { place: String, expected: String, found: String },
    /// A character tokenizer met a character that its corpus did not contain; the offset is into the text to encode.
    #[error(
        "byte {offset} of the text: the character {character:?} is not among the {known} characters of this \
         character tokenizer. Build it on a corpus that holds the character, or use the byte or BPE tokenizer"
    )]
    UnknownCharacter { character: char, offset: usize, known: usize },
    #[error(
        "token id {id} at position {position}: ids of this tokenizer are 0 to {}. \
         Check that the ids come from the same tokenizer",
        vocab_size.saturating_sub(1)
    )]
    UnknownId { id: u32, position: usize, vocab_size: usize },
    /// A token of the tokenizer has no row in the model's embedding.
    #[error(
        "token {token:?} has id {id}, but the model was trained with {rows} rows: its embedding was not resized when the token was \
         added, or the tokenizer is another model's. Take the token out of the text, or copy the model's own tokenizer there"
    )]
    NoRow { token: String, id: u32, rows: usize },
    /// The requested vocabulary is too small for the characters.
    #[error(
        "a vocabulary of {requested} is too small: <unk>, {characters} characters, the same at a word's end and {specials} \
         specials need {needed}. Use at least {needed}, or keep only the most common characters"
    )]
    TooSmall { requested: usize, needed: usize, characters: usize, specials: usize },
    /// A mode was given for a tokenizer without modes.
    #[error(
        "mode {mode}: expected a BPE tokenizer of GPT-1's form, found {found}. Leave the mode out, or take another tokenizer"
    )]
    Mode { mode: Mode, found: &'static str },
    #[error("special token {token:?}: {reason}")]
    Special { token: String, reason: String },
}

impl TextError {
    /// Returns the error of a part of a text as an error of the whole text, which begins `start` bytes earlier.
    #[must_use]
    pub fn after(mut self, start: usize) -> Self {
        if let TextError::UnknownCharacter { offset, .. } = &mut self {
            *offset += start;
        }
        self
    }

    pub(crate) fn missing(path: &Path, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        TextError::Missing { path: path.to_owned(), found: found.into(), remedy: remedy.into() }
    }
}
