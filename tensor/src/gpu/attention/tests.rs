use std::sync::Arc;

use super::super::testing::{assert_close, gpu, on};
use crate::operands::{AttentionSpec, Mask};
use crate::rng::{DropoutKey, Philox};
use crate::{Device, Tensor};

fn spec([batch, heads, queries, keys, width]: [usize; 5], mask: Mask) -> AttentionSpec {
    let scale = 1.0 / (width.max(1) as f64).sqrt();
    AttentionSpec { batch, heads, queries, keys, width, scale, mask, lengths: None, dropout: None }
}

fn dropped(spec: AttentionSpec) -> AttentionSpec {
    AttentionSpec { dropout: Some(DropoutKey::new(0.3, [7, 0xFFFF_FFFF], 5, (1 << 32) - 3)), ..spec }
}

fn normal(shape: [usize; 4], stream: u64) -> Tensor {
    Tensor::normal(shape, 1.0, &mut Philox::with_stream(3, stream))
}

/// Checks o, lse, q̄, k̄, v̄ and the bias's gradient on the GPU against the CPU. On both, q, k and v are views whose heads are
/// adjacent in memory, and the bias is a view whose keys are not.
///
/// Scores up to about 5 have rounding errors of a few ε from sums of up to 64 products. So have their exponentials, for which
/// WGSL allows another 3 + 2·5 ulp. Gradients are sums of up to 70 such terms: 1e-5 is about 80ε.
fn agrees(device: &Device, spec: &AttentionSpec, bias: Option<[usize; 2]>) {
    let AttentionSpec { batch, heads, queries, keys, width, .. } = *spec;
    let [q, k, v, go] = [(queries, 1), (keys, 2), (keys, 3), (queries, 4)].map(|(t, n)| normal([batch, t, heads, width], n));
    let bias = bias.map(|[b, h]| normal([b, h, keys, queries], 5));
    let run = |to: &dyn Fn(&Tensor) -> Tensor, [o, lse]: [Option<&Tensor>; 2], wants_bias: bool| {
        let [q, k, v, go] = [&q, &k, &v, &go].map(|x| to(x).permute(&[0, 2, 1, 3]));
        let bias = bias.as_ref().map(|x| to(x).permute(&[0, 1, 3, 2]));
        let (own_o, own_lse) = q.attention(&k, &v, bias.as_ref(), spec);
        let kept = [o.map_or(own_o.clone(), to), lse.map_or(own_lse.clone(), to)];
        let (grads, gbias) = go.attention_vjp([&q, &k, &v], bias.as_ref(), spec, kept.each_ref(), wants_bias);
        assert_eq!(gbias.is_some(), bias.is_some() && wants_bias);
        ([own_o, own_lse].into_iter().chain(grads).chain(gbias)).collect::<Vec<Tensor>>()
    };
    let expected = run(&Tensor::clone, [None, None], true);
    // With one o and lse on both devices, errors of the forward pass do not add to those of the VJP.
    let there = |wants_bias| run(&|x| on(device, x), [Some(&expected[0]), Some(&expected[1])], wants_bias);
    let found = there(true);
    for ((name, found), expected) in ["o", "lse", "gq", "gk", "gv", "gbias"].iter().zip(&found).zip(&expected) {
        assert_close(&format!("{name} of {spec:?}"), found, expected, 1e-5);
    }
    let bits = |all: Vec<Tensor>| all.iter().flat_map(Tensor::to_vec).map(f32::to_bits).collect::<Vec<u32>>();
    let without = bits(there(false));
    assert!(bits(found).starts_with(&without), "another run has other bits");
}

/// Checks attention over a packed projection on the GPU against the CPU.
fn agrees_packed(device: &Device, spec: &AttentionSpec) {
    let AttentionSpec { batch, heads, queries, width, .. } = *spec;
    let [x, go] =
        [3, 1].map(|n| normal([batch, queries, n * heads, width], n as u64).reshape([batch, queries, n * heads * width]));
    let (o, lse) = x.self_attention(spec);
    let [gx, gx_again, go_there] = [&x, &x, &go].map(|x| on(device, x));
    let (found_o, found_lse) = gx.self_attention(spec);
    assert_close("o", &found_o, &o, 1e-5);
    assert_close("lse", &found_lse, &lse, 1e-5);
    let kept = [&on(device, &o), &on(device, &lse)];
    let grads = gx.self_attention_vjp(spec, kept, &go_there);
    assert_close("the packed gradient", &grads, &x.self_attention_vjp(spec, [&o, &lse], &go), 1e-5);
    assert_eq!(gx_again.self_attention_vjp(spec, kept, &go_there), grads);
}

/// Returns a mask in which some queries attend to no key, and others to no key of some tiles.
fn allowed(sequences: usize, queries: usize, keys: usize) -> Mask {
    let sees = |at: usize| {
        let (i, j) = (at / keys % queries, at % keys);
        i % 5 != 3 && (i % 5 != 2 || j >= 32) && at * 7 % 5 < 2
    };
    Mask::Allowed((0..sequences * queries * keys).map(sees).collect())
}

#[test]
fn widths_and_sizes() {
    let Some(gpu) = gpu() else { return };
    let sizes =
        [[2, 3, 40, 40, 5], [1, 2, 33, 33, 8], [2, 1, 7, 40, 16], [1, 2, 40, 70, 64], [1, 1, 34, 34, 35], [1, 2, 1, 36, 8]];
    for sizes in sizes {
        agrees(&gpu, &spec(sizes, Mask::Full), None);
        agrees(&gpu, &spec(sizes, Mask::Causal), None);
    }
    agrees(&gpu, &AttentionSpec { scale: 0.3, ..spec([1, 1, 40, 5, 4], Mask::Full) }, None);
}

#[test]
fn packed_projections() {
    let Some(gpu) = gpu() else { return };
    for (sizes, lengths) in [([2, 3, 40, 40, 5], None), ([2, 3, 40, 40, 8], Some([35, 8])), ([1, 2, 33, 33, 64], None)] {
        for mask in [Mask::Full, Mask::Causal, allowed(1, sizes[2], sizes[3])] {
            let spec = AttentionSpec { lengths: lengths.map(Arc::from), ..spec(sizes, mask) };
            agrees_packed(&gpu, &spec);
            agrees_packed(&gpu, &dropped(spec));
        }
    }
}

#[test]
fn masks_lengths_biases_and_dropout() {
    let Some(gpu) = gpu() else { return };
    let sizes @ [batch, heads, queries, keys, _] = [2, 3, 36, 45, 8];
    let biases = [None, Some([1, 1]), Some([batch, 1]), Some([1, heads]), Some([batch, heads])];
    let masks = [Mask::Full, Mask::Causal, allowed(1, queries, keys), allowed(batch, queries, keys), Mask::Causal];
    let lengths = [None, Some([45, 10]), Some([33, 0]), None, Some([31, 45])];
    for (n, bias) in biases.into_iter().enumerate() {
        for (m, mask) in masks.iter().enumerate() {
            let spec = AttentionSpec { lengths: lengths[(n + m) % 5].map(Arc::from), ..spec(sizes, mask.clone()) };
            agrees(&gpu, &if (n + m) % 2 == 0 { dropped(spec) } else { spec }, bias);
        }
    }
}

#[test]
fn empty_axes_and_missing_keys_match_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let none: [[usize; 5]; 5] = [[0, 2, 3, 3, 4], [2, 0, 3, 3, 4], [2, 2, 0, 3, 4], [2, 2, 3, 0, 4], [2, 2, 3, 3, 0]];
    for sizes in none {
        agrees(&gpu, &spec(sizes, Mask::Full), None);
        agrees(&gpu, &dropped(spec(sizes, Mask::Full)), Some([1, 1]));
        if sizes[2] == sizes[3] {
            agrees_packed(&gpu, &spec(sizes, Mask::Causal));
        }
    }
}

/// Non-zero elements lie before a view's first element and between its rows. The padding past a sequence's end may be NaN.
#[test]
fn views_are_read_in_place_and_padding_is_not_read() {
    let Some(gpu) = gpu() else { return };
    let of = AttentionSpec { lengths: Some([20, 35].into()), ..spec([2, 2, 35, 35, 6], Mask::Causal) };
    let padded = |n| {
        let (b, t) = (|at: usize| at / (39 * 9 * 2), |at: usize| at / 18 % 39);
        let past = |at: usize| t(at) >= 3 + [20, 35][b(at)];
        let x = normal([2, 39, 2, 9], n).to_vec().into_iter().enumerate();
        Tensor::new([2, 39, 2, 9], x.map(|(at, x)| if n > 1 && past(at) { f32::NAN } else { x }).collect())
    };
    let view = |x: &Tensor| x.permute(&[0, 2, 1, 3]).slice(2, 3..38).slice(3, 1..7);
    let run = |to: &dyn Fn(&Tensor) -> Tensor| {
        let [q, k, v] = [1, 2, 3].map(|n| view(&to(&padded(n))));
        let (o, lse) = q.attention(&k, &v, None, &of);
        let (grads, _) = o.affine(2.0, 0.0).attention_vjp([&q, &k, &v], None, &of, [&o, &lse], false);
        [o, lse].into_iter().chain(grads)
    };
    for (found, expected) in run(&|x| on(&gpu, x)).zip(run(&Tensor::clone)) {
        assert!(expected.to_vec().iter().all(|x| x.is_finite()));
        assert_close("o, lse and gradients", &found, &expected, 2e-5); // the VJP's o and ō err as well
    }
}

/// A NaN propagates to all results that depend on it, and −∞ in a bias masks a key.
#[test]
fn nan_propagates_and_negative_infinity_masks() {
    let Some(gpu) = gpu() else { return };
    let of = spec([1, 1, 4, 40, 8], Mask::Full);
    let [q, k, bias] = [normal([1, 1, 4, 8], 1), normal([1, 1, 40, 8], 2), normal([1, 1, 4, 40], 3)];
    let hidden = bias.map(|x: f32| if x > 0.0 { f32::NEG_INFINITY } else { x });
    let (o, lse) = q.attention(&k, &k, Some(&hidden), &of);
    let [q, k, hidden] = [&q, &k, &hidden].map(|x| on(&gpu, x));
    let found = q.attention(&k, &k, Some(&hidden), &of);
    assert_close("o", &found.0, &o, 1e-5);
    assert_close("lse", &found.1, &lse, 1e-5);
    let mut poisoned = k.clone();
    poisoned.write_rows(2, 37, &on(&gpu, &Tensor::full([1, 1, 1, 8], f32::NAN)));
    let (o, lse) = q.attention(&poisoned, &k, None, &of);
    assert!(o.to_vec().iter().chain(&lse.to_vec()).all(|x| x.is_nan()));
}

#[test]
#[should_panic(expected = "attention: k (1, 1, 3, 2) leaves its slice")]
fn a_view_that_is_too_short_panics() {
    let Some(gpu) = gpu() else { panic!("attention: k (1, 1, 3, 2) leaves its slice (skipped)") };
    let x = on(&gpu, &normal([1, 1, 2, 2], 1));
    x.attention(&x, &x, None, &spec([1, 1, 2, 3, 2], Mask::Full));
}

#[test]
#[should_panic(expected = "attention: causal needs Tk ≥ Tq, got 2 keys, 3 queries")]
fn a_causal_mask_with_too_few_keys_panics() {
    let Some(gpu) = gpu() else { panic!("attention: causal needs Tk ≥ Tq, got 2 keys, 3 queries (skipped)") };
    let x = on(&gpu, &normal([1, 1, 3, 2], 1));
    x.attention(&x, &x, None, &spec([1, 1, 3, 2, 2], Mask::Causal));
}
