//! Tests of every kernel on a device whose bindings are smaller than its tensors.

use super::matmul::{Onto, product_into};
use super::testing::{bits, gpu, on};
use crate::device::testing::{Scarce, in_windows};
use crate::operands::{AdamStep, AttentionSpec, Mask};
use crate::rng::{DropoutKey, Philox};
use crate::tensor::arrays;
use crate::{Device, Shape, Tensor};

/// The most bytes in a binding. Every bound tensor is larger, except a row.
const WINDOW: u64 = 4096;

/// The inputs of the kernels, on one device.
struct Given {
    x: Tensor,
    y: Tensor,
    w: Tensor,
    row: Tensor,
    odd: Tensor,
    ids: Vec<u32>,
}

impl Given {
    fn on(device: &Device) -> Self {
        let mut rng = Philox::new(11);
        let mut draw = |shape: &[usize]| on(device, &Tensor::normal(Shape::new(shape), 1.0, &mut rng));
        let [x, y] = [draw(&[24, 64]), draw(&[24, 64])];
        let (w, row, odd) = (draw(&[64, 64]), draw(&[64]), draw(&[26, 61]));
        Given { x, y, w, row, odd, ids: (0..24).map(|i| i * i % 19).collect() }
    }
}

type Case = (&'static str, fn(&Given) -> Vec<Tensor>);

const CASES: [Case; 12] = [
    ("elements", |Given { x, y, .. }| {
        let mut sum = x * y;
        sum.add_assign(&x.gelu());
        vec![sum, x.full_like([40, 40], 0.5)]
    }),
    ("copies", |Given { x, y, .. }| {
        let mut rows = x.clone();
        rows.write_rows(0, 3, &y.slice(0, 7..20));
        vec![x.t().dense(), Tensor::concat(&[x, y], 1), x.pad(0, 3, 2), rows]
    }),
    ("products by four elements", |Given { x, y, w, row, .. }| {
        let sum = w.affine(1.0, 0.0);
        let [a, b, to] = arrays([&x.t(), y, &sum]).expect("on a GPU");
        product_into(&a, &b, &to, Onto::Accumulate);
        vec![x.matmul(w), x.linear(w, row), x.linear_gelu(w, row, true).0, w.t().matmul(&x.t()), sum]
    }),
    ("products by one and two", |Given { odd, w, .. }| {
        let even = w.slice(1, 0..62).dense();
        vec![odd.matmul(&odd.t()), odd.t().matmul(odd), even.matmul(&even.t())]
    }),
    ("reductions", |Given { x, y, .. }| {
        let numbers = [x.dot(y), x.sum_squares()].map(|x| Tensor::scalar(x as f32));
        [x.sum(&[0]), x.sum(&[1]), x.max(0), x.is_max(1)].into_iter().chain(numbers).collect()
    }),
    ("norms of rows", |Given { x, y, row, .. }| {
        let (normed, [mean, rstd]) = x.layer_norm(row, row, 1e-5);
        let (scaled, rrms) = x.rms_norm(row, 1e-5);
        let gradients = x.layer_norm_vjp(row, [&mean, &rstd], y).into_iter().chain(x.rms_norm_vjp(row, &rrms, y));
        [normed, scaled].into_iter().chain(gradients).collect()
    }),
    ("softmax", |Given { x, y, .. }| {
        let (p, l) = (x.softmax(), x.log_softmax());
        vec![p.softmax_vjp(y), l.log_softmax_vjp(y), p, l]
    }),
    ("losses", |Given { x, w, row, ids, .. }| {
        let (loss, lse) = x.cross_entropy(ids);
        let gy = row.slice(0, 0..24).dense();
        let (linear, gradients) = x.linear_cross_entropy_and_vjp(w, Some(row), ids, &gy);
        [x.cross_entropy_vjp(ids, &lse, &gy), loss, linear].into_iter().chain(gradients).collect()
    }),
    ("rows by ids", |Given { x, y, w, ids, .. }| {
        let mut sum = x.affine(1.0, 0.0);
        sum.add_rows(ids, y);
        vec![sum, w.gather(ids, &[24].into()), x.scatter_add(ids, 50)]
    }),
    ("dropout and Adam", |Given { x, y, row, .. }| {
        let step = AdamStep { beta1: 0.9, beta2: 0.999, step: 0.1, v_scale: 1.5, eps: 1e-8, decay: 0.01, l2: 0.001 };
        let [mut p, mut m, mut v] = [x.clone(), y.clone(), x * x];
        p.adam(&step, &row.slice(0, 0..1).dense(), &mut m, &mut v, y);
        vec![x.dropout(&DropoutKey::new(0.3, [7, 8], 5, 2)), p, m, v]
    }),
    ("attention", |Given { x, y, w, odd, .. }| {
        let spec = |width, mask| {
            let dropout = Some(DropoutKey::new(0.3, [7, 8], 5, 2));
            AttentionSpec { batch: 1, heads: 2, queries: 24, keys: 24, width, scale: 0.3, mask, lengths: None, dropout }
        };
        let some = Mask::Allowed((0..24 * 24).map(|at| at % 3 > 0 || at % 25 == 0).collect());
        let (causal, spec) = (spec(10, Mask::Causal), spec(32, some));
        let of = |x: &Tensor| x.reshape([1, 24, 2, 32]).permute(&[0, 2, 1, 3]);
        let [q, k, v] = [of(x), of(y), of(&w.slice(0, 0..24))];
        let bias = w.reshape([4096]).slice(0, 0..2 * 24 * 24).reshape([1, 2, 24, 24]);
        let (o, lse) = q.attention(&k, &v, Some(&bias), &spec);
        let (gradients, gbias) = k.attention_vjp([&q, &k, &v], Some(&bias), &spec, [&o, &lse], true);
        let packed = odd.slice(0, 0..24).slice(1, 0..60).reshape([1, 24, 60]);
        let (joined, lses) = packed.self_attention(&causal);
        [o, lse, joined, lses].into_iter().chain(gradients).chain(gbias).collect()
    }),
    ("LSTM", |Given { x, w, .. }| {
        let (x, w) = (x.reshape([6, 4, 64]), w.slice(0, 0..16).dense());
        let (h, [gates, cells]) = x.lstm(&w);
        let (gx, gw) = h.lstm_vjp(&w, [&gates, &cells], &h, true);
        [h, gates, cells, gx].into_iter().chain(gw).collect()
    }),
];

#[test]
fn windowed_kernels_give_the_same_bits() {
    let Some(gpu) = gpu() else { return };
    let scarce = Device::fresh(Scarce { binding_bytes: Some(WINDOW), ..Scarce::default() }).expect("there is a GPU");
    let (whole, split) = (Given::on(&gpu), Given::on(&scarce));
    for (name, run) in CASES {
        let before = in_windows(&scarce);
        let (found, expected) = (run(&split), run(&whole));
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found.shape(), expected.shape(), "{name}, result {i}");
            assert!(bits(found) == bits(expected), "{name}, result {i}: {found:?}, {expected:?}");
        }
        assert!(in_windows(&scarce) > before, "{name}: no shader was compiled for windows");
    }
}

/// The shaders of this crate need no runtime checks: what these would change would differ here.
#[test]
fn checked_and_unchecked_shaders_give_the_same_bits() {
    let with = |checks| Device::fresh(Scarce { checks: Some(checks), ..Scarce::default() });
    let (Some(checked), Some(unchecked)) = (with(true), with(false)) else { return };
    let (checked, unchecked) = (Given::on(&checked), Given::on(&unchecked));
    for (name, run) in CASES {
        for (i, (found, expected)) in run(&unchecked).iter().zip(&run(&checked)).enumerate() {
            assert!(bits(found) == bits(expected), "{name}, result {i}: {found:?}, {expected:?}");
        }
    }
}

/// The tensors have more windows than a shader can bind.
#[test]
fn too_many_windows_are_an_error_that_names_the_shader() {
    let Some(gpu) = Device::fresh(Scarce { binding_bytes: Some(256), bindings: Some(8), ..Scarce::default() }) else { return };
    let x = on(&gpu, &Tensor::zeros([64, 4]));
    assert_eq!(x.exp().to_vec(), [1.0; 256], "four windows in, four out");
    let error = (&x + &on(&gpu, &Tensor::zeros([64, 4]))).try_to_vec().unwrap_err().to_string();
    let expected = "lets a shader bind at most 8 ranges of 256 bytes, and \"y = x + y, of 2\" needs 12";
    assert!(error.contains(expected), "{error}");
}
