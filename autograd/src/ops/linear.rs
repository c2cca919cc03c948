//! # `linear`
//!
//! ```text
//! Y = XW + 1bᵀ        dY = dX W + X dW + 1dbᵀ        X̄ = Ȳ Wᵀ,   W̄ = Xᵀ Ȳ,   b̄ = Σ_rows ȳ
//! ```
//!
//! X holds a row for every position of the leading axes. The product is added onto the bias.

use gradus_tensor::kernels::{MatMut, Onto};
use gradus_tensor::{Real, Shape, ShapeError, Tensor};

use super::matmul::mat;
use super::numel;
use crate::{Declared, Evaluated, Op, Samples, Saved, Saves, Var, Want};

/// x (…, k), w (k, n), b (n) → (…, n).
#[derive(Debug)]
pub struct Linear;

/// All leading axes as one; a view of dense x.
fn flat<T: Real>(x: &Tensor<T>) -> Tensor<T> {
    let (rows, k, _) = x.shape().around(x.shape().len() - 1);
    if x.shape().len() == 2 { x.clone() } else { x.reshape([rows, k]) }
}

/// y ← onto + a·b.
fn product<T: Real>(a: &Tensor<T>, b: &Tensor<T>, y: &mut [T], onto: Onto<'_, T>) {
    let (rows, cols) = (a.shape()[0], b.shape()[1]);
    T::kernels().matmul(mat(a), mat(b), MatMut { data: y, rows, cols, row_stride: cols }, onto)
}

impl<T: Real> Op<T> for Linear {
    fn name(&self) -> &'static str {
        <Self as Declared<T>>::NAME
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        match (ins[0].split_last(), &ins[1][..], &ins[2][..]) {
            (Some((k, lead)), &[rows, n], &[cols]) if *k == rows && n == cols => Ok(ins[0].with(lead.len(), n)),
            _ => Err(ShapeError::new("linear", "[…,k]·[k,n] + [n] → […,n]", ins)),
        }
    }
    fn flops(&self, ins: &[&Shape], out: &Shape) -> u64 {
        numel(out) * (2 * ins[1][0] as u64 + 1)
    }
    fn saves(&self) -> Saves {
        Saves::INPUTS
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let (x, w, b) = (ins[0], ins[1], ins[2].dense());
        Tensor::write(x.shape().with(x.shape().len() - 1, b.len()), |y| {
            product(&flat(x), w, y, Onto::Row(b.as_slice()));
        })
        .into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let (x, w) = (flat(saved.x(0).value()), saved.x(1).value());
        let (tape, gy) = (gy.tape(), flat(&gy.value().dense()));
        let write = |i, fill: &dyn Fn(&mut [T])| saved.grad(i, || tape.constant(Tensor::write(*saved.shape(i), fill)));
        vec![
            write(0, &|gx| product(&gy, &w.permute(&[1, 0]), gx, Onto::Nothing)),
            write(1, &|gw| product(&x.permute(&[1, 0]), &gy, gw, Onto::Nothing)),
            write(2, &|gb| T::kernels().sum_rows(gy.as_slice(), gb, gb.len())),
        ]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (x, w, b) = (&ins[0], &ins[1], &ins[2]);
        let (rows, k, _) = x.shape().around(x.shape().len() - 1);
        let out = x.shape().with(x.shape().len() - 1, b.shape()[0]);
        Some(x.reshape([rows, k]).matmul(w).reshape(out) + b)
    }
}

impl<T: Real> Declared<T> for Linear {
    const NAME: &'static str = "linear";
    const MATH: &'static str = "Y = XW + b;  X̄ = Ȳ Wᵀ,  W̄ = Xᵀ Ȳ,  b̄ = Σ ȳ";
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
    /// (…, k)·w (k, n) + b (n) → (…, n).
    #[track_caller]
    pub fn linear(&self, w: &Self, b: &Self) -> Self {
        self.tape().apply(Linear, &[self, w, b])
    }
}
