//! The classes, as bits, of the about 450 characters that occur in mojibake, and of their neighbours.

use std::sync::LazyLock;

use super::codecs::{SLOTS, slot};

pub(super) const C1: u32 = 1; // control characters that ordinary text does not have
pub(super) const BAD: u32 = 1 << 1; // rare outside mojibake
pub(super) const LAW: u32 = 1 << 2;
pub(super) const CURRENCY: u32 = 1 << 3;
pub(super) const OPENING: u32 = 1 << 4; // punctuation at the start of words
pub(super) const CLOSING: u32 = 1 << 5; // punctuation at the end of words
pub(super) const NUMERIC: u32 = 1 << 6;
pub(super) const KAOMOJI: u32 = 1 << 7; // letters that are used in faces
pub(super) const UPPER: u32 = 1 << 8; // accented capitals
pub(super) const LOWER: u32 = 1 << 9; // accented small letters
pub(super) const PLAIN_UPPER: u32 = 1 << 10; // capitals of Greek and Cyrillic, and Þ
pub(super) const PLAIN_LOWER: u32 = 1 << 11; // small letters of Greek and Cyrillic
pub(super) const BOX: u32 = 1 << 12;
pub(super) const COMMON: u32 = 1 << 13; // common in any text
pub(super) const ASCII_UPPER: u32 = 1 << 14;
pub(super) const ASCII_LOWER: u32 = 1 << 15;
pub(super) const STOP: u32 = 1 << 16;
pub(super) const BLANK: u32 = 1 << 17;
pub(super) const SPACE: u32 = 1 << 18; // white space of the codecs
/// The roles of a byte of UTF-8 as a character of some codec: the first byte of 2, 3 or 4, a later byte, and a later byte whose
/// character is rare in ordinary text.
pub(super) const FIRST_OF_2: u32 = 1 << 19;
pub(super) const FIRST_OF_3: u32 = 1 << 20;
pub(super) const FIRST_OF_4: u32 = 1 << 21;
pub(super) const LATER: u32 = 1 << 22;
pub(super) const LATER_SURELY: u32 = 1 << 23;

/// The members of each class; `a-z` is a range.
const MEMBERS: [(u32, &str); 24] = [
    (C1, "\u{80}-\u{9f}"),
    (BAD, "¤¦¨ª¬¯¸ºƒˆˇ˘˛˜†‡‰⌐◊\u{fffd}"),
    (LAW, "§¶"),
    (CURRENCY, "¢£¥₧€"),
    (OPENING, "¡©«¿΄΅‘‚“„•‹\u{f8ff}"),
    (CLOSING, "®»˝”›™"),
    (NUMERIC, "±²³µ¹¼½¾×÷⁄№∂∆∏∑√∞∩∫≈≠≡≤≥"),
    (KAOMOJI, "°Ò-ÖÙ-Üò-öø-üŌŐŪŲ"),
    (UPPER, "À-ÑØÜÝĀĂĄĆČĎĐĒĖĘĚĞĢĪİĶĹĻĽŁŃŅŇŒŘŚŞŠŢŤŮŰŸŹŻŽҐ"),
    (LOWER, "ß-ñüāăąćčďđēėęěğģīįķĺļľłœŕśşšťźżžґﬁﬂ"),
    (PLAIN_UPPER, "ÞΆΈΉΊΌΎΏΑ-ΫЁ-Я"),
    (PLAIN_LOWER, "ά-ωа-џ"),
    (BOX, "│┌┐┘├┤┬┼═-╬▀▄█▌▐-▓"),
    (COMMON, "\u{a0}\u{ad}´·–—―’…"),
    (ASCII_UPPER, "A-Z"),
    (ASCII_LOWER, "a-z"),
    (STOP, ".,?!"),
    (BLANK, " "),
    (SPACE, "\t-\r\u{1c}- \u{85}\u{a0}"),
    (FIRST_OF_2, "Â-ßĀĂĆČĎĐĒĖĘĚĞĢĪİĶĹĻŁŃŅŇŌŐŘŚŞŠŢŪŮŰŲŹŻŽΒ-ΡΣ-ίВ-Я"),
    (FIRST_OF_3, "à-ïāăąćčďēėęěģīįķĺļŕźΰ-οа-п"),
    (FIRST_OF_4, "ðóđğšπσру"),
    (LATER, " –—―‘’‚“”„•…"),
    (LATER | LATER_SURELY, "\u{80}-¿ÆØæøĄąĽľŁłŒœŖŗŚśŞ-šŤťŸ-žƒˆˇ˘˛˜˝΄΅ΆΈΉΊΌΎΏЁ-ЌЎЏё-ќўџҐґ†‡‰‹›€№™"),
];

static CLASSES: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut classes = vec![0; SLOTS];
    for (class, members) in MEMBERS {
        let mut members = members.chars().peekable();
        while let Some(first) = members.next() {
            let last = members.next_if_eq(&'-').and_then(|_| members.next()).unwrap_or(first);
            for i in (first..=last).filter_map(slot) {
                classes[i] |= class;
            }
        }
    }
    classes
});

/// Returns the classes of `c`.
pub(super) fn classes(c: char) -> u32 {
    slot(c).map_or(0, |i| CLASSES[i])
}
