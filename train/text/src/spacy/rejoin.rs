//! The last pass: tokens that make up an exception after all, such as `Mr` `.` in `"hello/Mr."`, become it.

use std::collections::VecDeque;

use super::{affixes, specials::Specials};

/// Takes the tokens of a text in order and gives them on, at most a few later.
///
/// A *match* is a run of tokens that is an exception's pattern; white space between them counts for nothing. Matches
/// take their turn, the longest first, of those as long the earliest first. One stands if no match before it, standing
/// or not, covers its first or its last token: which is known once every match that begins before its end is. Where the
/// text of one that stands is the exception (it has no white space), its tokens become those of the exception.
pub(super) struct Rejoin<'a, F> {
    text: &'a str,
    specials: &'a Specials,
    give: F,
    /// Tokens not given on yet, as bytes (from, to).
    waiting: VecDeque<(usize, usize)>,
    /// The number of the first of these. Tokens that need not wait have none.
    first: usize,
    /// Patterns begun: the number of their first token, and the node reached. In order.
    open: Vec<(usize, u16)>,
    /// Matches, as numbers of tokens (from, to), that tokens still waiting are part of.
    matches: Vec<(usize, usize)>,
}

impl<'a, F: FnMut(&str)> Rejoin<'a, F> {
    pub(super) fn new(text: &'a str, specials: &'a Specials, give: F) -> Self {
        let (waiting, open, matches) = Default::default();
        Self { text, specials, give, waiting, first: 0, open, matches }
    }

    /// Takes the next token: the bytes from `from` to `to`.
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

    /// Gives on the tokens that remain at the end of the text.
    pub(super) fn finish(mut self) {
        self.release(self.first + self.waiting.len());
    }

    /// Gives on what is certain when all matches that begin before token `known` are found.
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
