//! Layer normalisation over rows (Ba, Kiros, Hinton 2016), biased variance, ε inside the root.
//!
//! ```text
//! μ = mean x,   r = (mean (x − μ)² + ε)^(−1/2),   x̂ = (x − μ)·r,   y = gain ∘ x̂ + bias
//! with a = gain ∘ ȳ:   x̄ = r·(a − mean a − x̂·mean(a ∘ x̂))
//! gain gradient = Σ_rows ȳ ∘ x̂,   bias gradient = Σ_rows ȳ
//! ```

use super::same_len;
use crate::Real;

/// y, and each row's μ and r.
#[allow(clippy::too_many_arguments)]
pub fn naive<T: Real>(x: &[T], gain: &[T], bias: &[T], eps: f64, y: &mut [T], mean: &mut [T], rstd: &mut [T]) {
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
#[allow(clippy::too_many_arguments)]
pub fn naive_vjp<T: Real>(x: &[T], gain: &[T], mean: &[T], rstd: &[T], gy: &[T], gx: &mut [T], ggain: &mut [T], gbias: &mut [T]) {
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
