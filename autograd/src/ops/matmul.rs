//! ```text
//! Y = AB        dY = dA B + A dB        Ā = Ȳ Bᵀ,   B̄ = Aᵀ Ȳ
//!
//! ⟨Ȳ, dA B⟩ = tr(Ȳᵀ dA B) = tr(B Ȳᵀ dA) = ⟨Ȳ Bᵀ, dA⟩, and likewise for B.
//! ```
//!
//! Leading axes are a batch. A transposed operand is a view whose strides go to the kernel; nothing is copied.

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The matrix product (…, m, k)·(…, k, n) → (…, m, n), with equal leading axes.
#[derive(Debug)]
pub struct MatMul;

impl<T: Real> Op<T> for MatMul {
    const NAME: &'static str = "matmul";
    const MATH: &'static str = "Y = AB;  Ā = Ȳ Bᵀ,  B̄ = Aᵀ Ȳ";
    const SAVES: Saves = Saves::INPUTS.factor(0).factor(1);
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let (a, b) = (ins[0], ins[1]);
        let r = a.len();
        if r < 2 || b.len() != r || a[..r - 2] != b[..r - 2] || a[r - 1] != b[r - 2] {
            return Err("[…,m,k]·[…,k,n] → […,m,n] with equal leading axes".into());
        }
        Ok(a.with(r - 1, b[r - 1]))
    }
    fn flops(&self, ins: &[&Shape], out: &Shape) -> u64 {
        2 * numel(out) * ins[0][ins[0].len() - 1] as u64
    }
    fn eval(&self, ins: &[&Tensor<T>], want: Want) -> Evaluated<T> {
        // Without a VJP, a matrix on the right is usually a weight.
        let is_weight = want == Want::Value && ins[1].shape().len() == 2;
        if is_weight { ins[0].matmul_weights(ins[1]) } else { ins[0].matmul(ins[1]) }.into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![saved.grad(0, || gy.matmul(&saved.x(1).t())), saved.grad(1, || saved.x(0).t().matmul(gy))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (b, m, k, n) = (g.extent(), g.extent(), g.extent(), g.extent());
        let (x, y) = (g.normal([m, k]), g.normal([k, n]));
        let (u, v) = (g.normal([b, m, k]), g.normal([b, k, n]));
        vec![
            (MatMul, vec![x.clone(), y.clone()]),
            (MatMul, vec![g.strided(&x), g.strided(&y)]),
            (MatMul, vec![u.clone(), v.clone()]),
            (MatMul, vec![g.strided(&u), g.strided(&v)]),
            (MatMul, vec![g.normal([2, 2, m, k]), g.normal([2, 2, k, n])]),
            // A broadcast factor, with a stride of 0.
            (MatMul, vec![g.normal([m, 1]).expand([m, k]), g.normal([k, 1]).expand([k, n])]),
            (MatMul, vec![g.normal([m, 0]), g.normal([0, n])]),
            (MatMul, vec![g.normal([0, k]), g.normal([k, n])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the matrix product (…, m, k)·(…, k, n) → (…, m, n).
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn matmul(&self, other: &Self) -> Self {
        self.tape().apply(MatMul, &[self, other])
    }
}
