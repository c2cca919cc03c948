//! The exceptions, as a table of texts and as patterns of tokens.

use std::collections::HashMap;

/// The properties of a text.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// The lengths of the tokens in bytes if the text is an exception; otherwise empty.
    pub tokens: Box<[u8]>,
    /// The number as a token of patterns, if it is one.
    word: Option<u16>,
}

/// The exceptions; by default, none.
#[derive(Debug)]
pub(super) struct Specials {
    entries: HashMap<Box<str>, Entry>,
    /// The lengths of the entries in bytes, as bits, by first byte: most texts are rejected by them.
    lengths: [u64; 256],
    /// The patterns as a tree: (node, word) to node, from the root, 0.
    steps: HashMap<(u16, u16), u16>,
    /// Whether a pattern ends at a node.
    ends: Vec<bool>,
    words: u16,
}

impl Default for Specials {
    fn default() -> Self {
        Self { entries: HashMap::new(), lengths: [0; 256], steps: HashMap::new(), ends: vec![false], words: 0 }
    }
}

impl Specials {
    pub(super) fn entry(&mut self, text: &str) -> &mut Entry {
        self.lengths[usize::from(text.as_bytes()[0])] |= 1 << text.len();
        self.entries.entry(text.into()).or_default()
    }

    pub(super) fn add_pattern(&mut self, texts: &[&str]) {
        let mut node = 0;
        for text in texts {
            let fresh = self.words;
            let word = *self.entry(text).word.get_or_insert(fresh);
            self.words += u16::from(word == fresh);
            let next = self.ends.len() as u16;
            node = *self.steps.entry((node, word)).or_insert(next);
            if node == next {
                self.ends.push(false);
            }
        }
        self.ends[usize::from(node)] = true;
    }

    fn get(&self, text: &str) -> Option<&Entry> {
        let lengths = self.lengths[usize::from(*text.as_bytes().first()?)];
        let known = text.len() < 64 && lengths >> text.len() & 1 == 1;
        if known { self.entries.get(text) } else { None }
    }

    /// Returns the lengths in bytes of the tokens of an exception.
    pub(super) fn tokens(&self, text: &str) -> Option<&[u8]> {
        self.get(text).map(|entry| &*entry.tokens).filter(|tokens| !tokens.is_empty())
    }

    /// Returns the number of a token that patterns contain.
    pub(super) fn word(&self, token: &str) -> Option<u16> {
        self.get(token)?.word
    }

    /// Follows the edge of a word from a node of the patterns to the next node.
    pub(super) fn step(&self, node: u16, word: u16) -> Option<u16> {
        self.steps.get(&(node, word)).copied()
    }

    /// Returns whether a pattern ends at a node.
    pub(super) fn is_end(&self, node: u16) -> bool {
        self.ends[usize::from(node)]
    }
}
