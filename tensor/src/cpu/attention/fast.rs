//! The vectorised and parallel kernels.

use rayon::prelude::*;

use super::super::dropout::{COLUMNS, Columns};
use super::super::gemm::{Gemm, Products, Strided};
use super::super::parallel::Shared;
use super::{bias_at, row};
use crate::buffer::with_scratch;
use crate::operands::{AttentionGrads, AttentionOperands, AttentionSpec, HeadLayout, Heads, Mask, Mat, Onto};
use crate::simd::{Elementary, LANES, largest_of, sum_of, sum_of_2, vectorized};

/// The number of steps whose scores are held together in the VJP. A step is [`Products::QUERIES`] queries, scored at a time. Under
/// a causal mask their scores stop at the last query, so each row computes at most this many unnecessary scores. The gradients of
/// keys and values sum over the queries of a block.
const BLOCK: usize = 4;
/// The number of steps per task in the forward pass. Each task packs the keys and values for itself.
const SHARE: usize = 9;

/// A range of queries of sequence `b`: the first, their number, and the number of keys that the last of them reaches.
#[derive(Clone, Copy)]
struct Span {
    b: usize,
    first: usize,
    rows: usize,
    reach: usize,
}

impl Span {
    fn new(spec: &AttentionSpec, b: usize, first: usize, most: usize) -> Self {
        let rows = most.min(spec.queries - first);
        Span { b, first, rows, reach: spec.reach(b, first + rows - 1) }
    }

    /// Cuts the span into spans of at most `rows` queries.
    fn cut(self, spec: &AttentionSpec, rows: usize) -> impl Iterator<Item = Span> {
        let end = self.first + self.rows;
        (self.first..end).step_by(rows).map(move |first| Span::new(spec, self.b, first, rows.min(end - first)))
    }

    /// Returns the length of a row of scores: a positive multiple of `LANES`, so that no row ends in a scalar remainder.
    fn stride(self) -> usize {
        self.reach.next_multiple_of(LANES).max(LANES)
    }
}

/// Returns the whole lanes of the scores of the keys that query i of b reaches.
#[inline(always)]
fn whole_lanes<'a, T>(spec: &AttentionSpec, [b, i]: [usize; 2], s: &'a mut [T]) -> &'a mut [T] {
    &mut s[..spec.reach(b, i).next_multiple_of(LANES)]
}

/// Returns [`whole_lanes`], padded with `fill`. Zeros the scores beyond.
#[inline(always)]
fn split<'a, T: Gemm>(spec: &AttentionSpec, [b, i]: [usize; 2], s: &'a mut [T], fill: T) -> &'a mut [T] {
    let seen = spec.reach(b, i);
    let (s, beyond) = s.split_at_mut(seen.next_multiple_of(LANES));
    s[seen..].fill(fill);
    beyond.fill(T::zero());
    s
}

/// Returns the positions of one (b, h) from `t` on, as the rows of a matrix.
fn rows_of<T>(x: Heads<'_, T>, [b, h, t]: [usize; 3]) -> Strided<T> {
    let at = x.data.as_ptr().wrapping_add(b * x.strides[0] + h * x.strides[1] + t * x.strides[2]);
    Strided { at, strides: [x.strides[2], 1] }
}

fn columns_of<T>(x: Heads<'_, T>, at: [usize; 3]) -> Strided<T> {
    let Strided { at, strides: [row, col] } = rows_of(x, at);
    Strided { at, strides: [col, row] }
}

/// Returns the rows of the bias and of the mask of a query, over keys; a row is empty if its operand is absent.
fn rows_at<'a, T: Copy>(x: &AttentionOperands<'a, T>, [b, h, i]: [usize; 3]) -> (&'a [T], &'a [bool]) {
    let bias = x.bias.map_or(&[][..], |bias| &bias.data[bias_at(x.spec, bias, [b, h, i, 0])..][..x.spec.keys]);
    (bias, x.spec.mask.row(b, i, x.spec.queries, x.spec.keys))
}

/// Computes [attention](super::naive::attention) in steps of queries. A task is a share of the queries of one (b, h).
pub fn attention<T: Gemm, P: Products<T>>(x: &AttentionOperands<'_, T>, o: &mut [T], lse: &mut [T]) {
    x.check(o, lse);
    let AttentionOperands { spec, q, k, v, .. } = *x;
    let (d, step, share) = (spec.width, P::QUERIES, SHARE * P::QUERIES);
    let (o, lse) = (Shared::new(o), Shared::new(lse));
    if spec.queries == 1 {
        // SAFETY: a task owns its row of o, (B, 1, H, D), and its element of lse, (B, H, 1), by `check`.
        let task = |pair: usize| unsafe { one_query::<T, P>(x, pair, o.slice(pair * d, d), &mut *lse.at(pair)) };
        return run(spec, spec.batch * spec.heads, task);
    }
    let shares = spec.queries.div_ceil(share);
    let task = |task: usize| {
        let pair = task / shares;
        let (b, h) = (pair / spec.heads, pair % spec.heads);
        let share = Span::new(spec, b, task % shares * share, share);
        let (keys, stride) = (share.reach, share.stride());
        let sizes = [P::packed_len(d, keys), P::packed_len(keys, d), step * stride, step];
        with_scratch(sizes.iter().sum(), |scratch| {
            let [k_space, v_space, s, inverse] = parts(scratch, sizes);
            // SAFETY: `check` found the keys and values inside their slices.
            let (k, v) = unsafe {
                (P::pack(columns_of(k, [b, h, 0]), d, keys, k_space), P::pack(rows_of(v, [b, h, 0]), keys, d, v_space))
            };
            for step in share.cut(spec, step) {
                let Span { first, rows, reach, .. } = step;
                let stride = step.stride();
                let s = &mut s[..rows * stride];
                // SAFETY: `check` found the queries inside their slice, and s holds (rows, stride ≥ reach).
                unsafe { P::times(&k, [rows, d, reach], rows_of(q, [b, h, first]), 0, s.as_mut_ptr(), stride, Onto::Nothing) };
                // SAFETY: a task owns its rows of lse, (B, H, Tq) by `check`.
                let lse = unsafe { lse.slice(pair * spec.queries + first, rows) };
                softmax_rows(x, [b, h, first], s, lse, inverse);
                let (o_stride, at) = (spec.heads * d, ((b * spec.queries + first) * spec.heads + h) * d);
                let s = Strided { at: s.as_ptr(), strides: [stride, 1] };
                // SAFETY: o is (B, Tq, H, D) by `check`, and a task owns its rows of it.
                unsafe { P::times(&v, [rows, reach, d], s, 0, o.at(at), o_stride, Onto::Nothing) };
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

vectorized! {
    /// Turns products with the keys into c·e^(sⱼ − max), 0 if masked, for the queries of lse, `first` and those after it; c are the
    /// factors of dropout. Writes the log-sum-exp of each query and the inverse of its sum.
    fn softmax_rows<T: Gemm>(
        x: &AttentionOperands<'_, T>,
        at: [usize; 3],
        s: &mut [T],
        lse: &mut [T],
        inverse: &mut [T],
    ) {
        let ([b, h, first], spec, stride) = (at, x.spec, s.len() / lse.len());
        // One pass over the rows after another, so that rows overlap in the pipeline.
        for (r, s) in s.chunks_exact_mut(stride).enumerate() {
            let s = split(spec, [b, first + r], s, T::lit(f64::NEG_INFINITY));
            finish_scores(x, [b, h, first + r], s);
            lse[r] = largest_of(s);
        }
        for (r, s) in s.chunks_exact_mut(stride).enumerate() {
            let most = lse[r];
            for s in whole_lanes(spec, [b, first + r], s) {
                *s = (*s - most).fast_exp::<FMA>();
            }
        }
        let dropout = spec.dropout;
        for (r, s) in s.chunks_exact_mut(stride).enumerate() {
            let i = first + r;
            let s = whole_lanes(spec, [b, i], s);
            if spec.is_blind(b, i) {
                s.fill(T::zero());
                (lse[r], inverse[r]) = (T::lit(f64::NEG_INFINITY), T::zero());
                continue;
            }
            let sum = sum_of(s, |s| s);
            (lse[r], inverse[r]) = (lse[r] + sum.ln(), T::one() / sum);
            if let Some(key) = dropout {
                let row = ((b * spec.heads + h) * spec.queries + i) as u64;
                for (group, s) in s.chunks_mut(COLUMNS).enumerate() {
                    for (s, c) in s.iter_mut().zip(Columns::<T>::draw(&key, row, group).factors()) {
                        *s = *s * c;
                    }
                }
            }
        }
    }
}

/// Computes the attention of one query, as in generation. Packing the keys would cost more than their product with the query.
fn one_query<T: Gemm, P: Products<T>>(x: &AttentionOperands<'_, T>, pair: usize, o: &mut [T], lse: &mut T) {
    let AttentionOperands { spec, q, k, v, .. } = *x;
    let [b, h] = [pair / spec.heads, pair % spec.heads];
    let (keys, d) = (spec.reach(b, 0), spec.width);
    if keys == 0 {
        o.fill(T::zero());
        *lse = T::lit(f64::NEG_INFINITY);
        return;
    }
    let all = |x: &Heads<'_, T>| b * x.strides[0] + h * x.strides[1];
    with_scratch(keys.next_multiple_of(LANES), |s| {
        let k = Mat { col_stride: k.strides[2], ..Mat::transposed(&k.data[all(&k)..], d, keys) };
        P::row(row(q, d, [b, h, 0]), k, &mut s[..keys]);
        s[keys..].fill(T::lit(f64::NEG_INFINITY));
        let mut inverse = [T::zero()];
        softmax_rows(x, [b, h, 0], s, std::slice::from_mut(lse), &mut inverse);
        P::row(&s[..keys], Mat { row_stride: v.strides[2], ..Mat::dense(&v.data[all(&v)..], keys, d) }, o);
        for o in o {
            *o = *o * inverse[0];
        }
    });
}

/// Cuts a slice into parts of these sizes.
fn parts<T, const N: usize>(mut all: &mut [T], sizes: [usize; N]) -> [&mut [T]; N] {
    sizes.map(|size| all.split_off_mut(..size).expect("the sizes sum to at most the slice's"))
}

/// Runs the tasks, in parallel if there is enough work.
fn run(spec: &AttentionSpec, tasks: usize, task: impl Fn(usize) + Sync + Send) {
    let scores = spec.batch * spec.heads * spec.queries * spec.keys;
    if scores * spec.width.max(1) >= 1 << 18 && rayon::current_num_threads() > 1 {
        (0..tasks).into_par_iter().for_each(task);
    } else {
        (0..tasks).for_each(task);
    }
}

/// Computes s ← scale·s + bias for the keys that query i reaches, −∞ if masked. The padding of the row is −∞ and stays so.
#[inline(always)]
fn finish_scores<T: Gemm>(x: &AttentionOperands<'_, T>, [b, h, i]: [usize; 3], s: &mut [T]) {
    let (scale, seen) = (T::lit(x.spec.scale), x.spec.reach(b, i));
    let (bias, allowed) = rows_at(x, [b, h, i]);
    let scaled = if scale > T::zero() { s.len() } else { seen }; // whole lanes, if −∞ stays −∞
    s[..scaled].iter_mut().for_each(|s| *s = *s * scale);
    for (s, &bias) in s[..seen].iter_mut().zip(bias) {
        *s += bias;
    }
    for (s, &allowed) in s.iter_mut().zip(allowed) {
        *s = if allowed { *s } else { T::lit(f64::NEG_INFINITY) };
    }
}

/// Computes the [VJP of attention](super::naive::attention_vjp) in blocks of queries. A task owns the keys of one (b, h), or of
/// all (b, h) that share a slice of a bias whose gradient is requested.
pub fn attention_vjp<T: Gemm, P: Products<T>>(
    x: &AttentionOperands<'_, T>,
    o: &[T],
    lse: &[T],
    go: Heads<'_, T>,
    grads: AttentionGrads<'_, T>,
) {
    x.check(o, lse);
    x.check_grads(go, &grads);
    let AttentionOperands { spec, bias, .. } = *x;
    let places = spec.places(grads.packed);
    let data = Shared::new(grads.data);
    let gbias = grads.gbias.map(|gbias| {
        gbias.fill(T::zero());
        Shared::new(gbias)
    });
    // A task processes one (b, h), or in order all (b, h) that share a slice of the bias.
    let (batches, heads) = match (bias, gbias) {
        (Some(bias), Some(_)) => (bias.batch, bias.heads),
        _ => (spec.batch, spec.heads),
    };
    let task = |task: usize| {
        for b in (task / heads..spec.batch).step_by(batches) {
            for h in (task % heads..spec.heads).step_by(heads) {
                // SAFETY: this task alone writes the gradients of (b, h), and the slice of the bias's gradient that it reaches, which
                // is contiguous; `check_grads` found that gradient as long as the bias.
                unsafe {
                    let gbias = gbias
                        .zip(bias)
                        .map(|(gbias, bias)| gbias.slice(bias_at(spec, bias, [b, h, 0, 0]), spec.queries * spec.keys));
                    pair_vjp::<T, P>(x, [b, h], o, lse, go, data, &places, gbias);
                }
            }
        }
    };
    run(spec, batches * heads, task);
}

/// Computes the gradients of one (b, h).
///
/// # Safety
/// `check` and `check_grads` have passed, and no other code accesses the gradients of (b, h) during the call.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
unsafe fn pair_vjp<T: Gemm, P: Products<T>>(
    x: &AttentionOperands<'_, T>,
    [b, h]: [usize; 2],
    o: &[T],
    lse: &[T],
    go: Heads<'_, T>,
    grads: Shared<T>,
    places: &[HeadLayout; 3],
    mut gbias: Option<&mut [T]>,
) {
    let AttentionOperands { spec, q, k, v, .. } = *x;
    let d = spec.width;
    let place = |which: usize, t: usize| places[which].of([b, h, t]);
    for which in [1, 2] {
        for t in 0..spec.keys {
            // SAFETY: by the caller's contract; `check_grads` found the place inside the buffer.
            unsafe { grads.slice(place(which, t), d) }.fill(T::zero());
        }
    }
    let keys = spec.keys;
    let (step, most) = (P::QUERIES, BLOCK * P::QUERIES);
    let longest = keys.next_multiple_of(LANES).max(LANES);
    let [across, down, of_block] = [P::packed_len(d, keys), P::packed_len(keys, d), P::packed_len(most, d)];
    let sizes = [across, across, down, of_block, of_block, most * longest, most * longest];
    with_scratch(sizes.iter().sum(), |scratch| {
        let [k_across, v_across, k_down, q_space, go_space, s, gs] = parts(scratch, sizes);
        // SAFETY: `check` found the keys and values inside their slices.
        let [k_across, v_across, k_down] = unsafe {
            let all = [b, h, 0];
            [
                P::pack(columns_of(k, all), d, keys, k_across),
                P::pack(columns_of(v, all), d, keys, v_across),
                P::pack(rows_of(k, all), keys, d, k_down),
            ]
        };
        for block in (0..spec.queries).step_by(most).map(|first| Span::new(spec, b, first, most)) {
            let stride = block.stride();
            for step in block.cut(spec, step) {
                let Span { first, rows, reach, .. } = step;
                let (from, here) = ((first - block.first) * stride, [b, h, first]);
                let (s, gs) = (&mut s[from..][..rows * stride], &mut gs[from..][..rows * stride]);
                // SAFETY: `check` and `check_grads` found q and ō inside their slices; s and gs hold (rows, stride ≥ reach).
                unsafe {
                    P::times(&k_across, [rows, d, reach], rows_of(q, here), 0, s.as_mut_ptr(), stride, Onto::Nothing);
                    P::times(&v_across, [rows, d, reach], rows_of(go, here), 0, gs.as_mut_ptr(), stride, Onto::Nothing);
                }
                let gbias = gbias.as_deref_mut().map(|gbias| &mut gbias[first * keys..][..rows * keys]);
                score_rows_vjp(x, here, o, lse, go, s, gs, stride, gbias);
                let gs = Strided { at: gs.as_ptr(), strides: [stride, 1] };
                let gq = grads.at(place(0, first));
                // SAFETY: by the caller's contract; `check_grads` found q̄'s rows inside the buffer.
                unsafe { P::times(&k_down, [rows, reach, d], gs, 0, gq, places[0].strides[2], Onto::Nothing) };
            }
            let Span { first, rows, reach, .. } = block;
            // SAFETY: as above.
            let [q, go] = unsafe {
                let here = [b, h, first];
                [
                    P::pack(rows_of(q, here), rows, d, &mut q_space[..P::packed_len(rows, d)]),
                    P::pack(rows_of(go, here), rows, d, &mut go_space[..P::packed_len(rows, d)]),
                ]
            };
            // First the keys that all queries of the block attend to. Then, under a causal mask, the keys of each step, which
            // only later queries attend to.
            let all_see = if spec.mask == Mask::Causal { reach.min(first + spec.keys - spec.queries) } else { reach };
            let later = (all_see..reach).step_by(step).map(|key| (key..reach.min(key + step), key - all_see));
            for (keys, row) in std::iter::once((0..all_see, 0)).chain(later) {
                let part = |x: &[T]| Strided { at: x[row * stride + keys.start..].as_ptr(), strides: [1, stride] };
                let (sizes, at) = ([keys.len(), rows - row, d], keys.start);
                // SAFETY: by the caller's contract; s and gs hold (rows, stride ≥ reach), k̄ and v̄ lie inside the buffer.
                unsafe {
                    P::times(&go, sizes, part(s), row, grads.at(place(2, at)), places[2].strides[2], Onto::Itself);
                    P::times(&q, sizes, part(gs), row, grads.at(place(1, at)), places[1].strides[2], Onto::Itself);
                }
            }
        }
    });
}

vectorized! {
    /// Computes s ← c·p and gs ← scale·s̄ for the queries from `first` on, from their scores s and gs = p̄/c = ⟨ō, v⟩:
    /// s̄ = p·(c·gs − ⟨ō, o⟩), where c are the factors of dropout. Adds s̄ to the bias's gradient. Rows are `stride` long.
    fn score_rows_vjp<T: Gemm>(
        x: &AttentionOperands<'_, T>,
        at: [usize; 3],
        o: &[T],
        lse: &[T],
        go: Heads<'_, T>,
        s: &mut [T],
        gs: &mut [T],
        stride: usize,
        gbias: Option<&mut [T]>,
    ) {
        let ([b, h, first], spec, d) = (at, x.spec, x.spec.width);
        let (scale, mut gbias, dropout) = (T::lit(spec.scale), gbias, spec.dropout);
        let lse = &lse[(b * spec.heads + h) * spec.queries..][..spec.queries];
        // One pass over the rows after another, so that rows overlap in the pipeline.
        for (i, s) in (first..).zip(s.chunks_exact_mut(stride)) {
            let s = split(spec, [b, i], s, T::lit(f64::NEG_INFINITY));
            finish_scores(x, [b, h, i], s);
        }
        for (i, s) in (first..).zip(s.chunks_exact_mut(stride)) {
            for s in whole_lanes(spec, [b, i], s) {
                *s = (*s - lse[i]).fast_exp::<FMA>();
            }
        }
        for (i, (s, gs)) in (first..).zip(s.chunks_exact_mut(stride).zip(gs.chunks_exact_mut(stride))) {
            let s = whole_lanes(spec, [b, i], s);
            let gs = split(spec, [b, i], gs, T::zero());
            if spec.is_blind(b, i) {
                s.fill(T::zero());
                gs.fill(T::zero());
                continue;
            }
            let o = &o[((b * spec.queries + i) * spec.heads + h) * d..][..d];
            let mean = sum_of_2(row(go, d, [b, h, i]), o, |go, o| go * o);
            match dropout {
                None => {
                    for (&mut p, gs) in s.iter_mut().zip(&mut *gs) {
                        *gs = p * (*gs - mean);
                    }
                }
                Some(key) => {
                    let row = ((b * spec.heads + h) * spec.queries + i) as u64;
                    for (group, (p, gs)) in s.chunks_mut(COLUMNS).zip(gs.chunks_mut(COLUMNS)).enumerate() {
                        for ((p, gs), c) in p.iter_mut().zip(gs).zip(Columns::<T>::draw(&key, row, group).factors()) {
                            *gs = *p * (c * *gs - mean);
                            *p = c * *p;
                        }
                    }
                }
            }
            if let Some(gbias) = gbias.as_deref_mut() {
                for (gbias, &gs) in gbias[(i - first) * spec.keys..][..spec.reach(b, i)].iter_mut().zip(&*gs) {
                    *gbias += gs;
                }
            }
            for gs in gs {
                *gs = *gs * scale;
            }
        }
    }
}
