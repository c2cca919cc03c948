//! WordPiece, BERT's tokenizer (Wu et al. 2016, §4.1; `tokenization.py` of Google's bert): a word is cut from left to right, each
//! time into the longest token.
//!
//! ```text
//! text     Unaffable Zoë        unaffable zoe          [`basic`](crate::basic), of which cased models leave out steps
//! words    unaffable  zoe
//! tokens   una ##ffa ##ble  zo ##e                     `##` goes on within a word
//! ```
//!
//! A word that cannot be cut into tokens is `[UNK]` as a whole, and so is one of more than 100 characters. A vocabulary of
//! [characters](Pieces::Characters) cuts a word into its characters instead. The tokens are kept in a trie with two roots, one
//! for the beginnings of words and one for the rest of a word, so that a search ends with the longest token that matches. The
//! time is at most proportional to the text's length times the longest token's.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;

use crate::basic::{self, Cleaning};
use crate::bpe::{FOR_UNKNOWN, ids_of, required_among};
use crate::cache::Cache;
use crate::error::TextError;
use crate::normalizer::Normalizer;

/// The prefix of a token that continues a word.
pub const GOES_ON: &str = "##";
/// The token for unknown words in BERT's vocabularies.
pub const UNKNOWN_WORD: &str = "[UNK]";
/// The maximum length of a known word, in characters.
pub(crate) const LONGEST: usize = 100;

/// The pieces that a word is cut into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pieces {
    /// The longest tokens.
    #[default]
    Longest,
    /// The characters after NFKC, each a token or unknown, as in `transformers`' BertJapaneseTokenizer with `character` subwords.
    Characters,
}

/// A vocabulary of WordPiece. Like [`Bpe`](crate::Bpe), it can be used from several threads at once.
#[derive(Clone, Debug)]
pub struct WordPiece {
    normalizer: Normalizer,
    pieces: Pieces,
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
    trie: Trie,
    unknown: u32,
    longest: usize,
    cleanup: bool,
    cache: Cache,
}

impl WordPiece {
    /// Creates a vocabulary from its tokens, by id; an unused id has an empty token.
    ///
    /// # Errors
    /// Returns an error if a token occurs twice, or `[UNK]` is missing.
    pub fn new(tokens: Vec<String>, cleaning: Cleaning) -> Result<Self, TextError> {
        WordPiece::of(tokens, cleaning.into(), UNKNOWN_WORD, LONGEST)
    }

    /// Creates a vocabulary with a normalizer, a token for unknown words and the length of the longest word, in characters.
    pub(crate) fn of(tokens: Vec<String>, normalizer: Normalizer, unknown: &str, longest: usize) -> Result<Self, TextError> {
        let ids = ids_of(&tokens)?;
        let unknown = required_among(&ids, unknown, FOR_UNKNOWN)?;
        let mut trie = Trie::default();
        for (id, token) in (0..).zip(&tokens) {
            trie.insert(Trie::BEGINS, token, id);
            if let Some(rest) = token.strip_prefix(GOES_ON) {
                trie.insert(Trie::GOES_ON, rest, id);
            }
        }
        let pieces = Pieces::default();
        Ok(WordPiece { normalizer, pieces, tokens, ids, trie, unknown, longest, cleanup: true, cache: Cache::default() })
    }

    /// Sets the pieces that words are cut into.
    pub(crate) fn with_pieces(self, pieces: Pieces) -> Self {
        WordPiece { pieces, cache: Cache::default(), ..self }
    }

    /// Sets `cleanup`: whether the decoder removes the blank before a full stop and some other marks.
    pub(crate) fn with_cleanup(self, cleanup: bool) -> Self {
        WordPiece { cleanup, ..self }
    }

    /// Returns the normalizer, which is applied before a text is split into words.
    pub fn normalizer(&self) -> &Normalizer {
        &self.normalizer
    }

    /// Returns the pieces that a word is cut into.
    pub fn pieces(&self) -> Pieces {
        self.pieces
    }

    /// Returns the tokens, by id.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Returns the id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// Returns the id of unknown words.
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    pub(crate) fn cleanup(&self) -> bool {
        self.cleanup
    }

    /// Appends the ids of raw text.
    pub(crate) fn encode_into(&self, text: &str, ids: &mut Vec<u32>) {
        match self.normalizer.bert() {
            Some(cleaning) => basic::each_word(text, cleaning, |word| self.encode_word(word, ids)),
            None => self.encode_normalized_into(&self.normalizer.apply(text), ids),
        }
    }

    /// Appends the ids of text that is already normalised.
    pub(crate) fn encode_normalized_into(&self, text: &str, ids: &mut Vec<u32>) {
        basic::split(text, |word| self.encode_word(word, ids));
    }

    fn encode_word(&self, word: &str, ids: &mut Vec<u32>) {
        if let Some(known) = self.cache.get(word) {
            return ids.extend_from_slice(known);
        }
        let start = ids.len();
        if self.pieces == Pieces::Characters {
            let id = |c: char| self.ids.get(c.encode_utf8(&mut [0; 4]) as &str).copied().unwrap_or(self.unknown);
            ids.extend(word.nfkc().map(id));
        } else if !self.cut_word(word, ids) {
            ids.truncate(start);
            ids.push(self.unknown);
        }
        self.cache.insert(word, &ids[start..]);
    }

    /// Appends the tokens of a word; returns false if it is unknown.
    fn cut_word(&self, word: &str, ids: &mut Vec<u32>) -> bool {
        if word.chars().nth(self.longest).is_some() {
            return false;
        }
        let (mut rest, mut root) = (word, Trie::BEGINS);
        while !rest.is_empty() {
            let Some((id, length)) = self.trie.longest(root, rest) else { return false };
            ids.push(id);
            (rest, root) = (&rest[length..], Trie::GOES_ON);
        }
        true
    }

    /// Returns the text of a token at the beginning of a text (`is_first`) or after other tokens.
    pub(crate) fn text_of(&self, token: &str, is_first: bool) -> String {
        let text = match token.strip_prefix(GOES_ON) {
            _ if is_first || token.is_empty() => token.to_owned(),
            Some(rest) => rest.to_owned(),
            None => format!(" {token}"),
        };
        if self.cleanup { tidied(text) } else { text }
    }
}

/// Removes the blanks before marks and after an apostrophe, for each token separately, as in `tokenizers`.
fn tidied(mut text: String) -> String {
    const BLANKS: [(&str, &str); 11] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    for (from, to) in BLANKS {
        if text.contains(from) {
            text = text.replace(from, to);
        }
    }
    text
}

/// A trie of the tokens, by their characters.
#[derive(Clone, Debug)]
struct Trie {
    /// The node that follows a node by a character.
    next: HashMap<(u32, char), u32>,
    /// The token that ends at each node, or [`Trie::NONE`].
    ends: Vec<u32>,
}

impl Default for Trie {
    fn default() -> Self {
        Trie { next: HashMap::new(), ends: vec![Trie::NONE; 2] }
    }
}

impl Trie {
    const BEGINS: u32 = 0;
    const GOES_ON: u32 = 1;
    const NONE: u32 = u32::MAX;

    fn insert(&mut self, root: u32, token: &str, id: u32) {
        let mut node = root;
        for c in token.chars() {
            let fresh = self.ends.len() as u32;
            node = *self.next.entry((node, c)).or_insert(fresh);
            if node == fresh {
                self.ends.push(Trie::NONE);
            }
        }
        if node != root {
            self.ends[node as usize] = id;
        }
    }

    /// Returns the longest token that a text begins with, and its length in bytes.
    fn longest(&self, root: u32, text: &str) -> Option<(u32, usize)> {
        let (mut node, mut longest) = (root, None);
        for (at, c) in text.char_indices() {
            let Some(&next) = self.next.get(&(node, c)) else { break };
            node = next;
            let id = self.ends[node as usize];
            if id != Trie::NONE {
                longest = Some((id, at + c.len_utf8()));
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(words: &[&str]) -> WordPiece {
        let tokens = [UNKNOWN_WORD].iter().chain(words).map(|token| token.to_string()).collect();
        WordPiece::new(tokens, Cleaning::ALL).unwrap()
    }

    fn tokens(pieces: &WordPiece, text: &str) -> Vec<String> {
        let mut ids = Vec::new();
        pieces.encode_into(text, &mut ids);
        ids.iter().map(|&id| pieces.tokens()[id as usize].clone()).collect()
    }

    #[test]
    fn the_longest_token_first() {
        let pieces = pieces(&["un", "una", "unaf", "##ff", "##ffa", "##ble", "##bl", "##", "##e", "a", "é"]);
        assert_eq!(tokens(&pieces, "Unaffable unaffable"), ["[UNK]"; 2], "`unaf` is longest, and `##fable` no token");
        assert_eq!(tokens(&pieces, "unffable a"), ["un", "##ffa", "##ble", "a"]);
        assert_eq!(tokens(&pieces, "unx é ##"), ["[UNK]"; 4], "accents are off; # is a word of its own");
        assert_eq!(tokens(&pieces, ""), [""; 0]);
    }

    #[test]
    fn a_long_word_is_unknown() {
        let pieces = pieces(&["a", "##a"]);
        assert_eq!(tokens(&pieces, &"a".repeat(100)).len(), 100);
        assert_eq!(tokens(&pieces, &"a".repeat(101)), ["[UNK]"]);
    }

    #[test]
    fn tokens_are_joined_to_text() {
        let pieces = pieces(&["a"]);
        let of = |tokens: &[&str]| -> String { tokens.iter().enumerate().map(|(i, t)| pieces.text_of(t, i == 0)).collect() };
        assert_eq!(of(&["##a", "##b", "c", ".", "[SEP]", "'", "s", "!"]), "##ab c. [SEP] ' s!");
        assert_eq!(pieces.clone().with_cleanup(false).text_of(".", false), " .");
    }

    #[test]
    fn a_vocabulary_without_the_unknown_is_rejected() {
        let error = WordPiece::new(vec!["a".into()], Cleaning::ALL).unwrap_err().to_string();
        assert!(error.contains(r#"token "[UNK]": expected a token for unknown symbols, found 1 token without it"#), "{error}");
    }
}
