//! GELU in its tanh form (GPT-1 §4.1; Hendrycks and Gimpel 2016, §2).
//!
//! ```text
//! u(x) = √(2/π)·(x + 0.044715 x³)          y = ½x·(1 + tanh u)
//! dy/dx = ½(1 + t) + ½x·(1 − t²)·u′,  t = tanh u,  u′ = √(2/π)·(1 + 3·0.044715 x²)
//! ```

use super::same_len;
use crate::Real;

/// √(2/π).
pub const SCALE: f64 = 0.797_884_560_802_865_4;
/// The cubic term's coefficient.
pub const CUBIC: f64 = 0.044715;

/// y = ½x(1 + tanh u).
pub fn naive<T: Real>(x: &[T], y: &mut [T]) {
    same_len("gelu", &[x.len(), y.len()]);
    for (&x, y) in x.iter().zip(y) {
        let u = T::lit(SCALE) * (x + T::lit(CUBIC) * x * x * x);
        *y = T::lit(0.5) * x * (T::one() + u.tanh());
    }
}

/// x̄ = ȳ·(½(1 + t) + ½x(1 − t²)u′).
pub fn naive_vjp<T: Real>(x: &[T], gy: &[T], gx: &mut [T]) {
    same_len("gelu_vjp", &[x.len(), gy.len(), gx.len()]);
    let half = T::lit(0.5);
    for ((&x, &gy), gx) in x.iter().zip(gy).zip(gx) {
        let t = (T::lit(SCALE) * (x + T::lit(CUBIC) * x * x * x)).tanh();
        let du = T::lit(SCALE) * (T::one() + T::lit(3.0 * CUBIC) * x * x);
        *gx = gy * (half * (T::one() + t) + half * x * (T::one() - t * t) * du);
    }
}
