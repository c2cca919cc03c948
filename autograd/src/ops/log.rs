//! ```text
//! y = ln x        dy = dx/x        x̄ = ȳ/x
//! ```

use super::pointwise::Pointwise;
use crate::{Real, Samples, Saved, Saves, Shape, Tensor, Var};

/// The op y = ln x, x > 0.
#[derive(Debug, Default)]
pub struct Log;

impl<T: Real> Pointwise<T> for Log {
    const NAME: &'static str = "log";
    const MATH: &'static str = "y = ln x;  x̄ = ȳ/x";
    const SAVES: Saves = Saves::INPUTS;

    fn f(x: &Tensor<T>) -> Tensor<T> {
        Tensor::elementwise([x], "log(x)", |[x]| x.ln())
    }

    fn vjp<'t>(saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        gy / saved.x(0)
    }

    fn domain(g: &mut Samples, shape: Shape) -> Tensor<T> {
        g.positive(shape)
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the natural logarithm of every element.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn log(&self) -> Self {
        self.tape().apply(Log, &[self])
    }
}
