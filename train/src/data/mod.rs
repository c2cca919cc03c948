//! Token corpora for language modelling: from text on disk to batches of ids.
//!
//! ```text
//! file or folder → TokenFile (cached, memory-mapped) → split → Windows     random, for training
//!                                                            → Evaluation  sequential, every token once
//! sequences of their own                                     → Rows        one a row
//! ```
//!
//! Decided here, where the paper is silent:
//!
//! - **Documents.** The files of a corpus follow one another, in the order of their paths, and windows cross from one into
//!   the next, so the model sees every token under full-length contexts. A separator may be put before each.
//! - **Windows.** A window is T + 1 tokens: T inputs, and the same shifted by one as T targets. It begins at any token with
//!   equal chance. No window crosses from the training part into the held-out part.
//! - **An epoch** is as many predicted tokens drawn as the training part has tokens; since windows are random, it does not
//!   show each token once.
//! - **Held out** is the end of the corpus, not a random choice: random windows would overlap what was trained on.

mod error;
mod pieces;
mod rows;
pub mod sets;
mod token_file;
mod windows;

use std::ops::Range;

use gradus_text::{TextError, Tokenizer};

pub use error::DataError;
pub use rows::Rows;
pub use token_file::{Phase, Progress, TokenFile};
pub use windows::{Evaluation, Windows};

/// What a token corpus asks of a tokenizer.
pub trait Encode: Sync {
    /// Why a text could not be encoded.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Changes whenever the ids of some text would.
    fn fingerprint(&self) -> String;
    /// Number of ids, 0 to this less one.
    fn vocab_size(&self) -> usize;
    /// The ids of a text. Cutting a text after white space must not change them, so that pieces can be encoded in parallel.
    ///
    /// # Errors
    /// Where some text has no ids.
    fn encode(&self, text: &str) -> Result<Vec<u32>, Self::Error>;
}

impl Encode for Tokenizer {
    type Error = TextError;

    fn fingerprint(&self) -> String {
        self.fingerprint()
    }

    fn vocab_size(&self) -> usize {
        self.vocab_size()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        self.encode(text)
    }
}

/// A long row of token ids.
pub trait Tokens: Send + Sync {
    /// Number of tokens.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Copies tokens `start..start + out.len()`, which must exist.
    fn read(&self, start: usize, out: &mut [u32]);
    /// Bytes of text behind a range of tokens, for bits per byte.
    fn bytes(&self, range: Range<usize>) -> u64;
}

/// Tokens in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    ids: Vec<u32>,
    bytes: u64,
}

impl Memory {
    /// The ids of a text of `bytes` bytes.
    ///
    /// # Errors
    /// [`DataError::Id`] for an id outside the vocabulary.
    pub fn new(ids: Vec<u32>, bytes: u64, vocab_size: usize) -> Result<Self, DataError> {
        check_ids(&ids, vocab_size)?;
        Ok(Memory { ids, bytes })
    }
}

impl Tokens for Memory {
    fn len(&self) -> usize {
        self.ids.len()
    }

    fn read(&self, start: usize, out: &mut [u32]) {
        out.copy_from_slice(&self.ids[start..start + out.len()]);
    }

    /// In proportion to the tokens.
    fn bytes(&self, range: Range<usize>) -> u64 {
        let before = |i: usize| (u128::from(self.bytes) * i as u128 / self.ids.len().max(1) as u128) as u64;
        before(range.end) - before(range.start)
    }
}

/// # Errors
/// [`DataError::Id`] for the first id outside the vocabulary.
pub fn check_ids(ids: &[u32], vocab_size: usize) -> Result<(), DataError> {
    match ids.iter().position(|&id| id as usize >= vocab_size) {
        Some(position) => Err(DataError::Id { id: ids[position], position, vocab_size }),
        None => Ok(()),
    }
}

/// Cuts `tokens` tokens into the training part and the held-out part, the last `held_out` of them (a share, 0 for none):
/// the training part is the first ⌊(1 − `held_out`)·tokens⌋.
///
/// # Errors
/// [`DataError::HeldOut`] for a share that is not in 0 to below 1.
pub fn split(tokens: usize, held_out: f64) -> Result<(Range<usize>, Range<usize>), DataError> {
    if !(0.0..1.0).contains(&held_out) {
        return Err(DataError::HeldOut { held_out });
    }
    let cut = ((1.0 - held_out) * tokens as f64).floor() as usize;
    Ok((0..cut, cut..tokens))
}

/// Sequences of ids with what they should predict, (rows, length), row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Number of sequences.
    pub rows: usize,
    /// Positions of each.
    pub length: usize,
    /// What the model reads; 0 where a row is padded, at its end.
    pub inputs: Vec<u32>,
    /// What it should predict at each position; 0 where the weight is.
    pub targets: Vec<u32>,
    /// 1 where the prediction counts; 0 on padding and on tokens that another row predicts.
    pub weights: Vec<f32>,
}

impl Batch {
    fn empty(rows: usize, length: usize) -> Self {
        let n = rows * length;
        Batch { rows, length, inputs: vec![0; n], targets: vec![0; n], weights: vec![0.0; n] }
    }

    /// Windows of one length, T + 1 tokens each: T inputs, and the same shifted by one as targets.
    pub fn of_windows(windows: &[&[u32]]) -> Self {
        let length = windows.first().map_or(0, |w| w.len() - 1);
        let mut batch = Batch::empty(windows.len(), length);
        windows.iter().enumerate().for_each(|(row, window)| batch.fill(row, window, 0));
        batch
    }

    /// Predictions that count.
    pub fn predicted(&self) -> usize {
        self.weights.iter().filter(|&&w| w != 0.0).count()
    }

    /// Writes a row: `window` is one token longer than what it predicts, and its predictions count from `first` on.
    fn fill(&mut self, row: usize, window: &[u32], first: usize) {
        let (at, n) = (row * self.length, window.len() - 1);
        self.inputs[at..at + n].copy_from_slice(&window[..n]);
        self.targets[at + first..at + n].copy_from_slice(&window[1 + first..]);
        self.weights[at + first..at + n].fill(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_is_the_end_of_the_corpus() {
        assert_eq!(split(1_115_394, 0.1).unwrap(), (0..1_003_854, 1_003_854..1_115_394)); // nanoGPT's, on Tiny Shakespeare
        assert_eq!(split(7, 0.0).unwrap(), (0..7, 7..7));
        assert_eq!(split(0, 0.5).unwrap(), (0..0, 0..0));
        for wrong in [1.0, -0.1, f64::NAN] {
            assert!(split(7, wrong).unwrap_err().to_string().contains("held-out"));
        }
    }

    #[test]
    fn memory_checks_its_ids() {
        let tokens = Memory::new(vec![0, 4, 2], 9, 5).unwrap();
        assert_eq!((tokens.bytes(0..3), tokens.bytes(1..3), tokens.bytes(1..1)), (9, 6, 0));
        let error = Memory::new(vec![0, 5], 2, 5).unwrap_err().to_string();
        assert!(error.contains("id 5 at position 1") && error.contains("0 to 4"), "{error}");
    }
}
