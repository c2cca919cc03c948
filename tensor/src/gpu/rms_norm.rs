//! Root-mean-square normalisation over rows.

use super::reduce::sums;
use super::tree::{Lines, row_shader};
use super::{Array, word};
use crate::cpu::same_len;

/// Computes y, and r = (mean x² + ε)^(−1/2) of each row.
pub(crate) fn rms_norm(x: &Array, gain: &Array, eps: f64) -> (Array, Array) {
    let ((rows, _), n) = (x.rows(), gain.len());
    same_len("rms_norm", &[x.len(), n * rows]);
    let (x, gain) = (x.dense(), gain.dense());
    let (y, rrms) = (Array::unwritten(x.gpu(), x.shape()), Array::unwritten(x.gpu(), [rows].into()));
    let [inverse_n, eps] = [1.0 / n as f64, eps].map(|x| (x as f32).to_bits());
    let params = [word(rows), word(n), x.at(), gain.at(), inverse_n, eps];
    let (writes, reads) = ([&*y.buffer, &rrms.buffer], [&*x.buffer, &gain.buffer]);
    x.gpu().dispatch(&row_shader!(n, "rms_norm"), &params, &writes, &reads, rows);
    (y, rrms)
}

/// Computes x̄ and the gain's gradient.
pub(crate) fn rms_norm_vjp(x: &Array, gain: &Array, rrms: &Array, gy: &Array) -> [Array; 2] {
    let (n, rows) = (gain.len(), rrms.len());
    same_len("rms_norm_vjp", &[x.len(), gy.len(), n * rows]);
    let [x, gain, rrms, gy] = [x, gain, rrms, gy].map(Array::dense);
    let gx = Array::unwritten(x.gpu(), x.shape());
    let inverse_n = (1.0 / n as f64) as f32;
    let params = [word(rows), word(n), x.at(), gain.at(), rrms.at(), gy.at(), inverse_n.to_bits()];
    let reads = [&*x.buffer, &gain.buffer, &rrms.buffer, &gy.buffer];
    x.gpu().dispatch(&row_shader!(n, "rms_norm_vjp"), &params, &[&gx.buffer], &reads, rows);
    let columns = Lines { outer: 1, n: rows, inner: n };
    let ggain = sums(&columns, "y * (x * z)", &[(&x, "i"), (&gy, "i"), (&rrms, "k")]);
    [gx, ggain.reshaped(gain.shape())]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_rows};

    /// Means of up to a thousand elements and sums over 300 rows in another order, a quotient and a root.
    #[test]
    fn rms_norm_is_the_cpus() {
        assert_rows(5e-5, &|Case { x, gy }: &Case| {
            let n = x.shape()[x.shape().len() - 1];
            let gain = x.constant([n], (0..n).map(|j| 0.5 + (j % 7) as f32 / 7.0).collect());
            let (y, rrms) = x.rms_norm(&gain, 1e-5);
            let [gx, ggain] = x.rms_norm_vjp(&gain, &rrms, gy);
            vec![y, rrms, gx, ggain]
        });
    }
}
