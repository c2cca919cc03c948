//! ```text
//! y = a + b        dy = da + db        ā = b̄ = ȳ
//! ```

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The op y = a + b, of one shape (the operators insert the expansion that broadcasting needs).
#[derive(Debug)]
pub struct Add;

impl<T: Real> Op<T> for Add {
    const NAME: &'static str = "add";
    const MATH: &'static str = "y = a + b;  ā = ȳ,  b̄ = ȳ";
    const SAVES: Saves = Saves::NONE;
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        numel(out)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].add(ins[1]).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![saved.grad(0, || gy.clone()), saved.grad(1, || gy.clone())]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (m, n) = (g.extent(), g.extent());
        let (a, b) = (g.normal([m, n]), g.normal([m, n]));
        vec![
            (Add, vec![g.strided(&a), b]),
            (Add, vec![g.normal([]), g.normal([])]),
            (Add, vec![g.normal([0, 2]), g.normal([0, 2])]),
        ]
    }
}
