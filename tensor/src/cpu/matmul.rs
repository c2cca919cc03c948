//! The matrix product C ← onto + A·B.
//!
//! For each element, the fast kernel (`gemm`) computes a chain of fused multiply-adds over k within each block of `K_BLOCK`, and
//! adds the blocks in order. Splitting rows or columns does not change that chain. The product is therefore split among threads
//! by rows or columns, never along k, and its bits do not depend on the split. A single row has a separate kernel (`matvec`) with
//! the same chain: decoding one token gives the same bits as the whole sequence.

use rayon::prelude::*;

use super::gemm::{Gemm, Packed, Strided, product};
use super::matvec;
use super::parallel::Shared;
use crate::Scalar;
use crate::buffer::with_scratch;
use crate::operands::{Form, Mat, MatMut, Onto};

/// Computes cᵢⱼ = Σₚ aᵢₚ·bₚⱼ, plus `onto`.
pub fn naive<T: Scalar>(a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, onto: Onto<'_, T>) {
    check(&a, &b, &c, onto);
    for i in 0..c.rows {
        for j in 0..c.cols {
            let mut sum = T::zero();
            for p in 0..a.cols {
                sum += a.data[i * a.row_stride + p * a.col_stride] * b.data[p * b.row_stride + j * b.col_stride];
            }
            let c = &mut c.data[i * c.row_stride + j];
            *c = match onto {
                Onto::Nothing => sum,
                Onto::Itself => *c + sum,
                Onto::Row(x) => x[j] + sum,
            };
        }
    }
}

/// Panics unless the shapes agree and every element lies inside its slice.
#[track_caller]
pub(super) fn check<T>(a: &Mat<'_, T>, b: &Mat<'_, T>, c: &MatMut<'_, T>, onto: Onto<'_, T>) {
    let [of_a, of_b, of_c] = [[a.rows, a.cols], [b.rows, b.cols], [c.rows, c.cols]];
    let agree = a.cols == b.rows && of_c == [a.rows, b.cols];
    assert!(agree, "matmul: [m,k]·[k,n] → [m,n], got {of_a:?}·{of_b:?} → {of_c:?}");
    let fits = |len: usize, rows: usize, cols: usize, row_stride: usize, col_stride: usize| {
        let last = || (rows - 1).checked_mul(row_stride)?.checked_add((cols - 1).checked_mul(col_stride)?);
        rows == 0 || cols == 0 || last().is_some_and(|last| last < len)
    };
    let len = |x: &Mat<'_, T>| if let Form::Rounded(x) = x.form { x.len() } else { x.data.len() };
    assert!(fits(len(a), a.rows, a.cols, a.row_stride, a.col_stride), "matmul: A's strides leave its slice");
    assert!(fits(len(b), b.rows, b.cols, b.row_stride, b.col_stride), "matmul: B's strides leave its slice");
    assert!(fits(c.data.len(), c.rows, c.cols, c.row_stride, 1), "matmul: C's strides leave its slice");
    assert!(c.rows <= 1 || c.row_stride >= c.cols, "matmul: rows of C overlap");
    if let Onto::Row(x) = onto {
        assert!(x.len() == c.cols, "matmul: a row of {} to add to C of {} columns", x.len(), c.cols);
    }
}

/// The number of multiplications from which a second thread pays off.
pub(super) const WORTH_IT: usize = 1 << 19;

/// The bytes of a right factor, at most, that is packed once for several pieces.
const PACKED_ONCE: usize = 4 << 20;

/// Computes [`naive`] in blocks that fit into the cache, parallel over rows or columns.
pub fn fast<T: Gemm>(a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, onto: Onto<'_, T>) {
    check(&a, &b, &c, onto);
    let (m, k, n) = (c.rows, a.cols, c.cols);
    if m == 0 || n == 0 {
        return;
    }
    let threads = if m * n * k < WORTH_IT { 1 } else { rayon::current_num_threads() };
    if m == 1 && (b.col_stride == 1 || b.row_stride == 1) {
        return matvec::fast(a, b, c, onto, threads);
    }
    let (ld, shared) = (c.row_stride, Shared::new(c.data));
    // Computes `rows` rows from `i` on and `cols` columns from `j` on.
    let block = |i: usize, rows: usize, j: usize, cols: usize| {
        let a = Strided { at: a.data.as_ptr().wrapping_add(i * a.row_stride), strides: [a.row_stride, a.col_stride] };
        let b = Strided { at: b.data.as_ptr().wrapping_add(j * b.col_stride), strides: [b.row_stride, b.col_stride] };
        // SAFETY: `check` found all elements inside their slices; blocks of C are disjoint, and C is borrowed mutably.
        unsafe { product([rows, k, cols], a, b, shared.at(i * ld + j), ld, onto.columns_from(j)) }
    };
    let cut = cuts(m.max(n), threads);
    let starts = (0..m.max(n)).into_par_iter().step_by(cut);
    match threads {
        1 => block(0, m, 0, n),
        // All pieces read all of B.
        _ if m >= n && Packed::<T>::len(k, n) * size_of::<T>() <= PACKED_ONCE => with_scratch(Packed::<T>::len(k, n), |space| {
            let b = Strided { at: b.data.as_ptr(), strides: [b.row_stride, b.col_stride] };
            // SAFETY: `check` found all elements inside their slices.
            let b = unsafe { Packed::in_parallel(b, k, n, space) };
            starts.for_each(|i| {
                let a = Strided { at: a.data.as_ptr().wrapping_add(i * a.row_stride), strides: [a.row_stride, a.col_stride] };
                // SAFETY: as above; pieces of C are disjoint, and C is borrowed mutably.
                unsafe { b.times([cut.min(m - i), k, n], a, 0, shared.at(i * ld), ld, onto) }
            });
        }),
        _ if m >= n => starts.for_each(|i| block(i, cut.min(m - i), 0, n)),
        _ => starts.for_each(|j| block(0, m, j, cut.min(n - j))),
    }
}

/// Returns the length of a piece in whole vectors: one piece per thread, or two if they are long.
fn cuts(len: usize, threads: usize) -> usize {
    let pieces = if len >= 512 * threads { 2 * threads } else { threads };
    len.div_ceil(pieces).next_multiple_of(32)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn rows_alone<T: Gemm>() {
        let (m, k, n) = (5, 600, 75);
        let (a, b): (Vec<T>, Vec<T>) = (normals(m * k, 1), normals(k * n, 2));
        let product = |a: Mat<'_, T>, b| written([a.rows * n], |[c]| fast(a, b, MatMut::dense(c, a.rows, n), Onto::Nothing));
        for a in [Mat::dense(&a, m, k), Mat::transposed(&a, m, k)] {
            for b in [Mat::dense(&b, k, n), Mat::transposed(&b, k, n)] {
                let whole = product(a, b);
                for i in 0..m {
                    let row = Mat { data: &a.data[i * a.row_stride..], rows: 1, ..a };
                    assert_eq!(product(row, b), whole[i * n..][..n]);
                }
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_among_others() {
        rows_alone::<f32>();
        rows_alone::<f64>();
    }
}
