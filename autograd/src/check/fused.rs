//! A fused op is a theorem: its kernel equals its definition.

use super::Case;
use super::report::{Comparison, Ledger, Outcome};
use crate::{Tape, Tensor, Var};

/// Both sides round a few dozen operations an element, in different order.
const VALUE: f64 = 1e-12;
/// A VJP cancels what its definition takes apart (layer_norm takes two means from each gradient): two digits fewer.
const VJP: f64 = 1e-10;

/// Value and VJP of the fused kernel against the definition, recorded and differentiated as primitives. Relative to the
/// largest element of the tensor. A definition consists of primitives alone, and a fused op saves all its inputs: that is
/// what second derivatives are computed from. Of a primitive there is nothing to compare.
pub fn fused(case: &Case) -> Outcome {
    let mut ledger = Ledger::new("fused", case);
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
    compare(&mut ledger, VALUE, None, &y, definition.value());

    let gy = case.draws().normal(*y.shape());
    let fast = case.vjp(inputs, &gy);
    if let Some(rule) = case.misshapen(&fast) {
        return ledger.broken(rule);
    }
    let by_definition = tape.backward_from(&definition, gy, &mut |_| {});
    for (i, (fast, x)) in fast.iter().zip(&leaves).enumerate() {
        let zero = Tensor::zeros(*x.shape());
        compare(&mut ledger, VJP, Some(i), fast, by_definition.of(x).unwrap_or(&zero));
    }
    ledger.close()
}

fn compare(ledger: &mut Ledger, tolerance: f64, input: Option<usize>, value: &Tensor<f64>, expected: &Tensor<f64>) {
    let (value, expected) = (value.to_vec(), expected.to_vec());
    let scale = expected.iter().fold(0.0, |most: f64, e| most.max(e.abs()));
    for (element, (&value, &expected)) in value.iter().zip(&expected).enumerate() {
        ledger.compare(tolerance, Comparison { input, element, value, expected, scale });
    }
}
