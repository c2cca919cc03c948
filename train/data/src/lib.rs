//! Token corpora for language modelling: from text on disk to batches of ids.
//!
//! ```text
//! file or folder → TokenFile (cached, memory-mapped) → split → RandomWindows  for training
//!                                                            → Evaluation     sequential, every token once
//!                                                            → Chunks         consecutive, for views of whole texts
//! separate sequences                                         → Rows           one per row
//! ```
//!
//! Choices that the paper leaves open:
//!
//! - **Documents.** The files of a corpus are concatenated in the order of their paths. Windows cross file boundaries, so that
//!   the model sees every token with a full-length context.
//! - **Windows.** A window is T + 1 tokens: the first T are the inputs, the last T are the targets. Its start is uniformly
//!   distributed. No window crosses from the training part into the held-out part.
//! - **An epoch** draws as many predicted tokens as the training part has tokens. Since windows are random, an epoch does not
//!   show each token exactly once.
//! - **The held-out part** is the end of the corpus, not a random sample: random windows would overlap the training windows.

mod batch;
mod chunks;
mod error;
mod pieces;
mod rows;
pub mod sets;
mod token_file;
mod tokens;
mod windows;

pub use batch::TokenBatch;
pub use chunks::Chunks;
pub use error::DataError;
pub use pieces::pieces;
pub use rows::Rows;
pub use token_file::TokenFile;
pub use tokens::{Memory, Tokens, split};
pub use windows::{Evaluation, RandomWindows};
