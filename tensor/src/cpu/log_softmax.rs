//! The logarithm of softmax over rows.
//!
//! ```text
//! yⱼ = xⱼ − lse x,   lse x = max x + ln Σₖ e^(xₖ − max x)          x̄ⱼ = ȳⱼ − e^yⱼ·Σₖ ȳₖ
//! ```

use super::{largest, parallel, row_count, same_len};
use crate::Scalar;
use crate::simd::{Elementary, Float, largest_of, sum_of, vectorized};

/// Returns log Σ eˣ of one row.
pub(crate) fn naive_lse<T: Scalar>(x: &[T]) -> T {
    let most = largest(x);
    let mut sum = T::zero();
    for &x in x {
        sum += (x - most).exp();
    }
    most + sum.ln()
}

/// Computes y = x − log Σ eˣ for each row of n.
pub fn naive<T: Scalar>(x: &[T], y: &mut [T], n: usize) {
    same_len("log_softmax", &[x.len(), y.len()]);
    row_count("log_softmax", x.len(), n);
    for (x, y) in x.chunks_exact(n.max(1)).zip(y.chunks_exact_mut(n.max(1))) {
        let lse = naive_lse(x);
        for (&x, y) in x.iter().zip(y) {
            *y = x - lse;
        }
    }
}

/// Computes x̄ = ȳ − eʸ·Σȳ for each row of n.
pub fn naive_vjp<T: Scalar>(y: &[T], gy: &[T], gx: &mut [T], n: usize) {
    same_len("log_softmax_vjp", &[y.len(), gy.len(), gx.len()]);
    row_count("log_softmax_vjp", y.len(), n);
    let n = n.max(1);
    for ((y, gy), gx) in y.chunks_exact(n).zip(gy.chunks_exact(n)).zip(gx.chunks_exact_mut(n)) {
        let mut sum = T::zero();
        for &gy in gy {
            sum += gy;
        }
        for ((&y, &gy), gx) in y.iter().zip(gy).zip(gx) {
            *gx = gy - y.exp() * sum;
        }
    }
}

vectorized! {
    /// Returns log Σ eˣ of one row.
    pub(crate) fn fast_lse<T: Float>(x: &[T]) -> T {
        let most = largest_of(x);
        most + sum_of(x, |x| (x - most).fast_exp::<FMA>()).ln()
    }
}

/// Computes [`naive`], vectorised and parallel by rows.
pub fn fast<T: Float>(x: &[T], y: &mut [T], n: usize) {
    same_len("log_softmax", &[x.len(), y.len()]);
    row_count("log_softmax", x.len(), n);
    parallel::each_2(n.max(1), x, y, |x, y| {
        for (x, y) in x.chunks_exact(n.max(1)).zip(y.chunks_exact_mut(n.max(1))) {
            let lse = fast_lse(x);
            for (&x, y) in x.iter().zip(y) {
                *y = x - lse;
            }
        }
    });
}

/// Computes [`naive_vjp`], vectorised and parallel by rows.
pub fn fast_vjp<T: Float>(y: &[T], gy: &[T], gx: &mut [T], n: usize) {
    same_len("log_softmax_vjp", &[y.len(), gy.len(), gx.len()]);
    row_count("log_softmax_vjp", y.len(), n);
    parallel::each_3(n.max(1), y, gy, gx, |y, gy, gx| rows_vjp(y, gy, gx, n.max(1)));
}

vectorized! {
    fn rows_vjp<T: Float>(y: &[T], gy: &[T], gx: &mut [T], n: usize) {
        for ((y, gy), gx) in y.chunks_exact(n).zip(gy.chunks_exact(n)).zip(gx.chunks_exact_mut(n)) {
            let sum = sum_of(gy, |gy| gy);
            for ((&y, &gy), gx) in y.iter().zip(gy).zip(gx) {
                *gx = gy - y.fast_exp::<FMA>() * sum;
            }
        }
    }
}
