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

use rayon::prelude::*;

use super::dropout::drop_row;
use super::gemm::{Packed, Strided};
use super::parallel::Shared;
use super::{largest, matvec, same_len};
use crate::Real;
use crate::kernels::{AttentionGrads, AttentionSpec, Heads, Mask, Mat, MatMut, Onto, Place, ScoreBias};
use crate::simd::{Float, LANES, largest_of, sum_of, sum_of_2, vectorized};

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
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
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
    (0..spec.keys).filter(|&j| spec.mask.allows(i, j, spec.queries, spec.keys)).collect()
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
        Mask::Allowed(a) => {
            same_len("attention mask", &[a.len(), queries * keys]);
            for i in 0..queries {
                assert!(a[i * keys..][..keys].contains(&true), "attention: query {i} may attend to no key");
            }
        }
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

/// Is every element of these places, (B, H, positions, width) each, one of its own? (Layouts that are neither nested nor apart
/// are refused, though they might be.)
fn disjoint(places: [Place; 3], sizes: [[usize; 3]; 3], width: usize) -> bool {
    if width == 0 {
        return true;
    }
    // From the first element to behind the last, over the axes whose stride is at most `most`; `None` where they overlap.
    let extent = |place: Place, sizes: [usize; 3], most: usize| {
        let mut axes: Vec<_> = place.strides.into_iter().zip(sizes).filter(|&(s, n)| n > 1 && s <= most).collect();
        axes.sort_unstable();
        axes.into_iter().try_fold(width, |inner, (stride, n)| (stride >= inner).then(|| (n - 1) * stride + inner))
    };
    let held: Vec<_> = places.into_iter().zip(sizes).filter(|(_, sizes)| !sizes.contains(&0)).collect();
    held.iter().enumerate().all(|(i, &(a, a_sizes))| {
        let Some(whole) = extent(a, a_sizes, usize::MAX) else { return false };
        held[i + 1..].iter().all(|&(b, b_sizes)| {
            let Some(other) = extent(b, b_sizes, usize::MAX) else { return false };
            if a.offset + whole <= b.offset || b.offset + other <= a.offset {
                return true;
            }
            // Interleaved: side by side within the step of every axis that is longer than the distance between them.
            let apart = a.offset.abs_diff(b.offset);
            let (first, second) = if a.offset < b.offset { ((a, a_sizes), (b, b_sizes)) } else { ((b, b_sizes), (a, a_sizes)) };
            let outer = a.strides.into_iter().filter(|&s| s > apart).min().unwrap_or(usize::MAX);
            let inner = extent(first.0, first.1, apart).zip(extent(second.0, second.1, apart));
            a.strides == b.strides && inner.is_some_and(|(first, second)| first <= apart && apart + second <= outer)
        })
    })
}

/// Panics unless the gradients have room, each of its own.
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
    assert!(
        disjoint(grads.places, [queries, keys, keys].map(|positions| [batch, heads, positions]), width),
        "attention_vjp: places of gradients overlap"
    );
    if let Some(gbias) = &grads.gbias {
        let bias = bias.expect("attention_vjp: a gradient is asked of a bias that is not given");
        same_len("attention_vjp bias", &[gbias.len(), bias.data.len()]);
    }
}

/// Queries that are scored at a time. Under a causal mask their scores stop at the last of them, so at most this much is
/// computed in vain a row; whole tiles of the product, and little enough for the nearest cache.
const STEP: usize = 28;
/// Queries whose scores are held at once backward, where keys and values take sums over queries.
const BLOCK: usize = 4 * STEP;
/// Queries of a task forward; each packs the keys and values for itself.
const SHARE: usize = 9 * STEP;

/// Queries of one (b, h): the first, how many, and how many keys the last of them reaches.
#[derive(Clone, Copy)]
struct Span {
    first: usize,
    rows: usize,
    reach: usize,
}

impl Span {
    fn new(spec: &AttentionSpec, first: usize, most: usize) -> Self {
        let rows = most.min(spec.queries - first);
        let reach = if spec.mask == Mask::Causal { sees(spec, first + rows - 1) } else { spec.keys };
        Span { first, rows, reach }
    }

    /// Cut into spans of at most `rows`.
    fn cut(self, spec: &AttentionSpec, rows: usize) -> impl Iterator<Item = Span> {
        let end = self.first + self.rows;
        (self.first..end).step_by(rows).map(move |first| Span::new(spec, first, rows.min(end - first)))
    }

    /// Length of a row of scores: whole lanes, so that no row ends in a scalar remainder.
    fn stride(self) -> usize {
        self.reach.next_multiple_of(LANES)
    }
}

/// Keys that query `i` reaches.
fn sees(spec: &AttentionSpec, i: usize) -> usize {
    if spec.mask == Mask::Causal { i + 1 + spec.keys - spec.queries } else { spec.keys }
}

/// Splits query i's row of scores: the whole lanes that hold the keys it reaches, with `fill` past the last, and zeros.
fn split<'a, T: Float>(spec: &AttentionSpec, i: usize, s: &'a mut [T], fill: T) -> &'a mut [T] {
    let seen = sees(spec, i);
    let (s, beyond) = s.split_at_mut(seen.next_multiple_of(LANES));
    s[seen..].fill(fill);
    beyond.fill(T::zero());
    s
}

/// The positions of one (b, h) from `t` on, as the rows of a matrix, and as the columns of one.
fn rows_of<T>(x: Heads<'_, T>, [b, h, t]: [usize; 3]) -> Strided<T> {
    let at = x.data.as_ptr().wrapping_add(b * x.strides[0] + h * x.strides[1] + t * x.strides[2]);
    Strided { at, strides: [x.strides[2], 1] }
}

fn columns_of<T>(x: Heads<'_, T>, at: [usize; 3]) -> Strided<T> {
    let Strided { at, strides: [row, col] } = rows_of(x, at);
    Strided { at, strides: [col, row] }
}

/// Query i's row of a bias or of a mask over keys.
fn bias_row<'a, T>(spec: &AttentionSpec, bias: Option<ScoreBias<'a, T>>, [b, h, i]: [usize; 3]) -> &'a [T] {
    bias.map_or(&[], |bias| &bias.data[bias_at(spec, bias, [b, h, i, 0])..][..spec.keys])
}

fn mask_row(spec: &AttentionSpec, i: usize) -> &[bool] {
    match &spec.mask {
        Mask::Allowed(allowed) => &allowed[i * spec.keys..][..spec.keys],
        Mask::Full | Mask::Causal => &[],
    }
}

/// [`naive`] by steps of queries; tasks are shares of a (b, h).
pub fn fast<T: Float>(
    spec: &AttentionSpec,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    v: Heads<'_, T>,
    bias: Option<ScoreBias<'_, T>>,
    o: &mut [T],
    lse: &mut [T],
) {
    check(spec, q, k, v, bias, o, lse);
    let d = spec.width;
    let (o, lse) = (Shared::new(o), Shared::new(lse));
    if spec.queries == 1 {
        // SAFETY: a task owns its row of o, (B, 1, H, D), and its element of lse, (B, H, 1), by `check`.
        let task = |pair: usize| unsafe { one_query(spec, pair, q, k, v, bias, o.slice(pair * d, d), &mut *lse.at(pair)) };
        return run(spec, spec.batch * spec.heads, task);
    }
    let shares = spec.queries.div_ceil(SHARE);
    let task = |task: usize| {
        let (pair, share) = (task / shares, Span::new(spec, task % shares * SHARE, SHARE));
        let (b, h) = (pair / spec.heads, pair % spec.heads);
        let (keys, stride) = (share.reach, share.stride());
        let sizes = [Packed::<T>::len(d, keys), Packed::<T>::len(keys, d), STEP * stride, STEP];
        T::with_scratch(sizes.iter().sum(), |scratch| {
            let [k_space, v_space, s, inverse] = parts(scratch, sizes);
            // SAFETY: `check` found the keys and values inside their slices.
            let (k, v) = unsafe {
                (Packed::new(columns_of(k, [b, h, 0]), d, keys, k_space), Packed::new(rows_of(v, [b, h, 0]), keys, d, v_space))
            };
            for step in share.cut(spec, STEP) {
                let Span { first, rows, reach } = step;
                let stride = step.stride();
                let s = &mut s[..rows * stride];
                // SAFETY: `check` found the queries inside their slice, and s holds (rows, stride ≥ reach).
                unsafe { k.times([rows, d, reach], rows_of(q, [b, h, first]), 0, s.as_mut_ptr(), stride, Onto::Nothing) };
                // SAFETY: a task owns its rows of lse, (B, H, Tq) by `check`.
                let lse = unsafe { lse.slice(pair * spec.queries + first, rows) };
                for (r, s) in s.chunks_exact_mut(stride).enumerate() {
                    let i = first + r;
                    let s = split(spec, i, s, T::lit(f64::NEG_INFINITY));
                    let (most, sum) = exponentials(s, T::lit(spec.scale), bias_row(spec, bias, [b, h, i]), mask_row(spec, i));
                    lse[r] = most + sum.ln();
                    inverse[r] = T::one() / sum;
                    if let Some(key) = &spec.dropout {
                        drop_row(key, (pair * spec.queries + i) as u64, s);
                    }
                }
                let (o_stride, at) = (spec.heads * d, ((b * spec.queries + first) * spec.heads + h) * d);
                let s = Strided { at: s.as_ptr(), strides: [stride, 1] };
                // SAFETY: o is (B, Tq, H, D) by `check`, and a task owns its rows of it.
                unsafe { v.times([rows, reach, d], s, 0, o.at(at), o_stride, Onto::Nothing) };
                for (r, &inverse) in inverse[..rows].iter().enumerate() {
                    // SAFETY: as above.
                    for o in unsafe { o.slice(at + r * o_stride, d) } {
                        *o = *o * inverse;
                    }
                }
            }
        });
    };
    run(spec, spec.batch * spec.heads * shares, task);
}

/// The attention of a single query, as while generating: packing the keys would cost more than their product with it.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
fn one_query<T: Float>(
    spec: &AttentionSpec,
    pair: usize,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    v: Heads<'_, T>,
    bias: Option<ScoreBias<'_, T>>,
    o: &mut [T],
    lse: &mut T,
) {
    let ([b, h], keys, d) = ([pair / spec.heads, pair % spec.heads], spec.keys, spec.width);
    let all = |x: &Heads<'_, T>| b * x.strides[0] + h * x.strides[1];
    let one_row = |x: &[T], b: Mat<'_, T>, y: &mut [T]| {
        let x = Mat { data: x, rows: 1, cols: b.rows, row_stride: b.rows, col_stride: 1 };
        matvec::fast(x, b, MatMut { row_stride: y.len(), rows: 1, cols: y.len(), data: y }, Onto::Nothing, 1);
    };
    T::with_scratch(keys.next_multiple_of(LANES), |s| {
        let k = Mat { data: &k.data[all(&k)..], rows: d, cols: keys, row_stride: 1, col_stride: k.strides[2] };
        one_row(row(q, d, [b, h, 0]), k, &mut s[..keys]);
        s[keys..].fill(T::lit(f64::NEG_INFINITY));
        let (most, sum) = exponentials(s, T::lit(spec.scale), bias_row(spec, bias, [b, h, 0]), mask_row(spec, 0));
        *lse = most + sum.ln();
        if let Some(key) = &spec.dropout {
            drop_row(key, pair as u64, s);
        }
        one_row(&s[..keys], Mat { data: &v.data[all(&v)..], rows: keys, cols: d, row_stride: v.strides[2], col_stride: 1 }, o);
        let inverse = T::one() / sum;
        for o in o {
            *o = *o * inverse;
        }
    });
}

/// Cuts a slice into parts of these sizes.
fn parts<T, const N: usize>(mut all: &mut [T], sizes: [usize; N]) -> [&mut [T]; N] {
    sizes.map(|size| all.split_off_mut(..size).expect("the sizes sum to at most the slice's"))
}

/// Tasks in parallel where there is enough to do.
fn run(spec: &AttentionSpec, tasks: usize, task: impl Fn(usize) + Sync + Send) {
    let scores = spec.batch * spec.heads * spec.queries * spec.keys;
    if scores * spec.width.max(1) >= 1 << 18 && rayon::current_num_threads() > 1 {
        (0..tasks).into_par_iter().for_each(task);
    } else {
        (0..tasks).for_each(task);
    }
}

vectorized! {
    /// s ← e^(scale·s + bias − max), 0 where not allowed; the maximum and the sum. An empty bias or mask is none.
    fn exponentials<T: Float>(s: &mut [T], scale: T, bias: &[T], allowed: &[bool]) -> (T, T) {
        finish_scores(s, scale, bias, allowed);
        let most = largest_of(s);
        for s in s.iter_mut() {
            *s = (*s - most).fast_exp::<FMA>();
        }
        (most, sum_of(s, |s| s))
    }
}

/// s ← scale·s + bias, −∞ where not allowed.
#[inline(always)]
fn finish_scores<T: Float>(s: &mut [T], scale: T, bias: &[T], allowed: &[bool]) {
    for s in s.iter_mut() {
        *s = *s * scale;
    }
    for (s, &bias) in s.iter_mut().zip(bias) {
        *s += bias;
    }
    for (s, &allowed) in s.iter_mut().zip(allowed) {
        *s = if allowed { *s } else { T::lit(f64::NEG_INFINITY) };
    }
}

vectorized! {
    fn inner<T: Float>(x: &[T], y: &[T]) -> T {
        sum_of_2(x, y, |x, y| x * y)
    }
}

/// [`naive_vjp`] by blocks of queries; a task owns the keys of its (b, h), and all (b, h) that share a bias whose gradient
/// is asked.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
pub fn fast_vjp<T: Float>(
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
    let places = grads.places;
    let data = Shared::new(grads.data);
    let gbias = grads.gbias.map(|gbias| {
        gbias.fill(T::zero());
        Shared::new(gbias)
    });
    // The (b, h) of a task: one, or those whose scores one slice of the bias is added to, in order.
    let (batches, heads) = match (bias, gbias) {
        (Some(bias), Some(_)) => (bias.batch, bias.heads),
        _ => (spec.batch, spec.heads),
    };
    let task = |task: usize| {
        for b in (task / heads..spec.batch).step_by(batches) {
            for h in (task % heads..spec.heads).step_by(heads) {
                // SAFETY: this task alone writes what belongs to (b, h), and the slice of the bias's gradient that it reaches.
                unsafe { pair_vjp(spec, [b, h], [q, k, v], bias, o, lse, go, data, &places, gbias) };
            }
        }
    };
    run(spec, batches * heads, task);
}

/// The gradients of one (b, h).
///
/// # Safety
/// `check` and `check_grads` have passed, and nothing else touches the gradients of (b, h) meanwhile.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
unsafe fn pair_vjp<T: Float>(
    spec: &AttentionSpec,
    [b, h]: [usize; 2],
    [q, k, v]: [Heads<'_, T>; 3],
    bias: Option<ScoreBias<'_, T>>,
    o: &[T],
    lse: &[T],
    go: Heads<'_, T>,
    grads: Shared<T>,
    places: &[Place; 3],
    gbias: Option<Shared<T>>,
) {
    let d = spec.width;
    let place = |which: usize, t: usize| {
        let s = places[which].strides;
        places[which].offset + b * s[0] + h * s[1] + t * s[2]
    };
    for which in [1, 2] {
        for t in 0..spec.keys {
            // SAFETY: the caller's; `check_grads` found the place inside the buffer.
            unsafe { grads.slice(place(which, t), d) }.fill(T::zero());
        }
    }
    let keys = spec.keys;
    let longest = keys.next_multiple_of(LANES);
    let [across, down, of_block] = [Packed::<T>::len(d, keys), Packed::<T>::len(keys, d), Packed::<T>::len(BLOCK, d)];
    let sizes = [across, across, down, of_block, of_block, BLOCK * longest, BLOCK * longest, longest];
    T::with_scratch(sizes.iter().sum(), |scratch| {
        let [k_across, v_across, k_down, q_space, go_space, s, gs, factors] = parts(scratch, sizes);
        // SAFETY: `check` found the keys and values inside their slices.
        let [k_across, v_across, k_down] = unsafe {
            let all = [b, h, 0];
            [
                Packed::new(columns_of(k, all), d, keys, k_across),
                Packed::new(columns_of(v, all), d, keys, v_across),
                Packed::new(rows_of(k, all), keys, d, k_down),
            ]
        };
        for block in (0..spec.queries).step_by(BLOCK).map(|first| Span::new(spec, first, BLOCK)) {
            let stride = block.stride();
            for step in block.cut(spec, STEP) {
                let Span { first, rows, reach } = step;
                let (from, here) = ((first - block.first) * stride, [b, h, first]);
                let (s, gs) = (&mut s[from..][..rows * stride], &mut gs[from..][..rows * stride]);
                // SAFETY: `check` and `check_grads` found q and ō inside their slices; s and gs hold (rows, stride ≥ reach).
                unsafe {
                    k_across.times([rows, d, reach], rows_of(q, here), 0, s.as_mut_ptr(), stride, Onto::Nothing);
                    v_across.times([rows, d, reach], rows_of(go, here), 0, gs.as_mut_ptr(), stride, Onto::Nothing);
                }
                for (r, (s, gs)) in s.chunks_exact_mut(stride).zip(gs.chunks_exact_mut(stride)).enumerate() {
                    // SAFETY: the caller's.
                    unsafe { score_row_vjp(spec, [b, h, first + r], bias, o, lse, go, s, gs, factors, gbias) };
                }
                let gs = Strided { at: gs.as_ptr(), strides: [stride, 1] };
                let gq = grads.at(place(0, first));
                // SAFETY: the caller's; `check_grads` found q̄'s rows inside the buffer.
                unsafe { k_down.times([rows, reach, d], gs, 0, gq, places[0].strides[2], Onto::Nothing) };
            }
            let Span { first, rows, reach } = block;
            // SAFETY: as above.
            let [q, go] = unsafe {
                let here = [b, h, first];
                [Packed::new(rows_of(q, here), rows, d, q_space), Packed::new(rows_of(go, here), rows, d, go_space)]
            };
            // Keys that all queries of the block see; then, under a causal mask, those of each step, which later queries see.
            let all_see = if spec.mask == Mask::Causal { reach - rows } else { reach };
            let later = (all_see..reach).step_by(STEP).map(|key| (key..reach.min(key + STEP), key - all_see));
            for (keys, row) in std::iter::once((0..all_see, 0)).chain(later) {
                let part = |x: &[T]| Strided { at: x[row * stride + keys.start..].as_ptr(), strides: [1, stride] };
                let (sizes, at) = ([keys.len(), rows - row, d], keys.start);
                // SAFETY: the caller's; s and gs hold (rows, stride ≥ reach), k̄ and v̄ lie inside the buffer.
                unsafe {
                    go.times(sizes, part(s), row, grads.at(place(2, at)), places[2].strides[2], Onto::Itself);
                    q.times(sizes, part(gs), row, grads.at(place(1, at)), places[1].strides[2], Onto::Itself);
                }
            }
        }
    });
}

/// From query i's scores and p̄/c = ⟨ōᵢ, v⟩: s ← c·p and gs ← scale·s̄; s̄ is added to the bias's gradient.
///
/// # Safety
/// As for [`pair_vjp`].
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
unsafe fn score_row_vjp<T: Float>(
    spec: &AttentionSpec,
    [b, h, i]: [usize; 3],
    bias: Option<ScoreBias<'_, T>>,
    o: &[T],
    lse: &[T],
    go: Heads<'_, T>,
    s: &mut [T],
    gs: &mut [T],
    factors: &mut [T],
    gbias: Option<Shared<T>>,
) {
    let (at, d, scale) = ((b * spec.heads + h) * spec.queries + i, spec.width, T::lit(spec.scale));
    let s = split(spec, i, s, T::lit(f64::NEG_INFINITY));
    let gs = split(spec, i, gs, T::zero());
    let factors: &[T] = match &spec.dropout {
        None => &[],
        Some(key) => {
            let factors = &mut factors[..s.len()];
            factors.fill(T::one());
            drop_row(key, at as u64, factors);
            factors
        }
    };
    let o_i = &o[((b * spec.queries + i) * spec.heads + h) * d..][..d];
    let mean = inner(row(go, d, [b, h, i]), o_i);
    probabilities(s, scale, bias_row(spec, bias, [b, h, i]), mask_row(spec, i), lse[at]);
    row_vjp(s, gs, factors, mean);
    if let (Some(gbias), Some(bias)) = (gbias, bias) {
        // SAFETY: the caller's; `check_grads` found the gradient as long as the bias.
        let gbias = unsafe { gbias.slice(bias_at(spec, bias, [b, h, i, 0]), sees(spec, i)) };
        for (gbias, &gs) in gbias.iter_mut().zip(&*gs) {
            *gbias += gs;
        }
    }
    for gs in gs {
        *gs = *gs * scale;
    }
}

vectorized! {
    /// s ← e^(scale·s + bias − lse), 0 where not allowed.
    fn probabilities<T: Float>(s: &mut [T], scale: T, bias: &[T], allowed: &[bool], lse: T) {
        finish_scores(s, scale, bias, allowed);
        for s in s {
            *s = (*s - lse).fast_exp::<FMA>();
        }
    }
}

vectorized! {
    /// From p and p̄/c = ⟨ō, v⟩: gs ← p·(c·gs − mean), p ← c·p. No factors c are all 1.
    fn row_vjp<T: Float>(p: &mut [T], gs: &mut [T], factors: &[T], mean: T) {
        if factors.is_empty() {
            for (&mut p, gs) in p.iter_mut().zip(gs) {
                *gs = p * (*gs - mean);
            }
        } else {
            for ((p, gs), &c) in p.iter_mut().zip(gs).zip(factors) {
                *gs = *p * (c * *gs - mean);
                *p = c * *p;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::testing::*;
    use super::*;
    use crate::rng::DropoutKey;

    /// q, k, v interleaved in one buffer, as a packed projection leaves them: (B, T, 3, H, D).
    fn packed<'a, T>(data: &'a [T], spec: &AttentionSpec) -> [Heads<'a, T>; 3] {
        let c = spec.heads * spec.width;
        let t = spec.queries.max(spec.keys);
        [0, 1, 2].map(|i| Heads { data: &data[(i * c).min(data.len())..], strides: [t * 3 * c, spec.width, 3 * c] })
    }

    fn spec(sizes: [usize; 5], mask: Mask, p: f64) -> AttentionSpec {
        let [batch, heads, queries, keys, width] = sizes;
        let dropout = (p > 0.0).then(|| DropoutKey::new(p, [1, 2], 3, 4));
        AttentionSpec { batch, heads, queries, keys, width, scale: 1.0 / (width as f64).sqrt(), mask, dropout }
    }

    fn agrees<T: Float>(spec: &AttentionSpec, bias_sizes: Option<[usize; 2]>) {
        let AttentionSpec { batch, heads, queries, keys, width, .. } = *spec;
        let (rows, scores) = (batch * heads * queries, queries * keys);
        let data: Vec<T> = normals(batch * queries.max(keys) * 3 * heads * width, 1);
        let [q, k, v] = packed(&data, spec);
        let bias_data: Vec<T> = normals(bias_sizes.map_or(0, |[b, h]| b * h * scores), 2);
        let bias = bias_sizes.map(|[batch, heads]| ScoreBias { data: &bias_data, batch, heads });
        let go_data: Vec<T> = normals(rows * width, 3);
        let go = Heads { data: &go_data, strides: [queries * heads * width, width, heads * width] };
        let forward = |is_fast: bool| {
            let mut out = vec![T::one(); rows * width + rows];
            let (o, lse) = out.split_at_mut(rows * width);
            let kernel = if is_fast { fast } else { naive };
            kernel(spec, q, k, v, bias, o, lse);
            out
        };
        let want = forward(false);
        let (o, lse) = want.split_at(rows * width);
        let backward = |is_fast: bool| {
            // The places of the packed gradient; what lies between them must stay untouched.
            let mut out = vec![T::lit(7.0); data.len() + bias_data.len()];
            let (data, gbias) = out.split_at_mut(data.len());
            let c = heads * width;
            let t = queries.max(keys);
            let places = [0, 1, 2].map(|i| Place { offset: i * c, strides: [t * 3 * c, width, 3 * c] });
            let gbias = bias.is_some().then_some(gbias);
            let kernel = if is_fast { fast_vjp } else { naive_vjp };
            kernel(spec, q, k, v, bias, o, lse, go, AttentionGrads { data, places, gbias });
            out
        };
        // Sums of up to 200 products and exponentials of errors of a few ε: 40ε of values of size 1; the bias's gradient and
        // k̄, v̄ sum over queries (and over what is broadcast).
        assert_close(&on_threads(|| forward(true)), &want, 40.0 * epsilon::<T>(), 1.0);
        assert_close(&on_threads(|| backward(true)), &backward(false), 80.0 * epsilon::<T>(), 2.0);
    }

    fn agrees_both(spec: &AttentionSpec, bias: Option<[usize; 2]>) {
        agrees::<f32>(spec, bias);
        agrees::<f64>(spec, bias);
    }

    #[test]
    fn fast_agrees_with_naive_on_odd_sizes() {
        for sizes in
            [[1, 1, 1, 1, 1], [2, 3, 5, 5, 4], [1, 2, 65, 65, 8], [2, 2, 130, 130, 16], [1, 1, 1, 33, 8], [0, 1, 2, 2, 3]]
        {
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
    fn a_query_alone_has_the_bits_of_the_query_among_others() {
        let [n, heads, width] = [300, 2, 24]; // a sum over more than one block of keys
        let all = spec([1, heads, n, n, width], Mask::Causal, 0.0);
        let data: Vec<f32> = normals(n * 3 * heads * width, 1);
        let [q, k, v] = packed(&data, &all);
        let run = |spec: &AttentionSpec, q| {
            let (mut o, mut lse) = (vec![0.0; spec.queries * heads * width], vec![0.0; heads * spec.queries]);
            fast(spec, q, k, v, None, &mut o, &mut lse);
            o
        };
        let whole = run(&all, q);
        for i in [0, 1, 31, 255, 256, 299] {
            let alone =
                run(&AttentionSpec { queries: 1, keys: i + 1, ..all.clone() }, Heads { data: &q.data[i * q.strides[2]..], ..q });
            assert_eq!(alone, whole[i * heads * width..][..heads * width], "query {i}");
        }
    }

    #[test]
    #[should_panic(expected = "query 1 may attend to no key")]
    fn a_query_without_keys_is_named() {
        let spec = spec([1, 1, 2, 2, 1], Mask::Allowed(Arc::from([true, false, false, false])), 0.0);
        let data = [0.0f32; 6];
        let [q, k, v] = packed(&data, &spec);
        fast(&spec, q, k, v, None, &mut [0.0; 2], &mut [0.0; 2]);
    }

    #[test]
    fn places_that_overlap_are_told_from_those_that_interleave() {
        let sizes = [[2, 3, 5]; 3]; // (B, H, T), heads of 4
        let places = |offsets: [usize; 3], strides| offsets.map(|offset| Place { offset, strides });
        assert!(disjoint(places([0, 12, 24], [180, 4, 36]), sizes, 4), "packed: (B, T, 3, H, D)");
        assert!(disjoint(places([0, 120, 240], [60, 20, 4]), sizes, 4), "one after the other: (B, H, T, D)");
        assert!(!disjoint(places([0, 8, 24], [180, 4, 36]), sizes, 4), "k begins in q's heads");
        assert!(!disjoint(places([0, 12, 28], [180, 4, 36]), sizes, 4), "v runs into the next position");
        assert!(!disjoint(places([0, 120, 240], [60, 0, 4]), sizes, 4), "heads share");
        assert!(!disjoint(places([0, 0, 240], [60, 20, 4]), sizes, 4), "q is k");
        assert!(disjoint(places([0, 0, 0], [0, 0, 0]), [[0, 3, 5]; 3], 4), "nothing is held");
    }

    #[test]
    #[should_panic(expected = "k (1, 1, 3, 1) leaves its slice")]
    fn a_slice_too_short_is_named() {
        let spec = spec([1, 1, 1, 3, 1], Mask::Full, 0.0);
        let data = [0.0f32; 2];
        let x = Heads { data: &data, strides: [1, 1, 1] };
        fast(&spec, x, x, x, None, &mut [0.0], &mut [0.0]);
    }
}
