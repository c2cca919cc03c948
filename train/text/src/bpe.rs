//! Byte-pair encoding as in GPT-1 (Sennrich, Haddow, Birch 2016; the paper's §4.1).
//!
//! ```text
//! word            l o w e r
//! symbols         l  o  w  e  r</w>            the last one is marked as the word's end
//! merges by rank  (e, r</w>) → er</w>,  (l, o) → lo,  (lo, w) → low
//! tokens          low  er</w>
//! ```
//!
//! A *merge* names two neighbouring symbols that become one. Among all pairs in a word that are merges, the one of lowest rank
//! (the earliest learned) is merged first, the leftmost of equal rank, until no merge is left. A character outside the vocabulary
//! is the token `<unk>` and never merges.

use std::collections::HashMap;

use gradus_io::numbers::count_of;

use crate::basic::{self, Cleaning};
use crate::cache::Cache;
use crate::error::TextError;
use crate::merging::{Merge, merge};
use crate::mode::Mode;

/// The suffix that marks a symbol as the last of its word.
pub const END_OF_WORD: &str = "</w>";
/// The token for every symbol outside the vocabulary.
pub const UNKNOWN: &str = "<unk>";
/// The description of the token for unknown symbols in error messages.
pub(crate) const FOR_UNKNOWN: &str = "a token for unknown symbols";

/// Returns the tokens of a vocabulary before any merge, by id: `<unk>`, the characters, and the characters at a word's end.
pub(crate) fn alphabet(characters: &[char]) -> Vec<String> {
    let inner = characters.iter().map(char::to_string);
    let last = characters.iter().map(|c| format!("{c}{END_OF_WORD}"));
    [UNKNOWN.to_owned()].into_iter().chain(inner).chain(last).collect()
}

/// A vocabulary with its merges.
///
/// It can be used from several threads at once. They share a cache of the words met, which changes the speed and never the
/// result. A clone begins with an empty cache.
#[derive(Clone, Debug)]
pub struct Bpe {
    mode: Mode,
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
    merges: Vec<(u32, u32)>,
    ranks: HashMap<(u32, u32), Merge>,
    /// The id of a character, within a word (`false`) and at its end (`true`).
    symbols: HashMap<(char, bool), u32>,
    unknown: u32,
    cleaning: Cleaning,
    cache: Cache,
}

impl Bpe {
    /// Creates a vocabulary from its tokens, by id, and its merges, by rank. An unused id has an empty token.
    ///
    /// # Errors
    /// Returns an error if a token occurs twice, `<unk>` is missing, or a merge's parts or result are not tokens.
    pub fn new(tokens: Vec<String>, merges: &[(String, String)]) -> Result<Self, TextError> {
        Bpe::of(tokens, merges, UNKNOWN)
    }

    /// Creates a vocabulary whose token for unknown symbols is `unknown`.
    pub(crate) fn of(tokens: Vec<String>, merges: &[(String, String)], unknown: &str) -> Result<Self, TextError> {
        let ids = ids_of(&tokens)?;
        let unknown = required_among(&ids, unknown, FOR_UNKNOWN)?;
        let Ranked { pairs, ranks } = ranked(&ids, merges)?;
        let mut symbols = HashMap::new();
        for (id, token) in tokens.iter().enumerate() {
            let (body, last) = token.strip_suffix(END_OF_WORD).map_or((&**token, false), |body| (body, true));
            if let Ok(c) = body.parse() {
                symbols.insert((c, last), id as u32);
            }
        }
        let (mode, cleaning) = (Mode::Basic, Cleaning::ALL);
        Ok(Bpe { mode, tokens, ids, merges: pairs, ranks, symbols, unknown, cleaning, cache: Cache::default() })
    }

    /// Sets the normalization of mode `basic`.
    pub(crate) fn with_cleaning(self, cleaning: Cleaning) -> Self {
        Bpe { cleaning, ..self }
    }

    /// Returns the normalization of mode `basic`; in GPT-1, all steps.
    pub fn cleaning(&self) -> Cleaning {
        self.cleaning
    }

    /// Returns the tokens that no text can produce: they are longer than one symbol, and no merge makes them. If there are any,
    /// merges are missing.
    pub fn unreachable(&self) -> impl Iterator<Item = &str> {
        let mut made = vec![false; self.tokens.len()];
        self.ranks.values().for_each(|merge| made[merge.into as usize] = true);
        self.symbols.values().for_each(|&id| made[id as usize] = true);
        made[self.unknown as usize] = true;
        self.tokens.iter().zip(made).filter(|(token, made)| !made && !token.is_empty()).map(|(token, _)| token.as_str())
    }

    /// Returns the mode in which text is split into words.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sets the mode in which text is split into words.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Bpe { mode, ..self }
    }

    /// Returns the tokens, by id.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Returns the merges, by rank, as pairs of ids.
    pub fn merges(&self) -> &[(u32, u32)] {
        &self.merges
    }

    /// Returns the merges, by rank, as pairs of tokens.
    pub fn merge_tokens(&self) -> impl Iterator<Item = (&str, &str)> {
        self.merges.iter().map(|&(a, b)| (self.tokens[a as usize].as_str(), self.tokens[b as usize].as_str()))
    }

    /// Returns the id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// Returns the id of the token for unknown symbols, `<unk>`.
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// Appends the ids of raw text. `html`: whether the text before it contains a `<`.
    pub fn encode_into(&self, text: &str, html: bool, ids: &mut Vec<u32>) {
        match self.mode {
            Mode::Basic => basic::each_word(text, self.cleaning, |word| self.encode_word(word, ids)),
            Mode::Spacy => self.mode.for_each_word(text, html, |word| self.encode_word(word, ids)),
        }
    }

    /// Appends the ids of text that is already normalised.
    pub(crate) fn encode_normalized_into(&self, text: &str, ids: &mut Vec<u32>) {
        basic::split(text, |word| self.encode_word(word, ids));
    }

    /// Returns the ids of one word.
    pub(crate) fn word(&self, word: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.encode_word(word, &mut ids);
        ids
    }

    /// Appends the ids of one word, from the cache if it contains the word.
    fn encode_word(&self, word: &str, ids: &mut Vec<u32>) {
        if let Some(known) = self.cache.get(word) {
            return ids.extend_from_slice(known);
        }
        let start = ids.len();
        self.merge_word(word, ids);
        self.cache.insert(word, &ids[start..]);
    }

    fn merge_word(&self, word: &str, ids: &mut Vec<u32>) {
        let end = word.char_indices().next_back().map_or(0, |(at, _)| at);
        let symbol = |(at, c)| self.symbols.get(&(c, at == end)).copied().unwrap_or(self.unknown);
        let rule = |a, b| self.ranks.get(&(a, b)).copied();
        merge(word.char_indices().map(symbol), word.chars().count(), rule, ids);
    }
}

fn inconsistent(place: String, expected: &str, found: String) -> TextError {
    TextError::Vocabulary { place, expected: expected.into(), found }
}

/// Maps the tokens of a vocabulary to their ids; empty tokens are left out.
///
/// # Errors
/// Returns an error if a token occurs twice.
pub(crate) fn ids_of(tokens: &[String]) -> Result<HashMap<String, u32>, TextError> {
    let mut ids = HashMap::with_capacity(tokens.len());
    for (id, token) in tokens.iter().enumerate().filter(|(_, token)| !token.is_empty()) {
        if let Some(first) = ids.insert(token.clone(), id as u32) {
            return Err(inconsistent(format!("token {token:?}"), "one id for each token", format!("ids {first} and {id}")));
        }
    }
    Ok(ids)
}

/// Returns the id of a token that the vocabulary must have.
///
/// # Errors
/// Returns [`TextError::Vocabulary`] if the token is missing.
pub(crate) fn required_among(ids: &HashMap<String, u32>, token: &str, expected: &str) -> Result<u32, TextError> {
    ids.get(token).copied().ok_or_else(|| {
        let found = format!("{} without it", count_of(ids.len(), "token"));
        inconsistent(format!("token {token:?}"), expected, found)
    })
}

/// Merges by rank, as pairs of ids, and the result of each pair.
pub(crate) struct Ranked {
    pub pairs: Vec<(u32, u32)>,
    pub ranks: HashMap<(u32, u32), Merge>,
}

/// Converts merges to ids.
///
/// # Errors
/// Returns [`TextError::Vocabulary`] if a merge's parts or result are not tokens.
pub(crate) fn ranked(ids: &HashMap<String, u32>, merges: &[(String, String)]) -> Result<Ranked, TextError> {
    let id_of = |token: &str, rank: usize, (a, b): &(String, String)| {
        ids.get(token).copied().ok_or_else(|| {
            let place = format!("merge {} ({a:?} + {b:?})", rank + 1);
            inconsistent(place, "its two parts and its result among the tokens", format!("no token {token:?}"))
        })
    };
    let mut pairs = Vec::with_capacity(merges.len());
    let mut ranks = HashMap::with_capacity(merges.len());
    for (rank, merge) in merges.iter().enumerate() {
        let pair = (id_of(&merge.0, rank, merge)?, id_of(&merge.1, rank, merge)?);
        let into = id_of(&format!("{}{}", merge.0, merge.1), rank, merge)?;
        pairs.push(pair);
        // A pair that training met again is listed again; its last rank counts, as in `transformers`.
        ranks.insert(pair, Merge { rank: rank as u32, into });
    }
    Ok(Ranked { pairs, ranks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bpe(characters: &str, merges: &[(&str, &str)]) -> Bpe {
        let mut tokens = alphabet(&characters.chars().collect::<Vec<_>>());
        for (a, b) in merges {
            let token = format!("{a}{b}");
            if !tokens.contains(&token) {
                tokens.push(token);
            }
        }
        let merges: Vec<_> = merges.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        Bpe::new(tokens, &merges).unwrap()
    }

    fn encode(bpe: &Bpe, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        bpe.encode_into(text, false, &mut ids);
        ids
    }

    #[test]
    fn merges_by_rank() {
        let bpe = bpe("lower", &[("e", "r</w>"), ("l", "o"), ("lo", "w")]);
        let tokens: Vec<_> = encode(&bpe, "LOWER löw x wx").iter().map(|&i| bpe.tokens()[i as usize].as_str()).collect();
        assert_eq!(tokens, ["low", "er</w>", "lo", "w</w>", "<unk>", "w", "<unk>"]);
    }

    #[test]
    fn many_threads_give_the_same_ids() {
        let bpe = bpe("abc", &[("a", "b"), ("ab", "c</w>"), ("c", "a")]);
        let text: String = (0..5000u32).map(|i| ["a", "b", "c", " ", "ab"][(i * i % 97 % 5) as usize]).collect();
        let alone = encode(&bpe.clone(), &text);
        std::thread::scope(|s| {
            let workers: Vec<_> = (0..4).map(|_| s.spawn(|| encode(&bpe, &text))).collect();
            for worker in workers {
                assert_eq!(worker.join().unwrap(), alone);
            }
        });
    }

    /// Encodes twice as many words as the cache has slots: cached and uncached words have the same ids.
    #[test]
    fn a_full_cache_changes_nothing() {
        let bpe = bpe("abcdefgh", &[("a", "b"), ("ab", "c"), ("d", "e</w>"), ("h", "h")]);
        let word = |i: usize| -> String { (0..7).map(|d| char::from(b'a' + (i >> (3 * d) & 7) as u8)).collect() };
        for i in (0..1 << 18).chain((0..1 << 18).step_by(977)) {
            let word = word(i);
            let (mut cached, mut fresh) = (Vec::new(), Vec::new());
            bpe.encode_word(&word, &mut cached);
            bpe.merge_word(&word, &mut fresh);
            assert_eq!(cached, fresh, "{word}");
        }
    }

    #[test]
    fn inconsistent_vocabularies() {
        let s = str::to_owned;
        let wrong = |tokens: &[&str], merges: &[(String, String)]| {
            let error = Bpe::new(tokens.iter().map(|token| s(token)).collect(), merges).unwrap_err();
            let TextError::Vocabulary { place, found, .. } = error else { panic!("{error}") };
            (place, found)
        };
        assert_eq!(wrong(&["a"], &[]), (s(r#"token "<unk>""#), s("1 token without it")));
        assert_eq!(wrong(&["<unk>", "a", "a"], &[]), (s(r#"token "a""#), s("ids 1 and 2")));
        let merge = [(s("a"), s("b"))];
        assert_eq!(wrong(&["<unk>", "a", "b"], &merge), (s(r#"merge 1 ("a" + "b")"#), s(r#"no token "ab""#)));
    }

    #[test]
    fn the_last_rank_of_a_duplicate_merge_counts() {
        let ids = |merges: &[(&str, &str)]| {
            let tokens = ["<unk>", "a", "b", "c</w>", "ab", "bc</w>"].map(str::to_owned).to_vec();
            let merges: Vec<_> = merges.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
            let mut ids = Vec::new();
            Bpe::new(tokens, &merges).unwrap().encode_word("abc", &mut ids);
            ids
        };
        assert_eq!(ids(&[("a", "b"), ("b", "c</w>")]), [4, 3]);
        assert_eq!(ids(&[("a", "b"), ("b", "c</w>"), ("a", "b")]), [1, 5]);
    }

    #[test]
    fn tokens_that_no_merge_produces_are_listed() {
        let tokens = ["<unk>", "a", "b", "b</w>", "ab", "ab</w>", "abb"].map(str::to_owned).to_vec();
        let unreachable = |merges: &[(&str, &str)]| {
            let merges: Vec<_> = merges.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
            Bpe::new(tokens.clone(), &merges).unwrap().unreachable().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(unreachable(&[]), ["ab", "ab</w>", "abb"]);
        assert_eq!(unreachable(&[("a", "b</w>"), ("a", "b")]), ["abb"]);
        assert_eq!(unreachable(&[("a", "b</w>"), ("a", "b"), ("ab", "b")]), [] as [&str; 0]);
    }
}
