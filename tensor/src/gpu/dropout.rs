//! Dropout with the mask of the CPU, drawn from the same key.

use super::{Array, THREADS, word};
use crate::device::Shader;
use crate::rng::DropoutKey;

/// Computes y = x ∘ keep/(1 − p) for rows of n.
pub(crate) fn dropout(x: &Array, key: &DropoutKey, n: usize) -> Array {
    let (x, y) = (x.dense(), Array::unwritten(x.gpu(), x.shape()));
    let rows = x.len().checked_div(n).unwrap_or(0);
    let [row0, row0_high] = [key.row0 as u32, (key.row0 >> 32) as u32];
    let scale = (key.scale() as f32).to_bits();
    let params = [word(rows), word(n), x.at(), row0, row0_high, key.key[0], key.key[1], key.site, key.threshold, scale];
    let shader = Shader::new("dropout", || concat!(include_str!("philox.wgsl"), include_str!("dropout.wgsl")));
    x.gpu().dispatch(&shader, &params, &[&y.buffer], &[&x.buffer], (rows * n.div_ceil(8)).div_ceil(THREADS));
    y
}

#[cfg(test)]
mod tests {
    use super::super::testing::{gpu, on};
    use crate::Tensor;
    use crate::rng::DropoutKey;

    #[test]
    fn the_mask_equals_that_of_the_cpu() {
        let Some(gpu) = gpu() else { return };
        for (rows, n, row0) in [(3, 8, 0), (5, 13, (1 << 32) - 2), (1, 1, u64::MAX), (7, 100, 1 << 40)] {
            let key = DropoutKey::new(0.3, [7, 0xFFFF_FFFF], 5, row0);
            let x = Tensor::new([rows, n], (1..=rows * n).map(|i| i as f32).collect());
            assert_eq!(on(&gpu, &x).dropout(&key), x.dropout(&key), "{rows} rows of {n} from {row0}");
        }
    }
}
