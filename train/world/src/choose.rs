//! The decisions of a story: drawn at random by [`Sampler`], or recovered from a text by [`Reader`].
//!
//! The grammar is written once, in [`tell`](crate::tell::tell), against [`Choose`]. Each decision is a list of phrases with
//! weights. The phrases of one decision are *prefix-free* (no phrase begins with another), so a text determines the phrase: the
//! grammar is unambiguous, and the probability of a story is the product over its decisions
//!
//! ```text
//! p(story) = ∏ᵢ wᵢ(chosen) / Σⱼ wᵢⱼ        log p = Σᵢ ln(wᵢ / Wᵢ)
//! ```

use std::collections::HashMap;

use rand::Rng;

use crate::error::WorldError;
use crate::tokens::{Token, Writer};

/// A phrase of lower-case words and marks, separated by blanks, with its positive weight.
pub(crate) type Phrase<'a> = (&'a str, u32);

/// A source of a story's decisions.
pub(crate) trait Choose {
    /// Chooses one of `phrases` (not empty, prefix-free) and returns its index.
    fn branch(&mut self, phrases: &[Phrase<'_>]) -> Result<usize, WorldError>;

    /// Chooses a wording on which no later decision depends.
    fn vary(&mut self, phrases: &[Phrase<'_>]) -> Result<(), WorldError> {
        self.branch(phrases).map(drop)
    }

    /// Chooses one of `weights.len()` wordings as [`vary`](Choose::vary) does; implementations may build only the wordings that
    /// they need.
    fn vary_among(&mut self, weights: &[u32], wording: impl Fn(usize) -> String) -> Result<(), WorldError> {
        let wordings: Vec<String> = (0..weights.len()).map(wording).collect();
        self.vary(&wordings.iter().map(String::as_str).zip(weights.iter().copied()).collect::<Vec<_>>())
    }

    /// Chooses one of several words with equal probability. Later words may depend on it, but their number and probabilities may
    /// not.
    fn pick(&mut self, words: &[&'static str]) -> Result<&'static str, WorldError> {
        let phrases: Vec<Phrase<'_>> = words.iter().map(|&word| (word, 1)).collect();
        Ok(words[self.branch(&phrases)?])
    }

    /// Makes decisions on which no later decision depends.
    fn aside(&mut self, mut tell: impl FnMut(&mut Self) -> Result<(), WorldError>) -> Result<(), WorldError>
    where
        Self: Sized,
    {
        tell(self)
    }

    /// Returns whether slips are excluded.
    fn careful(&self) -> bool {
        false
    }

    /// Appends a phrase that has no alternative.
    fn say(&mut self, phrase: &str) -> Result<(), WorldError> {
        self.branch(&[(phrase, 1)]).map(drop)
    }
}

/// The text so far, with its log-probability.
pub(crate) struct Written {
    pub(crate) writer: Writer,
    pub(crate) log_prob: f64,
}

impl Written {
    fn new() -> Self {
        Written { writer: Writer::new(), log_prob: 0.0 }
    }

    /// Appends a phrase of this weight out of the `total` weight.
    fn take(&mut self, (phrase, weight): Phrase<'_>, total: u32) {
        if weight != total {
            self.log_prob += (f64::from(weight) / f64::from(total)).ln();
        }
        self.writer.push(phrase);
    }
}

/// A source of decisions that are drawn at random.
pub(crate) struct Sampler<'r, R> {
    rng: &'r mut R,
    careful: bool,
    pub(crate) told: Written,
}

impl<'r, R: Rng> Sampler<'r, R> {
    pub(crate) fn new(rng: &'r mut R) -> Self {
        Sampler { rng, careful: false, told: Written::new() }
    }

    /// Creates a sampler that makes no slips.
    pub(crate) fn careful(rng: &'r mut R) -> Self {
        Sampler { careful: true, ..Sampler::new(rng) }
    }

    /// Draws an index by weight; also returns the total weight. A decision without alternatives draws no random number.
    fn drawn(&mut self, weights: impl ExactSizeIterator<Item = u32> + Clone) -> (usize, u32) {
        let total = weights.clone().sum();
        let mut left = if weights.len() > 1 { below(self.rng, total) } else { 0 };
        let is_passed = |weight: &u32| {
            let passed = left >= *weight;
            left = left.saturating_sub(*weight);
            passed
        };
        (weights.take_while(is_passed).count(), total)
    }
}

impl<R: Rng> Choose for Sampler<'_, R> {
    fn careful(&self) -> bool {
        self.careful
    }

    fn branch(&mut self, phrases: &[Phrase<'_>]) -> Result<usize, WorldError> {
        let (index, total) = self.drawn(phrases.iter().map(|&(_, weight)| weight));
        self.told.take(phrases[index], total);
        Ok(index)
    }

    fn vary_among(&mut self, weights: &[u32], wording: impl Fn(usize) -> String) -> Result<(), WorldError> {
        let (index, total) = self.drawn(weights.iter().copied());
        self.told.take((&wording(index), weights[index]), total);
        Ok(())
    }
}

/// Returns an integer in `0..bound`, exactly uniform, by Lemire's multiplication with rejection (arXiv:1805.10941). It uses
/// integers only, so every machine generates the same stories.
fn below(rng: &mut impl Rng, bound: u32) -> u32 {
    let threshold = bound.wrapping_neg() % bound;
    loop {
        let product = u64::from(rng.next_u32()) * u64::from(bound);
        if product as u32 >= threshold {
            return (product >> 32) as u32;
        }
    }
}

/// A source of decisions that are recovered from a text.
pub(crate) struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
    pub(crate) told: Written,
    /// If no phrase matches the text: the words that would match, in order, each with the weight of its phrases.
    expected: Vec<(String, u64)>,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(tokens: &'t [Token]) -> Self {
        Reader { tokens, at: 0, told: Written::new(), expected: Vec::new() }
    }

    /// Checks that the text ends with the story.
    pub(crate) fn finish(self) -> Result<Written, WorldError> {
        match self.tokens.get(self.at) {
            None => Ok(self.told),
            Some(Token { word, byte }) => Err(WorldError::Trailing { token: self.at, byte: *byte, found: word.clone() }),
        }
    }

    /// Returns the number of leading words of `phrase` that match the text from here, and the first word that does not match.
    fn agreement<'p>(&self, phrase: &'p str) -> (usize, Option<&'p str>) {
        let mut agreed = 0;
        for word in phrase.split_ascii_whitespace() {
            match self.tokens.get(self.at + agreed) {
                Some(token) if token.word == word => agreed += 1,
                _ => return (agreed, Some(word)),
            }
        }
        (agreed, None)
    }

    /// Returns the words that would match at the position where reading stopped, each with the weight of its phrases.
    pub(crate) fn expected(&self) -> &[(String, u64)] {
        &self.expected
    }

    /// Returns the error for the first position that no phrase matches, with the words that the longest matching phrases expect
    /// there.
    fn refusal(&mut self, phrases: &[Phrase<'_>]) -> WorldError {
        let agreements: Vec<_> = phrases.iter().map(|&(phrase, weight)| (self.agreement(phrase), weight)).collect();
        let furthest = agreements.iter().map(|&((agreed, _), _)| agreed).max().unwrap_or(0);
        let mut place = HashMap::new();
        for ((_, next), weight) in agreements.into_iter().filter(|((agreed, _), _)| *agreed == furthest) {
            let Some(word) = next else { continue };
            let at = *place.entry(word).or_insert(self.expected.len());
            if at == self.expected.len() {
                self.expected.push((word.to_owned(), 0));
            }
            self.expected[at].1 += u64::from(weight);
        }
        let words: Vec<String> = self.expected.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let expected = words.join(" or ");
        let token = self.at + furthest;
        match self.tokens.get(token) {
            Some(Token { word, byte }) => WorldError::Unexpected { token, byte: *byte, found: word.clone(), expected },
            None => WorldError::Unfinished { tokens: token, expected },
        }
    }
}

impl Choose for Reader<'_> {
    fn branch(&mut self, phrases: &[Phrase<'_>]) -> Result<usize, WorldError> {
        for (index, &(phrase, _)) in phrases.iter().enumerate() {
            if let (agreed, None) = self.agreement(phrase) {
                self.at += agreed;
                self.told.take(phrases[index], phrases.iter().map(|&(_, weight)| weight).sum());
                return Ok(index);
            }
        }
        Err(self.refusal(phrases))
    }
}
