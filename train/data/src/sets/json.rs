//! JSON objects, one per file or one per line.

use serde::de::DeserializeOwned;

use super::error::{SetError, quote};
use super::file::{SetFile, place};
use super::task::Task;
use super::tsv::wrong_folder;

/// Parses `text`, which begins on line `first` of the file, as an object with the given `fields`.
pub(super) fn parse<T: DeserializeOwned>(
    task: &Task,
    file: &SetFile,
    first: usize,
    text: &str,
    fields: &str,
) -> Result<T, SetError> {
    serde_json::from_str(text).map_err(|cause| {
        let message = cause.to_string();
        let reason = message.rsplit_once(" at line ").map_or(&*message, |(reason, _)| reason); // relative to `text`
        let at = (first + cause.line().saturating_sub(1), cause.column().max(1));
        let found = format!("{} ({reason})", quote(text));
        file.malformed(at, format!("a JSON object with {fields}"), found, wrong_folder(task))
    })
}

/// Returns the error for an invalid value, at the position of its `key` in `text`, which has been parsed.
pub(super) fn malformed(file: &SetFile, first: usize, text: &str, key: &str, expected: String, found: String) -> SetError {
    let before = text.find(&format!("\"{key}\"")).map_or("", |at| &text[..at]);
    SetError::malformed(&file.path, place(before, first), expected, found, format!("Correct `{key}`, or download the file again"))
}
