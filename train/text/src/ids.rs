//! Token ids as text, separated by white space.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a text is not token ids. Lines count from 1, entries from 0.
#[derive(Debug, PartialEq, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum IdsError {
    #[error("{path}: expected token ids separated by white space, found none; `gradus tokenizer encode` makes some")]
    None { path: PathBuf },
    #[error(
        "{path}, line {line}: entry {position} (from 0) is {found:?}; expected a whole number: token ids are separated by white space"
    )]
    NoNumber { path: PathBuf, line: usize, position: usize, found: String },
    /// An id that the vocabulary does not have.
    #[error(
        "{path}, line {line}: entry {position} (from 0) is the id {found}; expected 0 to {}, the {owner}'s vocabulary; \
         encode the text with the tokenizer that belongs to it",
        vocab.saturating_sub(1)
    )]
    Unknown { path: PathBuf, line: usize, position: usize, found: u64, vocab: usize, owner: &'static str },
}

/// The ids in a text, each below `vocab`, the vocabulary of `owner` (`model` or `tokenizer`); errors name `path`.
///
/// # Errors
/// A word that is no number, a number that is no id, or no ids.
pub fn parse_ids(path: &Path, text: &str, vocab: usize, owner: &'static str) -> Result<Vec<u32>, IdsError> {
    let mut ids = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        for word in text.split_whitespace() {
            let (path, position) = (path.to_owned(), ids.len());
            let Ok(found) = word.parse::<u64>() else {
                let found = word.chars().take(40).collect();
                return Err(IdsError::NoNumber { path, line, position, found });
            };
            match u32::try_from(found) {
                Ok(id) if (id as usize) < vocab => ids.push(id),
                _ => return Err(IdsError::Unknown { path, line, position, found, vocab, owner }),
            }
        }
    }
    if ids.is_empty() { Err(IdsError::None { path: path.to_owned() }) } else { Ok(ids) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stand_on_any_lines_and_faults_are_placed() {
        let parse = |text| parse_ids(Path::new("ids.txt"), text, 9, "model").map_err(|e| e.to_string());
        assert_eq!(parse("0 8\n\t3\n"), Ok(vec![0, 8, 3]));
        for (text, words) in [
            (" \n", "ids.txt: expected token ids"),
            ("1\n2 x", "line 2: entry 2 (from 0) is \"x\""),
            ("9", "is the id 9; expected 0 to 8, the model's vocabulary"),
            ("4294967296", "is the id 4294967296"),
            ("18446744073709551616", "expected a whole number"),
            ("-1", "expected a whole number"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
