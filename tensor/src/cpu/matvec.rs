//! The product c ← onto + x·B of a single row x, which takes most of the time of generation.
//!
//! Every weight is read once and used once, so the memory bandwidth limits the product. A thread processes a range of columns and
//! reads it as a few long streams. It prefetches each cache line some kilobytes ahead, because the hardware's prefetcher stops at
//! every page.
//!
//! Each element is the chain of `matmul`: fused multiply-adds over k within blocks of `K_BLOCK`, and the blocks added in order.
//! Decoding one token thus gives the same bits as the whole sequence, however the columns are cut.

use rayon::prelude::*;

use super::gemm::{Gemm, K_BLOCK, prefetch};
use crate::buffer::with_scratch;
use crate::operands::{Mat, MatMut, Onto};
use crate::simd::vectorized;

/// Computes x·B for B (k, n) contiguous along one axis: a weight matrix has contiguous rows, a transposed table (n, k) has
/// contiguous columns.
pub(super) fn fast<T: Gemm>(x: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, onto: Onto<'_, T>, threads: usize) {
    let (k, c) = (x.cols, &mut c.data[..b.cols]);
    if c.is_empty() {
        return;
    }
    if let Onto::Row(row) = onto {
        c.copy_from_slice(row);
    }
    let accumulate = !matches!(onto, Onto::Nothing);
    if k == 0 {
        if !accumulate {
            c.fill(T::zero());
        }
        return;
    }
    with_scratch(k, |dense| {
        for (p, to) in dense.iter_mut().enumerate() {
            *to = x.data[p * x.col_stride];
        }
        let (dense, by_rows) = (&*dense, b.col_stride == 1);
        let cut = c.len().div_ceil(threads).next_multiple_of(LINE).min(if by_rows { WIDEST } else { usize::MAX });
        let columns = |(piece, c): (usize, &mut [T])| match by_rows {
            true => with_scratch(c.len(), |sums| dense_rows(dense, &b.data[piece * cut..], b.row_stride, c, accumulate, sums)),
            false => dense_columns(dense, &b.data[piece * cut * b.col_stride..], b.col_stride, c, accumulate),
        };
        match threads {
            1 => c.chunks_mut(cut).enumerate().for_each(columns),
            _ => c.par_chunks_mut(cut).enumerate().for_each(columns),
        }
    });
}

/// The number of columns processed side by side: a cache line of f32, and two vectors of chains.
const LINE: usize = 16;
/// The number of columns whose sums stay in the first-level cache.
const WIDEST: usize = 1 << 12;
/// The number of rows of B that are read side by side.
const ROWS: usize = 8;
/// The prefetch distance in rows of B.
const AHEAD: usize = 8;

vectorized! {
    /// Computes c ← x·B, or c + x·B with `accumulate`, for at most WIDEST columns of a B with contiguous rows. `sums` is as long
    /// as c.
    fn dense_rows<T: Gemm>(x: &[T], b: &[T], ld: usize, c: &mut [T], accumulate: bool, sums: &mut [T]) {
        let n = c.len();
        for (block, x) in x.chunks(K_BLOCK).enumerate() {
            sums.fill(T::zero());
            let row = |p: usize| &b[(block * K_BLOCK + p) * ld..][..n];
            let (groups, rest) = x.as_chunks::<ROWS>();
            for (i, x) in groups.iter().enumerate() {
                let rows = std::array::from_fn(|r| row(ROWS * i + r));
                add_rows::<T, FMA, ROWS>(x, rows, AHEAD * ld, sums);
            }
            for (i, &x) in rest.iter().enumerate() {
                add_rows::<T, FMA, 1>(&[x], [row(ROWS * groups.len() + i)], AHEAD * ld, sums);
            }
            let keep = accumulate || block > 0;
            for (c, &s) in c.iter_mut().zip(&*sums) {
                *c = if keep { *c + s } else { s };
            }
        }
    }
}

/// Computes sums += Σᵣ xᵣ·rowᵣ. Prefetches the element `ahead` elements after each one.
#[inline(always)]
fn add_rows<T: Gemm, const FMA: bool, const R: usize>(x: &[T; R], rows: [&[T]; R], ahead: usize, sums: &mut [T]) {
    let (lines, rest) = sums.as_chunks_mut::<LINE>();
    let whole = rows.map(|row| &row.as_chunks::<LINE>().0[..lines.len()]);
    for (i, line) in lines.iter_mut().enumerate() {
        let mut s = *line;
        for r in 0..R {
            let b = &whole[r][i];
            prefetch(b.as_ptr().wrapping_add(ahead));
            for l in 0..LINE {
                s[l] = T::multiply_add::<FMA>(x[r], b[l], s[l]);
            }
        }
        *line = s;
    }
    let done = LINE * lines.len();
    for (j, s) in rest.iter_mut().enumerate() {
        for r in 0..R {
            *s = T::multiply_add::<FMA>(x[r], rows[r][done + j], *s);
        }
    }
}

vectorized! {
    /// Computes c ← x·B, or c + x·B with `accumulate`, for a B with contiguous columns. Squares of eight by eight are transposed,
    /// so that a vector runs across columns.
    fn dense_columns<T: Gemm>(x: &[T], b: &[T], ld: usize, c: &mut [T], accumulate: bool) {
        for (group, c) in c.chunks_mut(LINE).enumerate() {
            // Past the last column, the chains repeat the last column.
            let start: [usize; LINE] = std::array::from_fn(|l| (LINE * group + l.min(c.len() - 1)) * ld);
            for (block, x) in x.chunks(K_BLOCK).enumerate() {
                let columns = start.map(|start| &b[start + block * K_BLOCK..][..x.len()]);
                let mut sums = [[T::zero(); 8]; LINE / 8];
                let (squares, rest) = x.as_chunks::<8>();
                for (i, x) in squares.iter().enumerate() {
                    for (sums, columns) in sums.iter_mut().zip(columns.as_chunks::<8>().0) {
                        // SAFETY: every column is as long as x.
                        let square = columns.map(|column| unsafe { &*column.as_ptr().add(8 * i).cast::<[T; 8]>() });
                        // Two squares of f32 span a cache line, so each prefetches four columns of the next group.
                        for l in 0..4 {
                            prefetch(square[2 * l + i % 2].as_ptr().wrapping_add(LINE * ld));
                        }
                        // SAFETY: on x86, FMA is set only if the CPU has it, and then it has AVX.
                        for (&x, across) in x.iter().zip(unsafe { T::turn::<FMA>(square) }) {
                            for l in 0..8 {
                                sums[l] = T::multiply_add::<FMA>(x, across[l], sums[l]);
                            }
                        }
                    }
                }
                for (i, &x) in rest.iter().enumerate() {
                    for (l, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
                        *sum = T::multiply_add::<FMA>(x, columns[l][8 * squares.len() + i], *sum);
                    }
                }
                let keep = accumulate || block > 0;
                for (c, &s) in c.iter_mut().zip(sums.as_flattened()) {
                    *c = if keep { *c + s } else { s };
                }
            }
        }
    }
}
