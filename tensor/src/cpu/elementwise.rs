//! Arithmetic, element by element.

use super::{parallel, same_len};
use crate::Scalar;
use crate::simd::{Float, vectorized};

/// y += x.
pub fn naive_accumulate<T: Scalar>(y: &mut [T], x: &[T]) {
    same_len("accumulate", &[y.len(), x.len()]);
    for (y, &x) in y.iter_mut().zip(x) {
        *y += x;
    }
}

/// z = x + y.
pub fn naive_add<T: Scalar>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("add", &[x.len(), y.len(), z.len()]);
    for ((&x, &y), z) in x.iter().zip(y).zip(z) {
        *z = x + y;
    }
}

/// z = x − y.
pub fn naive_sub<T: Scalar>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("sub", &[x.len(), y.len(), z.len()]);
    for ((&x, &y), z) in x.iter().zip(y).zip(z) {
        *z = x - y;
    }
}

/// z = x ∘ y.
pub fn naive_mul<T: Scalar>(x: &[T], y: &[T], z: &mut [T]) {
    same_len("mul", &[x.len(), y.len(), z.len()]);
    for ((&x, &y), z) in x.iter().zip(y).zip(z) {
        *z = x * y;
    }
}

/// y = a·x + b.
pub fn naive_affine<T: Scalar>(x: &[T], a: T, b: T, y: &mut [T]) {
    same_len("affine", &[x.len(), y.len()]);
    for (&x, y) in x.iter().zip(y) {
        *y = a * x + b;
    }
}

/// [`naive_accumulate`], vectorised and parallel.
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

/// [`naive_add`], vectorised and parallel.
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

/// [`naive_sub`], vectorised and parallel.
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

/// [`naive_mul`], vectorised and parallel.
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

/// [`naive_affine`], vectorised and parallel.
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

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    type Binary<T> = fn(&[T], &[T], &mut [T]);

    /// Elementwise arithmetic rounds each operation once on both sides: the bits are equal.
    fn agrees<T: Float>() {
        let table: [[Binary<T>; 2]; 4] = [
            [fast_add, naive_add],
            [fast_sub, naive_sub],
            [fast_mul, naive_mul],
            [|x, y, z| fast_affine(x, y[0], T::lit(0.3), z), |x, y, z| naive_affine(x, y[0], T::lit(0.3), z)],
        ];
        for n in LENGTHS.into_iter().skip(1) {
            let (x, y): (Vec<T>, Vec<T>) = (normals(n, 1), normals(n, 2));
            for [fast, naive] in table {
                let mut want = vec![T::one(); n];
                naive(&x, &y, &mut want);
                let got = on_threads(|| {
                    let mut z = vec![T::one(); n];
                    fast(&x, &y, &mut z);
                    z
                });
                assert_eq!(got, want);
            }
            let mut want = y.clone();
            naive_accumulate(&mut want, &x);
            let got = on_threads(|| {
                let mut y = y.clone();
                fast_accumulate(&mut y, &x);
                y
            });
            assert_eq!(got, want);
        }
    }

    #[test]
    fn fast_is_naive_to_the_bit() {
        agrees::<f32>();
        agrees::<f64>();
    }

    #[test]
    #[should_panic(expected = "add: slices of one length expected, got [2, 3, 3]")]
    fn lengths_that_disagree_are_named() {
        fast_add(&[0.0f32; 2], &[0.0; 3], &mut [0.0; 3]);
    }
}
