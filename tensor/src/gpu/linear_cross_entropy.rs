//! The output h·wᵀ and its cross-entropy, for a chunk of rows at a time.

use super::matmul::{Onto, product_into};
use super::reduce::sums;
use super::tree::{Lines, row_shader};
use super::{Array, assign, fill, word};
use crate::cpu::linear_cross_entropy::check_sizes;
use crate::device::Buffer;

/// The number of logits held at a time, 64 MiB, unless the minimum number of rows has more.
const LOGITS: usize = 16 << 20;

/// Returns the number of rows whose logits are held at a time. Each chunk reads w twice, and reads and writes w̄.
pub(crate) fn rows_at_once(classes: usize) -> usize {
    (LOGITS / classes.max(1) / 128 * 128).max(64)
}

/// Computes the loss of each row (n) and, if requested, the gradients of Σᵢ weightᵢ·lossᵢ with respect to h (n, d), w (V, d) and
/// the bias (V).
pub(crate) fn linear_cross_entropy(
    h: &Array,
    w: &Array,
    bias: Option<&Array>,
    targets: &[u32],
    weights: &Array,
    wants_grads: bool,
) -> (Array, Vec<Array>) {
    in_chunks(rows_at_once(w.shape()[0]), h, w, bias, targets, weights, wants_grads)
}

fn in_chunks(
    most: usize,
    h: &Array,
    w: &Array,
    bias: Option<&Array>,
    targets: &[u32],
    weights: &Array,
    wants_grads: bool,
) -> (Array, Vec<Array>) {
    let classes = check_sizes(h.len(), w.len(), w.shape()[1], bias.map(Array::len), targets, weights.len());
    let (gpu, n) = (h.gpu(), targets.len());
    let (bias, weights, w_turned) = (bias.map(Array::dense), weights.dense(), w.permuted(&[1, 0]));
    let onto = bias.as_ref().map_or(Onto::Nothing, Onto::Row);
    let (loss, sent) = (Array::unwritten(gpu, [n].into()), gpu.send(targets));
    let logits = Array::unwritten(gpu, [most.min(n), classes].into());
    let mut grads = wants_grads.then(|| Grads::of(h, w, bias.as_ref()));
    for first in (0..n).step_by(most) {
        let rows = first..n.min(first + most);
        let (h, z) = (h.sliced(0, rows.clone()), logits.sliced(0, 0..rows.len()));
        product_into(&h, &w_turned, &z, onto);
        turn_to_losses(&z, first, &loss, &sent, &weights, wants_grads);
        if let Some(grads) = &mut grads {
            product_into(&z, w, &grads.h.sliced(0, rows), Onto::Nothing);
            grads.add(&z, &h);
        }
    }
    (loss, grads.map_or(vec![], Grads::finished))
}

/// Writes the losses of these logits, of rows from `first` on, and, if requested, overwrites the logits with their gradients.
fn turn_to_losses(z: &Array, first: usize, loss: &Array, targets: &Buffer, weights: &Array, wants_gradients: bool) {
    let (rows, n) = z.rows();
    let params = [word(rows), word(n), word(first), weights.at(), wants_gradients.into(), f32::NAN.to_bits()];
    let shader = row_shader!(n, "exponentials", "linear_cross_entropy");
    z.gpu().dispatch(&shader, &params, &[&z.buffer, &loss.buffer], &[targets, &weights.buffer], rows);
}

/// The gradients, summed over the chunks in their order.
struct Grads {
    h: Array,
    w: Array,
    bias: Option<Array>,
    is_begun: bool,
}

impl Grads {
    fn of(h: &Array, w: &Array, bias: Option<&Array>) -> Self {
        let like = |x: &Array| Array::unwritten(x.gpu(), x.shape());
        Grads { h: like(h), w: like(w), bias: bias.map(like), is_begun: false }
    }

    /// Adds one chunk: w̄ ← w̄ + z̄ᵀ·h, and Σ_rows z̄ to the bias's gradient.
    fn add(&mut self, gz: &Array, h: &Array) {
        let onto = if self.is_begun { Onto::Accumulate } else { Onto::Nothing };
        product_into(&gz.permuted(&[1, 0]), h, &self.w, onto);
        if let Some(bias) = &mut self.bias {
            let chunk = sums(&Lines::along(&gz.shape(), 0..1), ["x", "1.0"], &[(gz, "i")]).reshaped(bias.shape());
            if self.is_begun {
                assign(bias, &[chunk], "x + y", &[]);
            } else {
                *bias = chunk;
            }
        }
        self.is_begun = true;
    }

    fn finished(self) -> Vec<Array> {
        let cleared = |x: Array| if self.is_begun { x } else { fill(x.gpu(), x.shape(), 0.0) };
        [Some(self.h), Some(self.w), self.bias].into_iter().flatten().map(cleared).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, assert_results, gpu, on};
    use super::in_chunks;
    use crate::rng::Philox;
    use crate::tensor::arrays;
    use crate::{Device, Tensor};

    /// Draws h (n, d), w (V, d), bias (V), weights (n), and targets below V.
    fn drawn([n, d, classes]: [usize; 3]) -> ([Tensor; 4], Vec<u32>) {
        let mut rng = Philox::new(3);
        let mut draw = |shape: &[usize]| Tensor::<f32>::normal(shape, 1.0, &mut rng);
        let inputs = [draw(&[n, d]), draw(&[classes, d]), draw(&[classes]), draw(&[n])];
        (inputs, (0..n).map(|i| (i * i * 7 % classes) as u32).collect())
    }

    /// Returns the loss and the gradients on the GPU, in chunks of `most` rows.
    fn there(gpu: &Device, most: usize, inputs: [&Tensor; 4], has_bias: bool, targets: &[u32]) -> Vec<Tensor> {
        let [h, w, bias, weights] = arrays(inputs.map(|x| on(gpu, x)).each_ref()).expect("on the GPU");
        let (loss, grads) = in_chunks(most, &h, &w, has_bias.then_some(&bias), targets, &weights, true);
        std::iter::once(loss).chain(grads).map(Tensor::from).collect()
    }

    /// Logits of about 10 have errors of 1e-6, e^z is within 3 + 2|z| ulp, and gradients are sums of n such terms.
    #[test]
    fn losses_and_gradients_match_the_cpu() {
        let Some(gpu) = gpu() else { return };
        assert_eq!((gpu.rows_of_logits(300), gpu.rows_of_logits(1 << 20)), (Some(55_808), Some(64)));
        for (sizes, most) in
            [([1, 1, 1], 4), ([7, 5, 3], 2), ([9, 33, 70], 4), ([20, 6, 300], 8), ([5, 3, 17], 64), ([0, 3, 4], 2)]
        {
            let ([h, w, b, weights], targets) = drawn(sizes);
            for has_bias in [false, true] {
                let bias = has_bias.then_some(&b);
                let (loss, grads) = h.linear_cross_entropy_and_vjp(&w, bias, &targets, &weights);
                let expected: Vec<Tensor> = std::iter::once(loss).chain(grads).collect();
                let run = || there(&gpu, most, [&h, &w, &b, &weights], has_bias, &targets);
                assert_results(&format!("{sizes:?}, by {most}"), run, &expected, 2e-5);
            }
        }
    }

    #[test]
    fn views_are_read_and_both_methods_give_the_same_loss() {
        let Some(gpu) = gpu() else { return };
        let ([h, w, b, weights], targets) = drawn([12, 8, 30]);
        let run = |[h, w, b, weights]: [&Tensor; 4]| {
            let (h, w) = (h.t().slice(1, 2..9).t().slice(1, 1..6), w.slice(1, 2..7).slice(0, 3..24));
            let (b, weights) = (b.slice(0, 2..23), weights.slice(0, 5..12));
            let targets: Vec<u32> = targets[..7].iter().map(|t| t % 21).collect();
            let (loss, grads) = h.linear_cross_entropy_and_vjp(&w, Some(&b), &targets, &weights);
            assert_eq!(h.linear_cross_entropy(&w, Some(&b), &targets, &weights), loss);
            let [gh, gw, gb] = grads.try_into().expect("of h, w and the bias");
            [loss, gh, gw, gb]
        };
        let inputs = [&h, &w, &b, &weights];
        for (found, expected) in run(inputs.map(|x| on(&gpu, x)).each_ref()).iter().zip(run(inputs)) {
            assert_close("views", found, &expected, 2e-5);
        }
    }

    /// Chunks change only the order of sums in w̄ and in the bias's gradient.
    #[test]
    fn rows_do_not_depend_on_their_chunk() {
        let Some(gpu) = gpu() else { return };
        let ([h, w, b, weights], targets) = drawn([13, 5, 40]);
        let [whole, parts] = [64, 3].map(|most| there(&gpu, most, [&h, &w, &b, &weights], true, &targets));
        assert_eq!(whole[..2], parts[..2]);
        whole.iter().zip(&parts).for_each(|(whole, parts)| assert_close("sums", parts, whole, 5e-6));
    }

    #[test]
    fn undefined_rows_match_the_cpu() {
        let Some(gpu) = gpu() else { return };
        let h = Tensor::new([4, 1], vec![1.0, f32::NAN, f32::INFINITY, -2.0]);
        let (w, weights) = (Tensor::new([3, 1], vec![1.0f32, 2.0, -1.0]), Tensor::new([4], vec![1.0f32, 0.5, 0.0, 2.0]));
        let loss = |[h, w, weights]: [&Tensor; 3]| {
            let (loss, grads) = h.linear_cross_entropy_and_vjp(w, None, &[0, 1, 2, 0], weights);
            [loss, grads[0].clone(), grads[1].clone()]
        };
        let inputs = [&h, &w, &weights];
        for (found, expected) in loss(inputs.map(|x| on(&gpu, x)).each_ref()).iter().zip(loss(inputs)) {
            assert_close("with NaN and ∞", found, &expected, 1e-6);
        }
    }

    #[test]
    #[should_panic(expected = "linear_cross_entropy: target 3 of row 1 is outside its 3 classes")]
    fn a_target_out_of_range_panics() {
        let Some(gpu) = gpu() else { panic!("linear_cross_entropy: target 3 of row 1 is outside its 3 classes (skipped)") };
        let [h, w, weights] = [[2, 4], [3, 4], [2, 1]].map(|shape| on(&gpu, &Tensor::zeros(shape)));
        h.linear_cross_entropy(&w, None, &[0, 3], &weights.reshape([2]));
    }
}
