//! Calls of the sequence kernels, as in `calls`.

use std::sync::Arc;

use super::calls::{Drawn, written};
use crate::Scalar;
use crate::kernels::Kernels;
use crate::operands::{AttentionGrads, AttentionOperands, AttentionSpec, Heads, Mask, ScoreBias};

/// Returns a few rows, a number of units, and a few steps.
fn recurrent<S: Scalar>(drawn: &Drawn<S>) -> [usize; 3] {
    let [batch, units, steps] = drawn.sizes;
    [batch % 5, units + 1, steps % 4]
}

pub(super) fn lstm_cell<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [batch, units, _] = recurrent(drawn);
    let n = batch * units;
    written(drawn, [4 * n, n, n], |[gates, c, h]| {
        drawn.fill(1, gates);
        (k.lstm_cell)(units, gates, &drawn.values(2, n), c, h);
    })
}

pub(super) fn lstm_cell_vjp<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [batch, units, _] = recurrent(drawn);
    let n = batch * units;
    let [gates, before, c, gh] = [(1, 4 * n), (2, n), (3, n), (4, n)].map(|(salt, n)| drawn.values(salt, n));
    written(drawn, [n, 4 * n], |[gc, gz]| {
        drawn.fill(5, gc);
        (k.lstm_cell_vjp)(units, &gates, &before, &c, &gh, gc, gz);
    })
}

pub(super) fn lstm<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [batch, units, steps] = recurrent(drawn);
    let n = steps * batch * units;
    let (x, w) = (drawn.values(1, 4 * n), drawn.values(2, 4 * units * units));
    written(drawn, [4 * n, n, n], |[gates, c, h]| (k.lstm)(&x, &w, [batch, units], gates, c, h))
}

pub(super) fn lstm_vjp<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [batch, units, steps] = recurrent(drawn);
    let n = steps * batch * units;
    let [w, gates, c, h, gy] =
        [(1, 4 * units * units), (2, 4 * n), (3, n), (4, n), (5, n)].map(|(salt, n)| drawn.values(salt, n));
    let of_w = if drawn.choice(1, 3) > 0 { 4 * units * units } else { 0 };
    written(drawn, [4 * n, of_w], |[gx, gw]| {
        (k.lstm_vjp)(&w, [batch, units], &gates, &c, &h, &gy, gx, (of_w > 0).then_some(gw));
    })
}

/// Draws the options of an attention: up to two sequences and heads, every kind of mask, with or without lengths and dropout.
fn attended<S: Scalar>(drawn: &Drawn<S>) -> AttentionSpec {
    let [batch, heads] = [1, 2].map(|salt| 1 + drawn.choice(salt, 2));
    let (queries, width) = (if drawn.choice(3, 4) == 0 { 1 } else { 1 + drawn.sizes[0] }, 1 + drawn.sizes[1] % 20);
    let keys = queries + if drawn.choice(4, 2) == 0 { 0 } else { drawn.choice(5, 40) };
    let allowed: Arc<[bool]> = (0..queries * keys).map(|at| drawn.choice(6 << 32 | at as u64, 3) > 0).collect();
    AttentionSpec {
        batch,
        heads,
        queries,
        keys,
        width,
        scale: [1.0 / (width as f64).sqrt(), -0.7, 2.5][drawn.choice(7, 3)],
        mask: [Mask::Full, Mask::Causal, Mask::Allowed(allowed)][drawn.choice(8, 3)].clone(),
        lengths: (drawn.choice(9, 3) == 0)
            .then(|| (0..drawn.len(batch)).map(|b| drawn.choice(10 + b as u64, keys + 1)).collect()),
        dropout: (drawn.choice(12, 3) == 0).then(|| drawn.dropout()),
    }
}

/// Calls `f` with q, k and v, each with gaps, and with or without a bias.
fn with_heads<S: Scalar, R>(drawn: &Drawn<S>, f: impl FnOnce(&AttentionOperands<'_, S>) -> R) -> R {
    let spec = attended(drawn);
    let AttentionSpec { batch, heads, queries, keys, width, .. } = spec;
    let bias_of = [1 + drawn.choice(13, batch), 1 + drawn.choice(14, heads)].map(|n| if n == 2 { 2 } else { 1 });
    let has_bias = drawn.choice(20, 2) == 0;
    let bias = drawn.values(15, if has_bias { bias_of.iter().product::<usize>() * queries * keys } else { 0 });
    let gap = drawn.choice(16, 3);
    let strides = |t: usize| [t * heads * (width + gap), width + gap, heads * (width + gap)];
    let [q, k, v] = [(17, queries), (18, keys), (19, keys)].map(|(salt, t)| drawn.values(salt, batch * strides(t)[0] - gap));
    let of = |data, t: usize| Heads { data, strides: strides(t) };
    let bias = has_bias.then_some(ScoreBias { data: &bias, batch: bias_of[0], heads: bias_of[1] });
    f(&AttentionOperands { spec: &spec, q: of(&q, queries), k: of(&k, keys), v: of(&v, keys), bias })
}

pub(super) fn attention<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    with_heads(drawn, |x| {
        let rows = x.spec.batch * x.spec.heads * x.spec.queries;
        written(drawn, [rows * x.spec.width, rows], |[o, lse]| (k.attention)(x, o, lse))
    })
}

pub(super) fn attention_vjp<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    with_heads(drawn, |x| {
        let AttentionSpec { batch, heads, queries, keys, width, .. } = *x.spec;
        let rows = batch * heads * queries;
        let [o, lse, go] = [(21, rows * width), (22, rows), (23, rows * width)].map(|(salt, n)| drawn.values(salt, n));
        let go = Heads { data: &go, strides: [queries * heads * width, width, heads * width] };
        let packed = keys == queries && drawn.choice(24, 2) == 0;
        let of_bias = x.bias.filter(|_| drawn.choice(25, 2) == 0).map(|bias| bias.data.len());
        let lengths = [batch * (queries + 2 * keys) * heads * width, of_bias.unwrap_or(0)];
        written(drawn, lengths, |[data, gbias]| {
            (k.attention_vjp)(x, &o, &lse, go, AttentionGrads { data, packed, gbias: of_bias.map(|_| gbias) });
        })
    })
}
