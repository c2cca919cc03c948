//! GPT-2's splitting of text into pieces, within which pairs are merged (`encoder.py` of OpenAI's gpt-2). The pattern is:
//!
//! ```text
//! 's|'t|'re|'ve|'m|'ll|'d    the ends of contractions, in lower case
//!  ?\p{L}+                   letters, with the blank before them
//!  ?\p{N}+                   numbers, the same
//!  ?[^\s\p{L}\p{N}]+         anything else but white space, the same
//! \s+(?!\S)                  white space, but for its last character where something follows …
//! \s+                        … unless it is the only one
//! ```
//!
//! At each position, the first line that matches is taken; no text is skipped. A `match` on the first character selects the line,
//! so the time is proportional to the text.

use super::classes::Class;

const CONTRACTIONS: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];

/// Calls `piece` with every piece of a text, in order. Joined, they are the text.
pub(super) fn for_each_piece(mut text: &str, mut piece: impl FnMut(&str)) {
    while !text.is_empty() {
        let (first, rest) = text.split_at(first(text));
        piece(first);
        text = rest;
    }
}

/// Returns the length of the first piece, in bytes.
fn first(text: &str) -> usize {
    if let Some(contraction) = CONTRACTIONS.iter().find(|contraction| text.starts_with(**contraction)) {
        return contraction.len();
    }
    let blank = usize::from(text.starts_with(' '));
    match text[blank..].chars().next().map(Class::of) {
        None | Some(Class::Space) => spaces(text),
        Some(class) => blank + run(&text[blank..], class),
    }
}

/// Returns the length of the leading white space that is a piece, in bytes.
fn spaces(text: &str) -> usize {
    let all = run(text, Class::Space);
    match text[..all].char_indices().next_back() {
        Some((last, _)) if last > 0 && all < text.len() => last,
        _ => all,
    }
}

/// Returns the length of the leading characters of one class, in bytes.
fn run(text: &str, class: Class) -> usize {
    text.char_indices().find(|&(_, c)| Class::of(c) != class).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use gradus_io::hex;
    use sha2::{Digest, Sha256};

    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        for_each_piece(text, |piece| pieces.push(piece.to_owned()));
        assert_eq!(pieces.concat(), text);
        pieces
    }

    #[test]
    fn pieces_of_every_kind() {
        assert_eq!(
            pieces("It's  2 o'clock,\n\nthey'll say."),
            ["It", "'s", " ", " 2", " o", "'", "clock", ",", "\n", "\n", "they", "'ll", " say", "."]
        );
        assert_eq!(pieces("we'd've 'S ''s 'tis '"), ["we", "'d", "'ve", " '", "S", " ''", "s", " '", "tis", " '"]);
        assert_eq!(pieces("x½² Ⅷ一a1"), ["x", "½²", " Ⅷ", "一a", "1"]);
        assert_eq!(pieces(" \t a\u{a0}b \u{3000} "), [" \t", " a", "\u{a0}", "b", " \u{3000} "]);
        assert_eq!(pieces("e\u{301}a 👩\u{200d}👧"), ["e", "\u{301}", "a", " 👩\u{200d}👧"]);
        assert_eq!(pieces("a \n"), ["a", " \n"]);
        assert_eq!(pieces(""), [""; 0]);
    }

    /// Compares each character of Unicode, between a letter, a number, a mark and a blank, with digests made with `tokenizers`
    /// (tests/golden/relatives_tokenizers.py).
    #[test]
    fn every_character_as_the_reference() {
        let digests = include_str!("../../tests/data/byte_level/every_character.txt");
        for (line, block) in digests.lines().zip((0u32..).step_by(0x1000)) {
            let mut lines = String::new();
            for c in (block..block + 0x1000).filter_map(char::from_u32) {
                lines += &pieces(&format!("a{c}a1{c}1!{c}! {c} ")).join("\0");
                lines.push('\0');
            }
            assert_eq!(format!("{block:06x} {}", hex::encode(&Sha256::digest(&lines)[..8])), line);
        }
        assert_eq!(digests.lines().count(), 0x110);
    }
}
