//! Numbers in a file, separated by white space.

use std::path::Path;

use gradus_text::{parse_ids, parse_segments, parse_targets, read_text};

use crate::error::CliError;

/// Reads ids, each below `vocab`, the vocabulary of `owner` (`model` or `tokenizer`).
pub fn read_ids(path: &Path, vocab: usize, owner: &'static str) -> Result<Vec<u32>, CliError> {
    Ok(parse_ids(path, &read_text(path)?, vocab, owner)?)
}

/// Reads targets: ids of the model, or `-` for none.
pub fn read_targets(path: &Path, vocab: usize) -> Result<Vec<Option<u32>>, CliError> {
    Ok(parse_targets(path, &read_text(path)?, vocab)?)
}

/// Reads segments, each below `segments`.
pub fn read_segments(path: &Path, segments: usize) -> Result<Vec<u32>, CliError> {
    Ok(parse_segments(path, &read_text(path)?, segments)?)
}
