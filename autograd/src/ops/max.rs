//! ```text
//! y = max x along one axis, which stays with extent 1        x̄ᵢ = ȳ where i is the first of the largest, else 0
//! ```
//!
//! At a tie max has no derivative. By convention the first of the largest gets all of ȳ, a subgradient.

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The maximum along `axis`, kept with extent 1; NaN is ignored unless it comes first.
#[derive(Debug)]
pub struct Max {
    /// The axis.
    pub axis: usize,
}

impl<T: Real> Op<T> for Max {
    const NAME: &'static str = "max";
    const MATH: &'static str = "y = max x along an axis;  x̄ᵢ = ȳ where i is the first of the largest, else 0";
    const SAVES: Saves = Saves::INPUTS;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        match ins[0].get(self.axis) {
            Some(1..) => Ok(ins[0].with(self.axis, 1)),
            _ => Err(format!("an axis {} of extent at least 1", self.axis)),
        }
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].max(self.axis).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let x = saved.x(0).value();
        vec![Some(gy.expand(*x.shape()).select(&x.is_max(self.axis), &gy.constant(x.zeros_like(*x.shape()))))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (a, b, c) = (g.extent(), g.extent(), g.extent());
        let x = g.distinct([a, b, c]);
        vec![
            (Max { axis: 2 }, vec![g.strided(&x)]),
            (Max { axis: 1 }, vec![g.distinct([a, b, c])]),
            (Max { axis: 0 }, vec![g.distinct([a])]),
            (Max { axis: 1 }, vec![g.distinct([0, b])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the maximum along `axis`, kept with extent 1; of equal maxima, the first gets the gradient.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn max(&self, axis: usize) -> Self {
        self.tape().apply(Max { axis }, &[self])
    }
}
