//! A check of one application of an op in a running model: its VJP against differences at the model's own values.

use gradus_tensor::Tensor;

use super::report::Comparison;
use crate::trace::Traced;
use crate::{Samples, Want};

/// Compares the VJP of one application with central differences along a random direction.
///
/// ```text
/// (φ(h) − φ(−h))/2h → Σᵢ ⟨x̄ᵢ, vᵢ⟩        φ(h) = ⟨ȳ, f(x + hv)⟩,  v random over the inputs that have a node,  |v| = 1
/// ```
///
/// `gradients[i]` is the summand x̄ᵢ that this VJP adds to the gradient of input i ([`Traced::summands`] of the input's node);
/// `None` is 0. Tries h = 10⁻¹, …, 10⁻⁷, since the scale of the inputs is unknown, and returns the best comparison with its h.
/// The error is relative to Σ |x̄ᵢvᵢ| + Σ |ȳⱼyⱼ|, over all elements. Returns `None` for a leaf and for a node without a cotangent.
pub fn application(node: &Traced<f64>, gradients: &[Option<&Tensor<f64>>], seed: u64) -> Option<(Comparison, f64)> {
    let (op, gy) = (node.op.as_ref()?, node.cotangent.as_ref()?);
    let mut draws = Samples::new(seed, 1);
    let mut v: Vec<Option<Tensor<f64>>> = node.ins.iter().map(|x| x.node.map(|_| draws.normal(*x.value.shape()))).collect();
    let length = v.iter().flatten().map(|v| v.dot(v)).sum::<f64>().sqrt();
    v.iter_mut().flatten().for_each(|v| *v = v.map(|v| v / length));
    let terms = |of: fn(f64) -> f64| -> f64 {
        let each = gradients.iter().zip(&v).filter_map(|(g, v)| Some(g.as_ref()?.zip(v.as_ref()?, |g, v| g * v)));
        each.map(|terms| terms.to_vec().into_iter().map(of).sum::<f64>()).sum()
    };
    // A masked score has the value −∞ and the cotangent 0. It must count as 0, but 0 · −∞ is NaN.
    let part = |u: f64, y: f64| if u == 0.0 { 0.0 } else { u * y };
    let against = |y: &Tensor<f64>, of: fn(f64) -> f64| gy.zip(y, part).to_vec().into_iter().map(of).sum::<f64>();
    let size = against(&node.value, f64::abs);
    let (value, scale) = (terms(|t| t), terms(f64::abs) + size);
    if scale == 0.0 || !length.is_normal() {
        return None;
    }
    let phi = |h: f64| {
        let moved = node.ins.iter().zip(&v).map(|(x, v)| match v {
            Some(v) => x.value.zip(v, |x, v| x + h * v),
            None => x.value.clone(),
        });
        let moved: Vec<Tensor<f64>> = moved.collect();
        against(&op.eval(&moved.iter().collect::<Vec<_>>(), Want::Value).out, |t| t)
    };
    let at = |h: f64| (Comparison { input: None, element: 0, value, expected: (phi(h) - phi(-h)) / (2.0 * h), scale }, h);
    (1..=7).map(|i| at(10f64.powi(-i))).min_by(|a, b| a.0.error().total_cmp(&b.0.error()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Tape;
    use crate::trace::Recorder;

    #[test]
    fn a_correct_summand_passes_and_an_error_of_a_thousandth_fails() {
        let recorder = Arc::new(Recorder::default());
        let tape = Tape::observed(recorder.clone());
        let (x, w) =
            (tape.leaf(Tensor::new([2, 2], vec![0.5, -1.0, 2.0, 0.25])), tape.leaf(Tensor::new([2, 1], vec![1.5, -0.5])));
        let y = x.matmul(&w).exp();
        tape.backward(&y.sum_all());
        let trace = recorder.trace();
        let to = |node: usize| &trace[node].summands[0].value;
        let right = [Some(to(0)), Some(to(1))];
        let (found, _) = application(&trace[2], &right, 1).expect("matmul");
        assert!(found.error() < 1e-10, "{found:?}");
        let off = to(1).map(|g| g * 1.001);
        let (found, _) = application(&trace[2], &[Some(to(0)), Some(&off)], 1).expect("matmul");
        assert!(found.error() > 1e-5, "{found:?}");
        let (found, _) = application(&trace[2], &[Some(to(0)), None], 1).expect("matmul");
        assert!(found.error() > 1e-2, "a missing summand: {found:?}");
        assert!(application(&trace[0], &[], 1).is_none());
    }
}
