//! Layer normalisation and root-mean-square normalisation over rows.

use super::reduce::sums;
use super::tree::{Lines, row_shader};
use super::{Array, word};
use crate::Shape;
use crate::cpu::same_len;

/// Computes y, and the mean μ and r = (σ² + ε)^(−1/2) of each row.
pub(crate) fn layer_norm(x: &Array, gain: &Array, bias: &Array, eps: f64) -> (Array, [Array; 2]) {
    same_len("layer_norm", &[x.len(), gain.len() * x.rows().0]);
    same_len("layer_norm", &[gain.len(), bias.len()]);
    norm(x, gain, Some(bias), eps)
}

/// Computes y, and r = (mean x² + ε)^(−1/2) of each row.
pub(crate) fn rms_norm(x: &Array, gain: &Array, eps: f64) -> (Array, Array) {
    same_len("rms_norm", &[x.len(), gain.len() * x.rows().0]);
    let (y, [_, rrms]) = norm(x, gain, None, eps);
    (y, rrms)
}

/// Computes the layer norm with a bias, or the RMS norm without: y, μ and r. The RMS norm has no μ.
fn norm(x: &Array, gain: &Array, bias: Option<&Array>, eps: f64) -> (Array, [Array; 2]) {
    let (rows, n) = (x.rows().0, gain.len());
    let [x, gain, bias_or_gain] = [x, gain, bias.unwrap_or(gain)].map(Array::dense);
    let new = |shape: Shape| Array::unwritten(x.gpu(), shape);
    let (y, mean, r) = (new(x.shape()), new([bias.map_or(0, |_| rows)].into()), new([rows].into()));
    let [inverse_n, eps] = [1.0 / n as f64, eps].map(|x| (x as f32).to_bits());
    let params = [word(rows), word(n), x.at(), gain.at(), bias_or_gain.at(), inverse_n, eps];
    let (writes, reads) = ([&*y.buffer, &mean.buffer, &r.buffer], [&*x.buffer, &gain.buffer, &bias_or_gain.buffer]);
    x.gpu().dispatch(&row_shader!(n, "layer_norm").with("CENTRED", bias.is_some()), &params, &writes, &reads, rows);
    (y, [mean, r])
}

/// Computes x̄ and the gradients of gain and bias.
pub(crate) fn layer_norm_vjp(x: &Array, gain: &Array, [mean, rstd]: [&Array; 2], gy: &Array) -> [Array; 3] {
    let (n, rows) = (gain.len(), mean.len());
    same_len("layer_norm_vjp", &[x.len(), gy.len(), n * rows]);
    same_len("layer_norm_vjp", &[rows, rstd.len()]);
    let [x, mean, rstd, gy] = [x, mean, rstd, gy].map(Array::dense);
    let columns = Lines { outer: 1, n: rows, inner: n };
    let ggain = sums(&columns, ["y", "(x - z) * w"], &[(&x, "i"), (&gy, "i"), (&mean, "k"), (&rstd, "k")]);
    let gbias = sums(&columns, ["x", "1.0"], &[(&gy, "i")]);
    [norm_vjp(&x, gain, Some(&mean), &rstd, &gy), ggain.reshaped(gain.shape()), gbias.reshaped(gain.shape())]
}

/// Computes x̄ and the gain's gradient.
pub(crate) fn rms_norm_vjp(x: &Array, gain: &Array, rrms: &Array, gy: &Array) -> [Array; 2] {
    let (n, rows) = (gain.len(), rrms.len());
    same_len("rms_norm_vjp", &[x.len(), gy.len(), n * rows]);
    let [x, rrms, gy] = [x, rrms, gy].map(Array::dense);
    let columns = Lines { outer: 1, n: rows, inner: n };
    let ggain = sums(&columns, ["y", "x * z"], &[(&x, "i"), (&gy, "i"), (&rrms, "k")]);
    [norm_vjp(&x, gain, None, &rrms, &gy), ggain.reshaped(gain.shape())]
}

/// Computes x̄ of the layer norm with a mean, or of the RMS norm without. All but the gain are dense.
fn norm_vjp(x: &Array, gain: &Array, mean: Option<&Array>, r: &Array, gy: &Array) -> Array {
    let (n, gain, mean_or_r) = (gain.len(), gain.dense(), mean.unwrap_or(r));
    let gx = Array::unwritten(x.gpu(), x.shape());
    let inverse_n = ((1.0 / n as f64) as f32).to_bits();
    let params = [word(r.len()), word(n), x.at(), gain.at(), mean_or_r.at(), r.at(), gy.at(), inverse_n];
    let reads = [&*x.buffer, &gain.buffer, &mean_or_r.buffer, &r.buffer, &gy.buffer];
    x.gpu().dispatch(&row_shader!(n, "layer_norm_vjp").with("CENTRED", mean.is_some()), &params, &[&gx.buffer], &reads, r.len());
    gx
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_rows};
    use crate::Tensor;

    /// Means of up to a thousand elements and sums over 300 rows in another order, a quotient and a root.
    #[test]
    fn layer_norm_matches_the_cpu() {
        assert_rows(5e-5, &|Case { x, gy }: &Case| {
            let n = x.shape()[x.shape().len() - 1];
            let row = |shift: f32| x.constant([n], (0..n).map(|j| 0.5 + shift + (j % 7) as f32 / 7.0).collect());
            let (gain, bias) = (row(0.0), row(-1.0));
            let (y, [mean, rstd]) = x.layer_norm(&gain, &bias, 1e-5);
            let [gx, ggain, gbias] = x.layer_norm_vjp(&gain, [&mean, &rstd], gy);
            vec![y, mean, rstd, gx, ggain, gbias]
        });
    }

    /// As in the layer norm.
    #[test]
    fn rms_norm_matches_the_cpu() {
        assert_rows(5e-5, &|Case { x, gy }: &Case| {
            let n = x.shape()[x.shape().len() - 1];
            let gain = x.constant([n], (0..n).map(|j| 0.5 + (j % 7) as f32 / 7.0).collect());
            let (y, rrms) = x.rms_norm(&gain, 1e-5);
            let [gx, ggain] = x.rms_norm_vjp(&gain, &rrms, gy);
            vec![y, rrms, gx, ggain]
        });
    }

    /// The variance sums the squares of x − μ, so a large mean does not cancel it.
    #[test]
    fn a_large_mean_does_not_cancel() {
        let Some(gpu) = super::super::testing::gpu() else { return };
        let x = Tensor::new([2, 400], (0..800u16).map(|i| 4096.0 + f32::from(i % 5)).collect());
        let (one, zero) = (x.full_like([400], 1.0), x.zeros_like([400]));
        let [x, one, zero] = [x, one, zero].map(|x| super::super::testing::on(&gpu, &x));
        let r = x.layer_norm(&one, &zero, 0.0).1[1].to_vec();
        assert!(r.iter().all(|r| (r - 0.5f32.sqrt()).abs() < 1e-6), "{r:?}");
    }
}
