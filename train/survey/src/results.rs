//! What the stages came to.

use gradus_train::systems::Figure;
use serde::{Deserialize, Serialize};

use crate::measure::{Estimate, Generation, Understanding, number};
use crate::story::DISTANCES;

/// A system that was trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trained {
    pub system: String,
    pub world: String,
    pub seed: u64,
    pub budget: u64,
    pub lr: f64,
    pub parameters: usize,
    pub steps: u64,
    /// Of a step, in floating-point operations.
    pub flops: f64,
    /// Of the whole training, as they were to be.
    pub work: f64,
    /// On held-out stories, in nats per token asked; NaN: it diverged.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
    pub seconds: f64,
}

/// The rates that a system was trained at, to choose among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Searched {
    pub system: String,
    pub world: String,
    pub budget: u64,
    /// In the order in which they were tried.
    pub tried: Vec<Trained>,
}

/// What it was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Its name.
    pub system: String,
    /// The world's, with its version.
    pub world: String,
    /// Of its stories and its parameters.
    pub seed: u64,
    /// What its training computed, in steps of GPT.
    pub budget: u64,
    /// How well it knows words: in places that are the same for all systems. Without figures where its training diverged.
    pub understanding: Understanding,
    /// The same in all places, where it answers in a pass.
    pub everywhere: Option<Understanding>,
    /// How well it goes on.
    pub generation: Generation,
    /// Stories of the world among those that it told, and how many these were.
    pub told: (usize, usize),
    /// How long all this took.
    pub seconds: f64,
}

impl Asked {
    /// A figure, in nats.
    pub fn figure(&self, figure: Figure) -> &Estimate {
        match figure {
            Figure::Understanding => &self.understanding.given_all,
            Figure::UnderstandingFar => &self.understanding.by_distance[DISTANCES.len()],
            Figure::UnderstandingLeftOnly => &self.generation.left_only,
            Figure::Generation => &self.generation.before,
        }
    }
}

/// What counts tell of a word, from its neighbours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    pub world: String,
    pub seed: u64,
    /// By reach: none, one word on each side, two.
    pub by_reach: Vec<Understanding>,
}

/// All results of a survey.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// What rates were chosen by.
    pub searched: Vec<Searched>,
    pub trained: Vec<Trained>,
    pub asked: Vec<Asked>,
    pub counted: Vec<Counted>,
}

impl Results {
    /// A system's answers, seed by seed.
    pub fn of<'r>(&'r self, system: &'r str, budget: u64) -> impl Iterator<Item = &'r Asked> {
        self.asked.iter().filter(move |asked| asked.system == system && asked.budget == budget)
    }

    /// Of each seed one system's answers after this budget, whichever was asked: what they say of the stories holds of all.
    pub fn of_stories(&self, budget: u64) -> impl Iterator<Item = &Asked> {
        let is_asked = move |asked: &&Asked| asked.budget == budget && asked.generation.least_left_only.mean.is_finite();
        let mut seeds = std::collections::BTreeSet::new();
        self.asked.iter().filter(is_asked).filter(move |asked| seeds.insert(asked.seed))
    }

    /// What a system's rate was chosen by.
    pub fn searched(&self, system: &str, budget: u64) -> Option<&Searched> {
        self.searched.iter().find(|it| it.system == system && it.budget == budget)
    }

    /// The difference of two figures, seed by seed; none where either is missing.
    pub fn differences(&self, budget: u64, more: (&str, Figure), less: (&str, Figure)) -> Vec<f64> {
        let pair = |a: &Asked| {
            let other = self.of(less.0, budget).find(|b| b.seed == a.seed)?;
            Some(a.figure(more.1).mean - other.figure(less.1).mean).filter(|d| d.is_finite())
        };
        self.of(more.0, budget).filter_map(pair).collect()
    }
}
