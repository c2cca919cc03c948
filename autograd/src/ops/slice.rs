//! ```text
//! y = positions a … b of an axis of x        x̄ = ȳ there, 0 elsewhere
//! ```
//!
//! The result is a view: nothing is copied. The op is the adjoint of `pad`.

use std::ops::Range;

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The positions `range` of one axis.
#[derive(Debug)]
pub struct Slice {
    /// The axis.
    pub axis: usize,
    /// The positions.
    pub range: Range<usize>,
}

impl<T: Real> Op<T> for Slice {
    const NAME: &'static str = "slice";
    const MATH: &'static str = "y = positions a … b of an axis of x;  x̄ = ȳ there, 0 elsewhere";
    const SAVES: Saves = Saves::NONE;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let (axis, Range { start, end }) = (self.axis, self.range.clone());
        match ins[0].get(axis) {
            Some(&extent) if start <= end && end <= extent => Ok(ins[0].with(axis, end - start)),
            _ => Err(format!("an axis {axis} with the positions {start}..{end}")),
        }
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].slice(self.axis, self.range.clone()).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.pad(self.axis, self.range.start, saved.shape(0)[self.axis] - self.range.end))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (a, b, c) = (g.extent(), g.extent(), g.extent());
        let x = g.normal([a, b, c]);
        vec![
            (Slice { axis: 1, range: b / 2..b }, vec![g.strided(&x)]),
            (Slice { axis: 0, range: 0..a }, vec![g.normal([a])]),
            (Slice { axis: 1, range: 1..c + 1 }, vec![g.normal([a, c + 2])]),
            (Slice { axis: 0, range: a..a }, vec![g.normal([a, b])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the positions `range` of `axis`.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Self {
        self.tape().apply(Slice { axis, range }, &[self])
    }
}
