//! Cross-entropy of rows of logits with one target each.

use super::tree::row_shader;
use super::{Array, THREADS, word};
use crate::cpu::cross_entropy::columns;
use crate::cpu::same_len;
use crate::device::shader;

/// Computes loss and lse, one of each per row.
pub(crate) fn cross_entropy(z: &Array, targets: &[u32]) -> (Array, Array) {
    let (z, n, rows) = (z.dense(), columns("cross_entropy", z.len(), targets), targets.len());
    let [loss, lse] = [(); 2].map(|()| Array::unwritten(z.gpu(), [rows].into()));
    let classes = z.gpu().send(targets);
    let params = [word(rows), word(n), z.at(), f32::NAN.to_bits()];
    let shader = row_shader!(n, "exponentials", "cross_entropy");
    z.gpu().dispatch(&shader, &params, &[&loss.buffer, &lse.buffer], &[&z.buffer, &classes], rows);
    (loss, lse)
}

/// Computes z̄ = ȳ·(e^(z − lse) − [j = t]).
pub(crate) fn cross_entropy_vjp(z: &Array, targets: &[u32], lse: &Array, gy: &Array) -> Array {
    same_len("cross_entropy_vjp", &[targets.len(), lse.len(), gy.len()]);
    let (z, n) = (z.dense(), columns("cross_entropy_vjp", z.len(), targets));
    let (lse, gy) = (lse.dense(), gy.dense());
    let gz = Array::unwritten(z.gpu(), z.shape());
    let classes = z.gpu().send(targets);
    let params = [word(z.len()), word(n), z.at(), lse.at(), gy.at()];
    let reads = [&*z.buffer, &classes, &lse.buffer, &gy.buffer];
    z.gpu().dispatch(&shader!("cross_entropy_vjp"), &params, &[&gz.buffer], &reads, z.len().div_ceil(THREADS));
    gz
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_rows, assert_undefined_rows, gpu, on};
    use crate::Tensor;

    fn targets(rows: usize, n: usize) -> Vec<u32> {
        (0..rows).map(|i| (i * i * 7 % n) as u32).collect()
    }

    /// The tolerance of log-softmax: z̄ is ȳ times a difference of numbers below 1.
    #[test]
    fn cross_entropy_matches_the_cpu() {
        assert_rows(2e-5, &|Case { x, gy }: &Case| {
            let x = x.flat();
            let [rows, n] = [x.shape()[0], x.shape()[1]];
            if rows * n == 0 {
                return vec![];
            }
            let (targets, gy) = (targets(rows, n), gy.flat().slice(1, 0..1).reshape([rows]));
            let (loss, lse) = x.cross_entropy(&targets);
            let gz = x.cross_entropy_vjp(&targets, &lse, &gy);
            vec![loss, lse, gz]
        });
    }

    #[test]
    fn undefined_rows_match_the_cpu() {
        assert_undefined_rows(&|x: &Tensor| {
            let (loss, lse) = x.cross_entropy(&vec![1; x.shape()[0]]);
            Tensor::concat(&[&loss, &lse], 0)
        });
    }

    #[test]
    #[should_panic(expected = "cross_entropy: target 3 of row 1 is outside its 3 classes")]
    fn a_target_out_of_range_panics() {
        let Some(gpu) = gpu() else { panic!("cross_entropy: target 3 of row 1 is outside its 3 classes (skipped)") };
        on(&gpu, &Tensor::zeros([2, 3])).cross_entropy(&[0, 3]);
    }
}
