//! Prefixes, which are cut off the start of a word.

use super::classes::{self, CURRENCY, DIGIT, ICON, PUNCTUATION, QUOTE};

/// Returns the length in bytes of the punctuation, currency or symbol at the start of `text`: one mark, or a run of dots; 0 for
/// none.
pub(super) fn length(text: &str) -> usize {
    let mut rest = text.chars();
    let Some(first) = rest.next() else { return 0 };
    let rest = rest.as_str();
    match first {
        '.' => match dots(text) {
            1 => 0,
            dots => dots,
        },
        '+' if classes::begins_with(rest, DIGIT) => 0,
        '§' | '%' | '=' | '—' | '–' | '+' => first.len_utf8(),
        'U' if rest.starts_with("S$") => 3,
        'C' | 'A' if rest.starts_with('$') => 2,
        _ if classes::is(first, PUNCTUATION | QUOTE | CURRENCY | ICON) => first.len_utf8(),
        _ => 0,
    }
}

/// Returns the length of the dots at the start of `text`.
pub(super) fn dots(text: &str) -> usize {
    text.bytes().take_while(|&b| b == b'.').count()
}
