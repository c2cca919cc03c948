//! A corpus cut into chunks that are processed as separate texts.

use std::ops::Range;
use std::sync::Arc;

use gradus_tensor::rng::Philox;

use crate::error::{DataError, FEW};
use crate::tokens::Tokens;

/// The constant that separates this generator from others with the same seed ("chunks" in ASCII).
const DOMAIN: u64 = 0x6368_756E_6B73;

/// A range of tokens, cut into consecutive chunks of equal length; the last may be shorter.
#[derive(Clone)]
pub struct Chunks {
    tokens: Arc<dyn Tokens>,
    range: Range<usize>,
    length: usize,
    seed: u64,
}

impl Chunks {
    /// Creates chunks of `length` tokens.
    ///
    /// # Errors
    /// Returns an error if the range has no tokens ([`DataError::TooShort`]) or if `length` is 0 ([`DataError::NoContext`]).
    ///
    /// # Panics
    /// Panics if the range is outside the tokens.
    pub fn new(tokens: Arc<dyn Tokens>, range: Range<usize>, length: usize, seed: u64) -> Result<Self, DataError> {
        assert!(range.end <= tokens.len(), "chunks of tokens {range:?} of {}", tokens.len());
        if length == 0 {
            return Err(DataError::NoContext);
        }
        if range.is_empty() {
            let remedy = FEW.to_owned();
            return Err(DataError::TooShort { part: "training part", tokens: 0, needed: 1, remedy });
        }
        Ok(Chunks { tokens, range, length, seed })
    }

    /// Returns the number of chunks.
    pub fn count(&self) -> usize {
        self.range.len().div_ceil(self.length)
    }

    /// Returns the tokens of one chunk.
    pub fn read(&self, number: usize) -> Vec<u32> {
        let start = self.range.start + number * self.length;
        let mut tokens = vec![0; self.length.min(self.range.end - start)];
        self.tokens.read(start, &mut tokens);
        tokens
    }

    /// Returns the chunk drawn for row `row` of step `t`, uniformly over all chunks. It depends only on the seed, `t` and `row`.
    pub fn drawn(&self, t: u64, row: usize) -> usize {
        let mut rng = Philox::with_stream(self.seed ^ DOMAIN, t);
        rng.set_position(4 * row as u64); // one Philox block per row
        rng.below(self.count() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Memory;

    fn count(n: usize) -> Arc<dyn Tokens> {
        Arc::new(Memory::new((0..n as u32).collect(), n as u64, n).unwrap())
    }

    #[test]
    fn every_token_of_the_range_is_in_one_chunk() {
        let chunks = Chunks::new(count(100), 20..61, 8, 7).unwrap();
        assert_eq!(chunks.count(), 6);
        let all: Vec<u32> = (0..6).flat_map(|number| chunks.read(number)).collect();
        assert!(all.into_iter().eq(20..61));
        assert_eq!(chunks.read(5), [60]);
    }

    /// Each chunk is expected 400 times in 2,400 draws, σ = 18.
    #[test]
    fn each_chunk_is_drawn_equally_often() {
        let chunks = Chunks::new(count(100), 20..61, 8, 7).unwrap();
        let mut drawn = [0; 6];
        (1..=600).for_each(|t| (0..4).for_each(|row| drawn[chunks.drawn(t, row)] += 1));
        assert!(drawn.iter().all(|n| (320..480).contains(n)), "{drawn:?}");
        assert_eq!(chunks.drawn(3, 2), chunks.clone().drawn(3, 2), "a function of step and row");
    }

    #[test]
    fn each_seed_draws_other_chunks() {
        let draws = |seed| {
            let chunks = Chunks::new(count(100), 20..61, 8, seed).unwrap();
            (0..40).map(|row| chunks.drawn(1, row)).collect::<Vec<_>>()
        };
        let all: std::collections::BTreeSet<_> = (0..8).map(draws).collect();
        assert_eq!(all.len(), 8);
    }

    #[test]
    fn each_row_uses_its_own_block_of_random_numbers() {
        let chunks = Chunks::new(count(1000), 0..1000, 1, 7).unwrap();
        let mut rng = Philox::with_stream(7 ^ DOMAIN, 3);
        for row in 0..5 {
            let draws: Vec<u64> = (0..2).map(|_| rng.below(1000)).collect();
            assert_eq!(chunks.drawn(3, row) as u64, draws[0], "row {row}");
        }
    }

    #[test]
    fn empty_ranges_and_lengths_are_errors() {
        let error = |range, length| Chunks::new(count(9), range, length, 1).err().unwrap();
        assert!(matches!(error(3..3, 4), DataError::TooShort { tokens: 0, needed: 1, .. }));
        assert!(matches!(error(0..3, 0), DataError::NoContext));
    }
}
