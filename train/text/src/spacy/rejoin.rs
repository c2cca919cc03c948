//! The last pass: joins tokens that form an exception, such as `Mr` `.` in `"hello/Mr."`.

use std::collections::VecDeque;

use super::{affixes, specials::Specials};

/// A filter that receives the tokens of a text in order and passes them on, at most a few tokens later.
///
/// A *match* is a run of tokens that is an exception's pattern; white space between them is ignored. Matches are processed the
/// longest first, and those of equal length the earliest first. A match is accepted if no match before it in this order, accepted
/// or not, covers its first or its last token. This is known once every match that begins before its end is found. If the text of
/// an accepted match is the exception (without white space), its tokens are replaced by those of the exception.
pub(super) struct Rejoin<'a, F> {
    text: &'a str,
    specials: &'a Specials,
    give: F,
    /// Tokens not yet passed on, as bytes (from, to).
    waiting: VecDeque<(usize, usize)>,
    /// The number of the first waiting token. Tokens that need not wait are not numbered.
    first: usize,
    /// Started patterns, in order: the number of their first token, and the node reached.
    open: Vec<(usize, u16)>,
    /// Matches that include waiting tokens, as numbers of tokens (from, to).
    matches: Vec<(usize, usize)>,
}

impl<'a, F: FnMut(&str)> Rejoin<'a, F> {
    pub(super) fn new(text: &'a str, specials: &'a Specials, give: F) -> Self {
        let (waiting, open, matches) = Default::default();
        Self { text, specials, give, waiting, first: 0, open, matches }
    }

    /// Receives the next token: the bytes from `from` to `to`.
    pub(super) fn token(&mut self, from: usize, to: usize) {
        let token = &self.text[from..to];
        let word = self.specials.word(token);
        if word.is_none() && self.waiting.is_empty() {
            return (self.give)(token);
        }
        let number = self.first + self.waiting.len();
        self.waiting.push_back((from, to));
        self.open.push((number, 0));
        let (specials, matches) = (self.specials, &mut self.matches);
        self.open.retain_mut(|(start, node)| match word.and_then(|word| specials.step(*node, word)) {
            Some(next) => {
                if specials.is_end(next) {
                    matches.push((*start, number + 1));
                }
                *node = next;
                true
            }
            None => false,
        });
        let known = self.open.first().map_or(number + 1, |&(start, _)| start);
        self.release(known);
    }

    /// Passes on the tokens that remain at the end of the text.
    pub(super) fn finish(mut self) {
        self.release(self.first + self.waiting.len());
    }

    /// Passes on the tokens that are final once all matches that begin before token `known` are found.
    fn release(&mut self, known: usize) {
        let uncertain = self.matches.iter().filter(|m| m.1 > known).map(|m| m.0);
        let until = uncertain.min().unwrap_or(known).min(known);
        while self.first < until {
            let standing = self.matches.iter().find(|m| m.0 == self.first && self.stands(m));
            match standing.map(|m| m.1 - self.first) {
                Some(count) => self.give_match(count),
                None => self.give_tokens(1),
            }
        }
        self.matches.retain(|m| m.1 > self.first);
    }

    fn stands(&self, m: &(usize, usize)) -> bool {
        let turn = |m: &(usize, usize)| (usize::MAX - (m.1 - m.0), m.0);
        let covers = |other: &(usize, usize), token: usize| (other.0..other.1).contains(&token);
        let mut before = self.matches.iter().filter(|other| turn(other) < turn(m));
        !before.any(|other| covers(other, m.0) || covers(other, m.1 - 1))
    }

    fn give_match(&mut self, count: usize) {
        let (from, to) = (self.waiting[0].0, self.waiting[count - 1].1);
        let Some(lengths) = self.specials.tokens(&self.text[from..to]) else {
            return self.give_tokens(count);
        };
        affixes::pieces(from, lengths, &mut |from, to| (self.give)(&self.text[from..to]));
        self.waiting.drain(..count);
        self.first += count;
    }

    fn give_tokens(&mut self, count: usize) {
        for (from, to) in self.waiting.drain(..count) {
            (self.give)(&self.text[from..to]);
        }
        self.first += count;
    }
}
