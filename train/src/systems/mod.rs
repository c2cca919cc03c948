//! GPT-1 and its relatives: a card for each system, with its definition, its sources and a picture that tests check.
//!
//! A system combines a view of texts, a body that reads them, and an output. A card sets these axes; each of them is also a flag
//! of `gradus pretrain`. To add a system, write a file with its card and name it twice here.

mod bert;
mod gpt;
mod gpt2;
mod kneser_ney;
mod lstm;
mod page;
mod roberta;

use gradus_model::{BodyConfig, TransformerConfig};
use serde::Serialize;

use crate::views::ViewPlan;

pub use page::page;

/// All systems, in the order of their years.
pub const ALL: &[&Card] = &[&kneser_ney::CARD, &gpt::CARD, &lstm::CARD, &bert::CARD, &gpt2::CARD, &roberta::CARD];

/// The system that is trained unless another is named.
pub const DEFAULT: &Card = &gpt::CARD;

/// The systems that a survey includes by default.
pub const SURVEYED: [&Card; 4] = [&gpt::CARD, &lstm::CARD, &bert::CARD, &gpt2::CARD];

/// The body name of n-gram counts.
const NGRAM: &str = "ngram";

/// The predictor of a system's tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SystemBody {
    /// A network, which is trained.
    Network(BodyConfig),
    /// Counts of n-grams of at most `order` tokens ([`KneserNey`](gradus_model::KneserNey)).
    Ngram {
        /// The length of the longest n-gram.
        order: usize,
    },
}

/// Returns the body of a Transformer with these options.
pub const fn transformer(config: TransformerConfig) -> SystemBody {
    SystemBody::Network(BodyConfig::Transformer(config))
}

impl SystemBody {
    /// Returns the network's configuration; `None` for counts of n-grams.
    pub fn network(&self) -> Option<&BodyConfig> {
        match self {
            SystemBody::Network(body) => Some(body),
            SystemBody::Ngram { .. } => None,
        }
    }

    /// Returns the length of the longest n-gram that is counted; `None` for a network.
    pub fn order(&self) -> Option<usize> {
        if let SystemBody::Ngram { order } = self { Some(*order) } else { None }
    }

    /// Returns the name of the network's family, or `ngram`.
    pub fn name(&self) -> &'static str {
        self.network().map_or(NGRAM, BodyConfig::name)
    }

    /// Returns a description of the body.
    pub fn words(&self) -> &'static str {
        self.network().map_or("counts of n-grams", BodyConfig::words)
    }

    /// Returns the bodies by name, with their default options.
    fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let networks = BodyConfig::ALL.into_iter().map(|(name, body)| (name, SystemBody::Network(body)));
        networks.chain([(NGRAM, SystemBody::Ngram { order: 5 })])
    }

    /// Returns the body of this name, with its default options.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|(own, _)| *own == name).map(|(_, body)| body)
    }

    /// Returns the names of all bodies as alternatives: `transformer, lstm or ngram`.
    pub fn names() -> String {
        in_words(Self::all().map(|(name, _)| name))
    }

    /// Returns the options of a Transformer; `None` for any other body.
    pub fn transformer(&self) -> Option<&TransformerConfig> {
        self.network()?.transformer()
    }

    /// Returns the number of segments with a vector each.
    pub fn segments(&self) -> usize {
        self.network().map_or(0, BodyConfig::segments)
    }
}

/// Calls a macro with the pre-training options that distinguish Transformers, each with the field that it sets.
macro_rules! transformer_axes {
    ($each:ident!($($given:tt)*)) => {
        $each!($($given)*; activation activation, epsilon layer_norm_epsilon, norm norm, final_norm final_norm,
            embedding_norm embedding_norm, segments segments, scaled_init scaled_init)
    };
}

pub(crate) use transformer_axes;

/// The properties that distinguish one system from another; sizes and rates do not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axes {
    /// The body; sizes, dropouts, positions and the form of the embedding are not compared.
    pub body: SystemBody,
    /// Whether the output has a layer before its matrix, and a bias per token.
    pub transform: bool,
    /// The view of texts.
    pub view: ViewPlan,
}

impl Axes {
    /// The axes of GPT-1.
    pub const GPT: Axes = Axes { body: transformer(TransformerConfig::GPT1), transform: false, view: ViewPlan::Next };
}

/// The meaning of the product of a system's token probabilities over a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Density {
    /// The probability of the text: over all texts of one length they sum to 1.
    Joint,
    /// No probability: each token is predicted from all others, and the products do not sum to 1.
    Pseudo,
}

/// A detail that the paper leaves open, and the decision taken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settled {
    /// The detail that is left open.
    pub what: &'static str,
    /// The decision.
    pub here: &'static str,
    /// The source of the decision.
    pub by: &'static str,
}

/// A measure that a survey takes of a system: a mean KL(micro-world ‖ model), in nats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// U: of a masked word, given all other words.
    Understanding,
    /// U of words that were last mentioned at least 20 words ago.
    UnderstandingFar,
    /// KL(micro-world given all other words ‖ model given the preceding words).
    UnderstandingLeftOnly,
    /// G: of the next word, given the preceding words.
    Generation,
}

/// A sentence of a paper, and its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the type says it")]
pub struct Sentence {
    pub section: &'static str,
    pub text: &'static str,
}

/// A claim that one system is better than another, which a survey tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The name in a survey's plan.
    pub name: &'static str,
    /// The claim in terms of the measure.
    pub statement: &'static str,
    /// The sentence of the paper that makes the claim; `None` if no paper makes it.
    pub sentence: Option<Sentence>,
    /// The figure of this system; the claim states that it is the smaller one.
    pub figure: Figure,
    /// The figure of the other system.
    pub other_figure: Figure,
    /// The name of the other system.
    pub other: &'static str,
    /// Whether the claim is a primary claim of the survey.
    pub primary: bool,
}

/// The definition of a system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Card {
    /// The name in commands.
    pub name: &'static str,
    /// The usual name.
    pub title: &'static str,
    /// The year of its paper.
    pub year: u16,
    /// The objective, as a formula.
    pub equation: &'static str,
    /// The sections of the paper, and code.
    pub sources: &'static [&'static str],
    /// The details that the sources leave open.
    pub settled: &'static [Settled],
    /// The axes.
    pub axes: Axes,
    /// The tokens of the text `abcdef` that each prediction may depend on, drawn by hand; tests compare the network with them.
    pub sight: &'static [(char, &'static str)],
    /// The meaning of the product of its token probabilities.
    pub density: Density,
    /// The names of systems that differ only in axes: setting their flags gives exactly these systems.
    pub relatives: &'static [&'static str],
    /// The model type in the config.json of its runs: one of `transformers`, or Gradus's own.
    pub model_type: &'static str,
    /// The default settings for training on the micro-world; `None`: those of the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stories: Option<Stories>,
    /// The claims of the paper about the system.
    pub claims: &'static [&'static str],
    /// The comparisons with other systems that a survey makes.
    pub compared: &'static [Comparison],
}

/// The settings with which a system learns the micro-world in minutes, where those of its card do not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stories {
    /// The config file, as a path in the repository.
    pub file: &'static str,
    /// The contents of that file.
    #[serde(skip)]
    pub config: &'static str,
    /// The number of steps, which replaces the file's.
    pub steps: u64,
}

/// Returns the system of this name.
pub fn named(name: &str) -> Option<&'static Card> {
    ALL.iter().copied().find(|card| card.name == name)
}

/// Returns all names as alternatives: `gpt, lstm or bert`.
pub fn names() -> String {
    in_words(ALL.iter().map(|card| card.name))
}

/// Joins names as alternatives.
fn in_words(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<&str> = names.collect();
    let (last, others) = names.split_last().expect("one at least");
    format!("{} or {last}", others.join(", "))
}

/// Returns the system with exactly these axes, if there is one.
pub fn of(axes: &Axes) -> Option<&'static Card> {
    ALL.iter().copied().find(|card| card.axes == *axes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_have_distinct_names_and_axes() {
        for (i, card) in ALL.iter().enumerate() {
            assert_eq!(named(card.name), Some(*card));
            assert_eq!(of(&card.axes), Some(*card), "its axes are its own");
            assert!(ALL[..i].iter().all(|other| other.year <= card.year), "in the order of years");
        }
        assert_eq!(named("GPT"), None);
        let (first, last) = (ALL[0].name, ALL[ALL.len() - 1].name);
        assert!(names().starts_with(&format!("{first}, ")) && names().ends_with(&format!(" or {last}")), "{}", names());
    }
}
