//! Long short-term memory: a single step, and whole sequences in two dispatches per step.

use super::matmul::{Onto, product_into};
use super::{Array, THREADS, fill, word};
use crate::cpu::lstm::{check, check_cell};
use crate::cpu::same_len;
use crate::device::Shader;

/// Computes one step from z (B, 4H) and the cell c (B, H). Returns [h; c′] (2, B, H) and the gates (B, 4H).
pub(crate) fn lstm_cell(z: &Array, c: &Array) -> (Array, Array) {
    let [batch, units] = [c.shape()[0], c.shape()[1]];
    check_cell("lstm_cell", units, &[z.len()], &[c.len()]);
    let (gates, c) = (z.copied(), c.dense());
    let out = Array::unwritten(z.gpu(), [2, batch, units].into());
    let params = cell_params(units, &gates, Some(&c), &step(&out, 1), &step(&out, 0));
    let buffers = [("states", "read_write"), ("befores", "read")];
    let shader = cell_shader("lstm_cell", &buffers, ["befores", "states", "states"]);
    z.gpu().dispatch(&shader, &params, &[&gates.buffer, &out.buffer], &[&c.buffer], c.len().div_ceil(THREADS));
    (out, gates)
}

/// Computes z̄ (B, 4H) and c̄ (B, H) from the results of [`lstm_cell`], its initial cell c, and [h̄; c̄′].
pub(crate) fn lstm_cell_vjp(out: &Array, gates: &Array, c: &Array, gy: &Array) -> [Array; 2] {
    let (units, n) = (c.shape()[1], out.len() / 2);
    check_cell("lstm_cell_vjp", units, &[gates.len()], &[c.len(), n, gy.len() / 2]);
    let [out, gates, c, gy] = [out, gates, c, gy].map(Array::dense);
    let gz = Array::unwritten(out.gpu(), gates.shape());
    let gc = cell_vjp(units, &gates, [&c, &step(&out, 1)], [&step(&gy, 0), &step(&gy, 1)], &gz);
    [gz, gc]
}

/// Computes all steps from a state of zeros, x (T, B, 4H) and w (H, 4H). Returns the outputs (T, B, H), and the gates (T, B, 4H)
/// and cells (T, B, H).
pub(crate) fn lstm(x: &Array, w: &Array) -> (Array, [Array; 2]) {
    let (batch, units) = (x.shape()[1], w.shape()[0]);
    let [h, cells] = [(); 2].map(|()| Array::unwritten(x.gpu(), x.shape().with(2, units)));
    check("lstm", w.len(), [batch, units], &[x.len()], &[h.len()]);
    let gates = x.copied();
    let buffers = [("cells", "read_write"), ("outputs", "read_write")];
    let shader = cell_shader("lstm", &buffers, ["cells", "cells", "outputs"]);
    let writes = [&gates, &cells, &h].map(|x| &*x.buffer);
    for t in 0..x.shape()[0] {
        let (z, before) = (step(&gates, t), t.checked_sub(1));
        if let Some(before) = before {
            product_into(&step(&h, before), w, &z, Onto::Accumulate);
        }
        let before = before.map(|t| step(&cells, t));
        let params = cell_params(units, &z, before.as_ref(), &step(&cells, t), &step(&h, t));
        x.gpu().dispatch(&shader, &params, &writes, &[], (batch * units).div_ceil(THREADS));
    }
    (h, [gates, cells])
}

/// Computes x̄ (T, B, 4H) and, if `wants_w`, w̄ (H, 4H), from the results of [`lstm`] and ȳ (T, B, H).
pub(crate) fn lstm_vjp(h: &Array, w: &Array, [gates, cells]: [&Array; 2], gy: &Array, wants_w: bool) -> (Array, Option<Array>) {
    let [steps, batch, units] = [0, 1, 2].map(|axis| h.shape()[axis]);
    check("lstm_vjp", w.len(), [batch, units], &[gates.len()], &[cells.len(), h.len(), gy.len()]);
    same_len("lstm_vjp", &[h.len(), steps * batch * units]);
    let shape = gates.shape();
    let of = |x: &Array, width| x.dense().reshaped([steps, batch, width].into());
    let (h, gates, cells) = (of(h, units), of(gates, 4 * units), of(cells, units));
    let gx = Array::unwritten(h.gpu(), gates.shape());
    let (gh, w_turned) = (of(&gy.copied(), units), w.permuted(&[1, 0]));
    let zeros = fill(h.gpu(), [batch, units].into(), 0.0);
    let mut gc = zeros.clone();
    for t in (0..steps).rev() {
        let (gz, gh) = (step(&gx, t), step(&gh, t));
        if t + 1 < steps {
            product_into(&step(&gx, t + 1), &w_turned, &gh, Onto::Accumulate);
        }
        let before = t.checked_sub(1).map_or(zeros.clone(), |t| step(&cells, t));
        gc = cell_vjp(units, &step(&gates, t), [&before, &step(&cells, t)], [&gh, &gc], &gz);
    }
    let gw = wants_w.then(|| weight_gradient(&h, &gx));
    (gx.reshaped(shape), gw)
}

/// Computes W̄ = Σₜ hₜ₋₁ᵀ z̄ₜ as one product: (H, (T−1)·B)·((T−1)·B, 4H).
fn weight_gradient(h: &Array, gx: &Array) -> Array {
    let [steps, batch, units] = [0, 1, 2].map(|axis| h.shape()[axis]);
    let first = steps.min(1) * batch;
    let rows = |x: &Array, width| x.reshaped([steps * batch, width].into());
    let before = rows(h, units).sliced(0, 0..steps * batch - first).permuted(&[1, 0]);
    let gz = rows(gx, 4 * units).sliced(0, first..steps * batch);
    let gw = Array::unwritten(h.gpu(), [units, 4 * units].into());
    product_into(&before, &gz, &gw, Onto::Nothing);
    gw
}

/// Returns step t of a dense (T, …).
fn step(x: &Array, t: usize) -> Array {
    let shape = x.shape();
    x.sliced(0, t..t + 1).reshaped((&shape[1..]).into())
}

/// Returns the parameters of the shader of a step: the offsets of its dense matrices. Without a cell `before`, the cell is 0.
fn cell_params(units: usize, gates: &Array, before: Option<&Array>, after: &Array, h: &Array) -> [u32; 7] {
    let before_at = before.map_or(0, Array::at);
    [word(h.len()), word(units), gates.at(), before_at, after.at(), h.at(), before.is_none().into()]
}

/// Returns the shader of a step. `buffers` are the names and accesses of its buffers after the gates; `cells` are the names of
/// the buffers of c, c′ and h among them.
fn cell_shader<'a>(name: &'static str, buffers: &'a [(&str, &str)], cells: [&'a str; 3]) -> Shader<'a> {
    let binding = |(i, (name, access)): (usize, &(&str, &str))| {
        format!("@group(0) @binding({}) var<storage, {access}> {name}: array<f32>;", i + 2)
    };
    Shader::new(name, move || {
        let bindings: Vec<String> = buffers.iter().enumerate().map(binding).collect();
        let text = concat!(include_str!("functions.wgsl"), include_str!("lstm.wgsl")).replace("BINDINGS", &bindings.join("\n"));
        let places = ["BEFORE[", "AFTER[", "OUTPUT["].into_iter().zip(cells);
        places.fold(text, |text, (place, name)| text.replace(place, &format!("{name}[")))
    })
}

/// Computes c̄, and writes z̄ to `gz`, from the gates, the cells before and after, h̄ and c̄′. All are dense.
fn cell_vjp(units: usize, gates: &Array, [before, after]: [&Array; 2], [gh, gc_after]: [&Array; 2], gz: &Array) -> Array {
    let gc = Array::unwritten(gates.gpu(), before.shape());
    let places = [gz, gates, before, after, gh, gc_after].map(Array::at);
    let params = [&[word(gc.len()), word(units)][..], &places].concat();
    let reads = [gates, before, after, gh, gc_after].map(|x| &*x.buffer);
    let shader = Shader::new("lstm_vjp", || concat!(include_str!("functions.wgsl"), include_str!("lstm_vjp.wgsl")));
    gc.gpu().dispatch(&shader, &params, &[&gz.buffer, &gc.buffer], &reads, gc.len().div_ceil(THREADS));
    gc
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, assert_results, gpu, on};
    use crate::Tensor;
    use crate::rng::Philox;

    /// Gates and states are within 1 and have errors of a few units in the last place. Their sums over H and T are short.
    const TOLERANCE: f32 = 1e-5;

    #[test]
    fn an_lstm_step_matches_the_cpu() {
        let Some(gpu) = gpu() else { return };
        let mut rng = Philox::new(1);
        for [batch, units] in [[1, 1], [3, 5], [7, 33], [0, 4]] {
            let mut draw = |rows: usize, n| Tensor::<f32>::normal([n, rows], 2.0, &mut rng);
            let inputs = [draw(batch + 1, 4 * units), draw(batch + 1, units), draw(2 * batch, units)];
            let run = |[z, c, gy]: [&Tensor; 3]| {
                let view = |x: &Tensor| x.t().slice(0, 1..batch + 1);
                let (z, c, gy) = (view(z), view(c), gy.t().reshape([2, batch, units]));
                let (out, gates) = z.lstm_cell(&c);
                let [gz, gc] = out.lstm_cell_vjp(&gates, &c, &gy);
                [out, gates, gz, gc]
            };
            let [z, c, gy] = inputs.each_ref().map(|x| on(&gpu, x));
            let expected = run(inputs.each_ref());
            assert_results(&format!("{batch} × {units}"), || run([&z, &c, &gy]).into(), &expected, TOLERANCE);
        }
    }

    #[test]
    fn sequences_match_the_cpu() {
        let Some(gpu) = gpu() else { return };
        let mut rng = Philox::new(2);
        for [steps, batch, units] in [[1, 1, 1], [2, 3, 5], [7, 2, 17], [3, 33, 9], [4, 1, 6], [0, 2, 3], [3, 0, 4]] {
            let mut draw = |shape: [usize; 3], std| Tensor::<f32>::normal(shape, std, &mut rng);
            // As in a model: the batch axis is first in memory, and permuted to second. w is a view too.
            let x = draw([batch, steps, 4 * units], 1.0);
            let w = draw([4 * units, units, 1], 0.3).reshape([4 * units, units]);
            let gy = draw([batch, steps, units], 1.0);
            let run = |[x, w, gy]: [&Tensor; 3]| {
                let (x, w, gy) = (x.permute(&[1, 0, 2]), w.t(), gy.permute(&[1, 0, 2]));
                let (h, [gates, cells]) = x.lstm(&w);
                let (gx, gw) = h.lstm_vjp(&w, [&gates, &cells], &gy, true);
                let (gx_alone, none) = h.lstm_vjp(&w, [&gates, &cells], &gy, false);
                assert!(none.is_none() && gx_alone == gx);
                [h, gates, cells, gx, gw.expect("wanted")]
            };
            let there = [&x, &w, &gy].map(|x| on(&gpu, x));
            let expected = run([&x, &w, &gy]);
            assert_results(&format!("{steps} × {batch} × {units}"), || run(there.each_ref()).into(), &expected, TOLERANCE);
        }
    }

    #[test]
    fn far_pre_activations_saturate() {
        let Some(gpu) = gpu() else { return };
        let z = Tensor::new([2, 4], vec![1e4, 1e4, 1e4, 1e4, 1e4, -1e4, 1e4, -1e4f32]);
        let c = Tensor::new([2, 1], vec![3.0f32, 3.0]);
        let (found, _) = on(&gpu, &z).lstm_cell(&on(&gpu, &c));
        assert_close("h and c", &found, &z.lstm_cell(&c).0, 1e-6);
    }
}
