//! Dropout (Srivastava et al. 2014) with a mask that is a function of its key; see [`DropoutKey`].

use rayon::prelude::*;

use super::{parallel, row_count, same_len};
use crate::Real;
use crate::rng::{DropoutKey, philox_lanes};
use crate::simd::{Float, vectorized};

/// Rows of n: y = x ∘ keep/(1 − p).
pub fn naive<T: Real>(key: &DropoutKey, x: &[T], y: &mut [T], n: usize) {
    same_len("dropout", &[x.len(), y.len()]);
    row_count("dropout", x.len(), n);
    let scale = T::lit(key.scale());
    for (i, (&x, y)) in x.iter().zip(y).enumerate() {
        let keep = key.keeps((i / n) as u64, i % n);
        *y = x * if keep { scale } else { T::zero() };
    }
}

/// [`naive`], vectorised and parallel by rows.
pub fn fast<T: Float>(key: &DropoutKey, x: &[T], y: &mut [T], n: usize) {
    same_len("dropout", &[x.len(), y.len()]);
    row_count("dropout", x.len(), n);
    let n = n.max(1);
    let rows = if parallel::worth_it(x.len()) { parallel::rows_per_chunk(n) } else { x.len() / n };
    let chunk = |(i, (x, y)): (usize, (&[T], &mut [T]))| {
        for (r, (x, y)) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)).enumerate() {
            row(key, (i * rows + r) as u64, x, y);
        }
    };
    match rows {
        0 => {}
        _ if rows * n == x.len() => chunk((0, (x, y))),
        _ => x.par_chunks(rows * n).zip(y.par_chunks_mut(rows * n)).enumerate().for_each(chunk),
    }
}

/// Philox blocks made at once.
const BLOCKS: usize = 16;
/// Columns that they decide.
const GROUP: usize = 8 * BLOCKS;

/// The dropout factors of one group of columns.
#[inline(always)]
fn factors<T: Float>(key: &DropoutKey, row: u64, group: usize) -> [T; GROUP] {
    let row = key.row0.wrapping_add(row);
    let first = (group * BLOCKS) as u32;
    let [mut columns, low, high, site] = [0, row as u32, (row >> 32) as u32, key.site].map(|word| [word; BLOCKS]);
    for (i, column) in columns.iter_mut().enumerate() {
        *column = first.wrapping_add(i as u32);
    }
    let words = philox_lanes([columns, low, high, site], key.key);
    let mut halves = [0u32; GROUP];
    for block in 0..BLOCKS {
        for w in 0..4 {
            halves[8 * block + 2 * w] = words[w][block] & 0xFFFF;
            halves[8 * block + 2 * w + 1] = words[w][block] >> 16;
        }
    }
    let (scale, mut factors) = (T::lit(key.scale()), [T::zero(); GROUP]);
    for (factor, half) in factors.iter_mut().zip(halves) {
        *factor = if half >= key.threshold { scale } else { T::zero() };
    }
    factors
}

vectorized! {
    /// One row: y = x ∘ keep/(1 − p).
    fn row<T: Float>(key: &DropoutKey, row: u64, x: &[T], y: &mut [T]) {
        for (group, (x, y)) in x.chunks(GROUP).zip(y.chunks_mut(GROUP)).enumerate() {
            let factors = factors::<T>(key, row, group);
            for ((&x, y), factor) in x.iter().zip(y).zip(factors) {
                *y = x * factor;
            }
        }
    }
}

vectorized! {
    /// The factors keep/(1 − p) of one row.
    pub(crate) fn row_factors<T: Float>(key: &DropoutKey, row: u64, y: &mut [T]) {
        for (group, y) in y.chunks_mut(GROUP).enumerate() {
            y.copy_from_slice(&factors::<T>(key, row, group)[..y.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn agrees<T: Float>() {
        let key = DropoutKey::new(0.3, [7, 8], 9, u64::from(u32::MAX) - 2);
        for (rows, n) in [(0, 5), (3, 0), (5, 1), (7, 8), (3, 127), (2, 129), (100, 401), (1, 70_001)] {
            let x: Vec<T> = normals(rows * n, 1);
            let mut want = x.clone();
            naive(&key, &x, &mut want, n);
            let got = on_threads(|| {
                let mut y = vec![T::one(); x.len()];
                fast(&key, &x, &mut y, n);
                y
            });
            assert_eq!(got, want);
            if let Some(last) = rows.checked_sub(1) {
                let mut factors = vec![T::one(); n];
                row_factors(&key, last as u64, &mut factors);
                let by_factors: Vec<T> = x[last * n..].iter().zip(factors).map(|(&x, f)| x * f).collect();
                assert_eq!(by_factors, want[last * n..]);
            }
        }
    }

    #[test]
    fn fast_is_naive_to_the_bit() {
        agrees::<f32>();
        agrees::<f64>();
    }
}
