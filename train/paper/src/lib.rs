//! The second half of the paper in miniature, in one command: world → pre-training → zero-shot → every task in every ablation →
//! layers transferred → a report beside the paper's tables.
//!
//! The tasks are the micro-world's, in the files of the original data sets, so everything between file and score is the code
//! that serves the real ones. Sizes of the miniature stand in [`plan::Sizes`]; the paper's λ, form of the schedule and dropout before the head
//! are kept; rate, batch, number of epochs and warm-up (a tenth of the updates) are those of a small model and few rows. The LSTM has as many parameters as the
//! Transformer, and rates that were sought in the same way.
//!
//! Every stage is done once and its result kept in a file; a reproduction that is stopped goes on with the first stage that has
//! none.

mod claims;
mod error;
pub mod paper;
pub mod plan;
mod report;
pub mod results;
mod run;
mod stage;
pub mod tasks;

pub use claims::Claim;
pub use error::ReproduceError;
pub use run::{Outcome, begin, resume};
pub use stage::Watch;
