//! The world: stories sampled, parsed and measured.

use std::fmt;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

use crate::error::WorldError;
use crate::explore::{self, Properties};
use crate::facts::Facts;
use crate::words::WorldConfig;
use crate::{choose, tell, tokens};

/// A story with its probability and facts.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Story {
    /// The text, one line without a line end.
    pub text: String,
    /// ln p of the story, its end included, in nats.
    pub log_prob: f64,
    /// The number of words and punctuation marks.
    pub tokens: usize,
    /// The facts of the story.
    pub facts: Facts,
}

/// The version of the grammar. It increases with every change of the stories or their probabilities.
pub const VERSION: u32 = 1;

/// A probability distribution over stories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    config: WorldConfig,
}

impl World {
    /// Creates a world with these numbers of words.
    ///
    /// # Errors
    /// Returns an error if a number is out of its range ([`WorldError::Size`]).
    pub fn new(config: WorldConfig) -> Result<Self, WorldError> {
        let all = WorldConfig::default();
        for (list, found, min, max) in [
            ("names", config.names, 3, all.names),
            ("traits", config.traits, 1, all.traits),
            ("animals", config.animals, 2, all.animals),
            ("places", config.places, 2, all.places),
            ("feelings", config.feelings, 1, all.feelings),
            ("colours", config.colours, 1, all.colours),
            ("things", config.things, 1, all.things),
            ("keepers", config.keepers, 1, all.keepers),
            ("moods", config.moods, 1, all.moods),
            ("weathers", config.weathers, 1, all.weathers),
            ("tools", config.tools, 2, all.tools),
        ] {
            if !(min..=max).contains(&found) {
                return Err(WorldError::Size { list, found, min, max });
            }
        }
        Ok(World { config })
    }

    /// Returns the name of the world, with the version of the grammar. Worlds with other stories or probabilities have other
    /// names.
    pub fn name(&self) -> String {
        let mut name = format!("micro-world-{VERSION}");
        let plain = WorldConfig { retold: false, ..self.config.clone() };
        name += if plain == WorldConfig::default() { "" } else { "-other-words" };
        name += if self.config.retold { "-retold" } else { "" };
        name
    }

    /// Returns the default world, or the one whose stories are repeated at their end.
    pub fn named(retold: bool) -> Self {
        World { config: WorldConfig { retold, ..WorldConfig::default() } }
    }

    /// Returns the numbers of words.
    pub fn config(&self) -> &WorldConfig {
        &self.config
    }

    /// Samples a story. The same generator state gives the same story on every machine.
    pub fn story(&self, rng: &mut impl Rng) -> Story {
        self.tell(choose::Sampler::new(rng))
    }

    /// Samples a story without slips. Its `log_prob` is the log-probability of the story among those without slips.
    pub fn careful_story(&self, rng: &mut impl Rng) -> Story {
        self.tell(choose::Sampler::careful(rng))
    }

    fn tell<R: Rng>(&self, mut sampler: choose::Sampler<'_, R>) -> Story {
        let facts = tell::tell(&self.config, &mut sampler).expect("only reading can fail");
        story(sampler.told, facts)
    }

    /// Samples `n` independent stories in sequence from one generator.
    pub fn corpus(&self, rng: &mut impl Rng, n: usize) -> Vec<Story> {
        (0..n).map(|_| self.story(rng)).collect()
    }

    /// Parses a story from its text, or from its lower-case words and marks separated by blanks.
    ///
    /// # Errors
    /// Returns an error with the first wrong position if the text is not one complete story of this world.
    pub fn read(&self, text: &str) -> Result<Story, WorldError> {
        let tokens = tokens::split(text)?;
        let mut reader = choose::Reader::new(&tokens);
        let facts = tell::tell(&self.config, &mut reader)?;
        Ok(story(reader.finish()?, facts))
    }

    /// Returns the exact length and entropy of the stories, computed by visiting every course.
    pub fn properties(&self) -> Properties {
        explore::explore(|c| tell::tell(&self.config, c).map(drop)).expect("only reading can fail")
    }

    /// Returns a few lines about the world for a report. The figures in bits per byte are estimated from 4,000 stories.
    pub fn describe(&self) -> String {
        let exact = self.properties();
        let sample = self.corpus(&mut Xoshiro256PlusPlus::seed_from_u64(0), 4000);
        let vocabulary: std::collections::BTreeSet<String> =
            sample.iter().filter_map(|story| tokens::split(&story.text).ok()).flatten().map(|token| token.word).collect();
        format!(
            "{}: stories of {:.1} words and marks on average and at most {}, from a vocabulary of {}.\n\
             Entropy {:.2} nats per story (exact), {:.3} nats per word or mark.\n\
             Sampled: {}.",
            self.name(),
            exact.mean_tokens,
            exact.max_tokens,
            vocabulary.len(),
            exact.entropy,
            exact.entropy / exact.mean_tokens,
            Measure::of(&sample),
        )
    }
}

fn story(choose::Written { writer, log_prob }: choose::Written, facts: Facts) -> Story {
    Story { text: writer.text, log_prob, tokens: writer.tokens, facts }
}

/// The limit of the loss on a set of stories, from their true probabilities.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Measure {
    /// The number of stories.
    pub stories: usize,
    /// Mean −ln p of a story, in nats.
    pub nats_per_story: f64,
    /// The standard error of `nats_per_story`.
    pub nats_per_story_error: f64,
    /// Σ −log₂ p / Σ bytes of text (no line ends).
    pub bits_per_byte: f64,
    /// The standard error of `bits_per_byte`, a ratio of means.
    pub bits_per_byte_error: f64,
}

impl Measure {
    /// Measures `stories`. Means are NaN without stories, and errors are NaN with fewer than two.
    pub fn of(stories: &[Story]) -> Self {
        let n = stories.len() as f64;
        let mean = |f: &dyn Fn(&Story) -> f64| stories.iter().map(f).sum::<f64>() / n;
        // The standard error of the mean of terms with zero mean.
        let error = |f: &dyn Fn(&Story) -> f64| (mean(&|s| f(s) * f(s)) / (n - 1.0)).sqrt();
        let bits = |s: &Story| -s.log_prob / std::f64::consts::LN_2;
        let nats = mean(&|s| -s.log_prob);
        let bytes = mean(&|s| s.text.len() as f64);
        let ratio = mean(&bits) / bytes;
        Measure {
            stories: stories.len(),
            nats_per_story: nats,
            nats_per_story_error: error(&|s| -s.log_prob - nats),
            bits_per_byte: ratio,
            bits_per_byte_error: error(&|s| bits(s) - ratio * s.text.len() as f64) / bytes,
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A single story has no standard error.
        let (bits, nats) = (self.bits_per_byte, self.nats_per_story);
        if self.stories == 1 {
            return write!(f, "{bits:.4} bits per byte, {nats:.2} nats in one story");
        }
        let (bits_error, nats_error) = (self.bits_per_byte_error, self.nats_per_story_error);
        write!(
            f,
            "{bits:.4} ± {bits_error:.4} bits per byte, {nats:.2} ± {nats_error:.2} nats per story ({} stories)",
            self.stories
        )
    }
}
