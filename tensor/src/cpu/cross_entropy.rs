//! Cross-entropy of rows of logits with one target each.
//!
//! ```text
//! loss = −log softmax(z)ₜ = lse z − zₜ          z̄ⱼ = loss̄·(e^(zⱼ − lse) − [j = t])
//! ```

use rayon::prelude::*;

use super::log_softmax::{fast_lse, naive_lse};
use super::{parallel, row_count, same_len};
use crate::Scalar;
use crate::simd::{Elementary, Float, vectorized};

/// Returns the number of columns of the logits, given one target per row. Panics if a target lies outside its row.
pub(crate) fn columns(kernel: &str, len: usize, targets: &[u32]) -> usize {
    let n = len.checked_div(targets.len()).unwrap_or(0);
    assert!(n * targets.len() == len, "{kernel}: {len} logits are not {} whole rows", targets.len());
    check_targets(kernel, targets, n);
    n
}

/// Panics if a target lies outside its row.
pub(crate) fn check_targets(kernel: &str, targets: &[u32], n: usize) {
    if let Some(i) = targets.iter().position(|&t| t as usize >= n) {
        panic!("{kernel}: target {} of row {i} is outside its {n} classes", targets[i]);
    }
}

/// Computes loss and lse, one of each per row.
pub fn naive<T: Scalar>(logits: &[T], targets: &[u32], loss: &mut [T], lse: &mut [T]) {
    same_len("cross_entropy", &[targets.len(), loss.len(), lse.len()]);
    let n = columns("cross_entropy", logits.len(), targets);
    for (i, &t) in targets.iter().enumerate() {
        let z = &logits[i * n..][..n];
        lse[i] = naive_lse(z);
        loss[i] = lse[i] - z[t as usize];
    }
}

/// Computes z̄ = gy_row·(e^(z − lse) − ⟦target⟧).
pub fn naive_vjp<T: Scalar>(logits: &[T], targets: &[u32], lse: &[T], gy: &[T], glogits: &mut [T]) {
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

/// Computes [`naive`], vectorised and parallel by rows.
pub fn fast<T: Float>(logits: &[T], targets: &[u32], loss: &mut [T], lse: &mut [T]) {
    same_len("cross_entropy", &[targets.len(), loss.len(), lse.len()]);
    let n = columns("cross_entropy", logits.len(), targets);
    let row = |(i, (loss, lse)): (usize, (&mut T, &mut T))| {
        let z = &logits[i * n..][..n];
        *lse = fast_lse(z);
        *loss = *lse - z[targets[i] as usize];
    };
    if parallel::worth_it(logits.len()) {
        loss.par_iter_mut().zip(lse).enumerate().with_min_len(parallel::rows_per_chunk(n)).for_each(row);
    } else {
        loss.iter_mut().zip(lse).enumerate().for_each(row);
    }
}

/// Computes [`naive_vjp`], vectorised and parallel by rows.
pub fn fast_vjp<T: Float>(logits: &[T], targets: &[u32], lse: &[T], gy: &[T], glogits: &mut [T]) {
    same_len("cross_entropy_vjp", &[logits.len(), glogits.len()]);
    same_len("cross_entropy_vjp", &[targets.len(), lse.len(), gy.len()]);
    let n = columns("cross_entropy_vjp", logits.len(), targets);
    let row = |(i, gz): (usize, &mut [T])| {
        scaled_probabilities(&logits[i * n..][..n], lse[i], gy[i], gz);
        let t = targets[i] as usize;
        gz[t] = gz[t] - gy[i];
    };
    if parallel::worth_it(logits.len()) {
        glogits.par_chunks_mut(n).enumerate().with_min_len(parallel::rows_per_chunk(n)).for_each(row);
    } else {
        glogits.chunks_mut(n.max(1)).enumerate().for_each(row);
    }
}

vectorized! {
    /// Computes y = factor·e^(z − lse).
    fn scaled_probabilities<T: Float>(z: &[T], lse: T, factor: T, y: &mut [T]) {
        for (&z, y) in z.iter().zip(y) {
            *y = factor * (z - lse).fast_exp::<FMA>();
        }
    }
}
