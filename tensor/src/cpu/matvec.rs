//! c ← onto + x·B for a single row x: what generation spends its time on.
//!
//! Every weight is read once and used once, so the memory sets the pace and the arithmetic must only keep up. A thread takes
//! a stretch of columns and reads it as few long streams, asking for each cache line some kilobytes ahead: the hardware's
//! own prefetching stops at every page.
//!
//! Each element is the chain of the matrix product (`matmul`): fused multiply-adds over k within blocks of `K_BLOCK`, the
//! blocks added in order. So decoding a token gives the bits of the whole sequence, however the columns are cut.

use rayon::prelude::*;

use super::gemm::{Gemm, K_BLOCK, prefetch};
use crate::buffer::with_scratch;
use crate::operands::{Mat, MatMut, Onto};
use crate::simd::vectorized;

/// x·B for B (k, n) dense along one axis: with dense rows a weight matrix, with dense columns a table (n, k) transposed.
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

/// Columns that are taken side by side: a cache line of f32, and two vectors of chains.
const LINE: usize = 16;
/// Columns whose sums stay in the nearest cache.
const WIDEST: usize = 1 << 12;
/// Rows of B that are read side by side.
const ROWS: usize = 8;
/// Rows of B, or groups of [`LINE`] columns, between what is read and what is asked for.
const AHEAD: usize = 8;

vectorized! {
    /// c ← x·B, or c + x·B with `accumulate`, for at most WIDEST columns of a B with dense rows; `sums` is room for as many.
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

/// sums += Σᵣ xᵣ·rowᵣ, asking for the elements `ahead` of each.
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
    /// c ← x·B, or c + x·B with `accumulate`, for a B with dense columns: squares of eight by eight are turned, so that a
    /// vector runs across columns.
    fn dense_columns<T: Gemm>(x: &[T], b: &[T], ld: usize, c: &mut [T], accumulate: bool) {
        for (group, c) in c.chunks_mut(LINE).enumerate() {
            // Past the last column the chains repeat it.
            let start: [usize; LINE] = std::array::from_fn(|l| (LINE * group + l.min(c.len() - 1)) * ld);
            for (block, x) in x.chunks(K_BLOCK).enumerate() {
                let columns = start.map(|start| &b[start + block * K_BLOCK..][..x.len()]);
                let mut sums = [[T::zero(); 8]; LINE / 8];
                let (squares, rest) = x.as_chunks::<8>();
                for (i, x) in squares.iter().enumerate() {
                    for (sums, columns) in sums.iter_mut().zip(columns.as_chunks::<8>().0) {
                        // SAFETY: every column is as long as x.
                        let square = columns.map(|column| unsafe { &*column.as_ptr().add(8 * i).cast::<[T; 8]>() });
                        // Two squares of f32 are a cache line: each asks for four columns of the next group.
                        for l in 0..4 {
                            prefetch(square[2 * l + i % 2].as_ptr().wrapping_add(LINE * ld));
                        }
                        // SAFETY: on x86, FMA is set only where the CPU has it, and so AVX.
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

#[cfg(test)]
mod tests {
    use super::super::matmul::naive;
    use super::super::testing::*;
    use super::*;

    fn agrees<T: Gemm>() {
        // Whole and broken lines, groups of rows and blocks of k; a stretch wider than the sums' cache; k and n of 1.
        for (k, n) in [(1, 1), (7, 15), (8, 16), (9, 17), (255, 33), (256, 64), (517, 100), (600, 1100), (3, WIDEST + 21)] {
            let (x, b): (Vec<T>, Vec<T>) = (normals(2 * k, 1), normals(k * (n + 5), 2));
            let (from, row) = ((Onto::Nothing, Onto::Itself), normals::<T>(n, 3));
            let cases =
                [(1, true, from.0), (2, true, from.1), (2, false, from.0), (1, false, from.1), (1, true, Onto::Row(&row))];
            for (x_stride, by_rows, onto) in cases {
                let (row_stride, col_stride) = if by_rows { (n + 5, 1) } else { (1, k) };
                let product = |threads: Option<usize>| {
                    let x = Mat { data: &x, rows: 1, cols: k, row_stride: 1, col_stride: x_stride };
                    let b = Mat { data: &b, rows: k, cols: n, row_stride, col_stride };
                    let mut data = vec![T::one(); n];
                    let c = MatMut { data: &mut data, rows: 1, cols: n, row_stride: n };
                    match threads {
                        Some(threads) => fast(x, b, c, onto, threads),
                        None => naive(x, b, c, onto),
                    }
                    data
                };
                let got = on_threads(|| product(Some(rayon::current_num_threads())));
                // k products of unit normals, rounded in another order: √k terms' worth of ε, k of them.
                assert_close(&got, &product(None), epsilon::<T>() * (k as f64).sqrt(), (k as f64).sqrt());
            }
        }
    }

    #[test]
    fn fast_agrees_with_naive_and_with_itself_on_any_number_of_threads() {
        agrees::<f32>();
        agrees::<f64>();
    }
}
