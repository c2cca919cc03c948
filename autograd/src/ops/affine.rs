//! ```text
//! y = αx + β        dy = α dx        x̄ = αȳ
//! ```
//!
//! α and β are constants. Scaling, shifting and negation are all this op.

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The op y = αx + β.
#[derive(Debug)]
pub struct Affine {
    /// The factor α.
    pub scale: f64,
    /// The summand β.
    pub shift: f64,
}

impl<T: Real> Op<T> for Affine {
    const NAME: &'static str = "affine";
    const MATH: &'static str = "y = αx + β;  x̄ = αȳ";
    const SAVES: Saves = Saves::NONE;
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        2 * numel(out)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].affine(self.scale, self.shift).into()
    }
    fn vjp<'t>(&self, _: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.affine(self.scale, 0.0))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let n = g.extent();
        let op = Affine { scale: g.number(0.5, 2.0), shift: g.number(-1.0, 1.0) };
        vec![(op, vec![g.normal([n])]), (Affine { scale: -1.0, shift: 0.0 }, vec![g.normal([2, 0])])]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns αx + β.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn affine(&self, scale: f64, shift: f64) -> Self {
        self.tape().apply(Affine { scale, shift }, &[self])
    }
}
