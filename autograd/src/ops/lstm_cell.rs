//! ```text
//! [zᵢ | z_f | z_g | zₒ] = z        i = σ(zᵢ),  f = σ(z_f),  g = tanh(z_g),  o = σ(zₒ)
//! c′ = f ∘ c + i ∘ g,   t = tanh c′,   h = o ∘ t
//!
//! dh = t ∘ do + o ∘ (1 − t²) ∘ dc′      dc′ = c ∘ df + f ∘ dc + g ∘ di + i ∘ dg        dσ = σ(1 − σ) dz,  dtanh = (1 − tanh²) dz
//! with s = c̄′ + h̄ ∘ o ∘ (1 − t²), the whole cotangent of c′:
//! z̄ᵢ = s ∘ g ∘ i(1 − i),   z̄_f = s ∘ c ∘ f(1 − f),   z̄_g = s ∘ i ∘ (1 − g²),   z̄ₒ = h̄ ∘ t ∘ o(1 − o),   c̄ = s ∘ f
//! ```
//!
//! One step of an LSTM (Hochreiter and Schmidhuber 1997), with a forget gate and without peepholes (Gers, Schmidhuber and Cummins
//! 2000). On its way back through the cells the gradient is only scaled by f, which is the purpose of the architecture.

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// One LSTM step: pre-activations z (B, 4H), in the order i, f, g, o, and the cell c (B, H) → [h; c′] (2, B, H).
#[derive(Debug)]
pub struct LstmCell;

/// The operations of one unit: three σ of 3, c′ of 3, h of 1, and two tanh.
pub(super) const UNIT: u64 = 15;

/// Computes h and c′ in primitives.
pub(super) fn step<'t, T: Real>(z: &Var<'t, T>, c: &Var<'t, T>) -> (Var<'t, T>, Var<'t, T>) {
    let units = c.shape()[1];
    let part = |gate: usize| z.slice(1, gate * units..(gate + 1) * units);
    let (i, f, g, o) = (part(0).sigmoid(), part(1).sigmoid(), part(2).tanh(), part(3).sigmoid());
    let c = f * c + i * g;
    (o * c.tanh(), c)
}

/// Draws pre-activations, or terms added to them: N(0, ½²), of one `sign` for the gate g. No gate saturates; 1 − tanh² would then
/// be only rounding error. With a cell of the same sign, the terms of c′, a factor of derivatives, do not cancel.
pub(super) fn signed<T: Real>(g: &mut Samples, shape: impl Into<Shape>, sign: f64) -> Tensor<T> {
    let x: Tensor<T> = g.normal(shape);
    let row = x.shape()[x.shape().len() - 1];
    let of_g = |at: usize| at % row / (row / 4) == 2;
    let values = x.to_vec().into_iter().map(T::to_f64).enumerate();
    let signed = values.map(|(at, x)| T::lit(0.5 * if of_g(at) { x.abs().copysign(sign) } else { x }));
    x.constant(*x.shape(), signed.collect())
}

impl<T: Real> Op<T> for LstmCell {
    const NAME: &'static str = "lstm_cell";
    const MATH: &'static str = "c′ = f∘c + i∘g, h = o∘t, t = tanh c′;  with s = c̄′ + h̄∘o∘(1−t²):  \
         z̄ = [s∘g∘i(1−i) | s∘c∘f(1−f) | s∘i∘(1−g²) | h̄∘t∘o(1−o)],  c̄ = s∘f";
    const SAVES: Saves = Saves::ALL;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        match (&ins[0][..], &ins[1][..]) {
            (&[rows, z], &[batch, units]) if units > 0 && rows == batch && z == 4 * units => Ok([2, batch, units].into()),
            _ => Err("z [B,4H], c [B,H] with H ≥ 1 → [2,B,H]".into()),
        }
    }
    fn flops(&self, ins: &[&Shape], _: &Shape) -> u64 {
        UNIT * numel(ins[1])
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let (out, gates) = ins[0].lstm_cell(ins[1]);
        Evaluated { out, residuals: vec![gates] }
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let [gz, gc] = saved.y().value().lstm_cell_vjp(saved.residual(0), saved.x(1).value(), gy.value());
        vec![saved.grad(0, || gy.constant(gz)), saved.grad(1, || gy.constant(gc))]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (h, c) = step(&ins[0], &ins[1]);
        let one = |x: Var<'t, T>| x.reshape([1, x.shape()[0], x.shape()[1]]);
        Some(Var::concat(&[&one(h), &one(c)], 0))
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (b, h) = (g.extent(), g.extent());
        let (z, c) = (signed(g, [b, 4 * h], -1.0), g.positive([b, h]));
        let negative = -&c;
        vec![
            (LstmCell, vec![signed(g, [b, 4 * h], 1.0), c.clone()]),
            (LstmCell, vec![g.strided(&z), g.strided(&negative)]),
            (LstmCell, vec![signed(g, [1, 4], 1.0), c.zeros_like([1, 1])]),
            (LstmCell, vec![signed(g, [0, 4 * h], 1.0), g.normal([0, h])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Computes one LSTM step from these pre-activations (B, 4H), gates in the order i, f, g, o, and the cell c (B, H). Returns h
    /// and the new cell, both (B, H).
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn lstm_cell(&self, c: &Self) -> (Self, Self) {
        let both = self.tape().apply(LstmCell, &[self, c]);
        let part = |i: usize| both.slice(0, i..i + 1).reshape(*c.shape());
        (part(0), part(1))
    }
}
