//! GPT-1 and its relatives: a card for each system, with what it is, where that stands, and what tests hold it to.
//!
//! A system is a view of texts, a body that reads them, and what is asked. A card sets these axes; each of them is a flag of
//! `gradus pretrain` too. To add a system: a file with its card, and two lines here.

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

/// Those that a survey places, unless others are asked for.
pub const SURVEYED: [&Card; 4] = [&gpt::CARD, &lstm::CARD, &bert::CARD, &gpt2::CARD];

/// The name of counts of n-grams among bodies.
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

/// The body of a Transformer with these options.
pub const fn transformer(config: TransformerConfig) -> SystemBody {
    SystemBody::Network(BodyConfig::Transformer(config))
}

impl SystemBody {
    /// The network, if it is one.
    pub fn network(&self) -> Option<&BodyConfig> {
        match self {
            SystemBody::Network(body) => Some(body),
            SystemBody::Ngram { .. } => None,
        }
    }

    /// The length of the longest n-gram that is counted; `None` for a network.
    pub fn order(&self) -> Option<usize> {
        if let SystemBody::Ngram { order } = self { Some(*order) } else { None }
    }

    /// The name of the body: of the network, or `ngram`.
    pub fn name(&self) -> &'static str {
        self.network().map_or(NGRAM, BodyConfig::name)
    }

    /// The body in words.
    pub fn words(&self) -> &'static str {
        self.network().map_or("counts of n-grams", BodyConfig::words)
    }

    /// The bodies by their names, with their default options.
    fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let networks = BodyConfig::ALL.into_iter().map(|(name, body)| (name, SystemBody::Network(body)));
        networks.chain([(NGRAM, SystemBody::Ngram { order: 5 })])
    }

    /// The body of a name, with its default options.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|(own, _)| *own == name).map(|(_, body)| body)
    }

    /// All names of bodies, as words.
    pub fn names() -> String {
        in_words(Self::all().map(|(name, _)| name))
    }

    /// The Transformer's options, if it is one.
    pub fn transformer(&self) -> Option<&TransformerConfig> {
        self.network()?.transformer()
    }

    /// The number of segments with a vector each.
    pub fn segments(&self) -> usize {
        self.network().map_or(0, BodyConfig::segments)
    }
}

/// Calls a macro with the options of a pre-training that distinguish Transformers, each with the field that it sets.
macro_rules! transformer_axes {
    ($each:ident!($($given:tt)*)) => {
        $each!($($given)*; activation activation, epsilon layer_norm_epsilon, norm norm, final_norm final_norm,
            embedding_norm embedding_norm, segments segments, scaled_init scaled_init)
    };
}

pub(crate) use transformer_axes;

/// What distinguishes one system from another; sizes and rates do not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axes {
    /// Its body; sizes, dropouts, positions and the form of the embedding play no part.
    pub body: SystemBody,
    /// Whether its output has a layer before the matrix, and a bias per token.
    pub transform: bool,
    /// How it views texts.
    pub view: ViewPlan,
}

impl Axes {
    /// GPT-1's.
    pub const GPT: Axes = Axes { body: transformer(TransformerConfig::GPT1), transform: false, view: ViewPlan::Next };
}

/// What a system's probabilities of a text's tokens make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Density {
    /// The probability of the text: over all texts of one length they sum to 1.
    Joint,
    /// No probability: each token is predicted from all others, and the products do not sum to 1.
    Pseudo,
}

/// Something that the paper leaves open, and how it is settled here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settled {
    /// What is left open.
    pub what: &'static str,
    /// How it is here.
    pub here: &'static str,
    /// Where that is from.
    pub by: &'static str,
}

/// What a survey measures of a system, in nats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// How far its answers about a hidden word are from exact.
    Understanding,
    /// The same of words that were last said long ago.
    UnderstandingFar,
    /// How far its answers from the words before alone are from what is exact given all.
    UnderstandingLeftOnly,
    /// How far its answers about the next word are from exact.
    Generation,
}

/// A sentence of a paper, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the type says it")]
pub struct Sentence {
    pub section: &'static str,
    pub text: &'static str,
}

/// A claim that a system does better than another, which a survey judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Its name in a survey's plan.
    pub name: &'static str,
    /// The claim, as it is measured.
    pub statement: &'static str,
    /// The paper's sentence; `None`: no paper says it, and it is a question of ours.
    pub sentence: Option<Sentence>,
    /// The figure of this system, which the claim states to be smaller.
    pub figure: Figure,
    /// The figure of the other system.
    pub other_figure: Figure,
    /// The name of the other system.
    pub other: &'static str,
    /// Whether it is a primary claim of the survey.
    pub primary: bool,
}

/// A system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Card {
    /// What commands call it.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// The year of its paper.
    pub year: u16,
    /// What it learns, as a formula.
    pub equation: &'static str,
    /// The paper by section, and code.
    pub sources: &'static [&'static str],
    /// What those leave open.
    pub settled: &'static [Settled],
    /// What it is.
    pub axes: Axes,
    /// Drawn by hand: of the text `abcdef`, which tokens the answer about a token may depend on; tests hold the network to it.
    pub sight: &'static [(char, &'static str)],
    /// What its probabilities make together.
    pub density: Density,
    /// The names of systems that differ from it only in axes: with their flags set, it is exactly that system.
    pub relatives: &'static [&'static str],
    /// The model type that its runs are saved as, in their config.json: one of `transformers`, or Gradus's own.
    pub model_type: &'static str,
    /// The default settings for training on the micro-world; `None`: those of the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stories: Option<Stories>,
    /// What its paper claims of it.
    pub claims: &'static [&'static str],
    /// What of that a survey judges.
    pub compared: &'static [Comparison],
}

/// Settings with which a system learns the micro-world in minutes, if those of its card do not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stories {
    /// A config file, as a path in the repository.
    pub file: &'static str,
    /// Its text.
    #[serde(skip)]
    pub config: &'static str,
    /// The number of steps, instead of the file's.
    pub steps: u64,
}

/// The system of a name.
pub fn named(name: &str) -> Option<&'static Card> {
    ALL.iter().copied().find(|card| card.name == name)
}

/// All names, as words: `gpt, lstm or bert`.
pub fn names() -> String {
    in_words(ALL.iter().map(|card| card.name))
}

/// Joins names as alternatives.
fn in_words(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<&str> = names.collect();
    let (last, others) = names.split_last().expect("one at least");
    format!("{} or {last}", others.join(", "))
}

/// The system that these axes are exactly, where there is one.
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
