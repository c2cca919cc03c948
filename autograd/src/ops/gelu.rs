//! ```text
//! y = ½ x (1 + tanh u),   u = √(2/π) (x + 0.044715 x³)                            (GPT-1 §4.1; the tanh form)
//! y′ = ½ (1 + t) + ½ x (1 − t²) u′,   t = tanh u,   u′ = √(2/π) (1 + 3·0.044715 x²)
//! x̄ = ȳ ∘ y′
//! ```

use std::f64::consts::PI;

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The Gaussian error linear unit in its tanh form.
#[derive(Debug)]
pub struct Gelu;

impl<T: Real> Op<T> for Gelu {
    const NAME: &'static str = "gelu";
    const MATH: &'static str = "y = ½x(1 + tanh u), u = √(2/π)(x + 0.044715x³);  x̄ = ȳ ∘ (½(1 + t) + ½x(1 − t²)u′), t = tanh u";
    const SAVES: Saves = Saves::INPUTS;
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        9 * numel(out)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].gelu().into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.constant(saved.x(0).value().gelu_vjp(gy.value())))]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let x = &ins[0];
        let u = (2.0 / PI).sqrt() * (x + 0.044715 * (x * x * x));
        Some(0.5 * x * (1.0 + u.tanh()))
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (m, n) = (g.extent(), g.extent());
        let x = g.normal([m, n]);
        vec![(Gelu, vec![g.strided(&x)]), (Gelu, vec![g.normal([])]), (Gelu, vec![g.normal([0])])]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the GELU, in its tanh form, of every element.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn gelu(&self) -> Self {
        self.tape().apply(Gelu, &[self])
    }
}
