//! # `sigmoid`
//!
//! ```text
//! y = σ(x) = 1/(1 + e^−x)
//! dy = e^−x/(1 + e^−x)² dx = y (1 − y) dx        x̄ = ȳ ∘ y ∘ (1 − y)
//! ```
//!
//! The derivative is a function of the *output*, so the input can be freed at once.

use gradus_tensor::{Real, Tensor};

use super::pointwise::{Elementwise, Pointwise};
use crate::{Samples, Saved, Saves, Var};

/// y = 1/(1 + e^−x).
#[derive(Clone, Copy, Debug)]
pub struct Sigmoid;

impl<T: Real> Pointwise<T> for Sigmoid {
    const NAME: &'static str = "sigmoid";
    const MATH: &'static str = "y = 1/(1 + e^−x);  x̄ = ȳ ∘ y ∘ (1 − y)";
    const FLOPS: u64 = 3; // e, +, ÷: turning a sign is no arithmetic
    const SAVES: Saves = Saves::OUTPUT;

    fn f(self, x: T) -> T {
        T::one() / (T::one() + (-x).exp())
    }

    fn map(self, x: &Tensor<T>) -> Tensor<T> {
        x.sigmoid()
    }

    fn vjp<'t>(self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        let y = saved.y();
        gy * (y * (1.0 - y))
    }

    fn samples(g: &mut Samples) -> Vec<(Self, Tensor<T>)> {
        let (m, n) = (g.extent(), g.extent());
        let x = g.normal([m, n]);
        vec![(Sigmoid, g.strided(&x)), (Sigmoid, g.normal([])), (Sigmoid, g.normal([0]))]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// The logistic function of every element.
    #[track_caller]
    pub fn sigmoid(&self) -> Self {
        self.tape().apply(Elementwise(Sigmoid), &[self])
    }
}
