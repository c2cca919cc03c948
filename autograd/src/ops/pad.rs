//! ```text
//! y = x with zeros before and after it along an axis        x̄ = ȳ at the positions of x
//! ```
//!
//! The op is the adjoint of `slice`.

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// Padding of x with zeros along one axis.
#[derive(Debug)]
pub struct Pad {
    /// The axis.
    pub axis: usize,
    /// The number of zeros before x.
    pub before: usize,
    /// The number of zeros after x.
    pub after: usize,
}

impl<T: Real> Op<T> for Pad {
    const NAME: &'static str = "pad";
    const MATH: &'static str = "y = x between zeros along an axis;  x̄ = ȳ at the positions of x";
    const SAVES: Saves = Saves::NONE;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        match ins[0].get(self.axis) {
            Some(&extent) => Ok(ins[0].with(self.axis, self.before + extent + self.after)),
            None => Err(format!("a shape with an axis {}", self.axis)),
        }
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].pad(self.axis, self.before, self.after).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.slice(self.axis, self.before..self.before + saved.shape(0)[self.axis]))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (a, b, c) = (g.extent(), g.extent(), g.extent());
        let x = g.normal([a, b, c]);
        vec![
            (Pad { axis: 1, before: 2, after: 1 }, vec![g.strided(&x)]),
            (Pad { axis: 0, before: 0, after: c }, vec![g.normal([a])]),
            (Pad { axis: 1, before: 0, after: 0 }, vec![g.normal([a, b])]),
            (Pad { axis: 0, before: 1, after: 1 }, vec![g.normal([0, b])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns this value with `before` zeros before it and `after` zeros after it along `axis`.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn pad(&self, axis: usize, before: usize, after: usize) -> Self {
        self.tape().apply(Pad { axis, before, after }, &[self])
    }
}
