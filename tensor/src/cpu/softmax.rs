//! Softmax over rows.
//!
//! ```text
//! yⱼ = e^(xⱼ − max x) / Σₖ e^(xₖ − max x)          x̄ⱼ = yⱼ·(ȳⱼ − Σₖ ȳₖyₖ)
//! ```

use super::{largest, row_count, same_len};
use crate::Real;

/// Each row of n: y = softmax x.
pub fn naive<T: Real>(x: &[T], y: &mut [T], n: usize) {
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

/// x̄ = y ∘ (ȳ − ⟨ȳ, y⟩), by rows of n.
pub fn naive_vjp<T: Real>(y: &[T], gy: &[T], gx: &mut [T], n: usize) {
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
