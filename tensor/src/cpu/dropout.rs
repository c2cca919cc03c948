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
    match rows {
        0 => {}
        _ if rows * n == x.len() => drop_rows(*key, 0, x, y, n),
        _ => {
            let chunks = x.par_chunks(rows * n).zip(y.par_chunks_mut(rows * n)).enumerate();
            chunks.for_each(|(i, (x, y))| drop_rows(*key, (i * rows) as u64, x, y, n));
        }
    }
}

vectorized! {
    /// Computes y = x ∘ keep/(1 − p) for rows of n, `first` and those after it.
    fn drop_rows<T: Float>(key: DropoutKey, first: u64, x: &[T], y: &mut [T], n: usize) {
        for (row, (x, y)) in (first..).zip(x.chunks_exact(n).zip(y.chunks_exact_mut(n))) {
            for (group, (x, y)) in x.chunks(COLUMNS).zip(y.chunks_mut(COLUMNS)).enumerate() {
                for ((&x, y), c) in x.iter().zip(y).zip(Columns::<T>::draw(&key, row, group).factors()) {
                    *y = x * c;
                }
            }
        }
    }
}

/// The number of columns drawn at a time: two of the widest vectors of Philox blocks, whose latencies overlap.
pub(crate) const COLUMNS: usize = 128;

/// The factors keep/(1 − p) of columns group·[`COLUMNS`] .. (group + 1)·[`COLUMNS`] of a row.
pub(crate) struct Columns<T> {
    halves: [u16; COLUMNS],
    threshold: u16,
    scale: T,
}

impl<T: Float> Columns<T> {
    #[inline(always)]
    pub(crate) fn draw(key: &DropoutKey, row: u64, group: usize) -> Self {
        const BLOCKS: usize = COLUMNS / 8;
        let row = key.row0.wrapping_add(row);
        let mut blocks = [[0; 2]; BLOCKS];
        for (i, block) in blocks.iter_mut().enumerate() {
            let [a, b, c, d] = philox_wide([(group * BLOCKS + i) as u64, row, row >> 32, u64::from(key.site)], key.key);
            *block = [a & 0xFFFF_FFFF | b << 32, c & 0xFFFF_FFFF | d << 32].map(u64::to_le);
        }
        // SAFETY: both arrays have 256 bytes, and any bits are a `u16`.
        let halves = unsafe { std::mem::transmute::<[[u64; 2]; BLOCKS], [u16; COLUMNS]>(blocks) };
        Columns { halves, threshold: key.threshold as u16, scale: T::lit(key.scale()) }
    }

    /// Iterates over the factors.
    #[inline(always)]
    pub(crate) fn factors(&self) -> impl Iterator<Item = T> {
        self.halves.iter().map(|&half| if u16::from_le(half) >= self.threshold { self.scale } else { T::zero() })
    }
}
