//! ```text
//! yⱼ = e^xⱼ / Σₖ e^xₖ along the last axis        ∂yⱼ/∂xₖ = yⱼ ([j = k] − yₖ)        x̄ = y ∘ (ȳ − ⟨ȳ, y⟩)
//! ```
//!
//! A constant added to a row changes nothing. So the row's maximum is subtracted first, and no exponential overflows. For the
//! same reason the maximum may be treated as a constant (detached).

use super::{numel, rows};
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The softmax, which turns each row of the last axis into a probability distribution.
#[derive(Debug)]
pub struct Softmax;

impl<T: Real> Op<T> for Softmax {
    const NAME: &'static str = "softmax";
    const MATH: &'static str = "y = eˣ/Σ eˣ;  x̄ = y ∘ (ȳ − ⟨ȳ, y⟩)";
    const SAVES: Saves = Saves::ALL;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        rows(ins)
    }
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        4 * numel(out)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].softmax().into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.constant(saved.y().value().softmax_vjp(gy.value())))]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let x = &ins[0];
        let last = x.shape().len() - 1;
        let e = (x - x.detach().max(last)).exp();
        Some(&e / e.sum(&[last]))
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (a, b, n) = (g.extent(), g.extent(), 1 + g.extent());
        let x = g.normal([a, b, n]);
        vec![(Softmax, vec![g.strided(&x)]), (Softmax, vec![g.normal([n])]), (Softmax, vec![g.normal([0, n])])]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the softmax along the last axis.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn softmax(&self) -> Self {
        self.tape().apply(Softmax, &[self])
    }
}
