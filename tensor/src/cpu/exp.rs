//! eˣ, elementwise.

use super::same_len;
use crate::Real;

/// yᵢ = exp(xᵢ).
pub fn naive<T: Real>(x: &[T], y: &mut [T]) {
    same_len("exp", &[x.len(), y.len()]);
    for (&x, y) in x.iter().zip(y) {
        *y = x.exp();
    }
}
