//! The words that are possible at each position of a story, with their exact probabilities.
//!
//! ```text
//! P(w | x₁ … xᵢ₋₁) = Σ weights of the phrases that continue with w / Σ weights of the phrases that match the text so far
//! P(w | the rest)  = P(x with w at i) / Σ_v P(x with v at i)                                                          Bayes
//! ```
//!
//! Only words that a phrase allows after x₁ … xᵢ₋₁ have a positive probability in either formula, so only these are evaluated.

use crate::choose::Reader;
use crate::error::WorldError;
use crate::tell::tell;
use crate::tokens::{self, Token};
use crate::world::World;

/// A word that is possible at a position.
#[derive(Clone, Debug, PartialEq)]
pub struct Possible {
    /// The word, in lower case, or a mark.
    pub word: String,
    /// The probability given the words before it.
    pub before: f64,
    /// The probability given all other words; 0 if they exclude it.
    pub given_all: f64,
}

/// One position of a story.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    /// The word of the story at this position, in lower case, or the mark.
    pub word: String,
    /// All words that are possible after the words before it, including this one.
    pub possible: Vec<Possible>,
}

impl World {
    /// Returns the positions of a story, in order.
    ///
    /// # Errors
    /// Returns an error if the text is not one complete story of this world.
    pub fn places(&self, text: &str) -> Result<Vec<Position>, WorldError> {
        self.read(text)?;
        let mut tokens = tokens::split(text)?;
        (0..tokens.len()).map(|at| self.place(&mut tokens, at)).collect()
    }

    /// Returns the words that can follow the beginning of a story, each with its probability. The list is empty after a complete
    /// story.
    ///
    /// # Errors
    /// Returns an error if no story of this world has this beginning.
    pub fn next_words(&self, beginning: &str) -> Result<Vec<(String, f64)>, WorldError> {
        let tokens = tokens::split(beginning)?;
        let mut reader = Reader::new(&tokens);
        match tell(self.config(), &mut reader) {
            Ok(_) => reader.finish().map(|_| Vec::new()),
            Err(WorldError::Unfinished { .. }) => Ok(shares(reader.expected())),
            Err(error) => Err(error),
        }
    }

    fn place(&self, tokens: &mut [Token], at: usize) -> Result<Position, WorldError> {
        // No phrase contains the empty word, so reading stops there with the list of possible words.
        let word = std::mem::take(&mut tokens[at].word);
        let mut reader = Reader::new(tokens);
        let stopped = tell(self.config(), &mut reader);
        debug_assert!(stopped.is_err());
        let mut possible = Vec::new();
        for (word, before) in shares(reader.expected()) {
            tokens[at].word.clone_from(&word);
            let mut reader = Reader::new(tokens);
            let whole = tell(self.config(), &mut reader).and_then(|_| reader.finish());
            let log_prob = whole.map_or(f64::NEG_INFINITY, |told| told.log_prob);
            possible.push(Possible { word, before, given_all: log_prob });
        }
        tokens[at].word.clone_from(&word);
        let most = possible.iter().map(|p| p.given_all).fold(f64::NEG_INFINITY, f64::max);
        possible.iter_mut().for_each(|p| p.given_all = (p.given_all - most).exp());
        let sum: f64 = possible.iter().map(|p| p.given_all).sum();
        possible.iter_mut().for_each(|p| p.given_all /= sum);
        Ok(Position { word, possible })
    }
}

/// Normalises weights to probabilities.
fn shares(words: &[(String, u64)]) -> Vec<(String, f64)> {
    let total: u64 = words.iter().map(|(_, weight)| weight).sum();
    words.iter().map(|(word, weight)| (word.clone(), *weight as f64 / total as f64)).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::Xoshiro256PlusPlus;

    use super::*;

    fn stories(world: &World, n: usize) -> Vec<crate::Story> {
        world.corpus(&mut Xoshiro256PlusPlus::seed_from_u64(4), n)
    }

    /// The chain rule: the product of the words' probabilities, each given the words before it, is the story's probability.
    #[test]
    fn word_probabilities_multiply_to_that_of_the_story() {
        for world in [World::default(), World::named(true)] {
            for story in stories(&world, 40) {
                let places = world.places(&story.text).unwrap();
                assert_eq!(places.len(), story.tokens);
                let own = |place: &Position| place.possible.iter().find(|p| p.word == place.word).unwrap().before.ln();
                let log_prob: f64 = places.iter().map(own).sum();
                assert!((log_prob - story.log_prob).abs() < 1e-9, "{log_prob} {}", story.log_prob);
            }
        }
    }

    /// The reference reads the story with every word of the world in turn, without using the phrases.
    #[test]
    fn cloze_probabilities_follow_bayes_theorem() {
        let world = World::default();
        let lexicon: std::collections::BTreeSet<String> =
            stories(&world, 300).iter().flat_map(|story| tokens::split(&story.text).unwrap()).map(|token| token.word).collect();
        let mut changed = 0;
        for story in stories(&world, 3) {
            let places = world.places(&story.text).unwrap();
            let words: Vec<&str> = places.iter().map(|place| &*place.word).collect();
            for (at, place) in places.iter().enumerate() {
                let with = |word: &str| {
                    let text = [&words[..at], &[word], &words[at + 1..]].concat().join(" ");
                    world.read(&text).map_or(0.0, |other| (other.log_prob - story.log_prob).exp())
                };
                let all: f64 = lexicon.iter().map(|word| with(word)).sum();
                for word in &lexicon {
                    let found = place.possible.iter().find(|p| p.word == *word).map_or(0.0, |p| p.given_all);
                    assert!((found - with(word) / all).abs() < 1e-9, "{word} at {at} of {}", story.text);
                }
                changed += usize::from(place.possible.iter().any(|p| (p.given_all - p.before).abs() > 0.01));
            }
        }
        assert!(changed > 20, "what follows says something of what stood there, in {changed} places");
    }

    #[test]
    fn an_invalid_story_is_an_error_and_a_prefix_has_next_words() {
        let world = World::default();
        let story = &stories(&world, 1)[0].text;
        assert!(matches!(world.places(&story[..story.len() - 1]), Err(WorldError::Unfinished { .. })));
        assert!(matches!(world.places(&format!("{story} And")), Err(WorldError::Trailing { .. })));
        assert!(matches!(world.places("…"), Err(WorldError::Character { .. })));
        assert!(matches!(world.next_words("Once there fell"), Err(WorldError::Unexpected { .. })));
        assert_eq!(world.next_words(story), Ok(Vec::new()));
        let (beginning, _) = story.split_at(story.len() / 2);
        let beginning = &beginning[..beginning.rfind(' ').unwrap()];
        let (place, next) = (tokens::split(beginning).unwrap().len(), world.next_words(beginning).unwrap());
        let place = world.places(story).unwrap().swap_remove(place);
        assert_eq!(next, place.possible.into_iter().map(|p| (p.word, p.before)).collect::<Vec<_>>());
    }
}
