//! The results of the stages.

use gradus_train::systems::Figure;
use serde::{Deserialize, Serialize};

use crate::measure::{Estimate, Generation, Understanding, number};
use crate::story::DISTANCES;

/// A trained system.
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
    /// The number of floating-point operations of a step.
    pub flops: f64,
    /// The planned number of floating-point operations of the whole training.
    pub work: f64,
    /// The loss on held-out stories, in nats per predicted token; NaN if the training diverged.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
    pub seconds: f64,
}

/// The rates of a system's search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Searched {
    pub system: String,
    pub world: String,
    pub budget: u64,
    /// The runs in the order in which they were tried.
    pub tried: Vec<Trained>,
}

/// The evaluation of a system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The name of the system.
    pub system: String,
    /// The name of the world, with its version.
    pub world: String,
    /// The seed of the stories and the parameters.
    pub seed: u64,
    /// The computation of the training, in steps of GPT.
    pub budget: u64,
    /// The measures given all other words, at the same positions for all systems; without figures if the training diverged.
    pub understanding: Understanding,
    /// The measures given all other words, at every position; `None` unless the system is a masked language model.
    pub everywhere: Option<Understanding>,
    /// The measures given the preceding words.
    pub generation: Generation,
    /// The number of stories of the world among the generated stories, and the number of generated stories.
    pub told: (usize, usize),
    /// The duration of the evaluation, in seconds.
    pub seconds: f64,
}

impl Asked {
    /// Returns a figure, in nats.
    pub fn figure(&self, figure: Figure) -> &Estimate {
        match figure {
            Figure::Understanding => &self.understanding.given_all,
            Figure::UnderstandingFar => &self.understanding.by_distance[DISTANCES.len()],
            Figure::UnderstandingLeftOnly => &self.generation.left_only,
            Figure::Generation => &self.generation.before,
        }
    }
}

/// The measures of the counts of neighbours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    pub world: String,
    pub seed: u64,
    /// The measures by reach: no neighbours, one word on each side, two.
    pub by_reach: Vec<Understanding>,
}

/// All results of a survey.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The searches for rates.
    pub searched: Vec<Searched>,
    pub trained: Vec<Trained>,
    pub asked: Vec<Asked>,
    pub counted: Vec<Counted>,
}

impl Results {
    /// Returns a system's results, seed by seed.
    pub fn of<'r>(&'r self, system: &'r str, budget: u64) -> impl Iterator<Item = &'r Asked> {
        self.asked.iter().filter(move |asked| asked.system == system && asked.budget == budget)
    }

    /// Returns one system's results for each seed at this budget. Any system serves, since only properties of the stories are
    /// read.
    pub fn of_stories(&self, budget: u64) -> impl Iterator<Item = &Asked> {
        let is_asked = move |asked: &&Asked| asked.budget == budget && asked.generation.least_left_only.mean.is_finite();
        let mut seeds = std::collections::BTreeSet::new();
        self.asked.iter().filter(is_asked).filter(move |asked| seeds.insert(asked.seed))
    }

    /// Returns the search for a system's rate.
    pub fn searched(&self, system: &str, budget: u64) -> Option<&Searched> {
        self.searched.iter().find(|it| it.system == system && it.budget == budget)
    }

    /// Returns the difference of two figures, for each seed that has both.
    pub fn differences(&self, budget: u64, more: (&str, Figure), less: (&str, Figure)) -> Vec<f64> {
        let pair = |a: &Asked| {
            let other = self.of(less.0, budget).find(|b| b.seed == a.seed)?;
            Some(a.figure(more.1).mean - other.figure(less.1).mean).filter(|d| d.is_finite())
        };
        self.of(more.0, budget).filter_map(pair).collect()
    }
}
