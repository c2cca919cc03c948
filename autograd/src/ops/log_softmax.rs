//! ```text
//! yⱼ = xⱼ − lse x,   lse x = ln Σₖ e^xₖ along the last axis
//! ∂yⱼ/∂xₖ = [j = k] − e^yₖ        x̄ = ȳ − eʸ Σ ȳ
//! ```
//!
//! The row's maximum is subtracted first and may be treated as a constant; see `softmax`.

use super::{numel, rows};
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The logarithm of softmax, by rows of the last axis.
#[derive(Debug)]
pub struct LogSoftmax;

impl<T: Real> Op<T> for LogSoftmax {
    const NAME: &'static str = "log_softmax";
    const MATH: &'static str = "y = x − ln Σ eˣ;  x̄ = ȳ − eʸ Σ ȳ";
    const SAVES: Saves = Saves::ALL;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        rows(ins)
    }
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        let n = out[out.len() - 1] as u64;
        numel(out) / n * (4 * n + 2)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].log_softmax().into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.constant(saved.y().value().log_softmax_vjp(gy.value())))]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let x = &ins[0];
        let last = x.shape().len() - 1;
        let z = x - x.detach().max(last);
        Some(&z - z.exp().sum(&[last]).log())
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (a, b, n) = (g.extent(), g.extent(), 1 + g.extent());
        let x = g.normal([a, b, n]);
        vec![(LogSoftmax, vec![g.strided(&x)]), (LogSoftmax, vec![g.normal([n])]), (LogSoftmax, vec![g.normal([0, n])])]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the logarithm of softmax along the last axis.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn log_softmax(&self) -> Self {
        self.tape().apply(LogSoftmax, &[self])
    }
}
