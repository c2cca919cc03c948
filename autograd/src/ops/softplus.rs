//! ```text
//! y = ln(1 + eˣ) = max(x, 0) + ln(1 + e^−|x|)        dy = eˣ/(1 + eˣ) dx = σ(x) dx        x̄ = ȳ ∘ σ(x)
//! ```
//!
//! A smooth max(x, 0) (Dugas et al. 2001), and −ln(1 − p) for a probability p whose logit is x. The second form never overflows.

use super::pointwise::Pointwise;
use crate::{Real, Saved, Saves, Tensor, Var};

/// The op y = ln(1 + eˣ).
#[derive(Debug, Default)]
pub struct Softplus;

impl<T: Real> Pointwise<T> for Softplus {
    const NAME: &'static str = "softplus";
    const MATH: &'static str = "y = ln(1 + eˣ);  x̄ = ȳ ∘ σ(x)";
    const FLOPS: u64 = 4; // e, 1 +, ln, +
    const SAVES: Saves = Saves::INPUTS;

    fn f(x: &Tensor<T>) -> Tensor<T> {
        Tensor::elementwise([x], "max(x, 0.0) + ln_1p(exp(-abs(x)))", |[x]| {
            let (positive, minus) = if x > T::zero() { (x, -x) } else { (T::zero(), x) };
            positive + minus.exp().ln_1p()
        })
    }

    fn vjp<'t>(saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        gy * saved.x(0).sigmoid()
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns ln(1 + eˣ) of every element.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn softplus(&self) -> Self {
        self.tape().apply(Softplus, &[self])
    }
}
