//! Token corpora for language modelling: from text on disk to batches of ids.
//!
//! ```text
//! file or folder → TokenFile (cached, memory-mapped) → split → RandomWindows  for training
//!                                                            → Evaluation     sequential, every token once
//!                                                            → Chunks         side by side, for views of whole texts
//! sequences of their own                                     → Rows           one per row
//! ```
//!
//! Decided here, where the paper is silent:
//!
//! - **Documents.** The files of a corpus follow one another, in the order of their paths, and windows cross from one into
//!   the next, so the model sees every token under full-length contexts.
//! - **Windows.** A window is T + 1 tokens: T inputs, and the same shifted by one as T targets. It is equally likely to begin
//!   at any token. No window crosses from the training part into the held-out part.
//! - **An epoch** is as many predicted tokens drawn as the training part has tokens; since windows are random, it does not
//!   show each token once.
//! - **Held out** is the end of the corpus, not a random choice: random windows would overlap what was trained on.

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
