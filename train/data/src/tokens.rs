//! Long sequences of token ids.

use std::ops::Range;

use crate::error::DataError;

/// A long sequence of token ids.
pub trait Tokens: Send + Sync {
    /// Returns the number of tokens.
    fn len(&self) -> usize;
    /// Returns whether there are no tokens.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Copies tokens `start..start + out.len()`, which must exist, into `out`.
    fn read(&self, start: usize, out: &mut [u32]);
    /// Returns the number of bytes of text in a range of tokens, for bits per byte.
    fn bytes(&self, range: Range<usize>) -> u64;
}

/// Tokens in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    ids: Vec<u32>,
    bytes: u64,
}

impl Memory {
    /// Creates a sequence from the ids of a text of `bytes` bytes.
    ///
    /// # Errors
    /// Returns an error if an id is outside the vocabulary ([`DataError::Id`]).
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

    /// Returns a share of the bytes in proportion to the number of tokens.
    fn bytes(&self, range: Range<usize>) -> u64 {
        let before = |i: usize| (u128::from(self.bytes) * i as u128 / self.ids.len().max(1) as u128) as u64;
        before(range.end) - before(range.start)
    }
}

/// Checks that all ids are in the vocabulary.
///
/// # Errors
/// Returns an error for the first id that is outside the vocabulary ([`DataError::Id`]).
pub(crate) fn check_ids(ids: &[u32], vocab_size: usize) -> Result<(), DataError> {
    match ids.iter().position(|&id| id as usize >= vocab_size) {
        Some(position) => Err(DataError::Id { id: ids[position], position, vocab_size }),
        None => Ok(()),
    }
}

/// Splits `tokens` tokens into the training part, the first ⌊(1 − `held_out`)·tokens⌋, and the held-out part, the rest.
/// `held_out` is a fraction; with 0, the held-out part is empty.
///
/// # Errors
/// Returns an error if the fraction is not from 0 to below 1 ([`DataError::HeldOut`]).
pub fn split(tokens: usize, held_out: f64) -> Result<(Range<usize>, Range<usize>), DataError> {
    if !(0.0..1.0).contains(&held_out) {
        return Err(DataError::HeldOut { held_out });
    }
    let cut = ((1.0 - held_out) * tokens as f64).floor() as usize;
    Ok((0..cut, cut..tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_is_the_end_of_the_corpus() {
        assert_eq!(split(1_115_394, 0.1).unwrap(), (0..1_003_854, 1_003_854..1_115_394)); // nanoGPT's split of Tiny Shakespeare
        assert_eq!(split(7, 0.0).unwrap(), (0..7, 7..7));
        assert_eq!(split(0, 0.5).unwrap(), (0..0, 0..0));
        for wrong in [1.0, -0.1, f64::NAN] {
            let DataError::HeldOut { held_out } = split(7, wrong).unwrap_err() else { panic!("{wrong}") };
            assert_eq!(held_out.to_bits(), wrong.to_bits());
        }
    }

    #[test]
    fn token_ids_outside_the_vocabulary_are_rejected() {
        let tokens = Memory::new(vec![0, 4, 2], 9, 5).unwrap();
        assert_eq!((tokens.bytes(0..3), tokens.bytes(1..3), tokens.bytes(1..1)), (9, 6, 0));
        assert!(!tokens.is_empty() && Memory::new(vec![], 0, 5).unwrap().is_empty());
        let error = Memory::new(vec![0, 5], 2, 5).unwrap_err();
        assert!(matches!(error, DataError::Id { id: 5, position: 1, vocab_size: 5 }), "{error}");
        assert!(error.to_string().contains("0 to 4"), "{error}");
    }
}
