//! Layer normalisation over rows (Ba, Kiros, Hinton 2016), biased variance, ε inside the root.
//!
//! ```text
//! μ = mean x,   r = (mean (x − μ)² + ε)^(−1/2),   x̂ = (x − μ)·r,   y = gain ∘ x̂ + bias
//! with a = gain ∘ ȳ:   x̄ = r·(a − mean a − x̂·mean(a ∘ x̂))
//! gain gradient = Σ_rows ȳ ∘ x̂,   bias gradient = Σ_rows ȳ
//! ```

use rayon::prelude::*;

use super::{parallel, same_len};
use crate::Scalar;
use crate::simd::{Float, sum_of, sum_of_2, vectorized};

/// Computes y, and the μ and r of each row.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
pub fn naive<T: Scalar>(x: &[T], gain: &[T], bias: &[T], eps: f64, y: &mut [T], mean: &mut [T], rstd: &mut [T]) {
    let n = gain.len();
    same_len("layer_norm", &[x.len(), y.len(), n * mean.len(), n * rstd.len()]);
    same_len("layer_norm", &[n, bias.len()]);
    let inverse = T::lit(1.0 / n as f64);
    for (i, (mean, rstd)) in mean.iter_mut().zip(rstd).enumerate() {
        let (x, y) = (&x[i * n..][..n], &mut y[i * n..][..n]);
        let mut sum = T::zero();
        for &x in x {
            sum += x;
        }
        *mean = sum * inverse;
        let mut squares = T::zero();
        for &x in x {
            squares += (x - *mean) * (x - *mean);
        }
        *rstd = T::one() / (squares * inverse + T::lit(eps)).sqrt();
        for j in 0..n {
            y[j] = (x[j] - *mean) * *rstd * gain[j] + bias[j];
        }
    }
}

/// Computes x̄ and the gradients of gain and bias.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
pub fn naive_vjp<T: Scalar>(
    x: &[T],
    gain: &[T],
    mean: &[T],
    rstd: &[T],
    gy: &[T],
    gx: &mut [T],
    ggain: &mut [T],
    gbias: &mut [T],
) {
    let n = gain.len();
    same_len("layer_norm_vjp", &[x.len(), gy.len(), gx.len(), n * mean.len(), n * rstd.len()]);
    same_len("layer_norm_vjp", &[n, ggain.len(), gbias.len()]);
    let inverse = T::lit(1.0 / n as f64);
    ggain.fill(T::zero());
    gbias.fill(T::zero());
    for (i, (&mean, &r)) in mean.iter().zip(rstd).enumerate() {
        let (x, gy, gx) = (&x[i * n..][..n], &gy[i * n..][..n], &mut gx[i * n..][..n]);
        let (mut mean_a, mut mean_ax) = (T::zero(), T::zero());
        for j in 0..n {
            let hat = (x[j] - mean) * r;
            let a = gain[j] * gy[j];
            mean_a += a;
            mean_ax += a * hat;
            ggain[j] += gy[j] * hat;
            gbias[j] += gy[j];
        }
        mean_a = mean_a * inverse;
        mean_ax = mean_ax * inverse;
        for j in 0..n {
            let hat = (x[j] - mean) * r;
            gx[j] = r * (gain[j] * gy[j] - mean_a - hat * mean_ax);
        }
    }
}

/// Computes [`naive`], vectorised and parallel by rows.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
pub fn fast<T: Float>(x: &[T], gain: &[T], bias: &[T], eps: f64, y: &mut [T], mean: &mut [T], rstd: &mut [T]) {
    let n = gain.len();
    same_len("layer_norm", &[x.len(), y.len(), n * mean.len(), n * rstd.len()]);
    same_len("layer_norm", &[n, bias.len()]);
    if n == 0 || !parallel::worth_it(x.len()) {
        return rows(x, gain, bias, eps, y, mean, rstd);
    }
    let count = parallel::rows_per_chunk(n);
    let stats = mean.par_chunks_mut(count).zip(rstd.par_chunks_mut(count));
    x.par_chunks(count * n)
        .zip(y.par_chunks_mut(count * n))
        .zip(stats)
        .for_each(|((x, y), (mean, rstd))| rows(x, gain, bias, eps, y, mean, rstd));
}

vectorized! {
    fn rows<T: Float>(x: &[T], gain: &[T], bias: &[T], eps: f64, y: &mut [T], mean: &mut [T], rstd: &mut [T]) {
        let n = gain.len();
        let inverse = T::lit(1.0 / n as f64);
        for (i, (mean, rstd)) in mean.iter_mut().zip(rstd).enumerate() {
            let (x, y) = (&x[i * n..][..n], &mut y[i * n..][..n]);
            let mu = sum_of(x, |x| x) * inverse;
            let r = T::one() / (sum_of(x, |x| (x - mu) * (x - mu)) * inverse + T::lit(eps)).sqrt();
            for (((&x, y), &gain), &bias) in x.iter().zip(y).zip(gain).zip(bias) {
                *y = (x - mu) * r * gain + bias;
            }
            (*mean, *rstd) = (mu, r);
        }
    }
}

/// Computes [`naive_vjp`], vectorised and parallel by blocks of rows.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
pub fn fast_vjp<T: Float>(x: &[T], gain: &[T], mean: &[T], rstd: &[T], gy: &[T], gx: &mut [T], ggain: &mut [T], gbias: &mut [T]) {
    let n = gain.len();
    same_len("layer_norm_vjp", &[x.len(), gy.len(), gx.len(), n * mean.len(), n * rstd.len()]);
    same_len("layer_norm_vjp", &[n, ggain.len(), gbias.len()]);
    parallel::each_with_sums(n, gx, [ggain, gbias], |first, gx, share| {
        let [x, gy] = [x, gy].map(|x| &x[first * n..][..gx.len()]);
        let [mean, rstd] = [mean, rstd].map(|x| &x[first..][..gx.len() / n]);
        rows_vjp(x, gain, mean, rstd, gy, gx, share);
    });
}

vectorized! {
    fn rows_vjp<T: Float>(x: &[T], gain: &[T], mean: &[T], rstd: &[T], gy: &[T], gx: &mut [T], share: &mut [T]) {
        let n = gain.len();
        let inverse = T::lit(1.0 / n as f64);
        share.fill(T::zero());
        let (ggain, gbias) = share.split_at_mut(n);
        for (i, (&mean, &r)) in mean.iter().zip(rstd).enumerate() {
            let (x, gy, gx) = (&x[i * n..][..n], &gy[i * n..][..n], &mut gx[i * n..][..n]);
            let (ggain, gbias) = (&mut ggain[..n], &mut gbias[..n]);
            for j in 0..n {
                gx[j] = gain[j] * gy[j]; // a, for now
                ggain[j] += gy[j] * ((x[j] - mean) * r);
                gbias[j] += gy[j];
            }
            let mean_a = sum_of(gx, |a| a) * inverse;
            let mean_ax = sum_of_2(gx, x, |a, x| a * ((x - mean) * r)) * inverse;
            for (gx, &x) in gx.iter_mut().zip(x) {
                *gx = r * (*gx - mean_a - (x - mean) * r * mean_ax);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variance sums the squares of x − μ; Σx² − n·μ² would cancel.
    #[test]
    fn a_large_mean_loses_no_precision() {
        let mean = 4_194_304.0f32;
        let x = [-3.0, -1.0, 1.0, 3.0].map(|x| mean + x);
        for kernel in [naive::<f32>, fast] {
            let (mut y, mut mu, mut rstd) = ([0.0; 4], [0.0], [0.0]);
            kernel(&x, &[1.0; 4], &[0.0; 4], 0.0, &mut y, &mut mu, &mut rstd);
            assert_eq!(mu, [mean]);
            assert!((rstd[0] - 1.0 / 5f32.sqrt()).abs() < 1e-6, "{rstd:?}"); // a few ε of f32
        }
    }
}
