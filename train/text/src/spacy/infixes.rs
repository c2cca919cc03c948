//! Where a word is cut inside.

use super::{
    classes::{self, DIGIT, ICON, LETTER, LOWER, QUOTE, UPPER},
    prefixes,
};

/// Calls `token` with the bytes (from, to) of each piece of `word`: what stands between infixes, and these themselves.
pub(super) fn split(word: &str, mut token: impl FnMut(usize, usize)) {
    let mut start = 0; // of the piece at hand
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

/// Whether there is an infix in `word`.
pub(super) fn any(word: &str) -> bool {
    word.char_indices().any(|(at, _)| length(word, at) > 0)
}

/// Bytes of the character that begins with this byte.
fn width(first: u8) -> usize {
    match first {
        0..=0x7F => 1,
        0x80..=0xDF => 2,
        0xE0..=0xEF => 3,
        _ => 4,
    }
}

/// The length of the infix that begins at byte `at`: 0 for none.
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

/// A sign between numbers.
fn is_sign(before: &str, after: &str) -> bool {
    classes::ends_in(before, DIGIT) && (after.starts_with('-') || classes::begins_with(after, DIGIT))
}

/// A hyphen or a dash before a letter and after a letter or a digit: up to three `-`, up to two `—`, one of the others.
fn hyphen(before: &str, text: &str, c: char) -> usize {
    // This comes first, for a long run would be counted again from each of its hyphens.
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
