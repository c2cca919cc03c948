//! Sums of rows, of columns and of squares.

use rayon::prelude::*;

use super::{parallel, same_len};
use crate::Scalar;
use crate::buffer::with_scratch;
use crate::simd::{Float, LANES, add_lanes, sum_of, vectorized};

/// Computes yⱼ = Σᵢ xᵢⱼ over rows of n.
pub fn naive_sum_rows<T: Scalar>(x: &[T], y: &mut [T], n: usize) {
    same_len("sum_rows", &[y.len(), n]);
    super::row_count("sum_rows", x.len(), n);
    y.fill(T::zero());
    for x in x.chunks_exact(n.max(1)) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y += x;
        }
    }
}

/// Computes yᵢ = Σⱼ xᵢⱼ over rows of n.
pub fn naive_sum_cols<T: Scalar>(x: &[T], y: &mut [T], n: usize) {
    same_len("sum_cols", &[x.len(), y.len() * n]);
    for (i, y) in y.iter_mut().enumerate() {
        *y = T::zero();
        for &x in &x[i * n..][..n] {
            *y += x;
        }
    }
}

/// Returns Σ xᵢ² in f64.
pub fn naive_sum_squares<T: Scalar>(x: &[T]) -> f64 {
    x.iter().map(|x| x.to_f64() * x.to_f64()).sum()
}

/// The number of rows per partial sum. It is constant, so that the bits do not depend on the number of threads.
const BLOCK: usize = 64;

/// Computes [`naive_sum_rows`], vectorised and parallel by blocks of rows.
pub fn fast_sum_rows<T: Float>(x: &[T], y: &mut [T], n: usize) {
    same_len("sum_rows", &[y.len(), n]);
    let rows = super::row_count("sum_rows", x.len(), n);
    if rows <= BLOCK {
        return add_rows(x, y);
    }
    with_scratch(rows.div_ceil(BLOCK) * n, |sums| {
        if parallel::worth_it(x.len()) {
            sums.par_chunks_mut(n).zip(x.par_chunks(BLOCK * n)).for_each(|(sum, x)| add_rows(x, sum));
        } else {
            sums.chunks_mut(n).zip(x.chunks(BLOCK * n)).for_each(|(sum, x)| add_rows(x, sum));
        }
        add_rows(sums, y);
    });
}

vectorized! {
    /// Computes y ← the sum of the rows of x, in order.
    fn add_rows<T: Float>(x: &[T], y: &mut [T]) {
        y.fill(T::zero());
        for x in x.chunks_exact(y.len().max(1)) {
            for (y, &x) in y.iter_mut().zip(x) {
                *y += x;
            }
        }
    }
}

/// Computes [`naive_sum_cols`], vectorised and parallel by rows.
pub fn fast_sum_cols<T: Float>(x: &[T], y: &mut [T], n: usize) {
    same_len("sum_cols", &[x.len(), y.len() * n]);
    let rows = if parallel::worth_it(x.len()) { parallel::rows_per_chunk(n) } else { y.len() };
    match rows {
        0 => {}
        _ if rows >= y.len() => sum_each(x, y, n),
        _ => y.par_chunks_mut(rows).zip(x.par_chunks(rows * n)).for_each(|(y, x)| sum_each(x, y, n)),
    }
}

vectorized! {
    fn sum_each<T: Float>(x: &[T], y: &mut [T], n: usize) {
        for (i, y) in y.iter_mut().enumerate() {
            *y = sum_of(&x[i * n..][..n], |x| x);
        }
    }
}

/// The number of elements whose squares are summed on one thread.
const LEAF: usize = 1 << 14;

/// Returns the position at which a sum of n squares is split in two, or `None` if it is not split.
pub fn halves(n: usize) -> Option<usize> {
    (n > LEAF).then(|| (n / 2).next_multiple_of(LEAF))
}

/// Computes [`naive_sum_squares`] by a binary tree over leaves of fixed size, vectorised and parallel.
pub fn fast_sum_squares<T: Float>(x: &[T]) -> f64 {
    let Some(middle) = halves(x.len()) else { return squares(x) };
    let (left, right) = x.split_at(middle);
    let (left, right) = rayon::join(|| fast_sum_squares(left), || fast_sum_squares(right));
    left + right
}

vectorized! {
    fn squares<T: Float>(x: &[T]) -> f64 {
        let mut lanes = [0.0f64; LANES];
        let (blocks, rest) = x.as_chunks::<LANES>();
        for block in blocks {
            for l in 0..LANES {
                lanes[l] += block[l].to_f64() * block[l].to_f64();
            }
        }
        for (lane, x) in lanes.iter_mut().zip(rest) {
            *lane += x.to_f64() * x.to_f64();
        }
        add_lanes(lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The left part is a whole number of leaves, so the leaves of a sum are the leaves of its parts. Other code splits there
    /// too.
    #[test]
    fn a_sum_of_squares_splits_at_whole_leaves() {
        assert_eq!([0, 1, LEAF].map(halves), [None; 3]);
        assert_eq!([LEAF + 1, 2 * LEAF, 3 * LEAF, 5 * LEAF + 7].map(halves), [1, 1, 2, 3].map(|leaves| Some(leaves * LEAF)));
    }
}
