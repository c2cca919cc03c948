//! Suffixes, which are cut off the end of a word.

use super::classes::{self, CURRENCY, DIGIT, ICON, LOWER, PUNCTUATION, QUOTE, UPPER};

/// Units of measure, which are cut off a number. The last entry joins two units, because the reference's lists of Cyrillic and
/// Arabic units lack the space between them.
#[rustfmt::skip]
const UNITS: &[&str] = &[
    "km", "km²", "km³", "m", "m²", "m³", "dm", "dm²", "dm³", "cm", "cm²", "cm³", "mm", "mm²", "mm³", "µm", "nm", "yd", "in", "ft",
    "ha", "kg", "g", "mg", "µg", "t", "lb", "oz", "m/s", "km/h", "kmh", "mph", "hPa", "Pa", "mbar", "mb", "MB", "kb", "KB", "gb",
    "GB", "tb", "TB", "T", "G", "M", "K", "%",
    "км", "км²", "км³", "м", "м²", "м³", "дм", "дм²", "дм³", "см", "см²", "см³", "мм", "мм²", "мм³", "нм", "кг", "г", "мг", "м/с",
    "км/ч", "кПа", "Па", "мбар", "Кб", "КБ", "кб", "Мб", "МБ", "мб", "Гб", "ГБ", "гб", "Тб", "ТБ",
    "كم", "كم²", "كم³", "م", "م²", "م³", "سم", "سم²", "سم³", "مم", "مم²", "مم³", "غرام", "جرام", "جم", "كغ", "ملغ", "كوب", "اكواب",
    "тбكم",
];

/// The longest unit, in characters.
const LONGEST: usize = 5;

/// Returns the length in bytes of the suffix of `text`: the longest that a rule finds, or 0.
pub(super) fn length(text: &str) -> usize {
    let mut before = text.chars();
    let Some(last) = before.next_back() else { return 0 };
    let before = before.as_str();
    let cut = match last {
        '.' => return dot(text, before),
        '…' if before.ends_with('…') => return 2 * last.len_utf8(),
        's' | 'S' if before.ends_with('\'') => return 2,
        's' | 'S' if before.ends_with('’') => return 1 + '’'.len_utf8(),
        '—' | '–' => true,
        '+' => classes::ends_in(before, DIGIT),
        _ => classes::is(last, PUNCTUATION | QUOTE | ICON),
    };
    if cut { last.len_utf8() } else { quantity(text) }
}

/// Returns the length of the dot at the end: a run of dots, or the full stop of a sentence, but not that of an initial (`J.`).
fn dot(text: &str, before: &str) -> usize {
    let dots = text.bytes().rev().take_while(|&b| b == b'.').count();
    if dots > 1 {
        return dots;
    }
    let mut earlier = before.chars();
    let Some(last) = earlier.next_back() else { return 0 };
    let earlier = earlier.as_str();
    let stop = classes::is(last, DIGIT | LOWER | PUNCTUATION | QUOTE)
        || matches!(last, '%' | '²' | '-' | '+' | '|')
        || classes::is(last, UPPER) && classes::ends_in(earlier, UPPER)
        || matches!(last, 'F' | 'C' | 'K') && earlier.ends_with('°');
    usize::from(stop)
}

/// Returns the length of a unit or a currency directly after a digit.
fn quantity(text: &str) -> usize {
    let Some((start, _)) = text.char_indices().rev().take(LONGEST + 1).find(|(_, c)| c.is_ascii_digit()) else {
        return 0;
    };
    let quantity = &text[start + 1..];
    let mut characters = quantity.chars();
    let currency = characters.next().is_some_and(|c| classes::is(c, CURRENCY)) && characters.next().is_none();
    let known = currency || matches!(quantity, "US$" | "C$" | "A$") || UNITS.contains(&quantity);
    if known { quantity.len() } else { 0 }
}

/// A stack of the lengths of suffixes, in bytes, which needs little memory for a long text of punctuation.
#[derive(Debug, Default)]
pub(super) struct Lengths(Vec<u8>);

impl Lengths {
    /// Pushes a length, stored as a byte below 255 and the 255s above it, whose sum is the length.
    pub(super) fn push(&mut self, mut length: usize) {
        self.0.push((length % 255) as u8);
        while length >= 255 {
            self.0.push(255);
            length -= 255;
        }
    }

    pub(super) fn pop(&mut self) -> Option<usize> {
        let mut length = 0;
        while let Some(byte) = self.0.pop() {
            length += usize::from(byte);
            if byte < 255 {
                return Some(length);
            }
        }
        None
    }
}
