//! Elementwise arithmetic.

use super::{parallel, same_len};
use crate::Scalar;
use crate::simd::{Float, vectorized};

/// Computes y += x.
pub fn naive_accumulate<T: Scalar>(y: &mut [T], x: &[T]) {
    same_len("accumulate", &[y.len(), x.len()]);
    for (y, &x) in y.iter_mut().zip(x) {
        *y += x;
    }
}

/// Computes z = x + y.
pub fn naive_add<T: Scalar>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("add", &[x.len(), y.len(), z.len()]);
    for ((&x, &y), z) in x.iter().zip(y).zip(z) {
        *z = x + y;
    }
}

/// Computes z = x − y.
pub fn naive_sub<T: Scalar>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("sub", &[x.len(), y.len(), z.len()]);
    for ((&x, &y), z) in x.iter().zip(y).zip(z) {
        *z = x - y;
    }
}

/// Computes z = x ∘ y.
pub fn naive_mul<T: Scalar>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("mul", &[x.len(), y.len(), z.len()]);
    for ((&x, &y), z) in x.iter().zip(y).zip(z) {
        *z = x * y;
    }
}

/// Computes y = a·x + b.
pub fn naive_affine<T: Scalar>(x: &[T], a: T, b: T, y: &mut [T]) {
    same_len("affine", &[x.len(), y.len()]);
    for (&x, y) in x.iter().zip(y) {
        *y = a * x + b;
    }
}

/// Computes [`naive_accumulate`], vectorised and parallel.
pub fn fast_accumulate<T: Float>(y: &mut [T], x: &[T]) {
    same_len("accumulate", &[y.len(), x.len()]);
    parallel::each_2(1, x, y, accumulate::<T>);
}

vectorized! {
    fn accumulate<T: Float>(x: &[T], y: &mut [T]) {
        for (&x, y) in x.iter().zip(y) {
            *y += x;
        }
    }
}

/// Computes [`naive_add`], vectorised and parallel.
pub fn fast_add<T: Float>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("add", &[x.len(), y.len(), z.len()]);
    parallel::each_3(1, x, y, z, add::<T>);
}

vectorized! {
    fn add<T: Float>(x: &[T], y: &[T], z: &mut [T]) {
        for ((&x, &y), z) in x.iter().zip(y).zip(z) {
            *z = x + y;
        }
    }
}

/// Computes [`naive_sub`], vectorised and parallel.
pub fn fast_sub<T: Float>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("sub", &[x.len(), y.len(), z.len()]);
    parallel::each_3(1, x, y, z, sub::<T>);
}

vectorized! {
    fn sub<T: Float>(x: &[T], y: &[T], z: &mut [T]) {
        for ((&x, &y), z) in x.iter().zip(y).zip(z) {
            *z = x - y;
        }
    }
}

/// Computes [`naive_mul`], vectorised and parallel.
pub fn fast_mul<T: Float>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("mul", &[x.len(), y.len(), z.len()]);
    parallel::each_3(1, x, y, z, mul::<T>);
}

vectorized! {
    fn mul<T: Float>(x: &[T], y: &[T], z: &mut [T]) {
        for ((&x, &y), z) in x.iter().zip(y).zip(z) {
            *z = x * y;
        }
    }
}

/// Computes [`naive_affine`], vectorised and parallel.
pub fn fast_affine<T: Float>(x: &[T], a: T, b: T, y: &mut [T]) {
    same_len("affine", &[x.len(), y.len()]);
    parallel::each_2(1, x, y, |x, y| affine(x, a, b, y));
}

vectorized! {
    fn affine<T: Float>(x: &[T], a: T, b: T, y: &mut [T]) {
        for (&x, y) in x.iter().zip(y) {
            *y = a * x + b;
        }
    }
}
