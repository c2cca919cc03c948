//! Softmax over rows.
//!
//! ```text
//! yⱼ = e^(xⱼ − max x) / Σₖ e^(xₖ − max x)          x̄ⱼ = yⱼ·(ȳⱼ − Σₖ ȳₖyₖ)
//! ```

use super::{largest, parallel, row_count, same_len};
use crate::Scalar;
use crate::simd::{Elementary, Float, largest_of, sum_of, sum_of_2, vectorized};

/// Computes y = softmax x for each row of n.
pub fn naive<T: Scalar>(x: &[T], y: &mut [T], n: usize) {
    same_len("softmax", &[x.len(), y.len()]);
    row_count("softmax", x.len(), n);
    for (x, y) in x.chunks_exact(n.max(1)).zip(y.chunks_exact_mut(n.max(1))) {
        let most = largest(x);
        let mut sum = T::zero();
        for (&x, y) in x.iter().zip(y.iter_mut()) {
            *y = (x - most).exp();
            sum += *y;
        }
        for y in y {
            *y = *y / sum;
        }
    }
}

/// Computes x̄ = y ∘ (ȳ − ⟨ȳ, y⟩) for each row of n.
pub fn naive_vjp<T: Scalar>(y: &[T], gy: &[T], gx: &mut [T], n: usize) {
    same_len("softmax_vjp", &[y.len(), gy.len(), gx.len()]);
    row_count("softmax_vjp", y.len(), n);
    let n = n.max(1);
    for ((y, gy), gx) in y.chunks_exact(n).zip(gy.chunks_exact(n)).zip(gx.chunks_exact_mut(n)) {
        let mut dot = T::zero();
        for (&y, &gy) in y.iter().zip(gy) {
            dot += y * gy;
        }
        for ((&y, &gy), gx) in y.iter().zip(gy).zip(gx) {
            *gx = y * (gy - dot);
        }
    }
}

/// Computes [`naive`], vectorised and parallel by rows.
pub fn fast<T: Float>(x: &[T], y: &mut [T], n: usize) {
    same_len("softmax", &[x.len(), y.len()]);
    row_count("softmax", x.len(), n);
    parallel::each_2(n.max(1), x, y, |x, y| rows(x, y, n.max(1)));
}

/// Computes [`naive_vjp`], vectorised and parallel by rows.
pub fn fast_vjp<T: Float>(y: &[T], gy: &[T], gx: &mut [T], n: usize) {
    same_len("softmax_vjp", &[y.len(), gy.len(), gx.len()]);
    row_count("softmax_vjp", y.len(), n);
    parallel::each_3(n.max(1), y, gy, gx, |y, gy, gx| rows_vjp(y, gy, gx, n.max(1)));
}

vectorized! {
    fn rows<T: Float>(x: &[T], y: &mut [T], n: usize) {
        for (x, y) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)) {
            let most = largest_of(x);
            for (&x, y) in x.iter().zip(y.iter_mut()) {
                *y = (x - most).fast_exp::<FMA>();
            }
            let inverse = T::one() / sum_of(y, |y| y);
            for y in y {
                *y = *y * inverse;
            }
        }
    }
}

vectorized! {
    fn rows_vjp<T: Float>(y: &[T], gy: &[T], gx: &mut [T], n: usize) {
        for ((y, gy), gx) in y.chunks_exact(n).zip(gy.chunks_exact(n)).zip(gx.chunks_exact_mut(n)) {
            let dot = sum_of_2(y, gy, |y, gy| y * gy);
            for ((&y, &gy), gx) in y.iter().zip(gy).zip(gx) {
                *gx = y * (gy - dot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_score_has_probability_0_and_large_scores_stay_finite() {
        let mut y = [0.0f32; 3];
        fast(&[1000.0, f32::NEG_INFINITY, 1000.0], &mut y, 3);
        assert_eq!(y, [0.5, 0.0, 0.5]);
    }
}
