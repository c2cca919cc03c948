//! # `sqrt`
//!
//! ```text
//! y = √x        y² = x  ⇒  2y dy = dx        x̄ = ȳ/(2y)
//! ```
//!
//! The derivative is a function of the *output*, so the input can be freed at once.

use gradus_tensor::{Real, Tensor};

use super::pointwise::{Elementwise, Pointwise};
use crate::{Samples, Saved, Saves, Var};

/// y = √x, x > 0 (at 0 the derivative is infinite).
#[derive(Clone, Copy, Debug)]
pub struct Sqrt;

impl<T: Real> Pointwise<T> for Sqrt {
    const NAME: &'static str = "sqrt";
    const MATH: &'static str = "y = √x;  x̄ = ȳ/(2y)";
    const SAVES: Saves = Saves::OUTPUT;

    fn f(self, x: T) -> T {
        x.sqrt()
    }

    fn vjp<'t>(self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        gy / (2.0 * saved.y())
    }

    fn samples(g: &mut Samples) -> Vec<(Self, Tensor<T>)> {
        let (m, n) = (g.extent(), g.extent());
        let x = g.positive([m, n]);
        vec![(Sqrt, g.strided(&x)), (Sqrt, g.positive([])), (Sqrt, g.positive([0]))]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// The square root of every element.
    #[track_caller]
    pub fn sqrt(&self) -> Self {
        self.tape().apply(Elementwise(Sqrt), &[self])
    }
}
