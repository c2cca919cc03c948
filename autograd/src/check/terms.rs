//! Sums of the absolute terms that make up the value and the derivative of a whole function.

use std::sync::Arc;

use super::case::{like, moved, still, with};
use super::{Case, Dual};
use crate::trace::{Recorder, Traced};
use crate::{Saved, Tape, Tensor, Want};

/// The sums of |terms| in φ = ⟨ȳ, f(x)⟩ and in its derivative φ̇ along a direction, each at the op of f where it is largest.
/// Rounding is proportional to them, however far the terms cancel later.
///
/// ```text
/// z the result of an op, or an input; ż its tangent, z̄ its cotangent
/// φ̇ = Σₖ z̄ₖ żₖ over any cut between the inputs and the result: a gradient's rounding error is proportional to Σₖ |z̄ₖ żₖ|
/// δz changes φ by z̄ δz and φ̇ by (z̄)˙ δz;  δż changes φ̇ by z̄ δż;  δ is of the order of ε times the terms that the op adds
///
/// value       Σₖ |z̄ₖ zₖ|
/// derivative  Σₖ |z̄ₖ|·(terms of żₖ) + |(z̄ₖ)˙ zₖ|,  and for an op whose VJP reads its result, Σₖ |∂x̄ₖ/∂y · y ẋₖ|
/// ```
///
/// Two simpler scales fail. The largest derivative is too small: at a minimum all derivatives cancel, but their rounding remains.
/// The |terms| of the whole chain are too large: they grow a thousandfold per layer of a model, beyond any error. So each op
/// counts only its own terms. Forward mode gives the tangents, and a reverse pass gives the cotangents that weight them. This
/// scale cannot hide a wrong VJP, since a wrong VJP adds as much to the difference as to the scale.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    pub value: f64,
    pub derivative: f64,
}

impl Case {
    /// Returns the sums of absolute terms of a whole function along `v`, one direction per input, with cotangent `gy`. Returns
    /// zeros for a single op, whose terms each witness adds itself.
    pub(super) fn terms(&self, v: &[Tensor<f64>], gy: &Tensor<f64>) -> Terms {
        let mut most = Terms::default();
        if !self.whole {
            return most;
        }
        let recorder = Arc::new(Recorder::default());
        let tape = Tape::observed(recorder.clone());
        let ins: Vec<_> = self.real.inputs.iter().zip(v).map(|(x, v)| tape.leaf(moving(x, v))).collect();
        let Some(y) = self.dual.op.reference(&ins) else { return most };
        tape.backward_from(&y, gy.cast());
        // Terms can cancel both in the kernel of a fused op and in its definition.
        let inside = |node: Traced<Dual>| [node.inside().unwrap_or_default(), vec![node]].concat();
        for node in recorder.trace().into_iter().flat_map(inside) {
            let Terms { value, derivative } = Terms::at(&node);
            most = Terms { value: most.value.max(value), derivative: most.derivative.max(derivative) };
        }
        most
    }

    /// Returns the sums of absolute terms along one element of one input.
    pub(super) fn terms_along(&self, input: usize, element: usize, gy: &Tensor<f64>) -> Terms {
        let still = still(&self.real.inputs);
        self.terms(&with(&still, input, moved(&still[input], element, 1.0)), gy)
    }
}

impl Terms {
    fn at(node: &Traced<Dual>) -> Self {
        let mut sums = Terms::default();
        let Some(cotangent) = &node.cotangent else { return sums };
        // Drops the terms of earlier ops, so that only this op's remain.
        let alone = |x: &Tensor<Dual>| x.map(|x| Dual::new(x.value, x.tangent));
        let ins: Vec<Tensor<Dual>> = node.ins.iter().map(|x| alone(&x.value)).collect();
        let own = match &node.op {
            Some(op) => op.eval(&ins.iter().collect::<Vec<_>>(), Want::Value).out,
            None => alone(&node.value),
        };
        for (z, gz) in own.to_vec().into_iter().zip(cotangent.to_vec()) {
            sums.value += product(gz.value, z.value);
            sums.derivative += product(gz.value, z.terms) + product(gz.tangent, z.value);
        }
        sums.derivative += reads_its_result(node, cotangent);
        sums
    }
}

/// Returns Σₖ |∂x̄ₖ/∂y · y ẋₖ|, the rounding that a VJP inherits from y: the error of 1 − y² in a saturated tanh is ε y, not ε (1
/// − y²).
fn reads_its_result(node: &Traced<Dual>, cotangent: &Tensor<Dual>) -> f64 {
    let Some(op) = node.op.as_ref().filter(|op| op.saves().keeps_output()) else { return 0.0 };
    let tape = Tape::off();
    let still = |x: &Tensor<Dual>| x.map(|x| Dual::new(x.value, 0.0));
    let ins: Vec<Tensor<Dual>> = node.ins.iter().map(|x| still(&x.value)).collect();
    let saved = Saved {
        name: op.name(),
        shapes: node.ins.iter().map(|x| *x.value.shape()).collect(),
        needs: node.ins.iter().map(|x| x.node.is_some()).collect(),
        residuals: op.eval(&ins.iter().collect::<Vec<_>>(), Want::Vjp).residuals,
        ins: ins.into_iter().map(|x| Some(tape.constant(x))).collect(),
        out: Some(tape.constant(node.value.map(|y| Dual::new(y.value, y.value)))),
    };
    let gx = op.vjp(&saved, &tape.constant(still(cotangent)));
    let of = |(gx, x): (Tensor<Dual>, &Tensor<Dual>)| -> f64 {
        gx.to_vec().into_iter().zip(x.to_vec()).map(|(gx, x)| product(gx.terms, x.tangent)).sum()
    };
    gx.into_iter().zip(&node.ins).filter_map(|(gx, x)| Some((gx?.into_value(), &x.value))).map(of).sum()
}

/// Returns |ab|; 0 if a factor is 0, even if the other is infinite, as a masked score is.
fn product(a: f64, b: f64) -> f64 {
    if a == 0.0 || b == 0.0 { 0.0 } else { (a * b).abs() }
}

/// Returns the dual numbers x with tangents v.
pub(super) fn moving(x: &Tensor<f64>, v: &Tensor<f64>) -> Tensor<Dual> {
    like(x, x.to_vec().into_iter().zip(v.to_vec()).map(|(x, v)| Dual::new(x, v)).collect())
}
