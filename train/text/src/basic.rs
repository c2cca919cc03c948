//! Mode `basic`: the splitting of text into words as in Hugging Face's `OpenAIGPTTokenizer` (BERT's basic tokenizer), and BERT's
//! own variants, in which [`Cleaning`] may disable steps.
//!
//! ```text
//! text → clean      NUL, U+FFFD and control characters out; every white space becomes ' '
//!      → ideographs a space on either side of each CJK ideograph
//!      → accents    canonical decomposition (NFD), nonspacing marks (Mn) out
//!      → lower case character by character
//!      → words      split at white space; every punctuation mark is a word of its own
//! ```
//!
//! The steps remove case, accents, and the kind and amount of white space (line ends included). Decoding returns words joined by
//! single spaces.
//!
//! Unicode categories come from the crate `unicode_categories`, as in the reference, so that the ids agree: its tables are those
//! of Unicode 8 with "private use" reduced to the ends of its ranges. The reference decomposes as in Unicode 12, and this crate
//! as in a newer version: 21 characters of five scripts added since (Dives Akuru, Todhri, Tulu-Tigalari, Gurung Khema, Kirat Rai)
//! are decomposed here and not in the reference.

use unicode_categories::UnicodeCategories;
use unicode_normalization::UnicodeNormalization;

/// Classes of a byte, as bits, so that a chunk's classes can be or-ed together.
const UPPER: u8 = 1; // A–Z
const ODD: u8 = 2; // control characters and bytes beyond ASCII: the slow path
const SPACE: u8 = 4; // space, \t, \n, \r
const PUNCTUATION: u8 = 8;

const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut b = 0;
    while b < 256 {
        let c = b as u8;
        class[b] = match c {
            b' ' | b'\t' | b'\n' | b'\r' => SPACE,
            b'A'..=b'Z' => UPPER,
            _ if c.is_ascii_punctuation() => PUNCTUATION,
            _ if c.is_ascii_control() || !c.is_ascii() => ODD,
            _ => 0,
        };
        b += 1;
    }
    class
};

/// The steps that are applied to a text before it is split: the options of `tokenizers`' `BertNormalizer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaning {
    /// Whether control characters are removed and every white space becomes a blank.
    pub clean: bool,
    /// Whether a space is put on either side of each CJK ideograph.
    pub ideographs: bool,
    /// Whether accents are removed.
    pub accents: bool,
    /// Whether the text is lower-cased.
    pub lowercase: bool,
}

impl Cleaning {
    /// All steps, as in GPT-1 and in BERT's uncased models.
    pub const ALL: Cleaning = Cleaning { clean: true, ideographs: true, accents: true, lowercase: true };
}

/// Calls `word` with every word of `text`, as [`each_word`] does with [`Cleaning::ALL`].
pub fn for_each_word(text: &str, word: impl FnMut(&str)) {
    each_word(text, Cleaning::ALL, word);
}

/// Calls `word` with every word of `text`, normalised, in order.
///
/// ASCII white space and punctuation always separate words, and normalisation never combines characters across them (they are
/// Unicode starters). So the text is first cut there, and only chunks with odd bytes take the slow path.
pub fn each_word(text: &str, cleaning: Cleaning, mut word: impl FnMut(&str)) {
    let bytes = text.as_bytes();
    let mut buffer = String::new();
    let mut start = 0;
    while start < bytes.len() {
        let mut seen = 0;
        let mut end = start;
        while end < bytes.len() {
            let class = CLASS[bytes[end] as usize];
            if class & (SPACE | PUNCTUATION) != 0 {
                break;
            }
            seen |= class;
            end += 1;
        }
        let chunk = &text[start..end];
        if seen & ODD != 0 {
            buffer.clear();
            normalize_into(chunk, cleaning, &mut buffer);
            split(&buffer, &mut word);
        } else if seen & UPPER != 0 && cleaning.lowercase {
            buffer.clear();
            buffer.push_str(chunk);
            buffer.make_ascii_lowercase();
            word(&buffer);
        } else if !chunk.is_empty() {
            word(chunk);
        }
        if end < bytes.len() && CLASS[bytes[end] as usize] == PUNCTUATION {
            word(&text[end..=end]);
        }
        start = end + 1;
    }
}

/// Returns whether a word contains accents or other nonspacing marks, which normalisation removes.
pub fn loses_accents(word: &str) -> bool {
    !word.is_ascii() && word.nfd().any(UnicodeCategories::is_mark_nonspacing)
}

/// Returns the text after cleaning, spacing of ideographs, removal of accents and lower-casing; not yet split.
pub fn normalize(text: &str) -> String {
    normalize_by(text, Cleaning::ALL)
}

/// Returns the text after the steps of `cleaning`; not yet split.
pub fn normalize_by(text: &str, cleaning: Cleaning) -> String {
    let mut normalized = String::with_capacity(text.len());
    normalize_into(text, cleaning, &mut normalized);
    normalized
}

/// Splits text that is already normalised, and calls `word` with every word.
pub fn split(normalized: &str, mut word: impl FnMut(&str)) {
    for run in normalized.split(char::is_whitespace) {
        let mut start = 0;
        for (i, c) in run.char_indices().filter(|&(_, c)| is_punctuation(c)) {
            if start < i {
                word(&run[start..i]);
            }
            let end = i + c.len_utf8();
            word(&run[i..end]);
            start = end;
        }
        if start < run.len() {
            word(&run[start..]);
        }
    }
}

fn normalize_into(text: &str, cleaning: Cleaning, out: &mut String) {
    let Cleaning { clean, ideographs, accents, lowercase } = cleaning;
    let spaced = text.chars().filter(|&c| !(clean && is_dropped(c))).flat_map(|c| {
        let c = if clean && c.is_whitespace() { ' ' } else { c };
        let pad = (ideographs && is_ideograph(c)).then_some(' ');
        pad.into_iter().chain([c]).chain(pad)
    });
    let cased = |c: char| lowercase.then(|| c.to_lowercase()).into_iter().flatten().chain((!lowercase).then_some(c));
    if accents {
        out.extend(spaced.nfd().filter(|&c| c.is_ascii() || !c.is_mark_nonspacing()).flat_map(cased));
    } else {
        out.extend(spaced.flat_map(cased));
    }
}

fn is_dropped(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' | ' '..='~' => false,
        '\0' | '\u{fffd}' => true,
        _ => c.is_other(),
    }
}

fn is_punctuation(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_punctuation() } else { c.is_punctuation() }
}

/// Returns whether a character is in one of the blocks of CJK ideographs, as BERT lists them (without U+2B820–U+2B91F).
fn is_ideograph(c: char) -> bool {
    matches!(
        u32::from(c),
        0x4E00..=0x9FFF
            | 0x3400..=0x4DBF
            | 0x20000..=0x2A6DF
            | 0x2A700..=0x2B73F
            | 0x2B740..=0x2B81F
            | 0x2B920..=0x2CEAF
            | 0xF900..=0xFAFF
            | 0x2F800..=0x2FA1F
    )
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        for_each_word(text, |w| out.push(w.to_owned()));
        out
    }

    #[test]
    fn words_of_every_kind() {
        assert_eq!(words("Hello,  WORLD!\r\n\tit's 3.14"), ["hello", ",", "world", "!", "it", "'", "s", "3", ".", "14"]);
        assert_eq!(words("Ünï\u{301}côde — “quoted”"), ["unicode", "—", "“", "quoted", "”"]);
        assert_eq!(words("日本x語"), ["日", "本", "x", "語"]);
        assert_eq!(words("a\u{0}b\u{b}c\u{ad}d\u{fffd}e\u{a0}f\u{3000}g"), ["abcde", "f", "g"]);
        assert_eq!(words("≠ K İ ΣΑΣ ﬁ"), ["=", "k", "i", "σασ", "ﬁ"]);
        assert_eq!(words(""), Vec::<String>::new());
        assert_eq!(words(" \n\t"), Vec::<String>::new());
    }

    /// Compares every character of Unicode, between two letters, with digests made with Hugging Face's own code.
    #[test]
    fn every_character_as_the_reference() {
        // Unicode has added these decompositions since the reference's tables, so the reference does not decompose them.
        let newer = |c: char| {
            matches!(u32::from(c),
                0x105C9 | 0x105E4 | 0x11383 | 0x11385 | 0x1138E | 0x11391 | 0x113C5 | 0x113C7 | 0x113C8 | 0x11938
                | 0x16121..=0x16128 | 0x16D68..=0x16D6A)
        };
        let digests = include_str!("../tests/data/tokenizer/every_character.txt");
        let of = |c: char| {
            let text = format!("a{c}b");
            (if newer(c) { text } else { words(&text).join(" ") }) + "\n"
        };
        has_digests(digests, of);
    }

    /// Compares every character as BERT's cased models treat it, which keep accents and case. Words are separated by NUL.
    #[test]
    fn every_character_as_the_cased_reference() {
        let cased = Cleaning { accents: false, lowercase: false, ..Cleaning::ALL };
        let of = |c: char| {
            let mut words = String::new();
            each_word(&format!("A{c}b"), cased, |word| words = format!("{words}{word}\0"));
            words
        };
        has_digests(include_str!("../tests/data/wordpiece/every_character.txt"), of);
    }

    /// Asserts that these are the digests of the results of `of`, for 4,096 characters each.
    fn has_digests(digests: &str, of: impl Fn(char) -> String) {
        for (line, block) in digests.lines().zip((0u32..).step_by(0x1000)) {
            let lines: String = (block..block + 0x1000).filter_map(char::from_u32).map(&of).collect();
            let digest: String = gradus_io::hex::encode(&Sha256::digest(&lines)[..8]);
            assert_eq!(format!("{block:06x} {digest}"), line);
        }
        assert_eq!(digests.lines().count(), 0x110);
    }

    /// Compares the fast path with the definition: normalise the whole text, then split it.
    #[test]
    fn chunks_equal_the_whole() {
        let alphabet: Vec<char> =
            "aZ9 \n\t\u{b}\u{0}.,'-_$^`é\u{301}\u{327}\u{903}ñŒßİΣ“”—…日本豈한글\u{200b}\u{ad}\u{a0}\u{2028}😀\u{f04a}\u{e000};≠¿"
                .chars()
                .collect();
        let mut state = 1u64;
        let mut letter = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            alphabet[(state >> 33) as usize % alphabet.len()]
        };
        for _ in 0..1000 {
            let text: String = (0..24).map(|_| letter()).collect();
            for switches in 0..16 {
                let [clean, ideographs, accents, lowercase] = [1, 2, 4, 8].map(|bit| switches & bit == 0);
                let cleaning = Cleaning { clean, ideographs, accents, lowercase };
                let [mut whole, mut found] = [Vec::new(), Vec::new()];
                split(&normalize_by(&text, cleaning), |w| whole.push(w.to_owned()));
                each_word(&text, cleaning, |w| found.push(w.to_owned()));
                assert_eq!(found, whole, "{text:?}, {cleaning:?}");
            }
        }
    }
}
