//! The second half of the paper in miniature, in one command: world → pre-training → zero-shot → fine-tuning on each task in each
//! ablation → transfer of layers → a report with the paper's tables.
//!
//! The tasks come from the micro-world, in the file formats of the original data sets, so the code from file to score also serves
//! the real ones. [`Sizes`] holds the sizes of the miniature. The paper's λ, form of the schedule and dropout before the head are
//! kept. The rate, batch size, number of epochs and warm-up (a tenth of the steps) suit a small model and few rows. The LSTM has
//! as many parameters as the Transformer, and its rates were chosen in the same way.
//!
//! Each stage runs once and writes its result to a file; a stopped reproduction continues with the first stage without a result.

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
