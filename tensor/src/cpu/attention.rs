//! Scaled dot-product attention (Vaswani et al. 2017, §3.2.1) with masks, a score bias and dropout, one (b, h) at a time.
//!
//! ```text
//! sᵢⱼ = scale·⟨qᵢ, kⱼ⟩ + biasᵢⱼ  where allowed        lseᵢ = log Σⱼ e^sᵢⱼ        pᵢⱼ = e^(sᵢⱼ − lseᵢ)
//! oᵢ = Σⱼ cᵢⱼ·pᵢⱼ·vⱼ,   cᵢⱼ = keep/(1 − p) under dropout, else 1
//!
//! v̄ⱼ = Σᵢ cᵢⱼpᵢⱼ·ōᵢ        p̄ᵢⱼ = cᵢⱼ·⟨ōᵢ, vⱼ⟩
//! s̄ᵢⱼ = pᵢⱼ·(p̄ᵢⱼ − Σₗ pᵢₗp̄ᵢₗ) = pᵢⱼ·(p̄ᵢⱼ − ⟨ōᵢ, oᵢ⟩)        since Σₗ pᵢₗcᵢₗ⟨ōᵢ, vₗ⟩ = ⟨ōᵢ, oᵢ⟩
//! q̄ᵢ = scale·Σⱼ s̄ᵢⱼ·kⱼ        k̄ⱼ = scale·Σᵢ s̄ᵢⱼ·qᵢ        the bias's gradient is s̄, summed where it was broadcast
//! ```

use super::{largest, same_len};
use crate::Real;
use crate::kernels::{AttentionGrads, AttentionSpec, Heads, Mask, ScoreBias};

/// o (B, Tq, H, D) and lse (B, H, Tq).
pub fn naive<T: Real>(
    spec: &AttentionSpec,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    v: Heads<'_, T>,
    bias: Option<ScoreBias<'_, T>>,
    o: &mut [T],
    lse: &mut [T],
) {
    check(spec, q, k, v, bias, o, lse);
    for b in 0..spec.batch {
        for h in 0..spec.heads {
            for i in 0..spec.queries {
                let at = (b * spec.heads + h) * spec.queries + i;
                let seen = allowed(spec, i);
                let s: Vec<T> = seen.iter().map(|&j| score(spec, q, k, bias, [b, h, i, j])).collect();
                let most = largest(&s);
                let mut sum = T::zero();
                for &s in &s {
                    sum += (s - most).exp();
                }
                lse[at] = most + sum.ln();
                let o = &mut o[((b * spec.queries + i) * spec.heads + h) * spec.width..][..spec.width];
                o.fill(T::zero());
                for (&j, &s) in seen.iter().zip(&s) {
                    let p = kept::<T>(spec, at, j) * ((s - most).exp() / sum);
                    for (o, &v) in o.iter_mut().zip(row(v, spec.width, [b, h, j])) {
                        *o += p * v;
                    }
                }
            }
        }
    }
}

/// q̄, k̄, v̄ and the bias's gradient.
#[allow(clippy::too_many_arguments)]
pub fn naive_vjp<T: Real>(
    spec: &AttentionSpec,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    v: Heads<'_, T>,
    bias: Option<ScoreBias<'_, T>>,
    o: &[T],
    lse: &[T],
    go: Heads<'_, T>,
    grads: AttentionGrads<'_, T>,
) {
    check(spec, q, k, v, bias, o, lse);
    check_grads(spec, bias, go, &grads);
    let d = spec.width;
    let AttentionGrads { data, places, mut gbias } = grads;
    let start = |which: usize, [b, h, t]: [usize; 3]| {
        let s = places[which].strides;
        places[which].offset + b * s[0] + h * s[1] + t * s[2]
    };
    if let Some(gbias) = &mut gbias {
        gbias.fill(T::zero());
    }
    for b in 0..spec.batch {
        for h in 0..spec.heads {
            for (which, positions) in [(0, spec.queries), (1, spec.keys), (2, spec.keys)] {
                for t in 0..positions {
                    data[start(which, [b, h, t])..][..d].fill(T::zero());
                }
            }
            for i in 0..spec.queries {
                let at = (b * spec.heads + h) * spec.queries + i;
                let (q_i, go_i) = (row(q, d, [b, h, i]), row(go, d, [b, h, i]));
                let o_i = &o[((b * spec.queries + i) * spec.heads + h) * d..][..d];
                let inner = dot(go_i, o_i);
                for j in allowed(spec, i) {
                    let (k_j, v_j) = (row(k, d, [b, h, j]), row(v, d, [b, h, j]));
                    let p = (score(spec, q, k, bias, [b, h, i, j]) - lse[at]).exp();
                    let c: T = kept(spec, at, j);
                    let gs = p * (c * dot(go_i, v_j) - inner);
                    let scaled = T::lit(spec.scale) * gs;
                    let [gq, gk, gv] = [start(0, [b, h, i]), start(1, [b, h, j]), start(2, [b, h, j])];
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

fn dot<T: Real>(x: &[T], y: &[T]) -> T {
    let mut sum = T::zero();
    for (&x, &y) in x.iter().zip(y) {
        sum += x * y;
    }
    sum
}

fn row<T>(x: Heads<'_, T>, width: usize, [b, h, t]: [usize; 3]) -> &[T] {
    &x.data[b * x.strides[0] + h * x.strides[1] + t * x.strides[2]..][..width]
}

/// The keys that query `i` may attend to.
fn allowed(spec: &AttentionSpec, i: usize) -> Vec<usize> {
    let seen: Vec<usize> = (0..spec.keys).filter(|&j| spec.mask.allows(i, j, spec.queries, spec.keys)).collect();
    assert!(!seen.is_empty(), "attention: query {i} may attend to no key");
    seen
}

fn score<T: Real>(
    spec: &AttentionSpec,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    bias: Option<ScoreBias<'_, T>>,
    [b, h, i, j]: [usize; 4],
) -> T {
    let s = T::lit(spec.scale) * dot(row(q, spec.width, [b, h, i]), row(k, spec.width, [b, h, j]));
    bias.map_or(s, |bias| s + bias.data[bias_at(spec, bias, [b, h, i, j])])
}

/// Where element (b, h, i, j) of a broadcast bias lies.
fn bias_at<T>(spec: &AttentionSpec, bias: ScoreBias<'_, T>, [b, h, i, j]: [usize; 4]) -> usize {
    ((b % bias.batch * bias.heads + h % bias.heads) * spec.queries + i) * spec.keys + j
}

/// The dropout factor of column j of the probabilities' row.
fn kept<T: Real>(spec: &AttentionSpec, row: usize, j: usize) -> T {
    match &spec.dropout {
        None => T::one(),
        Some(key) if key.keeps(row as u64, j) => T::lit(key.scale()),
        Some(_) => T::zero(),
    }
}

/// Does every row of (B, H, positions, width) lie inside `len` elements from `offset` on?
fn fits(len: usize, offset: usize, strides: [usize; 3], sizes: [usize; 3], width: usize) -> bool {
    if sizes.contains(&0) || width == 0 {
        return true;
    }
    let last =
        sizes.iter().zip(strides).try_fold(offset, |last, (&size, stride)| last.checked_add((size - 1).checked_mul(stride)?));
    last.and_then(|last| last.checked_add(width)).is_some_and(|end| end <= len)
}

/// Panics unless sizes, strides and options agree.
#[track_caller]
fn check<T>(
    spec: &AttentionSpec,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    v: Heads<'_, T>,
    bias: Option<ScoreBias<'_, T>>,
    o: &[T],
    lse: &[T],
) {
    let AttentionSpec { batch, heads, queries, keys, width, .. } = *spec;
    for (name, x, positions) in [("q", q, queries), ("k", k, keys), ("v", v, keys)] {
        let inside = fits(x.data.len(), 0, x.strides, [batch, heads, positions], width);
        assert!(inside, "attention: {name} ({batch}, {heads}, {positions}, {width}) leaves its slice");
    }
    same_len("attention", &[o.len(), batch * heads * queries * width]);
    same_len("attention", &[lse.len(), batch * heads * queries]);
    match &spec.mask {
        Mask::Full => assert!(keys > 0 || queries == 0, "attention: queries need at least one key"),
        Mask::Causal => assert!(keys >= queries, "attention: causal needs Tk ≥ Tq, got {keys} keys, {queries} queries"),
        Mask::Allowed(a) => same_len("attention mask", &[a.len(), queries * keys]),
    }
    if let Some(bias) = bias {
        let broadcast = |size: usize, full: usize| size == 1 || size == full;
        assert!(
            broadcast(bias.batch, batch) && broadcast(bias.heads, heads),
            "attention: bias (B|1, H|1, Tq, Tk) expected, got B = {}, H = {}",
            bias.batch,
            bias.heads
        );
        same_len("attention bias", &[bias.data.len(), bias.batch * bias.heads * queries * keys]);
    }
}

/// Panics unless the gradients have room.
#[track_caller]
fn check_grads<T>(spec: &AttentionSpec, bias: Option<ScoreBias<'_, T>>, go: Heads<'_, T>, grads: &AttentionGrads<'_, T>) {
    let AttentionSpec { batch, heads, queries, keys, width, .. } = *spec;
    assert!(
        fits(go.data.len(), 0, go.strides, [batch, heads, queries], width),
        "attention_vjp: the output's gradient leaves its slice"
    );
    for (place, positions) in grads.places.iter().zip([queries, keys, keys]) {
        assert!(
            fits(grads.data.len(), place.offset, place.strides, [batch, heads, positions], width),
            "attention_vjp: a gradient's place leaves the buffer"
        );
    }
    if let Some(gbias) = &grads.gbias {
        let bias = bias.expect("attention_vjp: a gradient is asked of a bias that is not given");
        same_len("attention_vjp bias", &[gbias.len(), bias.data.len()]);
    }
}
