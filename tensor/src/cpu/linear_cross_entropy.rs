//! The tied output h·wᵀ and its cross-entropy (GPT-1 §3.1, equation 2: P(u) = softmax(h Wₑᵀ)), without all the logits at once.
//!
//! ```text
//! z = h·wᵀ,   loss = lse z − zₜ,   L = Σᵢ weightᵢ·lossᵢ
//! z̄ᵢⱼ = weightᵢ·(e^(zᵢⱼ − lseᵢ) − [j = tᵢ]),   h̄ = z̄·w,   w̄ = z̄ᵀ·h
//! ```

use super::cross_entropy::check_targets;
use super::log_softmax::naive_lse;
use super::same_len;
use crate::Real;

/// loss (n), and with `grads` h̄ (n, d) and w̄ (V, d).
pub fn naive<T: Real>(
    h: &[T],
    w: &[T],
    d: usize,
    targets: &[u32],
    weights: &[T],
    loss: &mut [T],
    grads: Option<(&mut [T], &mut [T])>,
) {
    let classes = check(h, w, d, targets, weights, loss, &grads);
    let mut grads = grads;
    if let Some((gh, gw)) = &mut grads {
        gh.fill(T::zero());
        gw.fill(T::zero());
    }
    let mut z = vec![T::zero(); classes];
    for (i, &t) in targets.iter().enumerate() {
        let h = &h[i * d..][..d];
        for (z, w) in z.iter_mut().zip(w.chunks_exact(d)) {
            *z = T::zero();
            for (&h, &w) in h.iter().zip(w) {
                *z += h * w;
            }
        }
        let lse = naive_lse(&z);
        loss[i] = lse - z[t as usize];
        let Some((gh, gw)) = &mut grads else { continue };
        for (j, &z) in z.iter().enumerate() {
            let hit = if j == t as usize { T::one() } else { T::zero() };
            let gz = weights[i] * ((z - lse).exp() - hit);
            for p in 0..d {
                gh[i * d + p] += gz * w[j * d + p];
                gw[j * d + p] += gz * h[p];
            }
        }
    }
}

/// Panics unless all lengths agree; the number of classes V.
#[track_caller]
fn check<T>(
    h: &[T],
    w: &[T],
    d: usize,
    targets: &[u32],
    weights: &[T],
    loss: &[T],
    grads: &Option<(&mut [T], &mut [T])>,
) -> usize {
    let kernel = "linear_cross_entropy";
    assert!(d > 0, "{kernel}: the width d must be positive");
    let classes = super::row_count(kernel, w.len(), d);
    same_len(kernel, &[targets.len(), weights.len(), loss.len()]);
    same_len(kernel, &[h.len(), d * targets.len()]);
    if let Some((gh, gw)) = grads {
        same_len(kernel, &[h.len(), gh.len()]);
        same_len(kernel, &[w.len(), gw.len()]);
    }
    check_targets(kernel, targets, classes);
    classes
}
