//! Byte-level BPE of GPT-2 and RoBERTa (Radford et al. 2019, §2.2; `encoder.py` of OpenAI's gpt-2).
//!
//! ```text
//! text     It's  Zoë
//! pieces   It · 's · ␣ · ␣Zoë              GPT-2's pattern: a space joins the next word
//! bytes    20 5A 6F C3 AB                  of a piece, as UTF-8
//! symbols  Ġ  Z  o  Ã  «                   a printable character per byte
//! merges by rank (Ã, «) → Ã«,  (Ġ, Z) → ĠZ,  …
//! ```
//!
//! All 256 bytes are tokens, so no text is unknown and nothing is lost: `decode(encode(text)) == text`. Some options change this:
//!
//! - `add_prefix_space` inserts a space before the text, and after each added token, unless one is there;
//! - `lstrip` of an added token, such as RoBERTa's `<mask>`, removes the white space before it;
//! - a normalizer changes the text;
//! - a byte without a token is left out, or becomes the token for unknown symbols.

mod classes;
mod letters;
mod split;

use std::borrow::Cow;
use std::collections::HashMap;

use crate::bpe::{FOR_UNKNOWN, Ranked, ids_of, ranked, required_among};
use crate::cache::Cache;
use crate::error::TextError;
use crate::merging::{Merge, merge};
use crate::normalizer::Normalizer;

pub(crate) use letters::letter;

/// A vocabulary of byte-level BPE with its merges. Like [`Bpe`](crate::Bpe), it can be used from several threads at once.
#[derive(Clone, Debug)]
pub struct ByteBpe {
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
    merges: Vec<(u32, u32)>,
    ranks: HashMap<(u32, u32), Merge>,
    /// The id of each byte's token, if it has one.
    symbols: Box<[Option<u32>; 256]>,
    way: Way,
    cache: Cache,
}

/// The options of a byte-level BPE, by default GPT-2's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// The normalizer, which is applied first.
    pub normalizer: Normalizer,
    /// Whether a blank is inserted before a text that does not begin with one (`add_prefix_space`).
    pub prefix: bool,
    /// The token of bytes without a token of their own (`unk_token`); if `None`, such bytes are left out.
    pub unknown: Option<String>,
    /// Whether several unknown bytes in a row become one token (`fuse_unk`).
    pub fuse: bool,
    /// Whether a piece that is in the vocabulary becomes that token without merges (`ignore_merges`).
    pub whole: bool,
}

impl ByteBpe {
    /// Creates a BPE from tokens (by id) and merges (by rank), in printable byte characters. An unused id has an empty token.
    ///
    /// # Errors
    /// Returns an error if a token occurs twice, or a merge's parts or result are not tokens.
    pub fn new(tokens: Vec<String>, merges: &[(String, String)]) -> Result<Self, TextError> {
        ByteBpe::of(tokens, merges, Way::default())
    }

    /// Creates a vocabulary with other options.
    pub(crate) fn of(tokens: Vec<String>, merges: &[(String, String)], way: Way) -> Result<Self, TextError> {
        let ids = ids_of(&tokens)?;
        if let Some(unknown) = &way.unknown {
            required_among(&ids, unknown, FOR_UNKNOWN)?;
        }
        let mut symbols = Box::new([None; 256]);
        for (byte, symbol) in (0..=255).zip(symbols.iter_mut()) {
            *symbol = ids.get(letter(byte).encode_utf8(&mut [0; 4]) as &str).copied();
        }
        let Ranked { pairs, ranks } = ranked(&ids, merges)?;
        Ok(ByteBpe { tokens, ids, merges: pairs, ranks, symbols, way, cache: Cache::default() })
    }

    /// Sets `add_prefix_space`: whether a blank is inserted before a text that does not begin with one.
    #[must_use]
    pub fn with_prefix(self, prefix: bool) -> Self {
        ByteBpe { way: Way { prefix, ..self.way }, ..self }
    }

    /// Returns whether a blank is inserted before a text that does not begin with one.
    pub fn prefix(&self) -> bool {
        self.way.prefix
    }

    pub(crate) fn way(&self) -> &Way {
        &self.way
    }

    /// Returns the tokens, by id.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Returns the merges, by rank, as pairs of tokens.
    pub fn merge_tokens(&self) -> impl Iterator<Item = (&str, &str)> {
        self.merges.iter().map(|&(a, b)| (self.tokens[a as usize].as_str(), self.tokens[b as usize].as_str()))
    }

    /// Returns the id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// Returns the unreachable tokens: longer than one byte, and not the result of a merge.
    pub(crate) fn unreachable(&self) -> impl Iterator<Item = &str> {
        let mut made = vec![false; self.tokens.len()];
        self.ranks.values().for_each(|merge| made[merge.into as usize] = true);
        self.symbols.iter().flatten().for_each(|&id| made[id as usize] = true);
        let is_lost = |(token, made): &(&String, bool)| !made && !self.way.whole && !token.is_empty();
        self.tokens.iter().zip(made).filter(is_lost).map(|(token, _)| token.as_str())
    }

    /// Appends the ids of raw text.
    pub(crate) fn encode_into(&self, text: &str, ids: &mut Vec<u32>) {
        self.encode_normalized_into(&self.way.normalizer.apply(text), ids);
    }

    /// Appends the ids of text that is already normalised.
    pub(crate) fn encode_normalized_into(&self, text: &str, ids: &mut Vec<u32>) {
        let text = match self.way.prefix && !text.is_empty() && !text.starts_with(' ') {
            true => Cow::Owned(format!(" {text}")),
            false => Cow::Borrowed(text),
        };
        let unknown = self.way.unknown.as_ref().and_then(|token| self.id(token));
        split::for_each_piece(&text, |piece| {
            if let Some(known) = self.cache.get(piece) {
                return ids.extend_from_slice(known);
            }
            let start = ids.len();
            self.encode_piece(piece, unknown, ids);
            self.cache.insert(piece, &ids[start..]);
        });
    }

    fn encode_piece(&self, piece: &str, unknown: Option<u32>, ids: &mut Vec<u32>) {
        if self.way.whole {
            let letters: String = piece.bytes().map(letter).collect();
            if let Some(id) = self.id(&letters) {
                return ids.push(id);
            }
        }
        let mut fuses = false; // whether the last symbol is an unknown token that absorbs the next one
        let symbols = piece.bytes().filter_map(|byte| {
            let symbol = self.symbols[byte as usize].or(unknown.filter(|_| !fuses));
            fuses = self.way.fuse && self.symbols[byte as usize].is_none();
            symbol
        });
        merge(symbols, piece.len(), |a, b| self.ranks.get(&(a, b)).copied(), ids);
    }

    /// Appends the bytes of a token. If the token has characters that are not letters of bytes, appends their UTF-8 instead.
    pub(crate) fn decode_into(token: &str, bytes: &mut Vec<u8>) {
        match token.chars().map(letters::byte).collect::<Option<Vec<u8>>>() {
            Some(of_letters) => bytes.extend(of_letters),
            None => bytes.extend(token.bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(merges: &[(&str, &str)]) -> ByteBpe {
        let mut tokens: Vec<String> = (0..=255).map(|byte| letter(byte).to_string()).collect();
        tokens.extend(merges.iter().map(|(a, b)| format!("{a}{b}")));
        let merges: Vec<_> = merges.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        ByteBpe::new(tokens, &merges).unwrap()
    }

    fn tokens(bpe: &ByteBpe, text: &str) -> Vec<String> {
        let mut ids = Vec::new();
        bpe.encode_into(text, &mut ids);
        ids.iter().map(|&id| bpe.tokens()[id as usize].clone()).collect()
    }

    #[test]
    fn merges_by_rank_within_pieces() {
        let bpe = bytes(&[("Ã", "«"), ("Ġ", "Z"), ("o", "Ã«"), ("ĠZ", "oÃ«"), ("e", "Ġ")]);
        assert_eq!(tokens(&bpe, "the Zoë"), ["t", "h", "e", "ĠZoÃ«"], "no merge reaches across pieces");
        assert_eq!(tokens(&bpe, "the Zoë"), tokens(&bpe.clone(), "the Zoë"), "from the cache, and without");
        let bpe = bpe.with_prefix(true);
        assert_eq!(tokens(&bpe, "Zoë"), ["ĠZoÃ«"]);
        assert_eq!(tokens(&bpe, " Zoë"), ["ĠZoÃ«"]);
        assert_eq!(tokens(&bpe, "\nZ"), ["Ġ", "Ċ", "Z"]);
        assert_eq!(tokens(&bpe, ""), [""; 0]);
        assert_eq!(bytes(&[("a", "b")]).unreachable().count(), 0);
    }

    /// Bytes without a token are removed before the merges, as in `tokenizers` (tests/golden/published_tokenizers.py).
    #[test]
    fn bytes_without_a_token_are_removed_or_unknown() {
        let kept = || (0..=255).filter(|byte| !b"xy".contains(byte)).map(|byte| letter(byte).to_string());
        let of = |way: Way| {
            let tokens = kept().chain(["ab", "abx", "<unk>"].map(str::to_owned)).collect();
            ByteBpe::of(tokens, &[("a".into(), "b".into())], way).unwrap()
        };
        let unknown = || Way { unknown: Some("<unk>".into()), ..Way::default() };
        assert_eq!(tokens(&of(Way::default()), "axb xyab"), ["ab", "Ġ", "ab"]);
        assert_eq!(tokens(&of(unknown()), "axb xyab"), ["a", "<unk>", "b", "Ġ", "<unk>", "<unk>", "ab"]);
        assert_eq!(tokens(&of(Way { fuse: true, ..unknown() }), "xyxab xy"), ["<unk>", "ab", "Ġ", "<unk>"]);
        assert_eq!(tokens(&of(Way { whole: true, ..Way::default() }), "abx axb"), ["abx", "Ġ", "ab"]);
        assert!(of(Way::default()).unreachable().eq(["abx", "<unk>"]));
        let error = ByteBpe::of(kept().collect(), &[], unknown()).unwrap_err().to_string();
        assert!(error.contains(r#"token "<unk>": expected a token for unknown symbols"#), "{error}");
    }
}
