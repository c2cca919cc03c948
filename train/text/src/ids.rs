//! Numbers as text, separated by white space: token ids, target ids, segments.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason why a text does not contain the expected numbers. Lines count from 1, entries from 0.
#[derive(Debug, PartialEq, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum IdsError {
    #[error("{path}: expected {expected}, separated by white space, found nothing")]
    None { path: PathBuf, expected: Entries },
    #[error("{path}, line {line}: entry {position} (from 0) is {found:?}; expected {expected}, separated by white space")]
    Other { path: PathBuf, line: usize, position: usize, found: String, expected: Entries },
}

/// The kind of a file's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// Token ids below the size of the vocabulary of an owner, `model` or `tokenizer`.
    Ids(usize, &'static str),
    /// Token ids below the size of a model's vocabulary, and `-` for no target.
    Targets(usize),
    /// Segments below this number.
    Segments(usize),
}

impl Entries {
    /// Returns the exclusive upper bound of the entries.
    fn limit(self) -> usize {
        match self {
            Entries::Ids(n, _) | Entries::Targets(n) | Entries::Segments(n) => n,
        }
    }
}

impl fmt::Display for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.limit().saturating_sub(1);
        match self {
            Entries::Ids(_, owner) => {
                write!(f, "token ids from 0 to {last}, the {owner}'s (see `gradus tokenizer encode`)")
            }
            Entries::Targets(_) => write!(f, "token ids from 0 to {last}, the model's, or `-` for tokens without a target"),
            Entries::Segments(_) => write!(f, "segments from 0 to {last}, the model's"),
        }
    }
}

/// Parses the ids in a text, each below `vocab`, the vocabulary size of `owner` (`model` or `tokenizer`); errors name `path`.
///
/// # Errors
/// Returns an error if a word is not such an id, or if the text has no ids.
pub fn parse_ids(path: &Path, text: &str, vocab: usize, owner: &'static str) -> Result<Vec<u32>, IdsError> {
    entries(path, text, Entries::Ids(vocab, owner), number)
}

/// Parses the ids in a text, each below a model's vocabulary size `vocab`, with `-` for no id.
///
/// # Errors
/// Returns an error in the cases of [`parse_ids`].
pub fn parse_targets(path: &Path, text: &str, vocab: usize) -> Result<Vec<Option<u32>>, IdsError> {
    entries(
        path,
        text,
        Entries::Targets(vocab),
        |word, limit| if word == "-" { Some(None) } else { number(word, limit).map(Some) },
    )
}

/// Parses the segments in a text, each below `segments`.
///
/// # Errors
/// Returns an error in the cases of [`parse_ids`].
pub fn parse_segments(path: &Path, text: &str, segments: usize) -> Result<Vec<u32>, IdsError> {
    entries(path, text, Entries::Segments(segments), number)
}

/// Parses each word of a text with `read`.
fn entries<A>(path: &Path, text: &str, expected: Entries, read: impl Fn(&str, usize) -> Option<A>) -> Result<Vec<A>, IdsError> {
    let words = (1..).zip(text.lines()).flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word)));
    let entry = |(position, (line, word)): (usize, (usize, &str))| {
        let found = || word.chars().take(40).collect();
        read(word, expected.limit()).ok_or_else(|| IdsError::Other {
            path: path.to_owned(),
            line,
            position,
            found: found(),
            expected,
        })
    };
    let all = words.enumerate().map(entry).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() { Err(IdsError::None { path: path.to_owned(), expected }) } else { Ok(all) }
}

fn number(word: &str, limit: usize) -> Option<u32> {
    word.parse().ok().filter(|&id: &u32| (id as usize) < limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_from_lines_and_errors_are_located() {
        let parse = |text| parse_ids(Path::new("ids.txt"), text, 9, "model").map_err(|e| e.to_string());
        assert_eq!(parse("0 8\n\t3\n"), Ok(vec![0, 8, 3]));
        let targets = |text| parse_targets(Path::new("targets.txt"), text, 9).map_err(|e| e.to_string());
        assert_eq!(targets("- 8\n-"), Ok(vec![None, Some(8), None]));
        for wrong in ["- 9", "- -100", "- --"] {
            let error = targets(wrong).unwrap_err();
            assert!(
                error.contains("line 1: entry 1 (from 0) is") && error.contains("or `-` for tokens without a target"),
                "{error}"
            );
        }
        let segments = |text| parse_segments(Path::new("segments.txt"), text, 2).map_err(|e| e.to_string());
        assert_eq!(segments("0 1"), Ok(vec![0, 1]));
        assert!(segments("0 2").unwrap_err().contains("is \"2\"; expected segments from 0 to 1"));
        for (text, words) in [
            (" \n", "ids.txt: expected token ids from 0 to 8, the model's (see `gradus tokenizer encode`), separated by"),
            ("1\n2 x", "line 2: entry 2 (from 0) is \"x\""),
            ("9", "is \"9\"; expected token ids from 0 to 8, the model's"),
            ("4294967296", "is \"4294967296\""),
            ("18446744073709551616", "is \"18446744073709551616\""),
            ("-1", "is \"-1\""),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
