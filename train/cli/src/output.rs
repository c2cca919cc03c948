//! Output: messages on stderr, results on stdout. No function panics if the reader has closed the stream.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::error::CliError;

/// Prints a line on stderr.
pub fn say(words: &str) {
    // In one write, since other processes may write there. Errors are ignored: without a reader, the work continues.
    let _ = io::stderr().write_all(format!("{}\n", plain(&with_powers(words))).as_bytes());
}

/// Replaces numbers of more than 24 characters by their scientific notation, such as `1e300`.
fn with_powers(words: &str) -> Cow<'_, str> {
    const MOST: usize = 24;
    let is_long = |word: &str| word.len() > MOST && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    // Digits within a name, a digest or a path are not changed.
    let parts = words.split_inclusive([' ', '\n', ':', ',', ';', '(', ')', '-', '=']);
    let shown = |part: &str| {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_digit());
        let number = is_long(word).then(|| word.parse::<f64>().ok()).flatten().filter(|number| number.is_finite());
        number.map_or_else(|| part.to_owned(), |number| format!("{number:e}{}", &part[word.len()..]))
    };
    if words.len() > MOST { parts.map(shown).collect::<String>().into() } else { words.into() }
}

/// Escapes all control characters except line ends, in a text that may quote a path, a file or a flag.
pub fn plain(words: &str) -> Cow<'_, str> {
    if !words.contains(is_obeyed) {
        return words.into();
    }
    words.chars().map(|c| if is_obeyed(c) { c.escape_debug().to_string() } else { c.to_string() }).collect()
}

fn is_obeyed(c: char) -> bool {
    c.is_control() && c != '\n'
}

/// Whether `--quiet` is given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses everything but warnings, errors and results from here on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Prints a line on stderr, unless `--quiet` is given.
pub fn aside(words: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        say(words);
    }
}

/// Prints a note on the input or the result, unless `--quiet` is given.
pub fn note(note: &str) {
    aside(&format!("note: {note}"));
}

/// Prints several notes.
pub fn notes(notes: &[String]) {
    notes.iter().for_each(|words| note(words));
}

/// Prints a part of the result on stdout, and flushes it.
pub fn write(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a line of the result.
pub fn line(text: &str) -> Result<(), CliError> {
    write(&format!("{text}\n"))
}

/// Prints the JSON object of `--json`. Non-finite numbers become null.
pub fn json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string(value).map_err(io::Error::from)?;
    line(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_numbers_are_powers_of_ten() {
        assert_eq!(with_powers(&format!("--lr {}: expected less", 1e300)), "--lr 1e300: expected less");
        assert_eq!(with_powers(&format!("found {}. The paper (-{})\n", -2.5e-300, 1e25)), "found -2.5e-300. The paper (-1e25)\n");
        for words in ["--seed 18446744073709551615: expected less", "runs/00000000000000000000000000000000000/1", "a 1.5"] {
            assert_eq!(with_powers(words), words);
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(plain("cannot read a b/ü:\n  because"), "cannot read a b/ü:\n  because");
        assert_eq!(plain("no\x1b[31m\x1b]0;T\x07\r\u{9b}2J\t."), "no\\u{1b}[31m\\u{1b}]0;T\\u{7}\\r\\u{9b}2J\\t.");
    }
}
