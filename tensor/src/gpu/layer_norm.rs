//! Layer normalisation over rows.

use super::reduce::sums;
use super::tree::{Lines, row_shader};
use super::{Array, word};
use crate::Shape;
use crate::cpu::same_len;

/// Computes y, and the mean μ and r = (σ² + ε)^(−1/2) of each row.
pub(crate) fn layer_norm(x: &Array, gain: &Array, bias: &Array, eps: f64) -> (Array, [Array; 2]) {
    let ((rows, _), n) = (x.rows(), gain.len());
    same_len("layer_norm", &[x.len(), n * rows]);
    same_len("layer_norm", &[n, bias.len()]);
    let (x, gain, bias) = (x.dense(), gain.dense(), bias.dense());
    let new = |shape: Shape| Array::unwritten(x.gpu(), shape);
    let (y, mean, rstd) = (new(x.shape()), new([rows].into()), new([rows].into()));
    let [inverse_n, eps] = [1.0 / n as f64, eps].map(|x| (x as f32).to_bits());
    let params = [word(rows), word(n), x.at(), gain.at(), bias.at(), inverse_n, eps];
    let (writes, reads) = ([&*y.buffer, &mean.buffer, &rstd.buffer], [&*x.buffer, &gain.buffer, &bias.buffer]);
    x.gpu().dispatch(&row_shader!(n, "layer_norm"), &params, &writes, &reads, rows);
    (y, [mean, rstd])
}

/// Computes x̄ and the gradients of gain and bias.
pub(crate) fn layer_norm_vjp(x: &Array, gain: &Array, [mean, rstd]: [&Array; 2], gy: &Array) -> [Array; 3] {
    let (n, rows) = (gain.len(), mean.len());
    same_len("layer_norm_vjp", &[x.len(), gy.len(), n * rows, n * rstd.len()]);
    let [x, gain, mean, rstd, gy] = [x, gain, mean, rstd, gy].map(Array::dense);
    let gx = Array::unwritten(x.gpu(), x.shape());
    let inverse_n = (1.0 / n as f64) as f32;
    let params = [word(rows), word(n), x.at(), gain.at(), mean.at(), rstd.at(), gy.at(), inverse_n.to_bits()];
    let reads = [&*x.buffer, &gain.buffer, &mean.buffer, &rstd.buffer, &gy.buffer];
    x.gpu().dispatch(&row_shader!(n, "layer_norm_vjp"), &params, &[&gx.buffer], &reads, rows);
    let columns = Lines { outer: 1, n: rows, inner: n };
    let ggain = sums(&columns, "y * ((x - z) * w)", &[(&x, "i"), (&gy, "i"), (&mean, "k"), (&rstd, "k")]);
    let gbias = sums(&columns, "x", &[(&gy, "i")]);
    [gx, ggain.reshaped(gain.shape()), gbias.reshaped(gain.shape())]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_rows};
    use crate::Tensor;

    /// Means of up to a thousand elements and sums over 300 rows in another order, a quotient and a root.
    #[test]
    fn layer_norm_is_the_cpus() {
        assert_rows(5e-5, &|Case { x, gy }: &Case| {
            let n = x.shape()[x.shape().len() - 1];
            let row = |shift: f32| x.constant([n], (0..n).map(|j| 0.5 + shift + (j % 7) as f32 / 7.0).collect());
            let (gain, bias) = (row(0.0), row(-1.0));
            let (y, [mean, rstd]) = x.layer_norm(&gain, &bias, 1e-5);
            let [gx, ggain, gbias] = x.layer_norm_vjp(&gain, [&mean, &rstd], gy);
            vec![y, mean, rstd, gx, ggain, gbias]
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
