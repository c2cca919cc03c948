//! ```text
//! y = g ∘ x̂,   x̂ = r x,   r = (mean x² + ε)^(−1/2)                    (Zhang and Sennrich 2019, equation 4; along the last axis)
//!
//! dr = −r³ mean(x ∘ dx) = −r² mean(x̂ ∘ dx)        dx̂ = r dx + x dr = r (dx − x̂ mean(x̂ ∘ dx)),   a symmetric map of dx
//! with a = g ∘ ȳ:   x̄ = r (a − x̂ mean(x̂ ∘ a)),   ḡ = Σ_rows ȳ ∘ x̂
//! ```
//!
//! `layer_norm` without its mean and its bias.

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// Root-mean-square normalisation: each row of x (…, n) is brought to mean square 1, times gain (n).
#[derive(Debug)]
pub struct RmsNorm {
    /// The ε under the root.
    pub eps: f64,
}

impl<T: Real> Op<T> for RmsNorm {
    const NAME: &'static str = "rms_norm";
    const MATH: &'static str = "y = g ∘ x̂, x̂ = rx, r = (mean x² + ε)^(−1/2);  x̄ = r(a − x̂ mean(x̂ ∘ a)), a = g ∘ ȳ,  ḡ = Σ ȳ ∘ x̂";
    const SAVES: Saves = Saves::INPUTS;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        match ins[0].last() {
            Some(&n @ 1..) if ins[1][..] == [n] => Ok(*ins[0]),
            _ => Err("x […,n], gain [n] with n ≥ 1".into()),
        }
    }
    fn flops(&self, ins: &[&Shape], _: &Shape) -> u64 {
        let (n, numel) = (ins[1][0] as u64, super::numel(ins[0]));
        numel / n * (4 * n + 4)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let (out, rrms) = ins[0].rms_norm(ins[1], self.eps);
        Evaluated { out, residuals: vec![rrms] }
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let grads = saved.x(0).value().rms_norm_vjp(saved.x(1).value(), saved.residual(0), gy.value());
        grads.into_iter().enumerate().map(|(i, g)| saved.grad(i, || gy.constant(g))).collect()
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (x, gain) = (&ins[0], &ins[1]);
        Some(x / ((x * x).mean_last() + self.eps).sqrt() * gain)
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        // Rows of 1 are normalised to a sign, whose gradient tests nothing.
        let (a, b, n) = (g.extent(), g.extent(), 1 + g.extent());
        let x = g.distinct([a, b, n]);
        let op = |eps| RmsNorm { eps };
        vec![
            (op(1e-5), vec![g.strided(&x), g.normal([n])]),
            (op(0.1), vec![g.distinct([n]), g.normal([n])]),
            (op(1e-5), vec![g.normal([0, n]), g.normal([n])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Applies root-mean-square normalisation to rows (…, n) with `gain` (n), ε = `eps`.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn rms_norm(&self, gain: &Self, eps: f64) -> Self {
        self.tape().apply(RmsNorm { eps }, &[self, gain])
    }
}
