//! The words of spaCy's tokenizer for English.

mod affixes;
mod classes;
mod exceptions;
mod infixes;
mod prefixes;
mod rejoin;
mod specials;
mod suffixes;
mod urls;

use std::sync::LazyLock;

use rejoin::Rejoin;
use specials::Specials;

static ENGLISH: LazyLock<Specials> = LazyLock::new(Specials::english);

/// spaCy's tokenizer for English. The first one builds the tables, which all share.
#[derive(Clone, Copy, Debug)]
pub struct English {
    specials: &'static Specials,
}

impl Default for English {
    fn default() -> Self {
        Self::new()
    }
}

impl English {
    /// The tokenizer.
    pub fn new() -> Self {
        Self { specials: &ENGLISH }
    }

    /// Calls `token` with every token of `text`, in order.
    pub fn for_each_token(&self, text: &str, token: impl FnMut(&str)) {
        let mut rejoin = Rejoin::new(text, self.specials, token);
        let mut start = 0;
        while start < text.len() {
            let spaces = start + run(&text[start..], classes::is_space);
            // One blank between a word and the next is not a token, nor part of one.
            let from = start + usize::from(start > 0 && text[start..spaces].starts_with(' '));
            if from < spaces {
                rejoin.token(from, spaces);
            }
            start = spaces + run(&text[spaces..], |c| !classes::is_space(c));
            if spaces < start {
                self.chunk(text, spaces, start, &mut rejoin);
            }
        }
        rejoin.finish();
    }

    fn chunk<F: FnMut(&str)>(&self, text: &str, from: usize, to: usize, rejoin: &mut Rejoin<'_, F>) {
        let chunk = &text[from..to];
        if chunk.bytes().all(|b| b.is_ascii_alphabetic()) && self.specials.tokens(chunk).is_none() {
            return rejoin.token(from, to);
        }
        affixes::split(text, from, to, self.specials, &mut |from, to| rejoin.token(from, to));
    }
}

/// The bytes of the characters that `text` begins with and that are all of a kind.
fn run(text: &str, kind: impl Fn(char) -> bool) -> usize {
    text.find(|c| !kind(c)).unwrap_or(text.len())
}
