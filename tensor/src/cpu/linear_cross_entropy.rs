//! The tied output h·wᵀ and its cross-entropy (GPT-1 §3.1, equation 2: P(u) = softmax(h Wₑᵀ)), for a chunk of rows at a time.
//!
//! ```text
//! z = h·wᵀ (+ bias),   loss = lse z − zₜ,   L = Σᵢ weightᵢ·lossᵢ
//! z̄ᵢⱼ = weightᵢ·(e^(zᵢⱼ − lseᵢ) − [j = tᵢ]),   h̄ = z̄·w,   w̄ = z̄ᵀ·h,   the bias's gradient = Σ_rows z̄
//! ```

use rayon::prelude::*;

use super::cross_entropy::check_targets;
use super::gemm::{Gemm, Products};
use super::log_softmax::naive_lse;
use super::{parallel, same_len};
use crate::Scalar;
use crate::buffer::with_scratch;
use crate::operands::{Mat, MatMut, Onto, OutputGrads, OutputOperands};
use crate::simd::{Elementary, largest_of, sum_of, vectorized};

/// Computes loss (n), and with `grads` h̄ (n, d), w̄ (V, d) and the bias's gradient (V).
pub fn naive<T: Scalar>(x: &OutputOperands<'_, T>, loss: &mut [T], grads: Option<OutputGrads<'_, T>>) {
    let classes = check(x, loss, &grads);
    let OutputOperands { h, w, bias, width: d, targets, weights, .. } = *x;
    let mut grads = grads;
    if let Some(grads) = &mut grads {
        grads.h.fill(T::zero());
        grads.w.fill(T::zero());
        grads.bias.iter_mut().for_each(|bias| bias.fill(T::zero()));
    }
    let mut z = vec![T::zero(); classes];
    for (i, &t) in targets.iter().enumerate() {
        let h = &h[i * d..][..d];
        for (j, (z, w)) in z.iter_mut().zip(w.chunks_exact(d)).enumerate() {
            *z = T::zero();
            for (&h, &w) in h.iter().zip(w) {
                *z += h * w;
            }
            if let Some(bias) = bias {
                *z += bias[j];
            }
        }
        let lse = naive_lse(&z);
        loss[i] = lse - z[t as usize];
        let Some(grads) = &mut grads else { continue };
        for (j, &z) in z.iter().enumerate() {
            let hit = if j == t as usize { weights[i] } else { T::zero() };
            let gz = weights[i] * (z - lse).exp() - hit; // in this order an infinite weight is ∞ − ∞ at the target, as in `fast`
            for p in 0..d {
                grads.h[i * d + p] += gz * w[j * d + p];
                grads.w[j * d + p] += gz * h[p];
            }
            if let Some(bias) = &mut grads.bias {
                bias[j] += gz;
            }
        }
    }
}

/// Panics unless all lengths agree. Returns the number of classes V.
#[track_caller]
fn check<T>(x: &OutputOperands<'_, T>, loss: &[T], grads: &Option<OutputGrads<'_, T>>) -> usize {
    let kernel = "linear_cross_entropy";
    let classes = check_sizes(x.h.len(), x.w.len(), x.width, x.bias.map(<[T]>::len), x.targets, x.weights.len());
    same_len(kernel, &[x.targets.len(), loss.len()]);
    if let Some(grads) = grads {
        same_len(kernel, &[x.h.len(), grads.h.len()]);
        same_len(kernel, &[x.w.len(), grads.w.len()]);
        grads.bias.iter().for_each(|bias| same_len(kernel, &[classes, bias.len()]));
    }
    classes
}

/// Panics unless the lengths of h, w, bias and weights, the width d and the targets agree. Returns the number of classes V.
#[track_caller]
pub(crate) fn check_sizes(h: usize, w: usize, width: usize, bias: Option<usize>, targets: &[u32], weights: usize) -> usize {
    let kernel = "linear_cross_entropy";
    assert!(width > 0, "{kernel}: the width d must be positive");
    let classes = super::row_count(kernel, w, width);
    same_len(kernel, &[targets.len(), weights]);
    same_len(kernel, &[h, width * targets.len()]);
    bias.iter().for_each(|&bias| same_len(kernel, &[classes, bias]));
    check_targets(kernel, targets, classes);
    classes
}

/// Computes [`naive`] with three products per chunk of rows. The logits are overwritten with their gradients.
pub fn fast<T: Gemm, P: Products<T>>(x: &OutputOperands<'_, T>, loss: &mut [T], grads: Option<OutputGrads<'_, T>>) {
    let classes = check(x, loss, &grads);
    let OutputOperands { h, w, w_form: form, bias, width: d, targets, weights } = *x;
    let mut grads = grads;
    if let Some(grads) = &mut grads {
        grads.bias.iter_mut().for_each(|bias| bias.fill(T::zero()));
        if targets.is_empty() {
            grads.w.fill(T::zero());
        }
    }
    let onto = bias.map_or(Onto::Nothing, Onto::Row);
    let most = P::rows_of_logits(classes, d);
    with_scratch(most.min(targets.len()) * classes, |logits| {
        for (chunk, loss) in loss.chunks_mut(most).enumerate() {
            let (first, rows) = (chunk * most, loss.len());
            let (h, logits) = (Mat::dense(&h[first * d..][..rows * d], rows, d), &mut logits[..rows * classes]);
            let (targets, weights) = (&targets[first..][..rows], &weights[first..][..rows]);
            P::matmul(h, Mat { form, ..Mat::transposed(w, d, classes) }, MatMut::dense(logits, rows, classes), onto);
            let row = |(i, (z, loss)): (usize, (&mut [T], &mut T))| {
                let (t, at_target) = (targets[i] as usize, z[targets[i] as usize]);
                if grads.is_some() {
                    *loss = loss_and_gradient(z, weights[i]) - at_target;
                    z[t] = z[t] - weights[i];
                } else {
                    *loss = super::log_softmax::fast_lse(z) - at_target;
                }
            };
            if parallel::worth_it(logits.len()) {
                let least = parallel::rows_per_chunk(classes);
                logits.par_chunks_mut(classes).zip(loss).enumerate().with_min_len(least).for_each(row);
            } else {
                logits.chunks_mut(classes).zip(loss).enumerate().for_each(row);
            }
            let Some(grads) = &mut grads else { continue };
            let gh = MatMut::dense(&mut grads.h[first * d..][..rows * d], rows, d);
            P::matmul(Mat::dense(logits, rows, classes), Mat { form, ..Mat::dense(w, classes, d) }, gh, Onto::Nothing);
            let onto = if chunk > 0 { Onto::Itself } else { Onto::Nothing };
            P::matmul(Mat::transposed(logits, classes, rows), h, MatMut::dense(grads.w, classes, d), onto);
            if let Some(bias) = &mut grads.bias {
                add_rows(logits, bias);
            }
        }
    });
}

vectorized! {
    /// Adds the rows of z to sum, in order.
    fn add_rows<T: Gemm>(z: &[T], sum: &mut [T]) {
        for z in z.chunks_exact(sum.len().max(1)) {
            for (sum, &z) in sum.iter_mut().zip(z) {
                *sum += z;
            }
        }
    }
}

vectorized! {
    /// Computes z ← weight·e^(z − lse) for one row. Returns lse.
    fn loss_and_gradient<T: Gemm>(z: &mut [T], weight: T) -> T {
        let most = largest_of(z);
        for z in z.iter_mut() {
            *z = (*z - most).fast_exp::<FMA>();
        }
        let sum = sum_of(z, |z| z);
        let factor = weight / sum;
        for z in z {
            *z = *z * factor;
        }
        most + sum.ln()
    }
}
