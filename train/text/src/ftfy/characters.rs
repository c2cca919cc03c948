//! Fixes of single characters, and the final steps.

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::codecs::c1_as_windows;
use crate::unicode::is_digit;

/// Decodes C1 control characters as Windows-1252, and replaces ligatures, full- and half-width forms, curly quotes and line
/// breaks by plain characters.
///
/// NEL (U+0085) would be a line break, but Windows-1252 has already decoded it as "…".
pub(super) fn fix_characters(text: &str) -> Option<String> {
    let mut next = text.find(is_fixed)?;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let (clean, odd) = rest.split_at(next);
        out.push_str(clean);
        let mut chars = odd.chars();
        let Some(c) = chars.next() else { return Some(out) };
        rest = chars.as_str();
        if !(c == '\r' && rest.starts_with('\n')) {
            push_fixed(c1_as_windows(c), &mut out);
        }
        next = rest.find(is_fixed).unwrap_or(rest.len());
    }
}

/// Returns whether [`fix_characters`] changes `c`.
fn is_fixed(c: char) -> bool {
    match c {
        '\r' => true,
        '\0'..'\u{80}' | '\u{81}' | '\u{8d}' | '\u{8f}' | '\u{90}' | '\u{9d}' => false,
        '\u{80}'..='\u{9f}' | '\u{2bc}' | '\u{2018}'..='\u{201f}' | '\u{2028}' | '\u{2029}' => true,
        '\u{3000}' | '\u{ff01}'..='\u{ffee}' => true,
        _ => ligature(c).is_some(),
    }
}

fn push_fixed(c: char, out: &mut String) {
    match c {
        '\u{2bc}' | '\u{2018}'..='\u{201b}' => out.push('\''),
        '\u{201c}'..='\u{201f}' => out.push('"'),
        '\r' | '\u{2028}' | '\u{2029}' => out.push('\n'),
        '\u{3000}' => out.push(' '),
        '\u{ff01}'..='\u{ffee}' => out.extend([c].into_iter().nfkc()),
        _ => match ligature(c) {
            Some(letters) => out.push_str(letters),
            None => out.push(c),
        },
    }
}

/// Returns the letters of a Latin ligature or digraph.
fn ligature(c: char) -> Option<&'static str> {
    Some(match c {
        'Ĳ' => "IJ",
        'ĳ' => "ij",
        'ŉ' => "'n",
        'Ǳ' => "DZ",
        'ǲ' => "Dz",
        'ǳ' => "dz",
        'Ǆ' => "DŽ",
        'ǅ' => "Dž",
        'ǆ' => "dž",
        'Ǉ' => "LJ",
        'ǈ' => "Lj",
        'ǉ' => "lj",
        'Ǌ' => "NJ",
        'ǋ' => "Nj",
        'ǌ' => "nj",
        'ﬀ' => "ff",
        'ﬁ' => "fi",
        'ﬂ' => "fl",
        'ﬃ' => "ffi",
        'ﬄ' => "ffl",
        'ﬅ' => "ſt",
        'ﬆ' => "st",
        _ => return None,
    })
}

/// Removes terminal escapes, such as those for colours: ESC, "[", numbers, a letter.
pub(super) fn remove_terminal_escapes(text: &str) -> Option<String> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(i) = text[at..].find("\x1b[") {
        let start = at + i;
        let numbers = &text[start + 2..];
        let letter = numbers.trim_start_matches(|c| c == ';' || is_digit(c));
        at = text.len() - letter.len();
        if letter.starts_with(|c: char| c.is_ascii_alphabetic()) {
            at += 1;
            out.push_str(&text[copied..start]);
            copied = at;
        }
    }
    (copied > 0).then(|| out + &text[copied..])
}

/// Removes invisible control characters, annotation marks and byte-order marks.
pub(super) fn remove_controls(text: &str) -> Option<String> {
    text.contains(is_removed).then(|| text.chars().filter(|&c| !is_removed(c)).collect())
}

fn is_removed(c: char) -> bool {
    match c {
        '\t' | '\n' | '\x0c' | '\r' => false,
        _ => matches!(c, '\0'..='\x1f' | '\x7f' | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffc}'),
    }
}

/// Applies canonical composition (NFC).
pub(super) fn compose(text: &str) -> Option<String> {
    // Text with characters below U+0300 only is always composed.
    if text.chars().all(|c| c < '\u{300}') || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        return None;
    }
    Some(text.nfc().collect())
}
