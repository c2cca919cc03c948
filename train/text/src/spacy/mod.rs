//! A reproduction of spaCy 3.8's tokenizer for English (MIT), with which GPT-1's authors split their text before BPE. The tokens
//! equal those of `[t.text for t in spacy.blank("en").tokenizer(text)]`.
//!
//! ```text
//! text  → chunks   split at white space. One space after a word is dropped; each other run is a token
//! chunk → rest     repeat: stop if the rest, the rest without prefix or without suffix (in this order) is an exception; else cut
//!                  off prefix and suffix, and stop if there was none
//! rest  → tokens   an exception becomes the tokens listed for it; a URL or e-mail address stays whole; others split at infixes
//!       → rejoined tokens that the rules cut from an exception (`hello/Mr.`: `hello` `/` `Mr` `.`) become it: `Mr.`
//! ```
//!
//! - Exceptions are contractions (`do n't`), abbreviations (`Mr.`), times (`10 a.m.`) and emoticons (`:-)`): 1,343 of them, and
//!   white space that is a token in any case.
//! - A prefix or suffix is a mark of punctuation, a symbol, or a run of dots. A prefix may be a currency. A suffix may be a unit
//!   or a currency after a digit, `'s`, or the full stop after a word other than a single capital.
//! - An infix is a run of dots, a symbol, or a mark between certain characters: a hyphen between letters, a dot between a small
//!   letter and a capital.
//!
//! Time is linear in the text; memory, one byte per suffix of a chunk. Only single spaces are lost.
//!
//! # Unicode
//! The classes of characters are explicit ranges, as in the reference. The case of the cased letters is that of Rust, except for
//! ʔ and ʕ. Digits and letters in the schemes and ports of addresses are those of the reference's Python, 3.11: Unicode 14. This
//! excludes the 65 ranges of `NEW` in `classes.rs`, which Unicode 17 has in addition. With a Rust of a later Unicode, newer
//! letters would be letters of a scheme (`…://`), and the tests, which have every character in every place, would fail. No
//! character is known to differ from the reference.
//!
//! ```
//! use gradus_text::spacy::English;
//!
//! let mut tokens = Vec::new();
//! English::new().for_each_token("“Don't (Mr. Darcy),” she said...", |token| tokens.push(token.to_owned()));
//! assert_eq!(tokens, ["“", "Do", "n't", "(", "Mr.", "Darcy", ")", ",", "”", "she", "said", "..."]);
//! ```

mod affixes;
mod classes;
mod exceptions;
mod infixes;
mod prefixes;
mod rejoin;
mod specials;
mod suffixes;
mod urls;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

pub(crate) use classes::is_space;
use rejoin::Rejoin;
use specials::Specials;

static ENGLISH: LazyLock<Specials> = LazyLock::new(english);

/// Returns the exceptions of English. An exception that the rules would cut is also a pattern of the resulting tokens.
fn english() -> Specials {
    let mut specials = Specials::default();
    let none = Specials::default();
    for (text, tokens) in exceptions::all() {
        let cut = prefixes::length(&text) > 0 || suffixes::length(&text) > 0 || infixes::any(&text);
        let mut pieces = Vec::new();
        affixes::split(&text, 0, text.len(), &none, &mut |from, to| pieces.push(&text[from..to]));
        // Replacing one token by the same token would change nothing.
        if cut && (pieces.len() > 1 || tokens.len() > 1) {
            specials.add_pattern(&pieces);
        }
        specials.entry(&text).tokens = tokens.iter().map(|token| token.len() as u8).collect();
    }
    specials
}

/// The tokenizer. The first instance builds the tables, which all others share.
#[derive(Clone, Copy, Debug)]
pub struct English {
    specials: &'static Specials,
}

impl English {
    /// Creates the tokenizer with spaCy's default settings.
    pub fn new() -> Self {
        Self { specials: &ENGLISH }
    }

    /// Calls `token` with every token of `text`, in order.
    pub fn for_each_token(&self, text: &str, token: impl FnMut(&str)) {
        let mut rejoin = Rejoin::new(text, self.specials, token);
        let mut start = 0;
        while start < text.len() {
            let space = start + run(&text[start..], classes::is_space);
            let from = start + usize::from(start > 0 && text[start..space].starts_with(' '));
            if from < space {
                rejoin.token(from, space);
            }
            start = space + run(&text[space..], |c| !classes::is_space(c));
            self.chunk(text, space, start, &mut rejoin);
        }
        rejoin.finish();
    }

    /// Splits a chunk. A word of letters takes a short path, because only an exception can cut it.
    fn chunk<F: FnMut(&str)>(&self, text: &str, from: usize, to: usize, rejoin: &mut Rejoin<'_, F>) {
        let chunk = &text[from..to];
        if chunk.is_empty() {
            return;
        }
        if chunk.bytes().all(|b| b.is_ascii_alphabetic()) && self.specials.tokens(chunk).is_none() {
            return rejoin.token(from, to);
        }
        affixes::split(text, from, to, self.specials, &mut |from, to| rejoin.token(from, to));
    }
}

impl Default for English {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the length in bytes of the leading characters for which `kind` holds.
fn run(text: &str, kind: impl Fn(char) -> bool) -> usize {
    text.find(|c| !kind(c)).unwrap_or(text.len())
}
