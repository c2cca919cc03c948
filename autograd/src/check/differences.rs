//! The VJP against central differences of the kernel used in training.

use super::case::{moved, still, with};
use super::report::{Comparison, Ledger, Outcome};
use super::{Case, DIFFERENCES, at_best_step};

/// Compares the VJP with central differences, moving one element of one input at a time.
///
/// ```text
/// x̄ᵢ ≈ Σⱼ ȳⱼ Dⱼ,   Dⱼ = (yⱼ(xᵢ + h) − yⱼ(xᵢ − h))/2h,   h = ε^⅓·max(1, |xᵢ|)
/// ```
///
/// The error is relative to Σⱼ |ȳⱼ|·(|Dⱼ| + |yⱼ|): a quotient over h resolves nothing below ε|yⱼ|/h, and only this term remains
/// where a derivative vanishes. For a whole function, whose intermediate values may be larger than y, the scale is the largest of
/// these sums over its ops. If y bends too sharply for this h, shorter ones are tried.
pub fn differences(case: &Case) -> Outcome {
    Ledger::of("differences", case, |mut ledger| {
        let inputs = &case.real.inputs;
        let y = case.eval(inputs);
        let gy = case.draws().normal(*y.shape());
        let gx = case.vjp(inputs, &gy);
        if let Some(rule) = case.misshapen(&gx) {
            return ledger.broken(rule);
        }
        let size = case.terms(&still(inputs), &gy).value;
        let (y, weights) = (y.to_vec(), gy.to_vec());
        for (i, x) in inputs.iter().enumerate() {
            let gx = gx[i].to_vec();
            for (element, &at) in x.to_vec().iter().enumerate() {
                let compare = |h: f64| {
                    let h = h * at.abs().max(1.0);
                    let y_at = |step: f64| case.eval(&with(inputs, i, moved(x, element, step))).to_vec();
                    let (up, down) = (y_at(h), y_at(-h));
                    let width = (at + h) - (at - h); // the step actually taken
                    let (mut expected, mut slopes, mut values) = (0.0, 0.0, 0.0);
                    for j in 0..y.len() {
                        let slope = (up[j] - down[j]) / width;
                        expected += weights[j] * slope;
                        slopes += (weights[j] * slope).abs();
                        values += (weights[j] * y[j]).abs();
                    }
                    let scale = slopes + values.max(size);
                    Comparison { input: Some(i), element, value: gx[element], expected, scale }
                };
                let mut found = at_best_step(compare);
                if case.whole && found.error() > DIFFERENCES {
                    found.scale = found.scale.max(case.terms_along(i, element, &gy).derivative);
                }
                ledger.compare(DIFFERENCES, found);
            }
        }
        ledger.close()
    })
}
