//! GPT-1 and its relatives in one plane, in exact nats.
//!
//! ```text
//! U   understanding   mean over positions of KL( world(xᵢ | the rest) ‖ model(xᵢ | the rest) )
//! G   generation      mean over positions of KL( world(xᵢ | x₁ … xᵢ₋₁) ‖ model(xᵢ | x₁ … xᵢ₋₁) )
//! ```
//!
//! The world's probabilities are exact ([`gradus_world::World::places`]), so the origin is a perfect model, and a model's
//! distance from the origin measures what it has not learnt. All distributions are over the world's words; the probability that a
//! model gives to other tokens is left out.
//!
//! A model that fills masks computes U in its training format, with one word hidden. For G, it reads the words so far and a
//! `[MASK]` for each further word up to the length of the longest story, and predicts the first mask. A model that predicts the
//! next token computes G directly, and U by Bayes' rule: from the probability of the whole story with each word of the world in
//! the masked position. The positions of U are drawn at random and are identical for all models.

mod answers;
mod claims;
mod counts;
mod error;
mod level;
mod lexicon;
mod measure;
mod plan;
mod report;
mod results;
mod run;
mod search;
mod stage;
mod story;
mod subject;

pub use answers::WordAnswers;
pub use counts::Window;
pub use error::SurveyError;
pub use lexicon::{Lexicon, LexiconError};
pub use measure::{Estimate, Generation, Understanding, by_word, divergences, generation, told, understanding};
pub use plan::{SEARCH_SEED, Survey};
pub use results::Asked;
pub use run::{Surveyed, begin, resume};
pub use story::{DISTANCES, Story, StoryPosition};
pub use subject::Subject;
