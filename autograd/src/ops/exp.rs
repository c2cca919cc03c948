//! # `exp`
//!
//! ```text
//! y = eˣ        dy = y dx        x̄ = ȳ ∘ y
//! ```
//!
//! The derivative is the *output*, so the input can be freed at once.

use gradus_tensor::{Real, Tensor};

use super::pointwise::{Elementwise, Pointwise};
use crate::{Samples, Saved, Saves, Var};

/// y = eˣ.
#[derive(Clone, Copy, Debug)]
pub struct Exp;

impl<T: Real> Pointwise<T> for Exp {
    const NAME: &'static str = "exp";
    const MATH: &'static str = "y = eˣ;  x̄ = ȳ ∘ y";
    const SAVES: Saves = Saves::OUTPUT;

    fn f(self, x: T) -> T {
        x.exp()
    }

    fn map(self, x: &Tensor<T>) -> Tensor<T> {
        x.exp()
    }

    fn vjp<'t>(self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        gy * saved.y()
    }

    fn samples(g: &mut Samples) -> Vec<(Self, Tensor<T>)> {
        let (m, n) = (g.extent(), g.extent());
        let x = g.normal([m, n]);
        vec![(Exp, g.strided(&x)), (Exp, g.normal([])), (Exp, g.normal([0]))]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// eˣ of every element.
    #[track_caller]
    pub fn exp(&self) -> Self {
        self.tape().apply(Elementwise(Exp), &[self])
    }
}
