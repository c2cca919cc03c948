//! The characters that are letters (Unicode's general category L), numbers (N) and white space in GPT-2's pattern.
//!
//! The classes are those of Unicode 16, as in the Oniguruma of `tokenizers` 0.23.3: the standard library's, without newer
//! characters. A test compares every character with its results. Other versions differ in characters that are newer than GPT-2:
//!
//! - OpenAI's own code uses the installed version of Python's `regex`. With Unicode 17 it also has numbers at U+11DE0–11DE9 and
//!   U+16FF4–16FF6, and letters of scripts as new.
//! - `unicode_categories`, the source of the classes of [`basic`](crate::basic), has Unicode 8. It lacks 25,314 of these letters
//!   (most of them ideographs and Tangut) and 478 numbers, and has two letters that are marks now, U+1885 and U+1886.

use crate::unicode::{is_letter, is_within};

/// The class of a character in the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Space,
    Letter,
    Number,
    /// Anything else: marks, punctuation, symbols, control characters, unassigned code points.
    Other,
}

const ASCII: [Class; 128] = {
    let mut classes = [Class::Other; 128];
    let mut b = 0;
    while b < 128 {
        classes[b] = match b as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
            b'0'..=b'9' => Class::Number,
            b' ' | b'\t'..=b'\r' => Class::Space,
            _ => Class::Other,
        };
        b += 1;
    }
    classes
};

impl Class {
    pub(super) fn of(c: char) -> Class {
        if let Some(&class) = ASCII.get(c as usize) {
            return class;
        }
        match () {
            () if c.is_whitespace() => Class::Space,
            () if is_within(c, NEW) => Class::Other,
            () if c.is_numeric() => Class::Number,
            () if is_letter(c) => Class::Letter,
            () => Class::Other,
        }
    }
}

/// Letters and numbers that Unicode 17 has added.
#[rustfmt::skip]
const NEW: &[(u32, u32)] = &[
    (0x88F, 0x88F), (0xC5C, 0xC5C), (0xCDC, 0xCDC), (0xA7CE, 0xA7CF), (0xA7D2, 0xA7D2), (0xA7D4, 0xA7D4), (0xA7F1, 0xA7F1),
    (0x10940, 0x10959), (0x10EC5, 0x10EC7), (0x11DB0, 0x11DDB), (0x11DE0, 0x11DE9), (0x16EA0, 0x16EB8), (0x16EBB, 0x16ED3),
    (0x16FF2, 0x16FF6), (0x187F8, 0x187FF), (0x18D09, 0x18D1E), (0x18D80, 0x18DF2), (0x1E6C0, 0x1E6DE), (0x1E6E0, 0x1E6E2),
    (0x1E6E4, 0x1E6E5), (0x1E6E7, 0x1E6ED), (0x1E6F0, 0x1E6F4), (0x1E6FE, 0x1E6FF), (0x2B73A, 0x2B73F), (0x2CEA2, 0x2CEAD),
    (0x323B0, 0x33479),
];
