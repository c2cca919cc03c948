//! The VJP against exact forward-mode derivatives.

use super::case::{like, with};
use super::report::{Comparison, Ledger, Outcome};
use super::{Case, Dual};
use crate::{Tensor, Want};

/// The tolerance for the rounding of a few hundred operations: 10⁻¹³ ≈ 450 ε, relative to the sum of absolute terms.
const TOLERANCE: f64 = 1e-13;

/// Compares the VJP with forward mode, moving one element of one input at a time.
///
/// ```text
/// x̄ᵢ = Σⱼ ȳⱼ ∂yⱼ/∂xᵢ,   ∂yⱼ/∂xᵢ the tangent of yⱼ where xᵢ = (xᵢ, 1) and all else is constant
/// ```
///
/// The error is relative to Σ |terms|. For a whole function it is relative to Σⱼ |ȳⱼ ∂yⱼ/∂xᵢ|; if it exceeds the tolerance at
/// this scale, it is relative to the largest sum of |terms| over the function's ops.
///
/// In addition, the gradient of one input must have the same bits whether or not the others need theirs.
pub fn forward_mode(case: &Case) -> Outcome {
    Ledger::of("forward_mode", case, |mut ledger| {
        let y = case.eval(&case.real.inputs);
        let gy = case.draws().normal(*y.shape());
        let gx = case.vjp(&case.real.inputs, &gy);
        if let Some(rule) = case.misshapen(&gx) {
            return ledger.broken(rule);
        }
        let differs = |a: &Tensor<f64>, b: &Tensor<f64>| {
            // Two NaNs count as equal here; the comparison below rejects them.
            a.to_vec().into_iter().zip(b.to_vec()).any(|(a, b)| a != b && !(a.is_nan() && b.is_nan()))
        };
        if let Some(i) = (0..gx.len()).find(|&i| differs(&case.vjp_of(&case.real.inputs, &gy, |j| j == i)[i], &gx[i])) {
            return ledger.broken(format!("the gradient of input {i} differs when no other input requires one"));
        }
        let weights = gy.to_vec();
        for (i, x) in case.dual.inputs.iter().enumerate() {
            let (values, gx) = (x.to_vec(), gx[i].to_vec());
            for element in 0..values.len() {
                let mut moving = values.clone();
                moving[element] = Dual::new(values[element].value, 1.0);
                let inputs = with(&case.dual.inputs, i, like(x, moving));
                let y = case.dual.op.eval(&inputs.iter().collect::<Vec<_>>(), Want::Value).out.to_vec();
                let (mut expected, mut scale) = (0.0, 0.0);
                for (gy, y) in weights.iter().zip(&y) {
                    expected += gy * y.tangent;
                    scale += gy.abs() * if case.whole { y.tangent.abs() } else { y.terms };
                }
                let mut found = Comparison { input: Some(i), element, value: gx[element], expected, scale };
                if case.whole && found.error() > TOLERANCE {
                    found.scale = found.scale.max(case.terms_along(i, element, &gy).derivative);
                }
                ledger.compare(TOLERANCE, found);
            }
        }
        ledger.close()
    })
}
