//! The classes of characters that several tokenizers share.

use unicode_normalization::char::is_combining_mark;

/// The zero of each ten digits of Unicode 14 (category Nd).
#[rustfmt::skip]
const ZEROS: &[u32] = &[
    0x30, 0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6, 0xE50, 0xED0, 0xF20,
    0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900,
    0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10, 0x104A0, 0x10D30, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0,
    0x11650, 0x116C0, 0x11730, 0x118E0, 0x11950, 0x11C50, 0x11D50, 0x11DA0, 0x16A60, 0x16AC0, 0x16B50, 0x1D7CE, 0x1D7D8,
    0x1D7E2, 0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E950, 0x1FBF0,
];

/// Returns whether Python's `\d` matches a character: a decimal digit of any script.
pub(crate) fn is_digit(c: char) -> bool {
    let code = c as u32;
    let after = ZEROS.partition_point(|&zero| zero <= code);
    after > 0 && code - ZEROS[after - 1] < 10
}

/// Returns whether a character is a letter (category L) in the Unicode of the standard library, 17.
pub(crate) fn is_letter(c: char) -> bool {
    c.is_alphabetic() && !c.is_numeric() && !is_combining_mark(c) && !is_circled(c)
}

/// Returns whether a character is a letter in a circle or square: alphabetic in Unicode, but of the category of symbols.
fn is_circled(c: char) -> bool {
    matches!(c as u32, 0x24B6..=0x24E9 | 0x1F130..=0x1F149 | 0x1F150..=0x1F169 | 0x1F170..=0x1F189)
}

/// Returns whether a character is in one of these ranges, which give their first and last characters in ascending order.
pub(crate) fn is_within(c: char, ranges: &[(u32, u32)]) -> bool {
    let code = c as u32;
    let at = ranges.partition_point(|&(_, last)| last < code);
    ranges.get(at).is_some_and(|&(first, _)| first <= code)
}
