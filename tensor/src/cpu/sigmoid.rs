//! The logistic function, elementwise.

use super::{parallel, same_len};
use crate::Real;
use crate::simd::{Float, vectorized};

/// yᵢ = 1/(1 + e^−xᵢ).
pub fn naive<T: Real>(x: &[T], y: &mut [T]) {
    same_len("sigmoid", &[x.len(), y.len()]);
    for (&x, y) in x.iter().zip(y) {
        *y = T::one() / (T::one() + (-x).exp());
    }
}

/// [`naive`], vectorised and parallel.
pub fn fast<T: Float>(x: &[T], y: &mut [T]) {
    same_len("sigmoid", &[x.len(), y.len()]);
    parallel::each_2(1, x, y, run::<T>);
}

vectorized! {
    fn run<T: Float>(x: &[T], y: &mut [T]) {
        for (&x, y) in x.iter().zip(y) {
            *y = x.fast_sigmoid::<FMA>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn agrees<T: Float>() {
        for n in LENGTHS {
            let x: Vec<T> = normals(n, 1).into_iter().map(|x: T| x * T::lit(5.0)).collect();
            let fast_y = on_threads(|| {
                let mut y = vec![T::one(); n];
                fast(&x, &mut y);
                y
            });
            let mut y = vec![T::zero(); n];
            naive(&x, &mut y);
            // One element alone has the bits it has in a vector, at every level that fuses and at every one that does not.
            let alone = |x: &T| if fuses() { x.fast_sigmoid::<true>() } else { x.fast_sigmoid::<false>() };
            assert!(x.iter().zip(&fast_y).all(|(x, y)| alone(x) == *y));
            // Each side is within two units of the last place.
            assert_close(&fast_y, &y, 4.0 * epsilon::<T>(), 0.0);
        }
    }

    #[test]
    fn fast_agrees_with_naive() {
        agrees::<f32>();
        agrees::<f64>();
    }
}
