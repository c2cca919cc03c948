//! ```text
//! y = a/b        dy = da/b − a db/b² = da/b − y db/b        ā = ȳ/b,   b̄ = −ȳ ∘ y/b
//! ```
//!
//! y is recomputed from a and b, which are kept anyway.

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The op y = a/b, element by element, of one shape; b ≠ 0.
#[derive(Debug)]
pub struct Div;

impl<T: Real> Op<T> for Div {
    const NAME: &'static str = "div";
    const MATH: &'static str = "y = a/b;  ā = ȳ/b,  b̄ = −ȳ ∘ y/b";
    const SAVES: Saves = Saves::INPUTS;
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        numel(out)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        Tensor::elementwise([ins[0], ins[1]], "x / y", |[x, y]| x / y).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let (a, b) = (saved.x(0), saved.x(1));
        vec![saved.grad(0, || gy / b), saved.grad(1, || -(gy / b) * (a / b))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (m, n) = (g.extent(), g.extent());
        let (a, b) = (g.normal([m, n]), g.off_zero([m, n]));
        vec![
            (Div, vec![a, g.strided(&b)]),
            (Div, vec![g.normal([]), g.off_zero([])]),
            (Div, vec![g.normal([2, 0]), g.off_zero([2, 0])]),
        ]
    }
}
