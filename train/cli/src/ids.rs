//! Token ids in a file, separated by white space.

use std::path::{Path, PathBuf};

use gradus_text::{TextError, read_text};

/// Why a file does not hold token ids.
#[derive(Debug, thiserror::Error)]
pub enum IdsError {
    #[error(transparent)]
    Text(#[from] TextError),
    /// Nothing but white space.
    #[error("{path}: expected token ids separated by white space, found none; `gradus tokenizer encode` makes some")]
    Empty { path: PathBuf },
    /// A word that is not an id.
    #[error("{path}, line {line}: entry {position} (from 0) is {found:?}; expected a whole number, ids separated by white space")]
    NotANumber { path: PathBuf, line: usize, position: usize, found: String },
    /// An id that the vocabulary does not have.
    #[error(
        "{path}, line {line}: entry {position} (from 0) is the id {found}; expected 0 to {}, the {owner}'s vocabulary; \
         encode the text with the tokenizer that belongs to it",
        vocab.saturating_sub(1)
    )]
    Unknown { path: PathBuf, line: usize, position: usize, found: u64, vocab: usize, owner: &'static str },
}

/// Reads ids, each below `vocab`, the vocabulary of `owner` (`model` or `tokenizer`).
pub fn read_ids(path: &Path, vocab: usize, owner: &'static str) -> Result<Vec<u32>, IdsError> {
    let mut ids = Vec::new();
    for (line, text) in (1..).zip(read_text(path)?.lines()) {
        for word in text.split_whitespace() {
            let (path, position) = (path.to_owned(), ids.len());
            let Ok(found) = word.parse::<u64>() else {
                let found = word.chars().take(40).collect();
                return Err(IdsError::NotANumber { path, line, position, found });
            };
            match u32::try_from(found) {
                Ok(id) if (id as usize) < vocab => ids.push(id),
                _ => return Err(IdsError::Unknown { path, line, position, found, vocab, owner }),
            }
        }
    }
    if ids.is_empty() { Err(IdsError::Empty { path: path.to_owned() }) } else { Ok(ids) }
}
