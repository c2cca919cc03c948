//! Where words and results go. Nothing here panics when the reader has gone.

use std::io::{self, Write};

use serde::Serialize;

use crate::error::CliError;

/// A line for people, on stderr.
pub fn say(words: &str) {
    // With nobody to read it, the work still goes on.
    let _ = writeln!(io::stderr(), "{words}");
}

/// What may be wrong, though the work goes on.
pub fn notes(notes: &[String]) {
    notes.iter().for_each(|note| say(&format!("note: {note}")));
}

/// A part of the result, on stdout, flushed.
pub fn write(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// A line of the result.
pub fn line(text: &str) -> Result<(), CliError> {
    write(&format!("{text}\n"))
}

/// The one JSON object of `--json`. Non-finite numbers become null.
pub fn json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string(value).map_err(io::Error::from)?;
    line(&text)
}
