//! GPT-1 and its relatives in one plane, in exact nats.
//!
//! ```text
//! U   understanding   mean over places of KL( world(xᵢ | the rest) ‖ model(xᵢ | the rest) )
//! G   generation      mean over places of KL( world(xᵢ | x₁ … xᵢ₋₁) ‖ model(xᵢ | x₁ … xᵢ₋₁) )
//! ```
//!
//! The world's probabilities are exact ([`gradus_world::World::places`]), so the origin is a perfect model, and a model's distance from it is what
//! it has not learnt. All distributions are over the world's words; what a model gives to other tokens is left out.
//!
//! A model that fills masks answers U in the format that it was trained on, one word hidden. To answer G it reads the words so far
//! and a `[MASK]` for each word up to the length of the longest story, of which the first is asked. A model that predicts the next
//! token answers G directly, and U by Bayes: by the probability of the whole story with each word of the world in that place, in
//! places that are drawn at random, the same for all models.

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

pub use answers::{Answers, Causal, Masked};
pub use counts::Window;
pub use error::SurveyError;
pub use lexicon::{Lexicon, LexiconError};
pub use measure::{Estimate, Generation, Understanding, by_word, divergences, generation, told, understanding};
pub use plan::{SEARCH_SEED, Survey};
pub use results::Asked;
pub use run::{Surveyed, begin, resume};
pub use story::{DISTANCES, Story, StoryPosition};
pub use subject::Subject;
