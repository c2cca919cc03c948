//! ```text
//! zₜ = xₜ + hₜ₋₁ W        (hₜ, cₜ) = lstm_cell(zₜ, cₜ₋₁)        y = h₀, h₁, …        h₋₁ = c₋₁ = 0
//!
//! hₜ is read twice: as output t, and by step t + 1 (z̄ₜ, c̄ₜ₋₁ from h̄ₜ, c̄ₜ are lstm_cell's VJP)
//! h̄ₜ = ȳₜ + z̄ₜ₊₁ Wᵀ,   x̄ₜ = z̄ₜ,   W̄ = Σₜ hₜ₋₁ᵀ z̄ₜ
//! ```
//!
//! Backpropagation through time (Werbos 1990), the whole loop in one node. Unrolled on a tape, the steps would need a product for
//! every summand of W̄, and T slices of x, each with a cotangent as large as x̄. Here one product yields W̄. The inputs' share of
//! the pre-activations is computed outside, for all steps together: x = u·W_ih + b is a `linear`.

use super::lstm_cell::{self, signed};
use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// An LSTM from a state of zeros: x (T, B, 4H), in the order i, f, g, o, and W (H, 4H) → h (T, B, H).
#[derive(Debug)]
pub struct Lstm;

impl<T: Real> Op<T> for Lstm {
    const NAME: &'static str = "lstm";
    const MATH: &'static str = "(hₜ, cₜ) = lstm_cell(xₜ + hₜ₋₁W, cₜ₋₁);  h̄ₜ = ȳₜ + z̄ₜ₊₁Wᵀ,  x̄ₜ = z̄ₜ,  W̄ = Σₜ hₜ₋₁ᵀz̄ₜ";
    const SAVES: Saves = Saves::ALL;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        match (&ins[0][..], &ins[1][..]) {
            (&[steps, batch, z], &[units, w]) if units > 0 && z == 4 * units && w == z => Ok([steps, batch, units].into()),
            _ => Err("x [T,B,4H], W [H,4H] with H ≥ 1 → [T,B,H]".into()),
        }
    }
    fn flops(&self, ins: &[&Shape], out: &Shape) -> u64 {
        let (steps, batch, units) = (out[0] as u64, out[1] as u64, out[2] as u64);
        // The first step has no product: the state before it is 0.
        lstm_cell::UNIT * numel(out) + steps.saturating_sub(1) * batch * ins[0][2] as u64 * (2 * units + 1)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let (out, residuals) = ins[0].lstm(ins[1]);
        Evaluated { out, residuals: residuals.into() }
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let (w, kept) = (saved.x(1).value(), [saved.residual(0), saved.residual(1)]);
        let (gx, gw) = saved.y().value().lstm_vjp(w, kept, gy.value(), saved.needs(1));
        vec![saved.grad(0, || gy.constant(gx)), gw.map(|gw| gy.constant(gw))]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (x, w) = (&ins[0], &ins[1]);
        let (steps, batch, units) = (x.shape()[0], x.shape()[1], w.shape()[0]);
        if steps == 0 {
            return Some(x.slice(2, 0..units)); // no step, no output
        }
        let zeros = || x.constant(x.value().zeros_like([batch, units]));
        let (mut h, mut c) = (zeros(), zeros());
        let mut outputs = Vec::with_capacity(steps);
        for t in 0..steps {
            let x = x.slice(0, t..t + 1).reshape([batch, 4 * units]);
            (h, c) = lstm_cell::step(&(x + h.matmul(w)), &c);
            outputs.push(h.reshape([1, batch, units]));
        }
        Some(Var::concat(&outputs.iter().collect::<Vec<_>>(), 0))
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        // W is read from the second step on.
        let (t, b, h) = (1 + g.extent(), g.extent(), g.extent());
        let (x, w) = (signed(g, [t, b, 4 * h], -1.0), signed(g, [h, 4 * h], 1.0));
        vec![
            (Lstm, vec![signed(g, [t, b, 4 * h], 1.0), signed(g, [h, 4 * h], 1.0)]),
            (Lstm, vec![g.strided(&x), g.strided(&w)]),
            (Lstm, vec![signed(g, [1, b, 4], 1.0), signed(g, [1, 4], 1.0)]),
            (Lstm, vec![signed(g, [0, b, 4 * h], 1.0), w.clone()]),
            (Lstm, vec![signed(g, [t, 0, 4 * h], 1.0), w]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the outputs h (T, B, H) of an LSTM from a state of zeros. Its pre-activations are x (T, B, 4H), gates in the order
    /// i, f, g, o, plus hₜ₋₁·`w`, w (H, 4H).
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn lstm(&self, w: &Self) -> Self {
        self.tape().apply(Lstm, &[self, w])
    }
}
