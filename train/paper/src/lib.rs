//! The second half of the paper in miniature, in one command: world → pre-training → zero-shot → every task in every ablation →
//! layers transferred → a report beside the paper's tables.
//!
//! The tasks are the micro-world's, in the files of the original data sets, so everything between file and score is the code
//! that serves the real ones. [`Sizes`] has the sizes of the miniature. The paper's λ, form of the schedule and dropout
//! before the head are kept; rate, batch, number of epochs and warm-up (a tenth of the steps) suit a small model and few rows. The
//! LSTM has as many parameters as the Transformer, and its rates were chosen in the same way.
//!
//! Every stage is done once and its result kept in a file; a stopped reproduction continues with the first stage without one.

mod claims;
mod error;
mod opening;
mod paper;
mod plan;
mod report;
mod results;
mod run;
mod stage;
pub mod tasks;

pub use error::ReproduceError;
pub use plan::{RECIPE, Sizes};
pub use run::{Reproduction, begin, resume};
pub use stage::Watch;
