//! ```text
//! lossᵢ = −ln softmax(zᵢ)ₜ = lse zᵢ − zᵢₜ,   lse z = ln Σⱼ e^zⱼ,   t = targets[i]
//! z̄ᵢⱼ = loss̄ᵢ (e^(zᵢⱼ − lse zᵢ) − [j = t])
//! ```
//!
//! The losses are in nats. The lse of each row is kept, so that backward reads the logits once.

use std::sync::Arc;

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The cross-entropy of each row: logits (n, V) → losses (n).
#[derive(Debug)]
pub struct CrossEntropy {
    /// The target class of each row, below V.
    pub targets: Arc<[u32]>,
}

impl<T: Real> Op<T> for CrossEntropy {
    const NAME: &'static str = "cross_entropy";
    const MATH: &'static str = "loss = ln Σ e^z − zₜ;  z̄ = loss̄ (softmax z − [j = t])";
    const SAVES: Saves = Saves::INPUTS;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let (n, z) = (self.targets.len(), ins[0]);
        if z.len() != 2 || z[0] != n || z[1] == 0 {
            return Err(format!("logits [n,V] with a row for each of {n} targets, V ≥ 1"));
        }
        if let Some(t) = self.targets.iter().find(|&&t| t as usize >= z[1]) {
            return Err(format!("logits [n,V] with more classes than the target {t}"));
        }
        Ok([n].into())
    }
    fn flops(&self, ins: &[&Shape], _: &Shape) -> u64 {
        let (n, v) = (ins[0][0] as u64, ins[0][1] as u64);
        n * (3 * v + 3)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let (out, lse) = ins[0].cross_entropy(&self.targets);
        Evaluated { out, residuals: vec![lse] }
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let gz = saved.x(0).value().cross_entropy_vjp(&self.targets, saved.residual(0), gy.value());
        vec![Some(gy.constant(gz))]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let z = &ins[0] - ins[0].detach().max(1);
        let v = z.shape()[1];
        let is_target = self.targets.iter().flat_map(|&t| (0..v).map(move |j| j == t as usize));
        let (is_target, zero) = (z.value().indicator(*z.shape(), is_target), z.zeros_like());
        let loss = z.exp().sum(&[1]).log() - z.select(&is_target, &zero).sum(&[1]);
        Some(loss.reshape([self.targets.len()]))
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (n, v) = (g.extent(), 1 + g.extent());
        let mut op = |n| CrossEntropy { targets: g.ids(n, v).into() };
        let (some, one, none) = (op(n), op(1), op(0));
        let z = g.normal([n, v]);
        vec![(some, vec![g.strided(&z)]), (one, vec![g.normal([1, v])]), (none, vec![g.normal([0, v])])]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the cross-entropy in nats of each row of these logits (n, V) against its target, an id below V: shape (n), neither
    /// summed nor averaged. [`Var::mean_all`] of the result equals PyTorch's `cross_entropy`.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn cross_entropy(&self, targets: impl AsRef<[u32]>) -> Self {
        self.tape().apply(CrossEntropy { targets: targets.as_ref().into() }, &[self])
    }
}
