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
            y.copy_from_slice(x);
            drop_row(key, (i * rows + r) as u64, y);
        }
    };
    match rows {
        0 => {}
        _ if rows * n == x.len() => chunk((0, (x, y))),
        _ => x.par_chunks(rows * n).zip(y.par_chunks_mut(rows * n)).enumerate().for_each(chunk),
    }
}

/// The number of Philox blocks computed at a time.
const BLOCKS: usize = 32;

/// Decides which columns are kept: bit j of entry i is column 8·(first + i) + j.
#[inline(always)]
fn decide(key: &DropoutKey, row: u64, first: usize, kept: &mut [u64]) {
    let row = key.row0.wrapping_add(row);
    let (site, threshold) = (u64::from(key.site), u64::from(key.threshold));
    for (i, kept) in kept.iter_mut().enumerate() {
        let words = philox_wide([(first + i) as u64, row, row >> 32, site], key.key);
        let mut bits = 0;
        for (w, word) in words.into_iter().enumerate() {
            bits |= u64::from(word & 0xFFFF >= threshold) << (2 * w);
            bits |= u64::from(word >> 16 & 0xFFFF >= threshold) << (2 * w + 1);
        }
        *kept = bits;
    }
}

vectorized! {
    /// Applies dropout to one row in place: y ← y ∘ keep/(1 − p).
    pub(crate) fn drop_row<T: Float>(key: &DropoutKey, row: u64, y: &mut [T]) {
        let scale = T::lit(key.scale());
        for (group, y) in y.chunks_mut(8 * BLOCKS).enumerate() {
            let mut kept = [0; BLOCKS];
            decide(key, row, group * BLOCKS, &mut kept[..y.len().div_ceil(8)]);
            let (blocks, rest) = y.as_chunks_mut::<8>();
            for (y, &kept) in blocks.iter_mut().zip(&kept) {
                for (j, y) in y.iter_mut().enumerate() {
                    *y = *y * if kept as u32 & (1 << j) != 0 { scale } else { T::zero() };
                }
            }
            for (j, y) in rest.iter_mut().enumerate() {
                *y = *y * if kept[blocks.len()] as u32 & (1 << j) != 0 { scale } else { T::zero() };
            }
        }
    }
}
