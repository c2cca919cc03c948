//! ```text
//! u = XW + 1bᵀ        y = gelu(u)        dy = gelu′(u) ∘ (dX W + X dW + 1dbᵀ)
//! ū = ȳ ∘ gelu′(u)    X̄ = Ū Wᵀ,   W̄ = Xᵀ Ū,   b̄ = Σ_rows ū
//! ```
//!
//! The first half of a feed-forward network: `linear` followed by `gelu` (tanh form); see their pages for the derivations. The
//! VJP reads u, which is saved. On a GPU the product's kernel writes u and y together, so u is not read again to compute y.

use super::gelu::Gelu;
use super::linear::Linear;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The op gelu(xw + b): x (…, k), w (k, n), b (n) → (…, n).
#[derive(Debug)]
pub struct LinearGelu;

impl<T: Real> Op<T> for LinearGelu {
    const NAME: &'static str = "linear_gelu";
    const MATH: &'static str = "y = gelu(u), u = XW + b;  Ū = ȳ ∘ gelu′(u),  X̄ = Ū Wᵀ,  W̄ = Xᵀ Ū,  b̄ = Σ ū";
    const SAVES: Saves = Saves::INPUTS.factor(0);
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        Op::<T>::shape(&Linear, ins)
    }
    fn flops(&self, ins: &[&Shape], out: &Shape) -> u64 {
        Op::<T>::flops(&Linear, ins, out) + Op::<T>::flops(&Gelu, &[out], out)
    }
    fn eval(&self, ins: &[&Tensor<T>], want: Want) -> Evaluated<T> {
        let (out, u) = ins[0].linear_gelu(ins[1], ins[2], want == Want::Vjp);
        Evaluated { out, residuals: u.into_iter().collect() }
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        of_the_product(saved, &saved.residual(0).gelu_vjp(gy.value()).flat())
    }
    fn vjp_once<'t>(&self, mut saved: Saved<'t, T>, gy: Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let g = saved.take_residuals()[0].gelu_vjp(gy.value()).flat();
        drop(gy);
        of_the_product(&saved, &g)
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let tape = ins[0].tape();
        let u = tape.scope("linear", || Linear.reference(ins))?;
        tape.scope("gelu", || Gelu.reference(&[u]))
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        // Keeps |u| small: for u ≪ 0, 1 + tanh(…) in the reference cancels to rounding error.
        let half = |g: &mut Samples, shape: &[usize]| g.normal(shape).affine(0.5, 0.0);
        let (a, m, k, n) = (g.extent(), g.extent(), g.extent(), g.extent());
        let (x, batch, w, b) = (half(g, &[m, k]), half(g, &[a, m, k]), half(g, &[k, n]), half(g, &[n]));
        vec![
            (LinearGelu, vec![batch.clone(), w.clone(), b.clone()]),
            (LinearGelu, vec![g.strided(&x), g.strided(&w), b.clone()]),
            (LinearGelu, vec![g.strided(&batch), w.clone(), b.clone()]),
            (LinearGelu, vec![half(g, &[k]), w.clone(), b.clone()]),
            (LinearGelu, vec![half(g, &[m, 0]), half(g, &[0, n]), b.clone()]),
            (LinearGelu, vec![half(g, &[0, k]), w, b]),
            (LinearGelu, vec![x, half(g, &[k, 0]), half(g, &[0])]),
        ]
    }
}

/// Returns X̄, W̄ and b̄ for the cotangent g of u.
fn of_the_product<'t, T: Real>(saved: &Saved<'t, T>, g: &Tensor<T>) -> Vec<Option<Var<'t, T>>> {
    let (x, w) = (saved.x(0).value().flat(), saved.x(1).value());
    let like = |i: usize, grad: Tensor<T>| saved.x(i).constant(grad.reshape(*saved.shape(i)));
    vec![
        saved.grad(0, || like(0, g.matmul_weights(&w.t()))),
        saved.grad(1, || like(1, x.t().matmul(g))),
        saved.grad(2, || like(2, g.sum(&[0]))),
    ]
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns gelu((…, k)·w (k, n) + b (n)) → (…, n), GELU in its tanh form.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn linear_gelu(&self, w: &Self, b: &Self) -> Self {
        self.tape().apply(LinearGelu, &[self, w, b])
    }
}
