//! Cross-entropy of rows of logits against one target each.
//!
//! ```text
//! loss = −log softmax(z)ₜ = lse z − zₜ          z̄ⱼ = loss̄·(e^(zⱼ − lse) − [j = t])
//! ```

use super::log_softmax::naive_lse;
use super::{row_count, same_len};
use crate::Real;

/// Columns of a row of logits, from the number of targets; panics where a target lies outside.
pub(crate) fn columns(kernel: &str, len: usize, targets: &[u32]) -> usize {
    let n = len.checked_div(targets.len()).unwrap_or(0);
    assert!(n * targets.len() == len, "{kernel}: {len} logits are not {} whole rows", targets.len());
    check_targets(kernel, targets, n);
    n
}

/// Panics where a target lies outside its row.
pub(crate) fn check_targets(kernel: &str, targets: &[u32], n: usize) {
    if let Some(i) = targets.iter().position(|&t| t as usize >= n) {
        panic!("{kernel}: target {} of row {i} is outside its {n} classes", targets[i]);
    }
}

/// loss and lse, one of each a row.
pub fn naive<T: Real>(logits: &[T], targets: &[u32], loss: &mut [T], lse: &mut [T]) {
    same_len("cross_entropy", &[targets.len(), loss.len(), lse.len()]);
    let n = columns("cross_entropy", logits.len(), targets);
    for (i, &t) in targets.iter().enumerate() {
        let z = &logits[i * n..][..n];
        lse[i] = naive_lse(z);
        loss[i] = lse[i] - z[t as usize];
    }
}

/// z̄ = gy_row·(e^(z − lse) − [target]).
pub fn naive_vjp<T: Real>(logits: &[T], targets: &[u32], lse: &[T], gy: &[T], glogits: &mut [T]) {
    same_len("cross_entropy_vjp", &[logits.len(), glogits.len()]);
    same_len("cross_entropy_vjp", &[targets.len(), lse.len(), gy.len()]);
    let n = columns("cross_entropy_vjp", logits.len(), targets);
    row_count("cross_entropy_vjp", logits.len(), n);
    for (i, &t) in targets.iter().enumerate() {
        let (z, gz) = (&logits[i * n..][..n], &mut glogits[i * n..][..n]);
        for (&z, gz) in z.iter().zip(gz.iter_mut()) {
            *gz = gy[i] * (z - lse[i]).exp();
        }
        gz[t as usize] = gz[t as usize] - gy[i];
    }
}
