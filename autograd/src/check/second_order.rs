//! The derivative of the VJP.

use super::case::like;
use super::report::{Comparison, Ledger, Outcome};
use super::{Case, DIFFERENCES, at_best_step};
use crate::{Tape, Tensor, Var};

/// Differentiates the VJP once more, with respect to every input and the cotangent.
///
/// ```text
/// g(x, ȳ) = Σᵢ ⟨wᵢ, x̄ᵢ(x, ȳ)⟩        ⟨∂g/∂z, d⟩ ≈ (g(z + hd) − g(z − hd))/2h,   z each xᵢ and ȳ in turn, d and w random
/// ```
///
/// The left side goes through [`Tape::pullback`] and backward, the right side only through the op's own VJP. The error is
/// relative to Σ |∂g/∂z ∘ d| + Σ |wᵢ ∘ x̄ᵢ|: a quotient over h resolves nothing below ε/h of the terms that are subtracted. For a
/// whole function, the second sum is at least the largest Σ |terms of g| over its ops. If x̄ bends too sharply for h = ε^⅓,
/// shorter steps are tried.
pub fn second_order(case: &Case) -> Outcome {
    Ledger::of("second_order", case, |mut ledger| {
        let mut draws = case.draws();
        let inputs = &case.real.inputs;
        let gy = draws.normal(*case.eval(inputs).shape());
        if let Some(rule) = case.misshapen(&case.vjp(inputs, &gy)) {
            return ledger.broken(rule);
        }
        let w: Vec<Tensor<f64>> = inputs.iter().map(|x| draws.normal(*x.shape())).collect();

        let tape = Tape::new();
        let leaves: Vec<Var<'_, f64>> = inputs.iter().map(|x| tape.leaf(x.clone())).collect();
        let all: Vec<&Var<'_, f64>> = leaves.iter().collect();
        let y = tape.record(case.real.op.clone(), &all);
        let cotangent = tape.leaf(gy.clone());
        let gx = tape.pullback(&y, &cotangent, &all);
        let terms = gx.into_iter().zip(&w).filter_map(|(gx, w)| Some((gx? * tape.constant(w.clone())).sum_all()));
        let Some(g) = terms.reduce(|a, b| a + b) else { return ledger.close() };
        let gradient = tape.backward(&g);

        let size = case.terms(&w, &gy).derivative;
        let points: Vec<&Tensor<f64>> = inputs.iter().chain([&gy]).collect();
        for (k, z) in points.iter().enumerate().filter(|(_, z)| !z.is_empty() && !gy.is_empty()) {
            let d = draws.normal::<f64>(*z.shape()).to_vec();
            let at = |step: f64| {
                let z = like(z, z.to_vec().iter().zip(&d).map(|(z, d)| z + step * d).collect());
                let mut moved: Vec<Tensor<f64>> = points.iter().map(|&z| z.clone()).collect();
                moved[k] = z;
                let gy = moved.pop().expect("the cotangent is the last point");
                case.vjp(&moved, &gy)
            };
            let leaf = if k < leaves.len() { &leaves[k] } else { &cotangent };
            let along: Vec<f64> = gradient.of(leaf).map_or(vec![], |g| g.to_vec().iter().zip(&d).map(|(g, d)| g * d).collect());
            let (value, terms) = (along.iter().sum(), along.iter().map(|t| t.abs()).sum::<f64>());
            let compare = |h: f64| {
                let (up, down) = (at(h), at(-h));
                let expected = (0..w.len()).map(|i| up[i].zip(&down[i], |a, b| (a - b) / (2.0 * h)).dot(&w[i])).sum();
                let unit: f64 = (0..w.len()).map(|i| up[i].map(f64::abs).dot(&w[i].map(f64::abs))).sum();
                // The cotangent counts as one more input.
                Comparison { input: Some(k), element: 0, value, expected, scale: unit.max(size) + terms }
            };
            ledger.compare(DIFFERENCES, at_best_step(compare));
        }
        ledger.close()
    })
}
