//! ```text
//! y = σ(x) = 1/(1 + e^−x)
//! dy = e^−x/(1 + e^−x)² dx = y (1 − y) dx        x̄ = ȳ ∘ y ∘ (1 − y)
//! ```
//!
//! The derivative is a function of the *output*, so the input need not be saved.

use super::pointwise::Pointwise;
use crate::{Real, Saved, Saves, Tensor, Var};

/// The op y = 1/(1 + e^−x).
#[derive(Debug, Default)]
pub struct Sigmoid;

impl<T: Real> Pointwise<T> for Sigmoid {
    const NAME: &'static str = "sigmoid";
    const MATH: &'static str = "y = 1/(1 + e^−x);  x̄ = ȳ ∘ y ∘ (1 − y)";
    const FLOPS: u64 = 3; // e, +, ÷: a change of sign is not counted
    const SAVES: Saves = Saves::OUTPUT;

    fn f(x: &Tensor<T>) -> Tensor<T> {
        x.sigmoid()
    }

    fn vjp<'t>(saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        let y = saved.y();
        gy * (y * (1.0 - y))
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the logistic function of every element.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn sigmoid(&self) -> Self {
        self.tape().apply(Sigmoid, &[self])
    }
}
