//! The micro-world: short English stories whose exact probability is known.
//!
//! A story is told by an unambiguous probabilistic grammar with memory: who the two friends are, what is longed for, where it
//! is, who took which tool, … are decided early and come back, or have consequences, several sentences later. A language model
//! that reads far enough can know these words; one with a short memory must guess them. Since −log p of each story is known, a
//! model's loss can be compared with the smallest possible one, its *limit*.
//!
//! Stories also teach what the paper's tasks ask for: a mood that says with noise how it went (*very positive*), remarks,
//! questions and answers, names repeated where people would use a pronoun. And the teller makes slips of the tongue and mends
//! them (*took his, no, her rope*): to expect the *no*, a reader must notice what does not fit. The paper in miniature
//! (`train/paper`) makes these tasks. In a world of another name, each story is told again at its end, in other words and sometimes
//! wrongly ([`WorldConfig::retold`]).
//!
//! The world is frozen: a test pins its stories and their probabilities, and what changes them is another [`VERSION`], which
//! [`World::name`] and the records of runs name.
//!
//! The grammar is written once (in `tell.rs` and `recall.rs`) and used in three ways: to tell stories by chance, to read a text
//! back and find its probability, or that of each word in its place, and to visit all courses for exact properties.

mod choose;
mod cloze;
mod error;
mod explore;
mod facts;
mod recall;
mod tell;
mod tokens;
pub mod words;
mod world;

#[cfg(test)]
mod tests;

pub use cloze::{Place, Possible};
pub use error::WorldError;
pub use explore::Properties;
pub use facts::{Character, Facts, Mood, Price, Reason, Who};
pub use words::{Gender, WorldConfig};
pub use world::{Measure, Story, VERSION, World};
