//! The dot-product test.

use super::report::{Comparison, Ledger, Outcome};
use super::terms::moving;
use super::{Case, Dual};
use crate::{Tensor, Want};

/// Rounding of the sums on both sides, about 4500 ε.
const TOLERANCE: f64 = 1e-12;

/// ```text
/// ⟨u, Jv⟩ = ⟨Jᵀu, v⟩        u and v random, v over all inputs at once; Jv exact, by forward mode
/// ```
///
/// Relative to Σᵢ |uᵢ|·|terms of (Jv)ᵢ|, the absolute terms of the whole double sum. Σ |uᵢ(Jv)ᵢ| will not do: where y has one
/// element, (Jv)₀ may cancel to nothing while the rounding of its terms stays, and a right op would occasionally be refused. For
/// a whole function the scale is this sum at the op where it is largest.
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
