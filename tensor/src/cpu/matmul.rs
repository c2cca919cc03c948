//! C = A·B, or C += A·B.

use crate::Real;
use crate::kernels::{Mat, MatMut};

/// cᵢⱼ = Σₚ aᵢₚ·bₚⱼ (+ cᵢⱼ when `accumulate`).
pub fn naive<T: Real>(a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, accumulate: bool) {
    check(&a, &b, &c);
    for i in 0..c.rows {
        for j in 0..c.cols {
            let mut sum = T::zero();
            for p in 0..a.cols {
                sum += a.data[i * a.row_stride + p * a.col_stride] * b.data[p * b.row_stride + j * b.col_stride];
            }
            let c = &mut c.data[i * c.row_stride + j];
            *c = if accumulate { *c + sum } else { sum };
        }
    }
}

/// Panics unless the shapes agree and every element lies inside its slice.
#[track_caller]
fn check<T>(a: &Mat<'_, T>, b: &Mat<'_, T>, c: &MatMut<'_, T>) {
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
}
