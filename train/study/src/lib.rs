//! Shared parts of studies over several seeds: [`plan`], fixed before training; [`records`], the stored results; and [`rule`],
//! which judges their [`Claim`]s.
//!
//! A study is a list of stages. Each runs once, and its result is stored in a file with a checksum. A resumed study continues
//! with the first stage that has no result.

mod claim;
mod error;
mod mean;
pub mod plan;
pub mod records;
pub mod rule;
mod stages;

pub use claim::{Claim, Measured, Quote, pointing};
pub use error::StudyError;
pub use mean::Mean;
pub use stages::Stages;
