//! # `select`
//!
//! ```text
//! y = a where the mask holds, b elsewhere        ā = ȳ where it holds, else 0        b̄ = 0 where it holds, else ȳ
//! ```
//!
//! What is not selected is not touched: unlike mask ∘ a, an infinity there does no harm.

use std::sync::Arc;

use gradus_tensor::{Real, Shape, ShapeError, Tensor};

use super::same;
use crate::{Declared, Evaluated, Op, Samples, Saved, Saves, Var, Want};

/// Element by element a or b, of one shape.
#[derive(Debug)]
pub struct Select {
    /// One for each element of y, in row-major order; true selects a.
    pub mask: Arc<[bool]>,
}

impl<T: Real> Op<T> for Select {
    fn name(&self) -> &'static str {
        <Self as Declared<T>>::NAME
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        let out = same("select", ins)?;
        let n = self.mask.len();
        if out.numel() == n { Ok(out) } else { Err(ShapeError::new("select", format!("as many elements as the mask, {n}"), ins)) }
    }
    fn flops(&self, _: &[&Shape], _: &Shape) -> u64 {
        0
    }
    fn saves(&self) -> Saves {
        Saves::NONE
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let (a, b) = (ins[0].dense(), ins[1].dense());
        let values = self.mask.iter().zip(a.as_slice()).zip(b.as_slice());
        let select = |((&m, &a), &b): ((&bool, &T), &T)| if m { a } else { b };
        Tensor::write(*a.shape(), |y| y.iter_mut().zip(values).for_each(|(y, v)| *y = select(v))).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let zero = gy.tape().constant(Tensor::zeros(*gy.shape()));
        let mask = || self.mask.clone();
        vec![saved.grad(0, || gy.select(mask(), &zero)), saved.grad(1, || zero.select(mask(), gy))]
    }
}

impl<T: Real> Declared<T> for Select {
    const NAME: &'static str = "select";
    const MATH: &'static str = "y = a where mask, else b;  ā = ȳ where mask, else 0,  b̄ = 0 where mask, else ȳ";
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (m, n) = (g.extent(), 1 + g.extent());
        // At least one of each, so that both gradients are seen.
        let mask = (0..m * n).map(|i| i == 0 || i > 1 && g.index(2) == 0).collect();
        let (a, b) = (g.normal([m, n]), g.normal([m, n]));
        vec![
            (Select { mask }, vec![g.strided(&a), b]),
            (Select { mask: [true].into() }, vec![g.normal([]), g.normal([])]),
            (Select { mask: [].into() }, vec![g.normal([0, 2]), g.normal([0, 2])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// This value where `mask` (row-major, of the result's size) holds, `other` elsewhere.
    #[track_caller]
    pub fn select(&self, mask: impl Into<Arc<[bool]>>, other: &Self) -> Self {
        self.tape().apply(Select { mask: mask.into() }, &[self, other])
    }
}
