//! One update of Adam (Kingma and Ba 2015, algorithm 1), in one pass.
//!
//! ```text
//! g ← g·grad_scale + l2·p
//! m ← β₁m + (1 − β₁)g          v ← β₂v + (1 − β₂)g²
//! p ← p − step·m/(√v·v_scale + ε) − decay·p
//! ```

use super::same_len;
use crate::Real;
use crate::kernels::AdamStep;

/// The update of p, m and v by g.
pub fn naive<T: Real>(step: &AdamStep, p: &mut [T], m: &mut [T], v: &mut [T], g: &[T]) {
    same_len("adam", &[p.len(), m.len(), v.len(), g.len()]);
    let [b1, a1, b2, a2] = [step.beta1, 1.0 - step.beta1, step.beta2, 1.0 - step.beta2].map(T::lit);
    let [grad_scale, l2, rate, v_scale, eps, decay] =
        [step.grad_scale, step.l2, step.step, step.v_scale, step.eps, step.decay].map(T::lit);
    for i in 0..p.len() {
        let g = g[i] * grad_scale + l2 * p[i];
        m[i] = b1 * m[i] + a1 * g;
        v[i] = b2 * v[i] + a2 * (g * g);
        p[i] = p[i] - rate * m[i] / (v[i].sqrt() * v_scale + eps) - decay * p[i];
    }
}
