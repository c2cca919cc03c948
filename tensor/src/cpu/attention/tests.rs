use std::sync::Arc;

use super::super::gemm::{Fused, Gemm};
use super::super::testing::*;
use super::fast;
use crate::kernels::Kernels;
use crate::operands::{AttentionGrads, AttentionOperands, AttentionSpec, Heads, Mask, ScoreBias};
use crate::rng::DropoutKey;

/// Returns q, k and v, interleaved in one buffer as in a packed projection: (B, T, 3, H, D).
fn packed<'a, T>(data: &'a [T], spec: &AttentionSpec) -> [Heads<'a, T>; 3] {
    let c = spec.heads * spec.width;
    let t = spec.queries.max(spec.keys);
    [0, 1, 2].map(|i| Heads { data: &data[(i * c).min(data.len())..], strides: [t * 3 * c, spec.width, 3 * c] })
}

fn spec(sizes: [usize; 5], mask: Mask, p: f64) -> AttentionSpec {
    let [batch, heads, queries, keys, width] = sizes;
    let dropout = (p > 0.0).then(|| DropoutKey::new(p, [1, 2], 3, 4));
    AttentionSpec { batch, heads, queries, keys, width, scale: 1.0 / (width as f64).sqrt(), mask, lengths: None, dropout }
}

fn agrees<T: Gemm>(spec: &AttentionSpec, bias_sizes: Option<[usize; 2]>) {
    let AttentionSpec { batch, heads, queries, keys, width, .. } = *spec;
    let (rows, scores) = (batch * heads * queries, queries * keys);
    let data: Vec<T> = normals(batch * queries.max(keys) * 3 * heads * width, 1);
    let [q, k, v] = packed(&data, spec);
    let bias_data: Vec<T> = normals(bias_sizes.map_or(0, |[b, h]| b * h * scores), 2);
    let bias = bias_sizes.map(|[batch, heads]| ScoreBias { data: &bias_data, batch, heads });
    let x = AttentionOperands { spec, q, k, v, bias };
    let go_data: Vec<T> = normals(rows * width, 3);
    let go = Heads { data: &go_data, strides: [queries * heads * width, width, heads * width] };
    // Sums of up to 200 products, and exponentials with errors of a few ε: a tolerance of 40ε for values of size 1. The gradients
    // of the bias, k and v also sum over queries and over broadcast axes.
    let out = assert_twins(40.0, 1.0, |k| written([rows * width, rows], |[o, lse]| (k.attention)(&x, o, lse)));
    let (o, lse) = out.split_at(rows * width);
    for packed in [false, true].into_iter().take(if keys == queries { 2 } else { 1 }) {
        let lengths = [batch * (queries + 2 * keys) * heads * width, bias_data.len()];
        assert_twins(80.0, 2.0, |k| {
            written(lengths, |[data, gbias]| {
                let grads = AttentionGrads { data, packed, gbias: bias.is_some().then_some(gbias) };
                (k.attention_vjp)(&x, o, lse, go, grads);
            })
        });
    }
}

fn agrees_both(spec: &AttentionSpec, bias: Option<[usize; 2]>) {
    agrees::<f32>(spec, bias);
    agrees::<f64>(spec, bias);
}

#[test]
fn fast_agrees_with_naive_on_odd_sizes() {
    for sizes in [[1, 1, 1, 1, 1], [2, 3, 5, 5, 4], [1, 2, 65, 65, 8], [2, 2, 130, 130, 16], [1, 1, 1, 33, 8], [0, 1, 2, 2, 3]] {
        for p in [0.0, 0.3] {
            agrees_both(&spec(sizes, Mask::Causal, p), None);
            agrees_both(&spec(sizes, Mask::Full, p), None);
        }
    }
    agrees_both(&spec([1, 2, 7, 200, 8], Mask::Causal, 0.1), None);
    agrees_both(&spec([1, 2, 70, 3, 8], Mask::Full, 0.1), None);
    agrees_both(&spec([1, 2, 0, 3, 8], Mask::Full, 0.1), None);
}

#[test]
fn fast_agrees_with_naive_under_any_mask_and_bias() {
    let allowed: Vec<bool> = (0..70 * 75).map(|at| at % 75 == at / 75 || at * 7 % 5 < 2).collect();
    for mask in [Mask::Full, Mask::Causal, Mask::Allowed(Arc::from(allowed))] {
        for bias in [[1, 1], [3, 1], [1, 2], [3, 2]] {
            agrees_both(&spec([3, 2, 70, 75, 4], mask.clone(), 0.2), Some(bias));
        }
    }
}

#[test]
fn a_query_has_the_same_bits_alone_and_among_others() {
    let [n, heads, width] = [300, 2, 24]; // a sum over more than one block of keys
    let all = spec([1, heads, n, n, width], Mask::Causal, 0.0);
    let data: Vec<f32> = normals(n * 3 * heads * width, 1);
    let [q, k, v] = packed(&data, &all);
    for kernels in [Kernels::FAST, Kernels::BF16] {
        let run = |spec: &AttentionSpec, q| {
            let (mut o, mut lse) = (vec![0.0; spec.queries * heads * width], vec![0.0; heads * spec.queries]);
            (kernels.attention)(&AttentionOperands { spec, q, k, v, bias: None }, &mut o, &mut lse);
            o
        };
        let whole = run(&all, q);
        for i in [0, 1, 31, 255, 256, 299] {
            let q = Heads { data: &q.data[i * q.strides[2]..], ..q };
            let alone = run(&AttentionSpec { queries: 1, keys: i + 1, ..all.clone() }, q);
            assert_eq!(alone, whole[i * heads * width..][..heads * width], "query {i}");
        }
    }
}

#[test]
fn lengths_and_masks_per_sequence() {
    // Sequences with no keys, some keys and all keys; queries without keys; more than one block and one share of queries.
    let allowed: Vec<bool> = (0..3 * 300 * 310).map(|at| at / 310 % 7 != 3 && at * 7 % 5 < 2).collect();
    let one: Arc<[bool]> = allowed[..300 * 310].into();
    for mask in [Mask::Full, Mask::Causal, Mask::Allowed(one), Mask::Allowed(allowed.into())] {
        for lengths in [[0, 40, 310], [1, 300, 29]] {
            for bias in [None, Some([3, 2])] {
                agrees_both(
                    &AttentionSpec { lengths: Some(lengths.into()), ..spec([3, 2, 300, 310, 4], mask.clone(), 0.2) },
                    bias,
                );
            }
        }
    }
    for lengths in [[0, 5], [6, 1]] {
        agrees_both(&AttentionSpec { lengths: Some(lengths.into()), ..spec([2, 2, 1, 6, 4], Mask::Causal, 0.0) }, None);
    }
    agrees_both(&spec([2, 1, 3, 0, 4], Mask::Full, 0.0), None);
    agrees_both(&spec([2, 1, 1, 0, 4], Mask::Full, 0.0), None);
}

/// Negative, zero and positive scales: the padding of a row stays −∞.
#[test]
fn scores_are_scaled_by_any_number() {
    for scale in [-0.7, 0.0, 2.5] {
        let scaled = |spec: AttentionSpec| AttentionSpec { scale, lengths: Some([1, 29, 60].into()), ..spec };
        for mask in [Mask::Full, Mask::Causal] {
            agrees_both(&scaled(spec([3, 2, 40, 60, 4], mask, 0.2)), Some([3, 2]));
        }
    }
}

/// A score of −∞ that is a value and not padding.
#[test]
fn an_infinite_score_is_scaled_like_any_other() {
    let spec = AttentionSpec { scale: -0.7, ..spec([1, 1, 1, 2, 1], Mask::Full, 0.0) };
    let of = |data| Heads { data, strides: [2, 2, 1] };
    let x = AttentionOperands { spec: &spec, q: of(&[-1.0]), k: of(&[f32::INFINITY, 1.0]), v: of(&[1.0, 2.0]), bias: None };
    for kernels in [Kernels::<f32>::NAIVE, Kernels::FAST] {
        let (mut o, mut lse) = ([0.0], [0.0]);
        (kernels.attention)(&x, &mut o, &mut lse);
        assert!(o[0].is_nan() && lse[0].is_nan(), "{o:?} {lse:?}"); // e^(∞ − ∞)
    }
}

#[test]
fn a_nan_stays_in_its_sequence_and_head() {
    let spec = spec([2, 2, 40, 40, 4], Mask::Causal, 0.2);
    let (mut data, go): (Vec<f32>, Vec<f32>) = (normals(2 * 40 * 3 * 8, 1), normals(2 * 40 * 8, 2));
    let run = |data: &[f32]| {
        let [q, k, v] = packed(data, &spec);
        let x = AttentionOperands { spec: &spec, q, k, v, bias: None };
        let (mut o, mut lse) = (vec![0.0; 2 * 40 * 8], vec![0.0; 2 * 2 * 40]);
        fast::attention::<f32, Fused>(&x, &mut o, &mut lse);
        let mut grads = vec![0.0; data.len()];
        let go = Heads { data: &go, strides: [40 * 8, 4, 8] };
        fast::attention_vjp::<f32, Fused>(&x, &o, &lse, go, AttentionGrads { data: &mut grads, packed: true, gbias: None });
        (o, grads)
    };
    let (o, grads) = run(&data);
    for which in 0..3 {
        data[(30 * 3 + which) * 8 + 4] = f32::NAN; // sequence 0, position 30, head 1
    }
    let (with, grads_with) = run(&data);
    for (i, (x, y)) in o.iter().zip(&with).chain(grads.iter().zip(&grads_with)).enumerate() {
        let (row, head) = if i < o.len() { (i / 8, i / 4 % 2) } else { ((i - o.len()) / 24, i / 4 % 2) };
        assert!(x == y || row < 40 && head == 1, "element {i}: {x} and {y}");
    }
}

#[test]
fn padding_is_not_read() {
    // The values past a sequence's end do not change the bits of the result.
    let [n, heads, width] = [90, 2, 8];
    let whole = spec([1, heads, 40, n, width], Mask::Full, 0.0);
    let (mut k, v): (Vec<f32>, Vec<f32>) = (normals(n * heads * width, 1), normals(n * heads * width, 2));
    let q: Vec<f32> = normals(40 * heads * width, 3);
    let run = |spec: &AttentionSpec, k: &[f32]| {
        let heads_of = |data, t: usize| Heads { data, strides: [t * heads * width, width, heads * width] };
        let x = AttentionOperands { spec, q: heads_of(&q, 40), k: heads_of(k, n), v: heads_of(&v, n), bias: None };
        let (mut o, mut lse) = (vec![0.0; q.len()], vec![0.0; heads * 40]);
        fast::attention::<f32, Fused>(&x, &mut o, &mut lse);
        (o, lse)
    };
    let short = run(&AttentionSpec { keys: 50, ..whole.clone() }, &k);
    k[50 * heads * width..].fill(f32::NAN);
    assert_eq!(run(&AttentionSpec { lengths: Some([50].into()), ..whole }, &k), short);
}

#[test]
fn a_query_without_keys_has_no_output_and_no_gradient() {
    let spec = spec([1, 1, 2, 2, 1], Mask::Allowed(Arc::from([true, false, false, false])), 0.0);
    let data = [3.0f64, 1.0, 4.0, 1.0, 5.0, 9.0];
    let [q, k, v] = packed(&data, &spec);
    let x = AttentionOperands { spec: &spec, q, k, v, bias: None };
    for kernels in [Kernels::<f64>::NAIVE, Kernels::FAST] {
        let (mut o, mut lse, mut grads) = ([7.0; 2], [7.0; 2], [7.0; 6]);
        (kernels.attention)(&x, &mut o, &mut lse);
        assert_eq!((o, lse), ([4.0, 0.0], [3.0, f64::NEG_INFINITY])); // v₀ and q₀k₀
        let go = Heads { data: &[1.0, 1.0], strides: [2, 1, 1] };
        (kernels.attention_vjp)(&x, &o, &lse, go, AttentionGrads { data: &mut grads, packed: true, gbias: None });
        assert_eq!(grads, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]); // ō₀ goes to v₀ alone
    }
}
