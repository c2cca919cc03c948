//! The logistic function, elementwise.

use super::same_len;
use crate::Real;

/// yᵢ = 1/(1 + e^−xᵢ).
pub fn naive<T: Real>(x: &[T], y: &mut [T]) {
    same_len("sigmoid", &[x.len(), y.len()]);
    for (&x, y) in x.iter().zip(y) {
        *y = T::one() / (T::one() + (-x).exp());
    }
}
