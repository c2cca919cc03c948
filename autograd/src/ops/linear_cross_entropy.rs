//! ```text
//! Z = H Wᵀ (+ 1bᵀ)    ℓᵢ = log Σⱼ e^zᵢⱼ − z_{i,tᵢ}        y = Σᵢ wᵢ ℓᵢ    (GPT-1 §3.1: P(u) = softmax(h Wₑᵀ), equations 1 and 2)
//! z̄ᵢⱼ = ȳ wᵢ (softmax(zᵢ)ⱼ − [j = tᵢ])
//! H̄ = Z̄ W        W̄ = Z̄ᵀ H        b̄ = Σ_rows z̄
//! ```
//!
//! The logits of a batch are never in memory all at once. Each chunk of rows yields its losses and its part of the gradients for
//! ȳ = 1. The VJP only scales these gradients.

use std::sync::Arc;

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The weighted loss of a linear layer: H (n, d), W (V, d), and optionally a bias b (V) → Σᵢ wᵢ ℓᵢ, without axes.
#[derive(Clone, Debug)]
pub struct LinearCrossEntropy {
    /// The target class of each row, below V.
    pub targets: Arc<[u32]>,
    /// The weight wᵢ of each row: 1/n for a mean, 0 for an ignored row.
    pub weights: Arc<[f64]>,
}

impl<T: Real> Op<T> for LinearCrossEntropy {
    const NAME: &'static str = "linear_cross_entropy";
    const MATH: &'static str =
        "y = Σᵢ wᵢ(log Σⱼ e^zᵢⱼ − z_{i,tᵢ}), Z = HWᵀ (+ b);  Z̄ = ȳ w(softmax Z − [t]),  H̄ = Z̄W,  W̄ = Z̄ᵀH,  b̄ = Σ_rows Z̄";
    const SAVES: Saves = Saves::INPUTS;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let (h, w, n) = (ins[0], ins[1], self.targets.len());
        let fits = h.len() == 2 && w.len() == 2 && h[1] == w[1] && h[1] > 0 && h[0] == n && self.weights.len() == n;
        let biased = ins.get(2).is_none_or(|b| b[..] == w[..1]);
        let below = self.targets.iter().all(|&t| (t as usize) < w[0]);
        if fits && biased && below {
            return Ok([].into());
        }
        let rule = format!("h (n,d) · w (V,d) [· bias (V)] with {n} targets below V and {} weights", self.weights.len());
        Err(rule)
    }
    fn flops(&self, ins: &[&Shape], _: &Shape) -> u64 {
        let (n, d, v, bias) = (ins[0][0] as u64, ins[0][1] as u64, ins[1][0] as u64, ins.len() as u64 - 2);
        n * (2 * d * v + (3 + bias) * v + 3) + 2 * n
    }
    fn eval(&self, ins: &[&Tensor<T>], want: Want) -> Evaluated<T> {
        let (h, w, bias, n) = (ins[0], ins[1], ins.get(2).copied(), self.targets.len());
        let weights = h.constant([n], self.weights.iter().map(|&w| T::lit(w)).collect());
        let (losses, residuals) = match want {
            Want::Value => (h.linear_cross_entropy(w, bias, &self.targets, &weights), vec![]),
            Want::Vjp => h.linear_cross_entropy_and_vjp(w, bias, &self.targets, &weights),
        };
        Evaluated { out: losses.mul(&weights).sum_all(), residuals }
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let scaled = |i: usize| gy.constant(saved.residual(i).scale_by(gy.value()));
        (0..saved.inputs()).map(|i| saved.grad(i, || scaled(i))).collect()
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (h, w) = (&ins[0], &ins[1]);
        let (n, v) = (h.shape()[0], w.shape()[0]);
        let mut z = h.matmul(&w.t()); // (n, V)
        if let Some(bias) = ins.get(2) {
            z = z + bias;
        }
        let most = z.max(1).detach();
        let lse = most.clone() + (&z - &most).exp().sum(&[1]).log(); // (n, 1)
        let hit = z.value().indicator([n, v], (0..n * v).map(|at| self.targets[at / v] as usize == at % v));
        let target = z.select(&hit, &z.zeros_like()).sum(&[1]);
        let weights = h.constant(h.value().constant([n, 1], self.weights.iter().map(|&w| T::lit(w)).collect()));
        Some(((lse - target) * weights).sum_all())
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (n, d, v) = (g.extent(), g.extent(), 1 + g.extent());
        let op = |targets: Vec<u32>, weights: Vec<f64>| LinearCrossEntropy { targets: targets.into(), weights: weights.into() };
        let weights = (0..n).map(|_| g.number(0.2, 1.0)).collect();
        let (h, w) = (g.normal([n, d]), g.normal([v, d]));
        vec![
            (op(g.ids(n, v), weights), vec![g.strided(&h), g.strided(&w)]),
            (op(g.ids(2, v), vec![0.0, 1.0]), vec![g.normal([2, d]), g.normal([v, d])]),
            (op(g.ids(n, v), vec![0.5; n]), vec![h, w, g.normal([v])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns Σᵢ weightᵢ·(−log softmax(h wᵀ + bias)[i, targetᵢ]) of these hidden states (n, d), a tied embedding `w` (V, d), and
    /// optionally a bias (V).
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn linear_cross_entropy(&self, w: &Self, bias: Option<&Self>, targets: Arc<[u32]>, weights: Arc<[f64]>) -> Self {
        let op = LinearCrossEntropy { targets, weights };
        match bias {
            None => self.tape().apply(op, &[self, w]),
            Some(bias) => self.tape().apply(op, &[self, w, bias]),
        }
    }
}
