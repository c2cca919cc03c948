//! What studies over several seeds share: [`plan`], which is laid down before training; [`records`], the results that are kept; and
//! [`ruler`], which judges their [`Claim`]s.
//!
//! A study is a list of stages. Each is done once, and what it came to is kept in a file with a checksum; a study that was stopped goes on
//! with the first stage that has none.

mod claim;
mod error;
mod mean;
pub mod plan;
pub mod records;
pub mod ruler;

pub use claim::{Claim, Measured, Quote, pointing};
pub use error::StudyError;
pub use mean::Mean;
