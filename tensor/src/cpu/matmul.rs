//! C ← onto + A·B.
//!
//! For each element the fast kernel (`gemm`) makes a chain of fused multiply-adds over k inside each block of
//! `K_BLOCK`, the blocks added in order. Cutting rows or columns leaves that chain alone, so the product is cut between
//! threads by rows or columns, never along k, and has the same bits however it is cut. A single row has its own loops
//! (`matvec`), which follow the same chain: decoding a token gives the bits of the whole sequence.

use rayon::prelude::*;

use super::gemm::{Gemm, Strided, product};
use super::matvec;
use super::parallel::Shared;
use crate::Scalar;
use crate::operands::{Mat, MatMut, Onto};

/// cᵢⱼ = Σₚ aᵢₚ·bₚⱼ, plus what it is added onto.
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
fn check<T>(a: &Mat<'_, T>, b: &Mat<'_, T>, c: &MatMut<'_, T>, onto: Onto<'_, T>) {
    assert!(
        a.cols == b.rows && a.rows == c.rows && b.cols == c.cols,
        "matmul: [m,k]·[k,n] → [m,n], got [{},{}]·[{},{}] → [{},{}]",
        a.rows,
        a.cols,
        b.rows,
        b.cols,
        c.rows,
        c.cols
    );
    let fits = |len: usize, rows: usize, cols: usize, row_stride: usize, col_stride: usize| {
        let last = || (rows - 1).checked_mul(row_stride)?.checked_add((cols - 1).checked_mul(col_stride)?);
        rows == 0 || cols == 0 || last().is_some_and(|last| last < len)
    };
    assert!(fits(a.data.len(), a.rows, a.cols, a.row_stride, a.col_stride), "matmul: A's strides leave its slice");
    assert!(fits(b.data.len(), b.rows, b.cols, b.row_stride, b.col_stride), "matmul: B's strides leave its slice");
    assert!(fits(c.data.len(), c.rows, c.cols, c.row_stride, 1), "matmul: C's strides leave its slice");
    assert!(c.rows <= 1 || c.row_stride >= c.cols, "matmul: rows of C overlap");
    if let Onto::Row(x) = onto {
        assert!(x.len() == c.cols, "matmul: a row of {} to add to for C of {} columns", x.len(), c.cols);
    }
}

/// Multiplications that are worth a second thread.
const WORTH_IT: usize = 1 << 19;

/// [`naive`], by blocks in cache and parallel over rows or columns.
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
    // Rows `i` on, `rows` of them, and columns `j` on, `cols` of them.
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
        _ if m >= n => starts.for_each(|i| block(i, cut.min(m - i), 0, n)),
        _ => starts.for_each(|j| block(0, m, j, cut.min(n - j))),
    }
}

/// The length of a piece: one piece a thread, two where they are long, in whole vectors.
fn cuts(len: usize, threads: usize) -> usize {
    let pieces = if len >= 512 * threads { 2 * threads } else { threads };
    len.div_ceil(pieces).next_multiple_of(32)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    /// A matrix over random data, its rows or its columns dense.
    fn matrix<T: Gemm>(data: &[T], rows: usize, cols: usize, by_rows: bool) -> Mat<'_, T> {
        let (row_stride, col_stride) = if by_rows { (cols, 1) } else { (1, rows) };
        Mat { data, rows, cols, row_stride, col_stride }
    }

    fn run<T: Gemm>(
        kernel: fn(Mat<'_, T>, Mat<'_, T>, MatMut<'_, T>, Onto<'_, T>),
        a: Mat<'_, T>,
        b: Mat<'_, T>,
        onto: Onto<'_, T>,
    ) -> Vec<T> {
        let row_stride = b.cols + 3;
        let mut data = vec![T::one(); a.rows * row_stride];
        kernel(a, b, MatMut { data: &mut data, rows: a.rows, cols: b.cols, row_stride }, onto);
        data
    }

    fn agrees<T: Gemm>() {
        let sizes = [(0, 3, 2), (2, 0, 3), (3, 2, 0), (1, 1, 1), (1, 7, 9), (1, 0, 4), (1, 300, 1100), (1, 513, 33)];
        let more = [(3, 5, 7), (17, 33, 9), (65, 257, 31), (130, 40, 129), (33, 300, 700), (700, 30, 33)];
        for (m, k, n) in sizes.into_iter().chain(more) {
            for layout in 0..4 {
                let (a, b): (Vec<T>, Vec<T>) = (normals(m * k, 1), normals(k * n, 2));
                let (a, b) = (matrix(&a, m, k, layout & 1 == 0), matrix(&b, k, n, layout & 2 == 0));
                let row: Vec<T> = normals(n, 3);
                for onto in [Onto::Nothing, Onto::Itself, Onto::Row(&row)] {
                    let got = on_threads(|| run(fast, a, b, onto));
                    let want = run(naive, a, b, onto);
                    // k products of unit normals, rounded in another order: √k terms' worth of ε, k of them.
                    assert_close(&got, &want, epsilon::<T>() * (k as f64).sqrt(), (k as f64).sqrt().max(1.0));
                }
            }
        }
    }

    #[test]
    fn fast_agrees_with_naive_in_every_layout() {
        agrees::<f32>();
        agrees::<f64>();
    }

    fn rows_alone<T: Gemm>() {
        let (m, k, n) = (5, 600, 75);
        let (a, b): (Vec<T>, Vec<T>) = (normals(m * k, 1), normals(k * n, 2));
        for layout in 0..4 {
            let (a, b) = (matrix(&a, m, k, layout & 1 == 0), matrix(&b, k, n, layout & 2 == 0));
            let whole = run(fast, a, b, Onto::Nothing);
            for i in 0..m {
                let row = Mat { data: &a.data[i * a.row_stride..], rows: 1, ..a };
                assert_eq!(run(fast, row, b, Onto::Nothing)[..n], whole[i * (n + 3)..][..n]);
            }
        }
    }

    #[test]
    fn a_row_alone_has_the_bits_of_the_row_among_others() {
        rows_alone::<f32>();
        rows_alone::<f64>();
    }

    #[test]
    #[should_panic(expected = "matmul: [m,k]·[k,n] → [m,n], got [2,3]·[4,5] → [2,5]")]
    fn shapes_that_disagree_are_named() {
        let data = [0.0f32; 20];
        run(fast, matrix(&data, 2, 3, true), matrix(&data, 4, 5, true), Onto::Nothing);
    }

    #[test]
    #[should_panic(expected = "B's strides leave its slice")]
    fn strides_that_leave_the_slice_panic() {
        let data = [0.0f32; 20];
        run(fast, matrix(&data, 2, 3, true), matrix(&data[..14], 3, 5, true), Onto::Nothing);
    }
}
