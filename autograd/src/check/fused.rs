//! The comparison of a fused op's kernel with its definition.

use super::Case;
use super::report::{Comparison, Ledger, Outcome};
use crate::{Tape, Tensor, Var};

/// The tolerance of the value: both sides round a few dozen operations per element, in different orders.
const VALUE: f64 = 1e-12;
/// The tolerance of the VJP, two digits looser: it cancels terms that the definition keeps apart (layer_norm subtracts two means
/// from each gradient).
const VJP: f64 = 1e-10;

/// Compares value and VJP of the fused kernel with the definition, recorded and differentiated as primitives. The error is
/// relative to the largest element of the value, or of all gradients. A definition must consist of primitives only, and a fused
/// op must save all its inputs, since second derivatives are computed from them. For a primitive there is nothing to compare.
pub fn fused(case: &Case) -> Outcome {
    Ledger::of("fused", case, |mut ledger| {
        let inputs = &case.real.inputs;
        let tape = Tape::new();
        let leaves: Vec<Var<'_, f64>> = inputs.iter().map(|x| tape.leaf(x.clone())).collect();
        let Some(definition) = case.real.op.reference(&leaves) else { return ledger.close() };
        if let Some(inner) = tape.first_fused() {
            return ledger.broken(format!("a definition consists of primitives; `{inner}`, which it uses, is fused"));
        }
        if let Some(i) = (0..inputs.len()).find(|&i| !case.real.op.saves().keeps_input(i)) {
            return ledger.broken(format!("a fused op saves every input; input {i} is dropped"));
        }
        let y = case.eval(inputs);
        if y.shape() != definition.shape() {
            return ledger.broken(format!("the definition has shape {}, the op {}", definition.shape(), y.shape()));
        }
        compare(&mut ledger, VALUE, None, &y, definition.value(), largest(definition.value()));

        let gy = case.draws().normal(*y.shape());
        let fast = case.vjp(inputs, &gy);
        if let Some(rule) = case.misshapen(&fast) {
            return ledger.broken(rule);
        }
        let by_definition = tape.backward_from(&definition, gy);
        let expected: Vec<Tensor<f64>> =
            leaves.iter().map(|x| by_definition.of(x).cloned().unwrap_or_else(|| Tensor::zeros(*x.shape()))).collect();
        // A gradient that is 0 because all its terms cancel (a query that sees one key) has no scale.
        let scale = expected.iter().map(largest).fold(0.0, f64::max);
        for (i, (fast, expected)) in fast.iter().zip(&expected).enumerate() {
            compare(&mut ledger, VJP, Some(i), fast, expected, scale);
        }
        ledger.close()
    })
}

fn largest(x: &Tensor<f64>) -> f64 {
    x.to_vec().iter().fold(0.0, |most: f64, e| most.max(e.abs()))
}

fn compare(ledger: &mut Ledger, tolerance: f64, input: Option<usize>, value: &Tensor<f64>, expected: &Tensor<f64>, scale: f64) {
    for (element, (value, expected)) in value.to_vec().into_iter().zip(expected.to_vec()).enumerate() {
        ledger.compare(tolerance, Comparison { input, element, value, expected, scale });
    }
}
