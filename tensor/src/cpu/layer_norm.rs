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
use crate::buffer::with_scratch;
use crate::simd::{Float, sum_of, sum_of_2, vectorized};

/// y, and each row's μ and r.
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

/// x̄, gain and bias gradients.
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

/// [`naive`], vectorised and parallel by rows.
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

/// Rows whose share of the gain and bias gradients is summed before the shares are; fixed, so that bits are.
const BLOCK: usize = 64;

/// [`naive_vjp`], vectorised and parallel by blocks of rows.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
pub fn fast_vjp<T: Float>(x: &[T], gain: &[T], mean: &[T], rstd: &[T], gy: &[T], gx: &mut [T], ggain: &mut [T], gbias: &mut [T]) {
    let n = gain.len();
    same_len("layer_norm_vjp", &[x.len(), gy.len(), gx.len(), n * mean.len(), n * rstd.len()]);
    same_len("layer_norm_vjp", &[n, ggain.len(), gbias.len()]);
    ggain.fill(T::zero());
    gbias.fill(T::zero());
    if x.is_empty() {
        return;
    }
    with_scratch(mean.len().div_ceil(BLOCK) * 2 * n, |shares| {
        let block = |(i, (share, gx)): (usize, (&mut [T], &mut [T]))| {
            let (row, at) = (i * BLOCK, i * BLOCK * n);
            let count = gx.len() / n;
            let (x, gy) = (&x[at..][..gx.len()], &gy[at..][..gx.len()]);
            rows_vjp(x, gain, &mean[row..][..count], &rstd[row..][..count], gy, gx, share);
        };
        if parallel::worth_it(x.len()) {
            shares.par_chunks_mut(2 * n).zip(gx.par_chunks_mut(BLOCK * n)).enumerate().for_each(block);
        } else {
            shares.chunks_mut(2 * n).zip(gx.chunks_mut(BLOCK * n)).enumerate().for_each(block);
        }
        for share in shares.chunks_exact(2 * n) {
            let (gain_share, bias_share) = share.split_at(n);
            for j in 0..n {
                ggain[j] += gain_share[j];
                gbias[j] += bias_share[j];
            }
        }
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
    use super::super::testing::*;
    use super::*;

    /// Writes three slices.
    type Kernel<'a, T> = &'a dyn Fn(&mut [T], &mut [T], &mut [T]);

    fn agrees<T: Float>() {
        for (rows, n) in [(0, 4), (3, 0), (1, 1), (5, 31), (65, 33), (3, 64), (200, 401)] {
            let x: Vec<T> = normals(rows * n, 1);
            let (gain, bias): (Vec<T>, Vec<T>) = (normals(n, 2), normals(n, 3));
            let gy: Vec<T> = normals(rows * n, 4);
            let forward = |kernel: Kernel<'_, T>| {
                let mut out = vec![T::one(); rows * n + 2 * rows];
                let (y, stats) = out.split_at_mut(rows * n);
                let (mean, rstd) = stats.split_at_mut(rows);
                kernel(y, mean, rstd);
                out
            };
            let want = forward(&|y, mean, rstd| naive(&x, &gain, &bias, 1e-5, y, mean, rstd));
            let got = on_threads(|| forward(&|y, mean, rstd| fast(&x, &gain, &bias, 1e-5, y, mean, rstd)));
            let (mean, rstd) = want[rows * n..].split_at(rows);
            let backward = |kernel: Kernel<'_, T>| {
                let mut out = vec![T::one(); rows * n + 2 * n];
                let (gx, params) = out.split_at_mut(rows * n);
                let (ggain, gbias) = params.split_at_mut(n);
                kernel(gx, ggain, gbias);
                out
            };
            let want_vjp = backward(&|gx, g, b| naive_vjp(&x, &gain, mean, rstd, &gy, gx, g, b));
            let got_vjp = on_threads(|| backward(&|gx, g, b| fast_vjp(&x, &gain, mean, rstd, &gy, gx, g, b)));
            // A row of one has r = 1/√ε ≈ 316, which magnifies; sums of up to 401 terms in another order err by about 20ε.
            let scale = if n == 1 { 300.0 } else { 10.0 };
            if n > 0 {
                assert_close(&got, &want, 20.0 * epsilon::<T>(), scale);
            }
            assert_close(&got_vjp, &want_vjp, 20.0 * epsilon::<T>(), scale);
        }
    }

    #[test]
    fn fast_agrees_with_naive() {
        agrees::<f32>();
        agrees::<f64>();
    }
}
