//! Byte-level BPE, GPT-2's and RoBERTa's (Radford et al. 2019, §2.2; `encoder.py` of OpenAI's gpt-2).
//!
//! ```text
//! text     It's  Zoë
//! pieces   It · 's · ␣ · ␣Zoë              GPT-2's pattern: a blank belongs to the word behind it
//! bytes    20 5A 6F C3 AB                  of a piece, as UTF-8
//! symbols  Ġ  Z  o  Ã  «                   a visible letter for each byte
//! merges by rank (Ã, «) → Ã«,  (Ġ, Z) → ĠZ,  …
//! ```
//!
//! All 256 bytes are tokens, so no text is unknown, and nothing is lost: `decode(encode(text)) == text`, but for two liberties that a
//! file may take. With `add_prefix_space`, a text that does not begin with a blank gets one, and so does what follows an added token.
//! An added token with `lstrip`, as RoBERTa's `<mask>`, swallows the white space before it.

mod classes;
mod letters;
mod split;

use std::borrow::Cow;
use std::collections::HashMap;

use crate::bpe::{Ranked, ids_of, ranked, required_among};
use crate::cache::Cache;
use crate::error::TextError;
use crate::merging::{Merge, merge};

pub(crate) use letters::letter;

/// A vocabulary of byte-level BPE with its merges. Like [`Bpe`](crate::Bpe), it can be used from several threads at once.
#[derive(Clone, Debug)]
pub struct ByteBpe {
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
    merges: Vec<(u32, u32)>,
    ranks: HashMap<(u32, u32), Merge>,
    /// The id of each byte.
    symbols: Box<[u32; 256]>,
    prefix: bool,
    cache: Cache,
}

impl ByteBpe {
    /// A vocabulary from its tokens, by id, and its merges, by rank, all in letters for bytes.
    ///
    /// # Errors
    /// [`TextError::Vocabulary`] if a token occurs twice, a byte has none, or a merge's parts or result are not tokens.
    pub fn new(tokens: Vec<String>, merges: &[(String, String)]) -> Result<Self, TextError> {
        let ids = ids_of(&tokens)?;
        let mut symbols = Box::new([0; 256]);
        for (byte, symbol) in (0..=255).zip(symbols.iter_mut()) {
            let expected = format!("a token for each of the 256 bytes; this is that of byte 0x{byte:02X}");
            *symbol = required_among(&ids, &letter(byte).to_string(), &expected)?;
        }
        let Ranked { pairs, ranks } = ranked(&ids, merges)?;
        Ok(ByteBpe { tokens, ids, merges: pairs, ranks, symbols, prefix: false, cache: Cache::default() })
    }

    /// The same vocabulary, where a text begins with a blank in any case (`add_prefix_space`).
    #[must_use]
    pub fn with_prefix(self, prefix: bool) -> Self {
        ByteBpe { prefix, ..self }
    }

    /// Does a text begin with a blank in any case?
    pub fn prefix(&self) -> bool {
        self.prefix
    }

    /// The tokens, by id.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// The merges, by rank, as pairs of tokens.
    pub fn merge_tokens(&self) -> impl Iterator<Item = (&str, &str)> {
        self.merges.iter().map(|&(a, b)| (self.tokens[a as usize].as_str(), self.tokens[b as usize].as_str()))
    }

    /// The id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// The tokens that no text becomes, since they are more than a byte and no merge makes them.
    pub(crate) fn unreachable(&self) -> impl Iterator<Item = &str> {
        let mut made = vec![false; self.tokens.len()];
        self.ranks.values().for_each(|merge| made[merge.into as usize] = true);
        self.symbols.iter().for_each(|&id| made[id as usize] = true);
        self.tokens.iter().zip(made).filter(|(_, made)| !made).map(|(token, _)| token.as_str())
    }

    /// Appends the ids of a text.
    pub(crate) fn encode_into(&self, text: &str, ids: &mut Vec<u32>) {
        let text = match self.prefix && !text.is_empty() && !text.starts_with(' ') {
            true => Cow::Owned(format!(" {text}")),
            false => Cow::Borrowed(text),
        };
        split::for_each_piece(&text, |piece| {
            if let Some(known) = self.cache.get(piece) {
                return ids.extend_from_slice(known);
            }
            let start = ids.len();
            let symbols = piece.bytes().map(|byte| self.symbols[byte as usize]);
            merge(symbols, piece.len(), |a, b| self.ranks.get(&(a, b)).copied(), ids);
            self.cache.insert(piece, &ids[start..]);
        });
    }

    /// Appends the bytes of a token; of one that has other characters than letters for bytes, the characters' own.
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

    #[test]
    fn a_byte_without_a_token_is_named() {
        let tokens = (0..=255).filter(|&byte| byte != b' ').map(|byte| letter(byte).to_string()).collect();
        let error = ByteBpe::new(tokens, &[]).unwrap_err().to_string();
        assert!(error.contains(r#"token "Ġ": expected a token for each of the 256 bytes; this is that of byte 0x20"#), "{error}");
    }
}
