//! The VJP against central differences at every step size.

use super::Case;
use super::line::Line;
use super::report::{Comparison, Ledger, Outcome};

/// The tolerance: at the best h both errors of a central difference are about ε^⅔ = 4·10⁻¹¹, which leaves two and a half digits
/// for higher derivatives.
const TOLERANCE: f64 = 1e-8;

/// Compares the VJP with central differences along a line, at many step sizes.
///
/// ```text
/// (φ(h) − φ(−h))/2h → φ′(0) = ⟨Jᵀu, v⟩        φ(h) = ⟨u, f(x + hv)⟩,  |v| = 1,  h = 10⁻¹, 10^(−1⅛), …, 10⁻⁸
/// ```
///
/// Plotted over log h, the error has the shape of a V: h² from truncation on one side, ε/h from rounding on the other. Its lowest
/// point counts, so the result does not depend on a choice of h, and the curve is in the report. A wrong derivative has no V: its
/// error never falls below the size of the mistake. The error is relative to Σ |(Jᵀu)ᵢvᵢ| + Σ |uⱼyⱼ|; where a derivative
/// vanishes, only the second sum remains.
pub fn v_curve(case: &Case) -> Outcome {
    v_curve_at(case, &(0..=56).map(|i| 10f64.powf(-1.0 - 0.125 * f64::from(i))).collect::<Vec<_>>())
}

/// Runs [`v_curve`] at these step sizes, at least one, for functions that are slow to evaluate.
pub fn v_curve_at(case: &Case, steps: &[f64]) -> Outcome {
    Ledger::of("v_curve", case, |mut ledger| {
        let line = match Line::through(case, 0) {
            Ok(line) if line.is_empty() => return ledger.close(),
            Ok(line) => line,
            Err(rule) => return ledger.broken(rule),
        };
        let scale = line.terms + line.size;
        let quotients: Vec<(f64, f64)> = steps.iter().map(|&h| (h, (line.at(h) - line.at(-h)) / (2.0 * h))).collect();
        let comparison = |q: f64| Comparison { input: None, element: 0, value: line.slope, expected: q, scale };
        let curve: Vec<(f64, f64)> = quotients.iter().map(|&(h, q)| (h, comparison(q).error())).collect();
        let best = (0..curve.len()).min_by(|&a, &b| curve[a].1.total_cmp(&curve[b].1)).expect("some steps");
        ledger.compare(TOLERANCE, comparison(quotients[best].1));
        ledger.draw(curve);
        ledger.close()
    })
}
