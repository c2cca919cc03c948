//! Held-out stories, with the exact probabilities of each of their positions.

use gradus_train::pretrain::{Split, TextSource};
use gradus_world::{World, WorldError};
use rayon::prelude::*;

use crate::lexicon::Lexicon;

/// The limits of the distance classes, in words since the last mention: below the first limit, below the second, …; then mentions
/// further back, and words without a mention.
pub const DISTANCES: [usize; 3] = [5, 10, 20];

/// One place of a story.
#[derive(Clone, Debug)]
pub struct StoryPosition {
    /// The possible words, each with its probability given all others; words of probability 0 are left out.
    pub given_all: Vec<(usize, f64)>,
    /// The possible words, each with its probability given the preceding words.
    pub before: Vec<(usize, f64)>,
    /// The number of words since the last mention of the word at this position; `None` without a mention.
    pub last_mention: Option<usize>,
}

/// A story as a list of word numbers.
#[derive(Clone, Debug)]
pub struct Story {
    /// The word numbers.
    pub words: Vec<usize>,
    /// The possible words at each position.
    pub places: Vec<StoryPosition>,
}

impl Story {
    /// Reads the first `n` held-out stories of a run on the micro-world.
    ///
    /// # Errors
    /// Returns an error if a text is not a story of this world.
    pub fn held_out(source: &dyn TextSource, world: &World, lexicon: &Lexicon, n: usize) -> Result<Vec<Story>, WorldError> {
        let n = n.min(source.texts(Split::HeldOut));
        let texts: Vec<Vec<u32>> = (0..n).map(|number| source.text(Split::HeldOut, number)).collect();
        texts.par_iter().map(|tokens| Story::read(tokens, world, lexicon)).collect()
    }

    fn read(tokens: &[u32], world: &World, lexicon: &Lexicon) -> Result<Story, WorldError> {
        let words: Vec<usize> = tokens.iter().map(|&token| lexicon.of_token(token)).collect();
        let places = world.places(&lexicon.text(&words))?;
        let number = |word: &str| lexicon.number(word).expect("a word of the stories");
        let place = |(at, place): (usize, gradus_world::Position)| {
            let shares = |of: fn(&gradus_world::Possible) -> f64| {
                place.possible.iter().filter(|p| of(p) > 0.0).map(|p| (number(&p.word), of(p))).collect()
            };
            let last_mention = words[..at].iter().rev().position(|&word| word == words[at]).map(|ago| ago + 1);
            StoryPosition { given_all: shares(|p| p.given_all), before: shares(|p| p.before), last_mention }
        };
        let places = places.into_iter().enumerate().map(place).collect();
        Ok(Story { words, places })
    }
}
