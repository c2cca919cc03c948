//! ```text
//! y = √x        y² = x  ⇒  2y dy = dx        x̄ = ȳ/(2y)
//! ```
//!
//! The derivative is a function of the *output*, so the input need not be saved.

use super::pointwise::Pointwise;
use crate::{Real, Samples, Saved, Saves, Shape, Tensor, Var};

/// The op y = √x, x > 0 (at 0 the derivative is infinite).
#[derive(Debug, Default)]
pub struct Sqrt;

impl<T: Real> Pointwise<T> for Sqrt {
    const NAME: &'static str = "sqrt";
    const MATH: &'static str = "y = √x;  x̄ = ȳ/(2y)";
    const SAVES: Saves = Saves::OUTPUT;

    fn f(x: &Tensor<T>) -> Tensor<T> {
        Tensor::elementwise([x], "sqrt(x)", |[x]| x.sqrt())
    }

    fn vjp<'t>(saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        gy / (2.0 * saved.y())
    }

    fn domain(g: &mut Samples, shape: Shape) -> Tensor<T> {
        g.positive(shape)
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the square root of every element.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn sqrt(&self) -> Self {
        self.tape().apply(Sqrt, &[self])
    }
}
