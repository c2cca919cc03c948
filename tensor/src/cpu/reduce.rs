//! Sums.

use super::same_len;
use crate::Real;

/// yⱼ = Σᵢ xᵢⱼ over rows of n.
pub fn naive_sum_rows<T: Real>(x: &[T], y: &mut [T], n: usize) {
    same_len("sum_rows", &[y.len(), n]);
    super::row_count("sum_rows", x.len(), n);
    y.fill(T::zero());
    for x in x.chunks_exact(n.max(1)) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y += x;
        }
    }
}

/// yᵢ = Σⱼ xᵢⱼ over rows of n.
pub fn naive_sum_cols<T: Real>(x: &[T], y: &mut [T], n: usize) {
    same_len("sum_cols", &[x.len(), y.len() * n]);
    for (i, y) in y.iter_mut().enumerate() {
        *y = T::zero();
        for &x in &x[i * n..][..n] {
            *y += x;
        }
    }
}

/// Σ xᵢ² in f64.
pub fn naive_sum_squares<T: Real>(x: &[T]) -> f64 {
    x.iter().map(|x| x.to_f64() * x.to_f64()).sum()
}
