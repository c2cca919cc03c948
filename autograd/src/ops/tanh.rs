//! ```text
//! y = tanh x        dy = (1 − y²) dx        x̄ = ȳ ∘ (1 − y²)
//! ```
//!
//! The derivative is a function of the *output*, so the input need not be saved.

use super::pointwise::Pointwise;
use crate::{Real, Samples, Saved, Saves, Tensor, Var};

/// The op y = tanh x.
#[derive(Debug, Default)]
pub struct Tanh;

impl<T: Real> Pointwise<T> for Tanh {
    const NAME: &'static str = "tanh";
    const MATH: &'static str = "y = tanh x;  x̄ = ȳ ∘ (1 − y²)";
    const SAVES: Saves = Saves::OUTPUT;

    fn f(x: &Tensor<T>) -> Tensor<T> {
        x.tanh()
    }

    fn vjp<'t>(saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        let y = saved.y();
        gy * (1.0 - y * y)
    }

    fn samples(g: &mut Samples) -> Vec<Tensor<T>> {
        let n = g.extent();
        vec![g.normal([n, 3]), g.normal([]), g.normal([0])]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns tanh of every element.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn tanh(&self) -> Self {
        self.tape().apply(Tanh, &[self])
    }
}
