//! Token ids in a file, separated by white space.

use std::path::Path;

use gradus_text::read_text;

use crate::error::CliError;

/// Reads ids, each below `vocab`, the vocabulary of `owner` (`model` or `tokenizer`).
pub fn read_ids(path: &Path, vocab: usize, owner: &'static str) -> Result<Vec<u32>, CliError> {
    let mut ids = Vec::new();
    for (line, text) in (1..).zip(read_text(path)?.lines()) {
        for word in text.split_whitespace() {
            let (path, position) = (path.to_owned(), ids.len());
            let Ok(found) = word.parse::<u64>() else {
                let found = word.chars().take(40).collect();
                return Err(CliError::NoNumber { path, line, position, found });
            };
            match u32::try_from(found) {
                Ok(id) if (id as usize) < vocab => ids.push(id),
                _ => return Err(CliError::UnknownId { path, line, position, found, vocab, owner }),
            }
        }
    }
    if ids.is_empty() { Err(CliError::NoIds { path: path.to_owned() }) } else { Ok(ids) }
}
