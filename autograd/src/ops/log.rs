//! # `log`
//!
//! ```text
//! y = ln x        dy = dx/x        x̄ = ȳ/x
//! ```

use gradus_tensor::{Real, Tensor};

use super::pointwise::{Elementwise, Pointwise};
use crate::{Samples, Saved, Saves, Var};

/// y = ln x, x > 0.
#[derive(Clone, Copy, Debug)]
pub struct Log;

impl<T: Real> Pointwise<T> for Log {
    const NAME: &'static str = "log";
    const MATH: &'static str = "y = ln x;  x̄ = ȳ/x";
    const SAVES: Saves = Saves::INPUTS;

    fn f(self, x: T) -> T {
        x.ln()
    }

    fn vjp<'t>(self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        gy / saved.x(0)
    }

    fn samples(g: &mut Samples) -> Vec<(Self, Tensor<T>)> {
        let (m, n) = (g.extent(), g.extent());
        let x = g.positive([m, n]);
        vec![(Log, g.strided(&x)), (Log, g.positive([])), (Log, g.positive([0]))]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// The natural logarithm of every element.
    #[track_caller]
    pub fn log(&self) -> Self {
        self.tape().apply(Elementwise(Log), &[self])
    }
}
