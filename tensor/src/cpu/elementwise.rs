//! Arithmetic, element by element.

use super::{row_count, same_len};
use crate::Real;

/// y += x.
pub fn naive_accumulate<T: Real>(y: &mut [T], x: &[T]) {
    same_len("accumulate", &[y.len(), x.len()]);
    for (y, &x) in y.iter_mut().zip(x) {
        *y += x;
    }
}

/// z = x + y.
pub fn naive_add<T: Real>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("add", &[x.len(), y.len(), z.len()]);
    for ((&x, &y), z) in x.iter().zip(y).zip(z) {
        *z = x + y;
    }
}

/// z = x − y.
pub fn naive_sub<T: Real>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("sub", &[x.len(), y.len(), z.len()]);
    for ((&x, &y), z) in x.iter().zip(y).zip(z) {
        *z = x - y;
    }
}

/// z = x ∘ y.
pub fn naive_mul<T: Real>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("mul", &[x.len(), y.len(), z.len()]);
    for ((&x, &y), z) in x.iter().zip(y).zip(z) {
        *z = x * y;
    }
}

/// y = a·x + b.
pub fn naive_affine<T: Real>(x: &[T], a: T, b: T, y: &mut [T]) {
    same_len("affine", &[x.len(), y.len()]);
    for (&x, y) in x.iter().zip(y) {
        *y = a * x + b;
    }
}

/// Every row of y ← bias.
pub fn naive_fill_rows<T: Real>(bias: &[T], y: &mut [T]) {
    row_count("fill_rows", y.len(), bias.len());
    for y in y.chunks_exact_mut(bias.len().max(1)) {
        y.copy_from_slice(bias);
    }
}
