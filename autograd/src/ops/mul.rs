//! ```text
//! y = a ∘ b        dy = da ∘ b + a ∘ db        ā = ȳ ∘ b,   b̄ = ȳ ∘ a
//! ```

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The op y = a ∘ b, element by element, of one shape.
#[derive(Debug)]
pub struct Mul;

impl<T: Real> Op<T> for Mul {
    const NAME: &'static str = "mul";
    const MATH: &'static str = "y = a ∘ b;  ā = ȳ ∘ b,  b̄ = ȳ ∘ a";
    const SAVES: Saves = Saves::INPUTS;
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        numel(out)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].mul(ins[1]).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![saved.grad(0, || gy * saved.x(1)), saved.grad(1, || gy * saved.x(0))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (m, n) = (g.extent(), g.extent());
        let (a, b) = (g.normal([m, n]), g.normal([m, n]));
        vec![
            (Mul, vec![a, g.strided(&b)]),
            (Mul, vec![g.normal([]), g.normal([])]),
            (Mul, vec![g.normal([2, 0]), g.normal([2, 0])]),
        ]
    }
}
