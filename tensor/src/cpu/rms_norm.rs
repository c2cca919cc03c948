//! Root-mean-square normalisation over rows (Zhang and Sennrich 2019), ε inside the root.
//!
//! ```text
//! r = (mean x² + ε)^(−1/2),   x̂ = x·r,   y = gain ∘ x̂
//! with a = gain ∘ ȳ:   x̄ = r·(a − x̂·mean(a ∘ x̂))          gain gradient = Σ_rows ȳ ∘ x̂
//! ```

use rayon::prelude::*;

use super::{parallel, same_len};
use crate::Scalar;
use crate::simd::{Float, sum_of, sum_of_2, vectorized};

/// Computes y, and the r of each row.
pub fn naive<T: Scalar>(x: &[T], gain: &[T], eps: f64, y: &mut [T], rrms: &mut [T]) {
    let n = gain.len();
    same_len("rms_norm", &[x.len(), y.len(), n * rrms.len()]);
    let inverse = T::lit(1.0 / n as f64);
    for (i, rrms) in rrms.iter_mut().enumerate() {
        let (x, y) = (&x[i * n..][..n], &mut y[i * n..][..n]);
        let mut squares = T::zero();
        for &x in x {
            squares += x * x;
        }
        *rrms = T::one() / (squares * inverse + T::lit(eps)).sqrt();
        for j in 0..n {
            y[j] = x[j] * *rrms * gain[j];
        }
    }
}

/// Computes x̄ and the gain's gradient.
pub fn naive_vjp<T: Scalar>(x: &[T], gain: &[T], rrms: &[T], gy: &[T], gx: &mut [T], ggain: &mut [T]) {
    let n = gain.len();
    same_len("rms_norm_vjp", &[x.len(), gy.len(), gx.len(), n * rrms.len()]);
    same_len("rms_norm_vjp", &[n, ggain.len()]);
    let inverse = T::lit(1.0 / n as f64);
    ggain.fill(T::zero());
    for (i, &r) in rrms.iter().enumerate() {
        let (x, gy, gx) = (&x[i * n..][..n], &gy[i * n..][..n], &mut gx[i * n..][..n]);
        let mut mean_ax = T::zero();
        for j in 0..n {
            mean_ax += gain[j] * gy[j] * (x[j] * r);
            ggain[j] += gy[j] * (x[j] * r);
        }
        mean_ax = mean_ax * inverse;
        for j in 0..n {
            gx[j] = r * (gain[j] * gy[j] - x[j] * r * mean_ax);
        }
    }
}

/// Computes [`naive`], vectorised and parallel by rows.
pub fn fast<T: Float>(x: &[T], gain: &[T], eps: f64, y: &mut [T], rrms: &mut [T]) {
    let n = gain.len();
    same_len("rms_norm", &[x.len(), y.len(), n * rrms.len()]);
    if n == 0 || !parallel::worth_it(x.len()) {
        return rows(x, gain, eps, y, rrms);
    }
    let count = parallel::rows_per_chunk(n);
    let rows_of = x.par_chunks(count * n).zip(y.par_chunks_mut(count * n));
    rows_of.zip(rrms.par_chunks_mut(count)).for_each(|((x, y), rrms)| rows(x, gain, eps, y, rrms));
}

vectorized! {
    fn rows<T: Float>(x: &[T], gain: &[T], eps: f64, y: &mut [T], rrms: &mut [T]) {
        let n = gain.len();
        let inverse = T::lit(1.0 / n as f64);
        for (i, rrms) in rrms.iter_mut().enumerate() {
            let (x, y) = (&x[i * n..][..n], &mut y[i * n..][..n]);
            let r = T::one() / (sum_of(x, |x| x * x) * inverse + T::lit(eps)).sqrt();
            for ((&x, y), &gain) in x.iter().zip(y).zip(gain) {
                *y = x * r * gain;
            }
            *rrms = r;
        }
    }
}

/// Computes [`naive_vjp`], vectorised and parallel by blocks of rows.
pub fn fast_vjp<T: Float>(x: &[T], gain: &[T], rrms: &[T], gy: &[T], gx: &mut [T], ggain: &mut [T]) {
    let n = gain.len();
    same_len("rms_norm_vjp", &[x.len(), gy.len(), gx.len(), n * rrms.len()]);
    same_len("rms_norm_vjp", &[n, ggain.len()]);
    parallel::each_with_sums(n, gx, [ggain], |first, gx, ggain| {
        let [x, gy] = [x, gy].map(|x| &x[first * n..][..gx.len()]);
        rows_vjp(x, gain, &rrms[first..][..gx.len() / n], gy, gx, ggain);
    });
}

vectorized! {
    fn rows_vjp<T: Float>(x: &[T], gain: &[T], rrms: &[T], gy: &[T], gx: &mut [T], ggain: &mut [T]) {
        let n = gain.len();
        let inverse = T::lit(1.0 / n as f64);
        ggain.fill(T::zero());
        for (i, &r) in rrms.iter().enumerate() {
            let (x, gy, gx) = (&x[i * n..][..n], &gy[i * n..][..n], &mut gx[i * n..][..n]);
            for j in 0..n {
                gx[j] = gain[j] * gy[j]; // a, for now
                ggain[j] += gy[j] * (x[j] * r);
            }
            let mean_ax = sum_of_2(gx, x, |a, x| a * (x * r)) * inverse;
            for (gx, &x) in gx.iter_mut().zip(x) {
                *gx = r * (*gx - x * r * mean_ax);
            }
        }
    }
}
