//! Repair of mojibake: UTF-8 that was read in a single-byte encoding is encoded in it again and decoded as UTF-8.

use super::badness::is_bad;
use super::bytes::{decode, replace_lossy, restore_byte_a0};
use super::classes::{FIRST_OF_2, FIRST_OF_3, FIRST_OF_4, LATER, LATER_SURELY, classes};
use super::codecs::{CODECS, c1_as_windows, encode, possible};
use super::work::Work;

/// Fixes the encoding of text that looks bad, repeatedly, because mojibake may be nested; `None` if nothing changed.
pub(super) fn fix_encoding(text: &str, work: &mut Work) -> Option<String> {
    let mut fixed = None;
    loop {
        let now = fixed.as_deref().unwrap_or(text);
        if now.is_ascii() || !work.take(now) || !is_bad(now) {
            return fixed;
        }
        match fix_once(now, work) {
            Some(next) if next != now => fixed = Some(next),
            _ => return fixed,
        }
    }
}

/// Applies the first remedy that changes the text: decoding the whole, decoding its parts, C1 control characters as Windows-1252.
fn fix_once(text: &str, work: &mut Work) -> Option<String> {
    let whole = possible(text).find_map(|i| {
        let mut bytes = encode(text, i);
        if CODECS[i].spaces_may_be_a0 {
            bytes = restore_byte_a0(bytes);
        }
        if CODECS[i].sloppy {
            bytes = replace_lossy(bytes);
        }
        decode(bytes)
    });
    whole.or_else(|| fix_parts(text, work)).or_else(|| fix_c1(text))
}

/// Fixes each part that looks like UTF-8 separately, for text that mixes encodings.
///
/// A part is fixed as a text of its own and may have parts again, but only after it was decoded, which leaves at most two thirds
/// of its characters: the recursion is shallow.
fn fix_parts(text: &str, work: &mut Work) -> Option<String> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    let mut before = None;
    while let Some(c) = text[at..].chars().next() {
        let length = look_alike(before, &text[at..]);
        if length == 0 {
            at += c.len_utf8();
            before = Some(c);
            continue;
        }
        let part = &text[at..at + length];
        if part.len() < text.len()
            && let Some(fixed) = fix_encoding(part, work)
        {
            out.push_str(&text[copied..at]);
            out.push_str(&fixed);
            copied = at + length;
        }
        at += length;
        before = part.chars().next_back();
    }
    (copied > 0).then(|| out + &text[copied..]).filter(|fixed| fixed != text)
}

/// Returns the length of the leading characters of `text` that look like the bytes of UTF-8 sequences. It is 0 if there are none,
/// or if the character before looks like the inside of a sequence.
fn look_alike(before: Option<char>, text: &str) -> usize {
    if before.is_some_and(|c| classes(c) & LATER_SURELY != 0) {
        return 0;
    }
    let mut rest = text;
    loop {
        let mut chars = rest.chars();
        let first = chars.next().map_or(0, classes);
        let later = chars.clone().take(3).take_while(|&c| classes(c) & LATER != 0).count();
        let length = match later {
            1.. if first & FIRST_OF_2 != 0 => 1,
            2.. if first & FIRST_OF_3 != 0 => 2,
            3.. if first & FIRST_OF_4 != 0 => 3,
            _ => return text.len() - rest.len(),
        };
        chars.nth(length - 1);
        rest = chars.as_str();
    }
}

fn fix_c1(text: &str) -> Option<String> {
    let fixed: String = text.chars().map(c1_as_windows).collect();
    (fixed != text).then_some(fixed)
}
