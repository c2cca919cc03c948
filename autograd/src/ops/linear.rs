//! ```text
//! Y = XW + 1bᵀ        dY = dX W + X dW + 1dbᵀ        X̄ = Ȳ Wᵀ,   W̄ = Xᵀ Ȳ,   b̄ = Σ_rows ȳ
//! ```
//!
//! X holds a row for every position of the leading axes. The output starts as the bias, and the product is accumulated into it.

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The op xw + b: x (…, k), w (k, n), b (n) → (…, n).
#[derive(Debug)]
pub struct Linear;

impl<T: Real> Op<T> for Linear {
    const NAME: &'static str = "linear";
    const MATH: &'static str = "Y = XW + b;  X̄ = Ȳ Wᵀ,  W̄ = Xᵀ Ȳ,  b̄ = Σ ȳ";
    const SAVES: Saves = Saves::INPUTS.factor(0);
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        match (ins[0].split_last(), &ins[1][..], &ins[2][..]) {
            (Some((k, lead)), &[rows, n], &[cols]) if *k == rows && n == cols => Ok(ins[0].with(lead.len(), n)),
            _ => Err("[…,k]·[k,n] + [n] → […,n]".into()),
        }
    }
    fn flops(&self, ins: &[&Shape], out: &Shape) -> u64 {
        numel(out) * (2 * ins[1][0] as u64 + 1)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].linear(ins[1], ins[2]).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let (x, w, g) = (saved.x(0).value().flat(), saved.x(1).value(), gy.value().dense().flat());
        let like = |i: usize, grad: Tensor<T>| gy.constant(grad.reshape(*saved.shape(i)));
        vec![
            saved.grad(0, || like(0, g.matmul_weights(&w.t()))),
            saved.grad(1, || like(1, x.t().matmul(&g))),
            saved.grad(2, || like(2, g.sum(&[0]))),
        ]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (x, w, b) = (&ins[0], &ins[1], &ins[2]);
        let (rows, k, _) = x.shape().around(x.shape().len() - 1);
        let out = x.shape().with(x.shape().len() - 1, b.shape()[0]);
        Some(x.reshape([rows, k]).matmul(w).reshape(out) + b)
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (a, m, k, n) = (g.extent(), g.extent(), g.extent(), g.extent());
        let (x, w) = (g.normal([m, k]), g.normal([k, n]));
        let batch = g.normal([a, m, k]);
        vec![
            (Linear, vec![g.normal([a, m, k]), w.clone(), g.normal([n])]),
            (Linear, vec![g.strided(&x), g.strided(&w), g.normal([n])]),
            (Linear, vec![g.strided(&batch), w.clone(), g.normal([n])]),
            (Linear, vec![g.normal([k]), w.clone(), g.normal([n])]),
            (Linear, vec![g.normal([m, 0]), g.normal([0, n]), g.normal([n])]),
            (Linear, vec![g.normal([0, k]), w, g.normal([n])]),
            (Linear, vec![x, g.normal([k, 0]), g.normal([0])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns (…, k)·w (k, n) + b (n) → (…, n).
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn linear(&self, w: &Self, b: &Self) -> Self {
        self.tape().apply(Linear, &[self, w, b])
    }
}
