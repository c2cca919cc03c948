//! ```text
//! y = max(x, 0)        dy = [x > 0] dx        x̄ = ȳ where y > 0, else 0
//! ```
//!
//! At its kink relu has no derivative. By convention relu′(0) := 0, a subgradient. As x > 0 exactly where y > 0, the input need
//! not be saved. NaN stays NaN.

use super::pointwise::Pointwise;
use crate::{Real, Samples, Saved, Saves, Tensor, Var};

/// The op y = max(x, 0).
#[derive(Debug, Default)]
pub struct Relu;

impl<T: Real> Pointwise<T> for Relu {
    const NAME: &'static str = "relu";
    const MATH: &'static str = "y = max(x, 0);  x̄ = ȳ where y > 0, else 0";
    const FLOPS: u64 = 0;
    const SAVES: Saves = Saves::OUTPUT;

    fn f(x: &Tensor<T>) -> Tensor<T> {
        Tensor::elementwise([x], "select(x, 0.0, x <= 0.0)", |[x]| if x <= T::zero() { T::zero() } else { x })
    }

    fn vjp<'t>(saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        let is_positive = |[y]: [T; 1]| if y > T::zero() { T::one() } else { T::zero() };
        let mask = Tensor::elementwise([saved.y().value()], "select(0.0, 1.0, x > 0.0)", is_positive);
        gy.select(&mask, &gy.zeros_like())
    }

    fn samples(g: &mut Samples) -> Vec<Tensor<T>> {
        let m = g.extent();
        let x = g.off_zero([m, 8]); // of either sign
        vec![g.strided(&x), g.positive([]), g.off_zero([0])]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns max(x, 0) of every element; relu′(0) := 0.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn relu(&self) -> Self {
        self.tape().apply(Relu, &[self])
    }
}
