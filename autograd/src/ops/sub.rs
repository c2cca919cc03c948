//! # `sub`
//!
//! ```text
//! y = a − b        dy = da − db        ā = ȳ,   b̄ = −ȳ
//! ```

use gradus_tensor::{Real, Shape, ShapeError, Tensor};

use super::{numel, same};
use crate::{Declared, Evaluated, Op, Samples, Saved, Saves, Var, Want};

/// y = a − b, of one shape (the operators insert the expansion that broadcasting wants).
#[derive(Debug)]
pub struct Sub;

impl<T: Real> Op<T> for Sub {
    fn name(&self) -> &'static str {
        <Self as Declared<T>>::NAME
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        same("sub", ins)
    }
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        numel(out)
    }
    fn saves(&self) -> Saves {
        Saves::NONE
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].sub(ins[1]).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![saved.grad(0, || gy.clone()), saved.grad(1, || -gy)]
    }
}

impl<T: Real> Declared<T> for Sub {
    const NAME: &'static str = "sub";
    const MATH: &'static str = "y = a − b;  ā = ȳ,  b̄ = −ȳ";
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (m, n) = (g.extent(), g.extent());
        let (a, b) = (g.normal([m, n]), g.normal([m, n]));
        vec![
            (Sub, vec![a, g.strided(&b)]),
            (Sub, vec![g.normal([]), g.normal([])]),
            (Sub, vec![g.normal([0, 2]), g.normal([0, 2])]),
        ]
    }
}
