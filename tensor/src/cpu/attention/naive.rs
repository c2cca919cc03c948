//! The definition of the kernels, for any scalar.

use super::super::largest;
use super::{bias_at, row};
use crate::Scalar;
use crate::operands::{AttentionGrads, AttentionOperands, AttentionSpec, Heads};

/// Computes o (B, Tq, H, D) and lse (B, H, Tq).
pub fn attention<T: Scalar>(x: &AttentionOperands<'_, T>, o: &mut [T], lse: &mut [T]) {
    x.check(o, lse);
    let AttentionSpec { batch, heads, queries, width, .. } = *x.spec;
    for b in 0..batch {
        for h in 0..heads {
            for i in 0..queries {
                let at = (b * heads + h) * queries + i;
                let o = &mut o[((b * queries + i) * heads + h) * width..][..width];
                o.fill(T::zero());
                let seen = seen(x.spec, b, i);
                if seen.is_empty() {
                    lse[at] = T::lit(f64::NEG_INFINITY);
                    continue;
                }
                let s: Vec<T> = seen.iter().map(|&j| score(x, [b, h, i, j])).collect();
                let most = largest(&s);
                let mut sum = T::zero();
                for &s in &s {
                    sum += (s - most).exp();
                }
                lse[at] = most + sum.ln();
                for (&j, &s) in seen.iter().zip(&s) {
                    let p = kept::<T>(x.spec, at, j) * ((s - most).exp() / sum);
                    for (o, &v) in o.iter_mut().zip(row(x.v, width, [b, h, j])) {
                        *o += p * v;
                    }
                }
            }
        }
    }
}

/// Computes q̄, k̄, v̄ and the bias's gradient.
pub fn attention_vjp<T: Scalar>(
    x: &AttentionOperands<'_, T>,
    o: &[T],
    lse: &[T],
    go: Heads<'_, T>,
    grads: AttentionGrads<'_, T>,
) {
    x.check(o, lse);
    x.check_grads(go, &grads);
    let AttentionOperands { spec, q, k, v, bias } = *x;
    let d = spec.width;
    let AttentionGrads { data, packed, mut gbias } = grads;
    let places = spec.places(packed);
    if let Some(gbias) = &mut gbias {
        gbias.fill(T::zero());
    }
    for b in 0..spec.batch {
        for h in 0..spec.heads {
            for (place, positions) in places.iter().zip([spec.queries, spec.keys, spec.keys]) {
                for t in 0..positions {
                    data[place.of([b, h, t])..][..d].fill(T::zero());
                }
            }
            for i in 0..spec.queries {
                let at = (b * spec.heads + h) * spec.queries + i;
                let (q_i, go_i) = (row(q, d, [b, h, i]), row(go, d, [b, h, i]));
                let o_i = &o[((b * spec.queries + i) * spec.heads + h) * d..][..d];
                let inner = dot(go_i, o_i);
                for j in seen(spec, b, i) {
                    let (k_j, v_j) = (row(k, d, [b, h, j]), row(v, d, [b, h, j]));
                    let p = (score(x, [b, h, i, j]) - lse[at]).exp();
                    let c: T = kept(spec, at, j);
                    let gs = p * (c * dot(go_i, v_j) - inner);
                    let scaled = T::lit(spec.scale) * gs;
                    let [gq, gk, gv] = [places[0].of([b, h, i]), places[1].of([b, h, j]), places[2].of([b, h, j])];
                    for e in 0..d {
                        data[gq + e] += scaled * k_j[e];
                        data[gk + e] += scaled * q_i[e];
                        data[gv + e] += c * p * go_i[e];
                    }
                    if let (Some(gbias), Some(bias)) = (&mut gbias, bias) {
                        gbias[bias_at(spec, bias, [b, h, i, j])] += gs;
                    }
                }
            }
        }
    }
}

fn dot<T: Scalar>(x: &[T], y: &[T]) -> T {
    let mut sum = T::zero();
    for (&x, &y) in x.iter().zip(y) {
        sum += x * y;
    }
    sum
}

/// Returns the keys that query `i` of sequence `b` attends to.
fn seen(spec: &AttentionSpec, b: usize, i: usize) -> Vec<usize> {
    (0..spec.keys).filter(|&j| spec.allows(b, i, j)).collect()
}

fn score<T: Scalar>(x: &AttentionOperands<'_, T>, [b, h, i, j]: [usize; 4]) -> T {
    let AttentionOperands { spec, q, k, bias, .. } = *x;
    let s = T::lit(spec.scale) * dot(row(q, spec.width, [b, h, i]), row(k, spec.width, [b, h, j]));
    bias.map_or(s, |bias| s + bias.data[bias_at(spec, bias, [b, h, i, j])])
}

/// Returns the dropout factor of column j of a row of probabilities.
fn kept<T: Scalar>(spec: &AttentionSpec, row: usize, j: usize) -> T {
    match &spec.dropout {
        None => T::one(),
        Some(key) if key.keeps(row as u64, j) => T::lit(key.scale()),
        Some(_) => T::zero(),
    }
}
