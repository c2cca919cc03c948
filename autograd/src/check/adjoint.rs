//! The dot-product test.

use super::report::{Comparison, Ledger, Outcome};
use super::terms::moving;
use super::{Case, Dual};
use crate::{Tensor, Want};

/// The tolerance for the rounding of the sums on both sides, about 4500 ε.
const TOLERANCE: f64 = 1e-12;

/// Checks the dot-product identity.
///
/// ```text
/// ⟨u, Jv⟩ = ⟨Jᵀu, v⟩        u and v random, v over all inputs at once; Jv exact, by forward mode
/// ```
///
/// The error is relative to Σᵢ |uᵢ|·|terms of (Jv)ᵢ|, the absolute terms of the whole double sum. Σ |uᵢ(Jv)ᵢ| is too small a
/// scale: if y has one element, (Jv)₀ may cancel to nothing while the rounding of its terms remains, and a correct op would
/// occasionally be rejected. For a whole function the scale is the largest such sum over its ops.
pub fn adjoint(case: &Case) -> Outcome {
    Ledger::of("adjoint", case, |mut ledger| {
        let mut draws = case.draws();
        let u = draws.normal(*case.eval(&case.real.inputs).shape());
        let gx = case.vjp(&case.real.inputs, &u);
        if let Some(rule) = case.misshapen(&gx) {
            return ledger.broken(rule);
        }
        if u.is_empty() || gx.iter().all(Tensor::is_empty) {
            return ledger.close();
        }
        let v: Vec<Tensor<f64>> = gx.iter().map(|gx| draws.normal(*gx.shape())).collect();
        let transposed = gx.iter().zip(&v).map(|(gx, v)| gx.dot(v)).sum();
        let along: Vec<Tensor<Dual>> = case.real.inputs.iter().zip(&v).map(|(x, v)| moving(x, v)).collect();
        let y = case.dual.op.eval(&along.iter().collect::<Vec<_>>(), Want::Value).out.to_vec();
        let terms = u.to_vec().into_iter().zip(y);
        let (expected, scale) = terms.fold((0.0, 0.0), |(sum, scale), (u, y)| (sum + u * y.tangent, scale + u.abs() * y.terms));
        let scale = if case.whole { case.terms(&v, &u).derivative } else { scale };
        ledger.compare(TOLERANCE, Comparison { input: None, element: 0, value: transposed, expected, scale });
        ledger.close()
    })
}
