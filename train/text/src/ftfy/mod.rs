//! Repair of text as by Python's `ftfy.fix_text` (ftfy 6.3.1, in its default configuration).
//!
//! ```text
//! text → segments    lines, with their "\n"; a longer one is cut at every millionth character
//! segment → entities "&eacute;" → "é", unless this segment or one before it has a "<": then the text is HTML
//!         → encoding mojibake: "cafÃ©" → "café"
//!         → letters  ligatures apart ("ﬁ" → "fi"), full and half width to the usual ("Ａ" → "A", "ｶ" → "カ")
//!         → quotes   curly to straight
//!         → breaks   "\r\n", "\r", U+2028 and U+2029 → "\n"
//!         → escapes  for terminals: out
//!         → controls out, but for "\t", "\n", "\f"
//!         → NFC      letters and accents composed
//!         → all of it again, until nothing changes
//! ```
//!
//! # Encoding
//! Text that looks bad (its neighbouring characters are typical of mojibake) gets the first remedy that applies, and another
//! while it still looks bad:
//!
//! 1. The first of ten single-byte encodings in which the whole text can be written so that its bytes are UTF-8. Before they are
//!    decoded, spaces that were 0xA0 are restored, and sequences that lost a byte become U+FFFD. CESU-8 and Java's NUL are
//!    decoded too.
//! 2. Parts that look like UTF-8, each separately.
//! 3. C1 control characters (U+0080–U+009F) decoded as Windows-1252. Text that does not look bad gets this remedy as well.
//!
//! # Differences from ftfy
//! - ftfy also repairs surrogates. A Rust string has none.
//! - A segment gets at most 64 passes, or as many as 65,536 bytes of work allow, so that the time is proportional to the text.
//!   Only damage nested deeper, such as "&amp;amp;amp;…", remains, which ftfy repairs in quadratic time.
//! - Unicode here is newer than Python 3.11's (14.0), which does not compose U+105C9, 105E4, 11383, 11385, 1138E, 11391, 113C5,
//!   113C7, 113C8, 16121–16128, 16D68–16D6A, and does not sort the marks U+05C8–05C9, 0897, 1ACF–1AF0, 10D69–10D6D, 10ECB–10ECF,
//!   10EF0–10EFB, 10EFD–10EFF, 113CE–113D0, 11F41–11F42, 1612F, 1D127–1D128, 1D250–1D252, 1D25B–1D25C, 1D25F, 1D280–1D281, 1E08F,
//!   1E4EC–1E4EF, 1E5EE–1E5EF, 1E6E3, 1E6E6, 1E6EE–1E6EF, 1E6F5.

mod badness;
mod bytes;
mod characters;
mod classes;
mod codecs;
mod encoding;
mod entities;
#[cfg(test)]
mod tests;
mod work;

use std::borrow::Cow;

use work::Work;

/// The maximum length of a segment, in characters.
const SEGMENT: usize = 1_000_000;

/// Fixes text; text that needs no fixing is borrowed.
///
/// ```
/// use gradus_text::ftfy::fix_text;
///
/// assert_eq!(fix_text("crÃ¨me brÃ»lÃ©e"), "crème brûlée");
/// assert_eq!(fix_text("“A ﬁne day,” he said&hellip;\r\n"), "\"A fine day,\" he said…\n");
/// ```
pub fn fix_text(text: &str) -> Cow<'_, str> {
    fix_text_after(text, false)
}

/// Fixes text that continues another one at the beginning of a line. `html`: whether the text before contains a `<`.
pub fn fix_text_after(text: &str, mut html: bool) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0; // the text up to here is in `out`
    let mut at = 0; // the start of a segment
    while let Some(odd) = find_odd(&text.as_bytes()[at..]) {
        let (start, end) = segment(text, at, at + odd);
        html = html || text[at..end].contains('<');
        if let Some(fixed) = fix_segment(&text[start..end], !html) {
            out.push_str(&text[copied..start]);
            out.push_str(&fixed);
            copied = end;
        }
        at = end;
    }
    if copied == 0 { Cow::Borrowed(text) } else { Cow::Owned(out + &text[copied..]) }
}

/// Returns whether a fix may change a segment with this byte. Segments without such bytes stay unchanged.
const fn is_odd(byte: u8) -> bool {
    matches!(byte, 0..=8 | 0x0B | 0x0D..=0x1F | b'&' | 0x7F..)
}

fn find_odd(bytes: &[u8]) -> Option<usize> {
    // Combines whole chunks with bitwise or, which the compiler vectorises to 16 bytes at a time.
    let (chunks, _) = bytes.as_chunks::<64>();
    let plain = chunks.iter().take_while(|chunk| !chunk.iter().fold(false, |odd, &byte| odd | is_odd(byte))).count();
    let from = plain * 64;
    bytes[from..].iter().position(|&byte| is_odd(byte)).map(|i| from + i)
}

/// Returns start and end of the segment with the byte at `odd`, the first odd one since `at`, where a segment starts.
fn segment(text: &str, at: usize, odd: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    let line = bytes[at..odd].iter().rposition(|&byte| byte == b'\n').map_or(at, |i| at + i + 1);
    let start = odd - (odd - line) % SEGMENT; // it is all ASCII up to `odd`
    let longest = &bytes[start..text.len().min(start + 4 * SEGMENT)];
    let end = longest.iter().position(|&byte| byte == b'\n').map_or(start + longest.len(), |i| start + i + 1);
    if end - start <= SEGMENT {
        return (start, end);
    }
    // `end` may be inside a character, but then it lies beyond a million of them.
    let cut = text[start..].char_indices().nth(SEGMENT).map_or(text.len(), |(i, _)| start + i);
    (start, end.min(cut))
}

/// Repeats the passes over a segment until one changes nothing; `None` if the first changes nothing.
fn fix_segment(segment: &str, entities: bool) -> Option<String> {
    let work = &mut Work::on(segment);
    let mut fixed = None;
    loop {
        let now = fixed.as_deref().unwrap_or(segment);
        if !work.take(now) {
            return fixed;
        }
        match pass(now, entities, work) {
            Some(next) if find_odd(next.as_bytes()).is_none() => return Some(next),
            Some(next) if next != now => fixed = Some(next),
            _ => return fixed,
        }
    }
}

fn pass(text: &str, entities: bool, work: &mut Work) -> Option<String> {
    let mut fixed = None;
    let mut then = |fix: &mut dyn FnMut(&str) -> Option<String>| {
        if let Some(next) = fix(fixed.as_deref().unwrap_or(text)) {
            fixed = Some(next);
        }
    };
    if entities {
        then(&mut entities::unescape);
    }
    then(&mut |text| encoding::fix_encoding(text, work));
    then(&mut characters::fix_characters);
    then(&mut characters::remove_terminal_escapes);
    then(&mut characters::remove_controls);
    then(&mut characters::compose);
    fixed
}
