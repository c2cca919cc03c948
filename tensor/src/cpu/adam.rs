//! One step of Adam (Kingma and Ba 2015, algorithm 1), in one pass.
//!
//! ```text
//! g ← clip·g + l2·p
//! m ← β₁m + (1 − β₁)g          v ← β₂v + (1 − β₂)g²
//! p ← p − step·m/(√v·v_scale + ε) − decay·p
//! ```

use rayon::prelude::*;

use super::{parallel, same_len};
use crate::Scalar;
use crate::operands::AdamStep;
use crate::simd::{Float, vectorized};

/// Updates p, m and v by the gradient g.
#[inline(always)]
pub fn naive<T: Scalar>(step: &AdamStep, clip: T, p: &mut [T], m: &mut [T], v: &mut [T], g: &[T]) {
    same_len("adam", &[p.len(), m.len(), v.len(), g.len()]);
    let [b1, a1, b2, a2] = [step.beta1, 1.0 - step.beta1, step.beta2, 1.0 - step.beta2].map(T::lit);
    let [l2, rate, v_scale, eps, decay] = [step.l2, step.step, step.v_scale, step.eps, step.decay].map(T::lit);
    for i in 0..p.len() {
        let g = g[i] * clip + l2 * p[i];
        m[i] = b1 * m[i] + a1 * g;
        v[i] = b2 * v[i] + a2 * (g * g);
        p[i] = p[i] - rate * m[i] / (v[i].sqrt() * v_scale + eps) - decay * p[i];
    }
}

/// Computes [`naive`], vectorised and parallel.
pub fn fast<T: Float>(step: &AdamStep, clip: T, p: &mut [T], m: &mut [T], v: &mut [T], g: &[T]) {
    same_len("adam", &[p.len(), m.len(), v.len(), g.len()]);
    if !parallel::worth_it(p.len()) {
        return run(step, clip, p, m, v, g);
    }
    let size = parallel::rows_per_chunk(1);
    let moments = m.par_chunks_mut(size).zip(v.par_chunks_mut(size));
    p.par_chunks_mut(size).zip(g.par_chunks(size)).zip(moments).for_each(|((p, g), (m, v))| run(step, clip, p, m, v, g));
}

vectorized! {
    fn run<T: Float>(step: &AdamStep, clip: T, p: &mut [T], m: &mut [T], v: &mut [T], g: &[T]) {
        naive(step, clip, p, m, v, g);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_by_hand() {
        let step = AdamStep { beta1: 0.5, beta2: 0.75, step: 2.0, v_scale: 3.0, eps: 1.0, decay: 0.25, l2: 0.25 };
        let (mut p, mut m, mut v) = ([4.0f64], [2.0], [9.0]);
        fast(&step, 0.5, &mut p, &mut m, &mut v, &[4.0]);
        // g = 2 + 1 = 3; m = 1 + 1.5 = 2.5; v = 6.75 + 2.25 = 9; √v = 3; p = 4 − 2·2.5/(9 + 1) − 1
        assert_eq!((p[0], m[0], v[0]), (2.5, 2.5, 9.0));
    }
}
