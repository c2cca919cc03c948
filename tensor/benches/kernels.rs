//! Benchmarks of the kernels at the shapes of the presets: `RAYON_NUM_THREADS=1 cargo bench -p gradus-tensor`.
//!
//! "items/s" is FLOP/s for matrix products, attention, the output and the LSTM, with two operations per multiply-add, and
//! elements/s for all other kernels. The batches are those of `gradus bench train`, where `gpt1` has one sequence per step.

#![allow(clippy::disallowed_methods, reason = "kernels are timed without the methods of `Tensor`")]

use divan::Bencher;
use divan::counter::ItemsCount;
use gradus_tensor::Real;
use gradus_tensor::buffer::Buffer;
use gradus_tensor::kernels::Kernels;
use gradus_tensor::operands::{
    AdamStep, AttentionGrads, AttentionOperands, AttentionSpec, Form, Heads, Mask, Mat, MatMut, Onto, OutputGrads, OutputOperands,
};
use gradus_tensor::rng::{DropoutKey, Philox};

/// The batch, context, width, number of heads and vocabulary of a training step.
#[derive(Clone, Copy, Debug)]
struct Preset {
    name: &'static str,
    batch: usize,
    context: usize,
    width: usize,
    heads: usize,
    vocabulary: usize,
}

impl std::fmt::Display for Preset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Preset {
    fn tokens(&self) -> usize {
        self.batch * self.context
    }
}

const PRESETS: [Preset; 3] = [
    Preset { name: "tiny", batch: 16, context: 128, width: 128, heads: 4, vocabulary: 2000 },
    Preset { name: "small", batch: 8, context: 256, width: 384, heads: 6, vocabulary: 8000 },
    Preset { name: "gpt1", batch: 1, context: 512, width: 768, heads: 12, vocabulary: 40478 },
];

fn main() {
    divan::main();
}

fn normals(n: usize) -> Vec<f32> {
    let mut x = vec![0.0; n];
    Philox::new(1).fill_normal(1.0, &mut x);
    x
}

/// Returns normals in a buffer aligned as a tensor's is.
fn aligned(n: usize) -> Buffer<f32> {
    let mut x = Buffer::recycled(n);
    x.copy_from_slice(&normals(n));
    x
}

/// Measures the matrix products of a linear layer from width d to f, in f32 and in bf16. `LAYOUT` 0: forward, A·B; 1: gradient of
/// the input, A·Bᵀ; 2: gradient of the weight, Aᵀ·B.
macro_rules! products {
    ($($name:ident: $d:literal to $f:literal, $kernels:expr;)*) => {$(
        #[divan::bench(args = PRESETS, consts = [0, 1, 2])]
        fn $name<const LAYOUT: usize>(bencher: Bencher<'_, '_>, p: Preset) {
            products::<LAYOUT>(bencher, $kernels, p, $d * p.width, $f * p.width);
        }
    )*};
}

products! {
    matmul: 1 to 4, f32::kernels(); // the first layer of the feed-forward network
    matmul_second: 4 to 1, f32::kernels();
    matmul_packed: 1 to 3, f32::kernels(); // the projection to queries, keys and values
    matmul_projection: 1 to 1, f32::kernels();
    matmul_bf16: 1 to 4, &Kernels::BF16;
    matmul_bf16_second: 4 to 1, &Kernels::BF16;
}

fn products<const LAYOUT: usize>(bencher: Bencher<'_, '_>, kernels: &Kernels<f32>, p: Preset, d: usize, f: usize) {
    let t = p.tokens();
    let (m, k, n) = [(t, d, f), (t, f, d), (d, t, f)][LAYOUT];
    let [a, b, mut c] = [m * k, k * n, m * n].map(aligned);
    bencher.counter(ItemsCount::new(2 * m * k * n)).bench_local(|| {
        let a = if LAYOUT == 2 { Mat::transposed(&a, m, k) } else { Mat::dense(&a, m, k) };
        let b = if LAYOUT == 1 { Mat::transposed(&b, k, n) } else { Mat::dense(&b, k, n) };
        (kernels.matmul)(a, b, MatMut::dense(&mut c, m, n), Onto::Nothing);
    });
}

/// Measures a row times a matrix, as in decoding: the first feed-forward layer (false), or the tied output, transposed (true).
#[divan::bench(args = PRESETS, consts = [false, true])]
fn row_times_matrix<const TIED: bool>(bencher: Bencher<'_, '_>, p: Preset) {
    let (k, n) = (p.width, if TIED { p.vocabulary } else { 4 * p.width });
    let (a, b, mut c) = (normals(k), normals(k * n), vec![0.0; n]);
    bencher.counter(ItemsCount::new(2 * k * n)).bench_local(|| {
        let b = if TIED { Mat::transposed(&b, k, n) } else { Mat::dense(&b, k, n) };
        (f32::kernels().matmul)(Mat::dense(&a, 1, k), b, MatMut::dense(&mut c, 1, n), Onto::Nothing);
    });
}

/// Measures causal attention over a packed projection, with dropout (true) or without. Only allowed scores count as FLOPs.
#[divan::bench(args = PRESETS, consts = [false, true])]
fn attention<const DROP: bool>(bencher: Bencher<'_, '_>, p: Preset) {
    let (spec, data) = attention_case::<DROP>(p);
    let x = packed(&spec, &data, p);
    let (mut o, mut lse) = (vec![0.0; p.tokens() * p.width], vec![0.0; p.tokens() * p.heads]);
    bencher
        .counter(ItemsCount::new(2 * p.tokens() * p.context * p.width))
        .bench_local(|| (f32::kernels().attention)(&x, &mut o, &mut lse));
}

/// Measures the gradients of causal attention.
#[divan::bench(args = PRESETS, consts = [false, true])]
fn attention_vjp<const DROP: bool>(bencher: Bencher<'_, '_>, p: Preset) {
    let (spec, data) = attention_case::<DROP>(p);
    let x = packed(&spec, &data, p);
    let (mut o, mut lse) = (vec![0.0; p.tokens() * p.width], vec![0.0; p.tokens() * p.heads]);
    (f32::kernels().attention)(&x, &mut o, &mut lse);
    let go = normals(p.tokens() * p.width);
    let go = Heads { data: &go, strides: [p.context * p.width, p.width / p.heads, p.width] };
    let mut grads = vec![0.0; data.len()];
    bencher.counter(ItemsCount::new(5 * p.tokens() * p.context * p.width)).bench_local(|| {
        let grads = AttentionGrads { data: &mut grads, packed: true, gbias: None };
        (f32::kernels().attention_vjp)(&x, &o, &lse, go, grads);
    });
}

fn attention_case<const DROP: bool>(p: Preset) -> (AttentionSpec, Vec<f32>) {
    let width = p.width / p.heads;
    let spec = AttentionSpec {
        batch: p.batch,
        heads: p.heads,
        queries: p.context,
        keys: p.context,
        width,
        scale: 1.0 / (width as f64).sqrt(),
        mask: Mask::Causal,
        lengths: None,
        dropout: DROP.then(|| DropoutKey::new(0.1, [1, 2], 3, 0)),
    };
    (spec, normals(p.tokens() * 3 * p.width))
}

fn packed<'a>(spec: &'a AttentionSpec, data: &'a [f32], p: Preset) -> AttentionOperands<'a, f32> {
    let strides = [p.context * 3 * p.width, p.width / p.heads, 3 * p.width];
    let [q, k, v] = [0, 1, 2].map(|i| Heads { data: &data[i * p.width..], strides });
    AttentionOperands { spec, q, k, v, bias: None }
}

/// Measures the tied output and the loss: without gradients, as in evaluation (false), or with both, as in training (true).
#[divan::bench(args = PRESETS, consts = [false, true], max_time = 3)]
fn linear_cross_entropy<const GRADIENTS: bool>(bencher: Bencher<'_, '_>, p: Preset) {
    let (n, d, classes) = (p.tokens(), p.width, p.vocabulary);
    let (h, w) = (normals(n * d), normals(classes * d));
    let (targets, weights): (Vec<u32>, Vec<f32>) = (0..n).map(|i| ((i * 31 % classes) as u32, 1.0)).unzip();
    let (mut loss, mut gh, mut gw) = (vec![0.0; n], vec![0.0; n * d], vec![0.0; classes * d]);
    let flops = if GRADIENTS { 6 } else { 2 } * n * d * classes;
    bencher.counter(ItemsCount::new(flops)).bench_local(|| {
        let x =
            OutputOperands { h: &h, w: &w, w_form: Form::Elements, bias: None, width: d, targets: &targets, weights: &weights };
        let grads = OutputGrads { h: &mut gh, w: &mut gw, bias: None };
        (f32::kernels().linear_cross_entropy)(&x, &mut loss, GRADIENTS.then_some(grads));
    });
}

/// Measures kernels that map x to y, each with tokens × ($times · width) elements.
macro_rules! rows {
    ($($name:ident: $times:literal, $kernel:expr;)*) => {$(
        #[divan::bench(args = PRESETS)]
        fn $name(bencher: Bencher<'_, '_>, p: Preset) {
            let n = $times * p.width;
            let (x, kernel): (Vec<f32>, fn(&[f32], &mut [f32], usize)) = (normals(p.tokens() * n), $kernel);
            let mut y = x.clone();
            bencher.counter(ItemsCount::new(x.len())).bench_local(|| kernel(&x, &mut y, n));
        }
    )*};
}

rows! {
    exp: 1, |x, y, _| (f32::kernels().exp)(x, y);
    tanh: 1, |x, y, _| (f32::kernels().tanh)(x, y);
    gelu: 4, |x, y, _| (f32::kernels().gelu)(x, y);
    gelu_vjp: 4, |x, y, _| (f32::kernels().gelu_vjp)(x, x, y);
    softmax: 1, |x, y, n| (f32::kernels().softmax)(x, y, n);
    dropout: 1, |x, y, n| (f32::kernels().dropout)(&DropoutKey::new(0.1, [1, 2], 3, 0), x, y, n);
    add: 1, |x, y, _| (f32::kernels().add)(x, x, y);
    accumulate: 1, |x, y, _| (f32::kernels().accumulate)(y, x); // sums gradients
    sum_rows: 1, |x, y, n| (f32::kernels().sum_rows)(x, &mut y[..n], n); // the gradient of a bias
    sum_squares: 1, |x, y, _| y[0] = (f32::kernels().sum_squares)(x) as f32;
}

/// Measures the layer norm of all activations, forward or backward.
#[divan::bench(args = PRESETS, consts = [false, true])]
fn layer_norm<const BACK: bool>(bencher: Bencher<'_, '_>, p: Preset) {
    let (gain, mut mean, mut rstd) = (normals(p.width), vec![0.0; p.tokens()], vec![1.0; p.tokens()]);
    let (x, mut y) = (normals(p.tokens() * p.width), vec![0.0; p.tokens() * p.width]);
    let (mut ggain, mut gbias) = (gain.clone(), gain.clone());
    bencher.counter(ItemsCount::new(x.len())).bench_local(|| match BACK {
        false => (f32::kernels().layer_norm)(&x, &gain, &gain, 1e-5, &mut y, &mut mean, &mut rstd),
        true => (f32::kernels().layer_norm_vjp)(&x, &gain, &mean, &rstd, &x, &mut y, &mut ggain, &mut gbias),
    });
}

/// Measures Adam on four arrays, each the size of a block's weights, 12 d².
#[divan::bench(args = PRESETS)]
fn adam(bencher: Bencher<'_, '_>, p: Preset) {
    let g = normals(12 * p.width * p.width);
    let [mut w, mut m, mut v] = [g.clone(), g.clone(), vec![1.0; g.len()]];
    let step = AdamStep { beta1: 0.9, beta2: 0.999, step: 1e-4, v_scale: 1.0, eps: 1e-8, decay: 1e-6, l2: 0.0 };
    bencher.counter(ItemsCount::new(g.len())).bench_local(|| (f32::kernels().adam)(&step, 1.0, &mut w, &mut m, &mut v, &g));
}

/// Measures an LSTM of the preset's width over a batch, forward or backward.
#[divan::bench(args = PRESETS, consts = [false, true], max_time = 3)]
fn lstm<const BACK: bool>(bencher: Bencher<'_, '_>, p: Preset) {
    let (sizes, n, h) = ([p.batch, p.width], p.tokens(), p.width);
    let (x, w) = (normals(n * 4 * h), normals(4 * h * h));
    let (mut gates, mut c, mut y) = (vec![0.0; n * 4 * h], vec![0.0; n * h], vec![0.0; n * h]);
    (f32::kernels().lstm)(&x, &w, sizes, &mut gates, &mut c, &mut y);
    let (gy, mut gx, mut gw) = (normals(n * h), vec![0.0; n * 4 * h], vec![0.0; 4 * h * h]);
    let flops = if BACK { 4 } else { 2 } * n * 4 * h * h;
    bencher.counter(ItemsCount::new(flops)).bench_local(|| match BACK {
        false => (f32::kernels().lstm)(&x, &w, sizes, &mut gates, &mut c, &mut y),
        true => (f32::kernels().lstm_vjp)(&w, sizes, &gates, &c, &y, &gy, &mut gx, Some(&mut gw)),
    });
}

/// Measures the gather of a batch's rows from the embedding, or the scatter-add of their gradients.
#[divan::bench(args = PRESETS, consts = [false, true])]
fn embedding<const BACK: bool>(bencher: Bencher<'_, '_>, p: Preset) {
    let (mut table, mut y) = (normals(p.vocabulary * p.width), normals(p.tokens() * p.width));
    let ids: Vec<u32> = (0..p.tokens()).map(|i| (i * 7919 % p.vocabulary) as u32).collect();
    bencher.counter(ItemsCount::new(y.len())).bench_local(|| match BACK {
        false => (f32::kernels().gather)(&table, p.width, &ids, &mut y),
        true => (f32::kernels().scatter_add)(&mut table, p.width, &ids, &y),
    });
}
