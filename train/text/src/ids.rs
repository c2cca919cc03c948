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
    entries(path, text, |place, word| number(place, word, vocab, owner))
}

/// The same with `-` where there is no id.
///
/// # Errors
/// As [`parse_ids`].
pub fn parse_targets(path: &Path, text: &str, vocab: usize, owner: &'static str) -> Result<Vec<Option<u32>>, IdsError> {
    entries(path, text, |place, word| if word == "-" { Ok(None) } else { number(place, word, vocab, owner).map(Some) })
}

/// A path, a line and the number of an entry.
type Place<'p> = (&'p Path, usize, usize);

/// Each word of a text, read.
fn entries<A>(path: &Path, text: &str, read: impl Fn(Place<'_>, &str) -> Result<A, IdsError>) -> Result<Vec<A>, IdsError> {
    let words = (1..).zip(text.lines()).flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word)));
    let all =
        words.enumerate().map(|(position, (line, word))| read((path, line, position), word)).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() { Err(IdsError::None { path: path.to_owned() }) } else { Ok(all) }
}

fn number((path, line, position): Place<'_>, word: &str, vocab: usize, owner: &'static str) -> Result<u32, IdsError> {
    let path = path.to_owned();
    let Ok(found) = word.parse::<u64>() else {
        let found = word.chars().take(40).collect();
        return Err(IdsError::NoNumber { path, line, position, found });
    };
    match u32::try_from(found) {
        Ok(id) if (id as usize) < vocab => Ok(id),
        _ => Err(IdsError::Unknown { path, line, position, found, vocab, owner }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stand_on_any_lines_and_faults_are_placed() {
        let parse = |text| parse_ids(Path::new("ids.txt"), text, 9, "model").map_err(|e| e.to_string());
        assert_eq!(parse("0 8\n\t3\n"), Ok(vec![0, 8, 3]));
        let targets = |text| parse_targets(Path::new("targets.txt"), text, 9, "model").map_err(|e| e.to_string());
        assert_eq!(targets("- 8\n-"), Ok(vec![None, Some(8), None]));
        assert!(targets("- 9").unwrap_err().contains("line 1: entry 1 (from 0) is the id 9"));
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
