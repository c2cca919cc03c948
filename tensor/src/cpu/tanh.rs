//! The hyperbolic tangent, elementwise.

use super::same_len;
use crate::Real;

/// yᵢ = tanh(xᵢ).
pub fn naive<T: Real>(x: &[T], y: &mut [T]) {
    same_len("tanh", &[x.len(), y.len()]);
    for (&x, y) in x.iter().zip(y) {
        *y = x.tanh();
    }
}
