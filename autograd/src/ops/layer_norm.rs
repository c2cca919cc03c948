//! ```text
//! y = g ∘ x̂ + b,   x̂ = r (x − μ),   μ = mean x,   r = (mean (x − μ)² + ε)^(−1/2)   (Ba, Kiros, Hinton 2016; along the last axis)
//!
//! dx̂ = r (dx − mean dx) + (x − μ) dr,    dr = −r³ mean((x − μ) ∘ dx) = −r² mean(x̂ ∘ dx)
//!     = r (dx − mean dx − x̂ mean(x̂ ∘ dx)),   a symmetric map of dx, so with a = g ∘ ȳ
//! x̄ = r (a − mean a − x̂ mean(x̂ ∘ a)),   ḡ = Σ_rows ȳ ∘ x̂,   b̄ = Σ_rows ȳ
//! ```

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// Layer normalisation: each row of x (…, n) is brought to mean 0 and variance 1, times gain (n) plus bias (n).
#[derive(Debug)]
pub struct LayerNorm {
    /// The ε under the root.
    pub eps: f64,
}

impl<T: Real> Op<T> for LayerNorm {
    const NAME: &'static str = "layer_norm";
    const MATH: &'static str =
        "y = g ∘ x̂ + b, x̂ = r(x − μ);  x̄ = r(a − mean a − x̂ mean(x̂ ∘ a)), a = g ∘ ȳ,  ḡ = Σ ȳ ∘ x̂,  b̄ = Σ ȳ";
    const SAVES: Saves = Saves::INPUTS;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        match ins[0].last() {
            Some(&n @ 1..) if ins[1][..] == [n] && ins[2][..] == [n] => Ok(*ins[0]),
            _ => Err("x […,n], gain [n], bias [n] with n ≥ 1".into()),
        }
    }
    fn flops(&self, ins: &[&Shape], _: &Shape) -> u64 {
        let (n, numel) = (ins[1][0] as u64, super::numel(ins[0]));
        numel / n * (9 * n + 5)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let (out, stats) = ins[0].layer_norm(ins[1], ins[2], self.eps);
        Evaluated { out, residuals: stats.into() }
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let (x, gain, stats) = (saved.x(0).value(), saved.x(1).value(), [saved.residual(0), saved.residual(1)]);
        let grads = x.layer_norm_vjp(gain, stats, gy.value());
        grads.into_iter().enumerate().map(|(i, g)| saved.grad(i, || gy.constant(g))).collect()
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (x, gain, bias) = (&ins[0], &ins[1], &ins[2]);
        let centred = x - x.mean_last();
        let variance = (&centred * &centred).mean_last();
        Some(centred / (variance + self.eps).sqrt() * gain + bias)
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        // Rows of 1 or 2 are normalised to constants, whose gradient tests nothing.
        let (a, b, n) = (g.extent(), g.extent(), 2 + g.extent());
        let x = g.distinct([a, b, n]);
        let op = |eps| LayerNorm { eps };
        vec![
            (op(1e-5), vec![g.strided(&x), g.normal([n]), g.normal([n])]),
            (op(0.1), vec![g.distinct([n]), g.normal([n]), g.normal([n])]),
            (op(1e-5), vec![g.normal([0, n]), g.normal([n]), g.normal([n])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Applies layer normalisation to rows (…, n) with `gain` (n) and `bias` (n), ε = `eps`.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn layer_norm(&self, gain: &Self, bias: &Self, eps: f64) -> Self {
        self.tape().apply(LayerNorm { eps }, &[self, gain, bias])
    }
}
