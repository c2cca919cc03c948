//! Infixes, at which a word is cut.

use super::{
    classes::{self, DIGIT, ICON, LETTER, LOWER, QUOTE, UPPER},
    prefixes,
};

/// Calls `token` with the bytes (from, to) of each piece of `word`: the infixes and the text between them.
pub(super) fn split(word: &str, mut token: impl FnMut(usize, usize)) {
    let mut start = 0; // of the current piece
    let mut at = 0;
    while at < word.len() {
        let byte = word.as_bytes()[at];
        if byte.is_ascii_alphanumeric() {
            at += 1;
            continue;
        }
        let length = length(word, at);
        if length > 0 && at > 0 {
            if start < at {
                token(start, at);
            }
            token(at, at + length);
            start = at + length;
        }
        at += length.max(width(byte));
    }
    if start < word.len() {
        token(start, word.len());
    }
}

/// Returns whether `word` contains an infix.
pub(super) fn any(word: &str) -> bool {
    word.char_indices().any(|(at, _)| length(word, at) > 0)
}

/// Returns the number of bytes of the character that begins with this byte.
fn width(first: u8) -> usize {
    match first {
        0..=0x7F => 1,
        0x80..=0xDF => 2,
        0xE0..=0xEF => 3,
        _ => 4,
    }
}

/// Returns the length of the infix that begins at byte `at`, or 0.
fn length(word: &str, at: usize) -> usize {
    let (before, text) = word.split_at(at);
    let mut after = text.chars();
    let Some(c) = after.next() else { return 0 };
    let after = after.as_str();
    let between = |left, right| classes::ends_in(before, left) && classes::begins_with(after, right);
    let infix = match c {
        '.' => match prefixes::dots(text) {
            1 => between(LOWER | QUOTE, UPPER | QUOTE),
            dots => return dots,
        },
        ',' => between(LETTER, LETTER),
        '+' | '*' | '^' => is_sign(before, after),
        '-' if is_sign(before, after) => true,
        '-' | '–' | '—' | '~' => return hyphen(before, text, c),
        ':' | '<' | '>' | '=' | '/' => between(LETTER | DIGIT, LETTER),
        '…' => true,
        _ => classes::is(c, ICON),
    };
    if infix { c.len_utf8() } else { 0 }
}

/// Returns whether a sign is between numbers.
fn is_sign(before: &str, after: &str) -> bool {
    classes::ends_in(before, DIGIT) && (after.starts_with('-') || classes::begins_with(after, DIGIT))
}

/// Returns the length of a hyphen or dash between a letter or digit and a letter: up to three `-`, up to two `—`, one of the
/// others.
fn hyphen(before: &str, text: &str, c: char) -> usize {
    // This test comes first, because otherwise a long run would be counted again from each of its hyphens.
    if !classes::ends_in(before, LETTER | DIGIT) {
        return 0;
    }
    let most = match c {
        '-' => 3,
        '—' => 2,
        _ => 1,
    };
    let rest = text.trim_start_matches(c);
    let length = text.len() - rest.len();
    if length <= most * c.len_utf8() && classes::begins_with(rest, LETTER) { length } else { 0 }
}
