//! GELU in its tanh form (GPT-1 §4.1; Hendrycks and Gimpel 2016, §2).
//!
//! ```text
//! u(x) = √(2/π)·(x + 0.044715 x³)          y = ½x·(1 + tanh u)
//! dy/dx = ½(1 + t) + ½x·(1 − t²)·u′,  t = tanh u,  u′ = √(2/π)·(1 + 3·0.044715 x²)
//!
//! With s = σ(2u), ½(1 + t) = s and ½(1 − t²) = 2s(1 − s), so one exponential suffices:
//! y = x·s          dy/dx = s + x·s(1 − s)·2u′
//! ```
//!
//! If u′ overflows, which is so for |x| above a root of the largest number (4·10¹⁹ in f32), dy/dx is NaN: 0·∞.

use super::{parallel, same_len};
use crate::Scalar;
use crate::simd::{Elementary, Float, vectorized};

/// √(2/π).
pub const SCALE: f64 = 0.797_884_560_802_865_4;
/// The coefficient of the cubic term.
pub const CUBIC: f64 = 0.044715;

/// Computes y = ½x(1 + tanh u).
pub fn naive<T: Scalar>(x: &[T], y: &mut [T]) {
    same_len("gelu", &[x.len(), y.len()]);
    for (&x, y) in x.iter().zip(y) {
        let u = T::lit(SCALE) * (x + T::lit(CUBIC) * x * x * x);
        *y = T::lit(0.5) * x * (T::one() + u.tanh());
    }
}

/// Computes x̄ = ȳ·(½(1 + t) + ½x(1 − t²)u′).
pub fn naive_vjp<T: Scalar>(x: &[T], gy: &[T], gx: &mut [T]) {
    same_len("gelu_vjp", &[x.len(), gy.len(), gx.len()]);
    let half = T::lit(0.5);
    for ((&x, &gy), gx) in x.iter().zip(gy).zip(gx) {
        let t = (T::lit(SCALE) * (x + T::lit(CUBIC) * x * x * x)).tanh();
        let du = T::lit(SCALE) * (T::one() + T::lit(3.0 * CUBIC) * x * x);
        *gx = gy * (half * (T::one() + t) + half * x * (T::one() - t * t) * du);
    }
}

/// Computes [`naive`] as x·σ(2u), vectorised and parallel.
pub fn fast<T: Float>(x: &[T], y: &mut [T]) {
    same_len("gelu", &[x.len(), y.len()]);
    parallel::each_2(1, x, y, run::<T>);
}

/// Computes [`naive_vjp`], vectorised and parallel.
pub fn fast_vjp<T: Float>(x: &[T], gy: &[T], gx: &mut [T]) {
    same_len("gelu_vjp", &[x.len(), gy.len(), gx.len()]);
    parallel::each_3(1, x, gy, gx, run_vjp::<T>);
}

vectorized! {
    fn run<T: Float>(x: &[T], y: &mut [T]) {
        let (linear, cubic) = (T::lit(2.0 * SCALE), T::lit(2.0 * SCALE * CUBIC));
        for (&x, y) in x.iter().zip(y) {
            *y = x / (T::one() + (-(x * (linear + cubic * x * x))).fast_exp::<FMA>());
        }
    }
}

vectorized! {
    fn run_vjp<T: Float>(x: &[T], gy: &[T], gx: &mut [T]) {
        let (linear, cubic) = (T::lit(2.0 * SCALE), T::lit(2.0 * SCALE * CUBIC));
        let three = T::lit(3.0);
        for ((&x, &gy), gx) in x.iter().zip(gy).zip(gx) {
            let cube = cubic * x * x;
            let s = (x * (linear + cube)).fast_sigmoid::<FMA>();
            *gx = gy * (s + x * (s * (T::one() - s)) * (linear + three * cube));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_tails_are_finite() {
        let x = [-1e4f32, -30.0, 30.0, 1e4];
        let (mut y, mut gx) = ([0.0; 4], [0.0; 4]);
        fast(&x, &mut y);
        fast_vjp(&x, &[1.0; 4], &mut gx);
        assert_eq!(y.map(f32::abs), [0.0, 0.0, 30.0, 1e4]);
        assert_eq!(gx.map(f32::abs), [0.0, 0.0, 1.0, 1.0]);
    }
}
