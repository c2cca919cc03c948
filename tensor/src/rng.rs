//! Counter-based random draws: Philox 4×32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC11).
//!
//! ```text
//! A block of four words is a pure function of a counter (4 words) and a key (2 words); a round is
//!     (c₀, c₁, c₂, c₃) ← (hi(M₁·c₂) ⊕ c₁ ⊕ k₀,  lo(M₁·c₂),  hi(M₀·c₀) ⊕ c₃ ⊕ k₁,  lo(M₀·c₀))
//! and the key grows by (W₀, W₁) between the ten rounds.
//! ```
//!
//! No state is carried from one block to the next, so any thread can draw any number, and a stream resumes from its position
//! alone. Normals use the `libm` crate instead of the platform's library, so the bits are the same on every platform.

use std::convert::Infallible;

use rand::TryRng;
use rayon::prelude::*;

use crate::Scalar;

const M: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const W: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Returns one block: four random words from a counter and a key.
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    philox_wide(counter.map(u64::from), key).map(|word| word as u32)
}

/// Computes [`philox`] with each word in the low half of a `u64` and arbitrary bits in the high half. A product of two low halves
/// then fills one lane of a vector, and a loop over counters vectorises.
#[inline(always)]
pub(crate) fn philox_wide(mut c: [u64; 4], mut key: [u32; 2]) -> [u64; 4] {
    const LOW: u64 = 0xFFFF_FFFF;
    for _ in 0..10 {
        let (p0, p1) = (u64::from(M[0]) * (c[0] & LOW), u64::from(M[1]) * (c[2] & LOW));
        c = [(p1 >> 32) ^ c[1] ^ u64::from(key[0]), p1, (p0 >> 32) ^ c[3] ^ u64::from(key[1]), p0];
        key = [key[0].wrapping_add(W[0]), key[1].wrapping_add(W[1])];
    }
    c
}

/// A stream of random numbers. Its whole state is its seed, its stream number and its position.
///
/// Word `p` of the stream is word `p mod 4` of the block with counter (⌊p/4⌋, stream). The stream implements `rand`'s traits, so
/// `rand`'s distributions apply, but only the methods defined here have portable bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Philox {
    seed: u64,
    stream: u64,
    position: u64,
    block: [u32; 4],
}

impl Philox {
    /// Returns stream 0 of a seed, at its start.
    pub fn new(seed: u64) -> Self {
        Self::with_stream(seed, 0)
    }

    /// Returns one of the 2⁶⁴ independent streams of a seed, at its start.
    pub fn with_stream(seed: u64, stream: u64) -> Self {
        Philox { seed, stream, position: 0, block: block_at(seed, stream, 0) }
    }

    /// Returns the number of words drawn so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Continues as if `position` words had been drawn.
    pub fn set_position(&mut self, position: u64) {
        self.position = position;
        self.block = block_at(self.seed, self.stream, position / 4);
    }

    /// Returns the next word.
    pub fn word(&mut self) -> u32 {
        let word = self.block[(self.position % 4) as usize];
        self.position = self.position.wrapping_add(1);
        if self.position.is_multiple_of(4) {
            self.block = block_at(self.seed, self.stream, self.position / 4);
        }
        word
    }

    /// Returns the next two words, the first one low.
    pub fn double_word(&mut self) -> u64 {
        let low = u64::from(self.word());
        low | u64::from(self.word()) << 32
    }

    /// Returns a uniform number in [0, 1), a multiple of 2⁻⁵³ (two words).
    pub fn uniform_f64(&mut self) -> f64 {
        unit(self.double_word())
    }

    /// Fills `out` with samples of N(0, σ²) in parallel, from the next whole block on. Uses ⌈len/2⌉ blocks, one per pair.
    pub fn fill_normal<T: Scalar>(&mut self, sigma: f64, out: &mut [T]) {
        let first = self.position.div_ceil(4);
        let (seed, stream) = (self.seed, self.stream);
        out.par_chunks_mut(4096).enumerate().for_each(|(chunk, out)| {
            for (pair, out) in out.chunks_mut(2).enumerate() {
                let b = block_at(seed, stream, first + (chunk * 2048 + pair) as u64);
                let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
                let z = box_muller(join(b[0], b[1]), join(b[2], b[3]));
                for (out, z) in out.iter_mut().zip(z) {
                    *out = T::lit(sigma * z);
                }
            }
        });
        self.set_position(4 * (first + out.len().div_ceil(2) as u64));
    }

    /// Returns a uniform number in 0..n without bias (Lemire's method: the high word of a product, a short range of low words
    /// rejected).
    ///
    /// # Panics
    /// Panics if n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below(0): a draw needs at least one outcome");
        let reject = n.wrapping_neg() % n; // 2⁶⁴ mod n
        loop {
            let product = u128::from(self.double_word()) * u128::from(n);
            if product as u64 >= reject {
                return (product >> 64) as u64;
            }
        }
    }

    /// Shuffles the items into a uniformly random order (Fisher and Yates).
    pub fn shuffle<A>(&mut self, items: &mut [A]) {
        for last in (1..items.len()).rev() {
            let chosen = self.below(last as u64 + 1) as usize;
            items.swap(last, chosen);
        }
    }
}

fn block_at(seed: u64, stream: u64, block: u64) -> [u32; 4] {
    let counter = [block as u32, (block >> 32) as u32, stream as u32, (stream >> 32) as u32];
    philox(counter, [seed as u32, (seed >> 32) as u32])
}

/// Returns 53 bits as a multiple of 2⁻⁵³ in [0, 1).
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Returns two normals by the transform of Box and Muller.
///
/// ```text
/// u, v uniform, u > 0:   √(−2 ln u)·(cos 2πv, sin 2πv)   are two independent standard normals
/// ```
fn box_muller(u: u64, v: u64) -> [f64; 2] {
    let radius = (-2.0 * libm::log(1.0 - unit(u))).sqrt(); // 1 − u lies in (0, 1]
    let angle = std::f64::consts::TAU * unit(v);
    [radius * libm::cos(angle), radius * libm::sin(angle)]
}

impl TryRng for Philox {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.word())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.double_word())
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for out in out.chunks_mut(4) {
            out.copy_from_slice(&self.word().to_le_bytes()[..out.len()]);
        }
        Ok(())
    }
}

/// The inputs of a dropout mask. The mask is recomputed from them and never stored.
///
/// ```text
/// block(row, j) = philox(counter = (j, row low, row high, site), key)         row = row0 + the local row
/// u(row, column) = the 16-bit half (column mod 8) of block(row, ⌊column/8⌋), low half of word 0 first
/// keep  ⇔  u ≥ threshold,   threshold = round(65536·p),   y = keep·x·65536/(65536 − threshold)
/// ```
///
/// p is thus rounded to a multiple of 2⁻¹⁶. The scale is that of the rounded p, so E\[y\] = x exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropoutKey {
    /// The threshold, 0 to 65535: an element is dropped if its 16 bits are below it.
    pub threshold: u32,
    /// The key of Philox: the run and the step.
    pub key: [u32; 2],
    /// The number of the dropout in the model.
    pub site: u32,
    /// The global index of the first row, so that a shard of a batch draws the same mask as in the whole batch.
    pub row0: u64,
}

impl DropoutKey {
    /// Returns the key of dropout with probability p.
    ///
    /// # Panics
    /// Panics if p is not in [0, 1).
    pub fn new(p: f64, key: [u32; 2], site: u32, row0: u64) -> Self {
        assert!((0.0..1.0).contains(&p), "dropout: p must lie in [0, 1), got {p}");
        let threshold = ((p * 65536.0).round() as u32).min(65535);
        DropoutKey { threshold, key, site, row0 }
    }

    /// Returns the factor of kept elements, 1/(1 − p).
    pub fn scale(&self) -> f64 {
        65536.0 / f64::from(65536 - self.threshold)
    }

    /// Returns whether the element at this (local) row and column is kept.
    pub fn keeps(&self, row: u64, column: usize) -> bool {
        let row = self.row0.wrapping_add(row);
        let block = philox([(column / 8) as u32, row as u32, (row >> 32) as u32, self.site], self.key);
        let word = block[column % 8 / 2];
        let half = if column.is_multiple_of(2) { word & 0xFFFF } else { word >> 16 };
        half >= self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn known_answers_of_random123() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([!0; 4], [!0; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let (pi, more) = ([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]);
        assert_eq!(philox(pi, more), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    #[test]
    fn a_stream_resumes_from_its_position() {
        let mut whole = Philox::with_stream(7, 9);
        let words: Vec<u32> = (0..50).map(|_| whole.word()).collect();
        for (start, &word) in (0..).zip(&words) {
            let mut resumed = Philox::with_stream(7, 9);
            resumed.set_position(start);
            assert_eq!(resumed.word(), word);
            assert_eq!(resumed.position(), start + 1);
        }
        assert_ne!(Philox::with_stream(7, 10).word(), words[0]);
        assert_ne!(Philox::with_stream(8, 9).word(), words[0]);
    }

    #[test]
    fn the_traits_of_rand_draw_the_same_words() {
        let (mut ours, mut theirs) = (Philox::new(3), Philox::new(3));
        assert_eq!(ours.word(), theirs.next_u32());
        assert_eq!(ours.double_word(), theirs.next_u64());
        let mut bytes = [0; 6];
        theirs.fill_bytes(&mut bytes);
        assert_eq!(bytes[..4], ours.word().to_le_bytes());
        assert_eq!(bytes[4..], ours.word().to_le_bytes()[..2]);
    }

    /// With 40,000 draws, the mean of a unit-variance variable has a standard error of 0.005. Four standard errors are allowed.
    #[test]
    fn uniforms_and_normals_have_their_moments() {
        let (n, mut rng) = (40_000, Philox::new(1));
        let moments = |xs: &[f64]| {
            let mean = xs.iter().sum::<f64>() / n as f64;
            (mean, xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64)
        };
        let uniform: Vec<f64> = (0..n).map(|_| rng.uniform_f64()).collect();
        assert!(uniform.iter().all(|x| (0.0..1.0).contains(x)));
        let (mean, var) = moments(&uniform);
        assert!((mean - 0.5).abs() < 0.006 && (var - 1.0 / 12.0).abs() < 0.003, "{mean} {var}");
        let mut normal = vec![0.0; n];
        rng.fill_normal(1.0, &mut normal);
        let (mean, var) = moments(&normal);
        assert!(mean.abs() < 0.02 && (var - 1.0).abs() < 0.03, "{mean} {var}");
        let beyond_two = normal.iter().filter(|x| x.abs() > 2.0).count() as f64 / n as f64;
        assert!((beyond_two - 0.0455).abs() < 0.005, "{beyond_two}");
    }

    #[test]
    fn fill_normal_starts_at_a_whole_block_and_counts_pairs() {
        let mut rng = Philox::new(5);
        rng.word();
        let mut filled = [0.0f64; 5];
        rng.fill_normal(2.0, &mut filled);
        assert_eq!(rng.position(), 4 + 3 * 4);
        rng.set_position(4);
        for pair in filled.chunks(2) {
            let z = box_muller(rng.double_word(), rng.double_word());
            assert!(pair.iter().zip(z).all(|(&x, z)| x == 2.0 * z));
        }
    }

    #[test]
    fn below_is_uniform_and_in_range() {
        let (mut rng, mut counts) = (Philox::new(2), [0u32; 7]);
        for _ in 0..70_000 {
            counts[rng.below(7) as usize] += 1;
        }
        // Each count is binomial with σ = √(70000·(1/7)(6/7)) ≈ 93. Five σ are allowed.
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 465), "{counts:?}");
        assert_eq!(rng.below(1), 0);
        let mut order: Vec<u32> = (0..100).collect();
        rng.shuffle(&mut order);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn dropout_keeps_its_share_and_indexes_rows_globally() {
        let key = DropoutKey::new(0.1, [1, 2], 3, 10);
        assert_eq!(key.threshold, 6554);
        let kept = (0..200).flat_map(|r| (0..500).map(move |c| (r, c))).filter(|&(r, c)| key.keeps(r, c)).count();
        // The count is binomial with σ = √(100000·0.1·0.9) ≈ 95. Five σ are allowed.
        assert!(kept.abs_diff(90_000) < 475, "{kept}");
        let whole = DropoutKey { row0: 0, ..key };
        assert!((0..500).all(|c| key.keeps(4, c) == whole.keeps(14, c)));
        assert!((0..500).any(|c| key.keeps(4, c) != DropoutKey { site: 4, ..key }.keeps(4, c)));
        assert_eq!(DropoutKey::new(0.0, [1, 2], 3, 0).scale(), 1.0);
        assert_eq!(DropoutKey::new(0.5, [1, 2], 3, 0).scale(), 2.0);
        assert!((0..500).all(|c| DropoutKey::new(0.0, [1, 2], 3, 0).keeps(4, c)));
    }
}
