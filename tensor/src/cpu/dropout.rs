//! Dropout (Srivastava et al. 2014) with a mask that is a function of its key; see [`DropoutKey`].

use rayon::prelude::*;

use super::{parallel, row_count, same_len};
use crate::Scalar;
use crate::rng::{DropoutKey, philox_wide};
use crate::simd::{Float, vectorized};

/// Computes y = x ∘ keep/(1 − p) for rows of n.
pub fn naive<T: Scalar>(key: &DropoutKey, x: &[T], y: &mut [T], n: usize) {
    same_len("dropout", &[x.len(), y.len()]);
    row_count("dropout", x.len(), n);
    let scale = T::lit(key.scale());
    for (i, (&x, y)) in x.iter().zip(y).enumerate() {
        let keep = key.keeps((i / n) as u64, i % n);
        *y = x * if keep { scale } else { T::zero() };
    }
}

/// Computes [`naive`], vectorised and parallel by rows.
pub fn fast<T: Float>(key: &DropoutKey, x: &[T], y: &mut [T], n: usize) {
    same_len("dropout", &[x.len(), y.len()]);
    row_count("dropout", x.len(), n);
    let n = n.max(1);
    let rows = if parallel::worth_it(x.len()) { parallel::rows_per_chunk(n) } else { x.len() / n };
    let chunk = |(i, (x, y)): (usize, (&[T], &mut [T]))| {
        for (r, (x, y)) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)).enumerate() {
            drop_into(key, (i * rows + r) as u64, x, y);
        }
    };
    match rows {
        0 => {}
        _ if rows * n == x.len() => chunk((0, (x, y))),
        _ => x.par_chunks(rows * n).zip(y.par_chunks_mut(rows * n)).enumerate().for_each(chunk),
    }
}

/// The number of Philox blocks computed at a time: a multiple of the lanes of the widest vector.
const BLOCKS: usize = 32;
/// The number of columns that these blocks decide.
const COLUMNS: usize = 8 * BLOCKS;

/// The Philox blocks of columns group·[`COLUMNS`] .. (group + 1)·[`COLUMNS`] of a row.
struct Halves([[u64; 2]; BLOCKS]);

impl Halves {
    /// Draws the blocks of the first `columns` columns.
    #[inline(always)]
    fn draw(key: &DropoutKey, row: u64, group: usize, columns: usize) -> Self {
        let row = key.row0.wrapping_add(row);
        let mut blocks = [[0; 2]; BLOCKS];
        // Whole vectors of blocks: a few unused blocks cost less than one that is computed outside of a vector.
        let drawn = columns.div_ceil(8).next_multiple_of(8).min(BLOCKS);
        for (i, block) in blocks[..drawn].iter_mut().enumerate() {
            let [a, b, c, d] = philox_wide([(group * BLOCKS + i) as u64, row, row >> 32, u64::from(key.site)], key.key);
            *block = [a & 0xFFFF_FFFF | b << 32, c & 0xFFFF_FFFF | d << 32].map(u64::to_le);
        }
        Halves(blocks)
    }

    /// Returns the 16 bits of each column, little-endian.
    #[inline(always)]
    fn columns(&self) -> &[u16; COLUMNS] {
        // SAFETY: the array has the size of the result and at least its alignment; any bits are a `u16`.
        unsafe { &*self.0.as_ptr().cast() }
    }
}

vectorized! {
    /// Computes y = x ∘ keep/(1 − p) for one row.
    fn drop_into<T: Float>(key: &DropoutKey, row: u64, x: &[T], y: &mut [T]) {
        let (scale, threshold) = (T::lit(key.scale()), key.threshold as u16);
        for (group, (x, y)) in x.chunks(COLUMNS).zip(y.chunks_mut(COLUMNS)).enumerate() {
            let halves = Halves::draw(key, row, group, y.len());
            for ((&x, y), &half) in x.iter().zip(y).zip(halves.columns()) {
                *y = x * if u16::from_le(half) >= threshold { scale } else { T::zero() };
            }
        }
    }
}

vectorized! {
    /// Computes y ← y ∘ keep/(1 − p) for one row.
    pub(crate) fn drop_row<T: Float>(key: &DropoutKey, row: u64, y: &mut [T]) {
        let (scale, threshold) = (T::lit(key.scale()), key.threshold as u16);
        for (group, y) in y.chunks_mut(COLUMNS).enumerate() {
            let halves = Halves::draw(key, row, group, y.len());
            for (y, &half) in y.iter_mut().zip(halves.columns()) {
                *y = *y * if u16::from_le(half) >= threshold { scale } else { T::zero() };
            }
        }
    }
}
