//! Sizes, strides and places, checked once per call; what the kernels' `unsafe` code relies on.

use super::super::same_len;
use crate::operands::{AttentionGrads, AttentionOperands, AttentionSpec, Heads, Mask, Place};

impl<T: Copy> AttentionOperands<'_, T> {
    /// Panics unless sizes, strides and options agree.
    #[track_caller]
    pub(super) fn check(&self, o: &[T], lse: &[T]) {
        let AttentionOperands { spec, q, k, v, bias } = *self;
        let AttentionSpec { batch, heads, queries, keys, width, .. } = *spec;
        for (name, x, positions) in [("q", q, queries), ("k", k, keys), ("v", v, keys)] {
            let inside = fits(x.data.len(), 0, x.strides, [batch, heads, positions], width);
            assert!(inside, "attention: {name} ({batch}, {heads}, {positions}, {width}) leaves its slice");
        }
        same_len("attention", &[o.len(), batch * heads * queries * width]);
        same_len("attention", &[lse.len(), batch * heads * queries]);
        match &spec.mask {
            Mask::Full => {}
            Mask::Causal => assert!(keys >= queries, "attention: causal needs Tk ≥ Tq, got {keys} keys, {queries} queries"),
            Mask::Allowed(allowed) => {
                let (n, one) = (allowed.len(), queries * keys);
                assert!(n == one || n == batch * one, "attention: mask (B|1, Tq, Tk) expected, got {n} elements");
            }
        }
        if let Some(lengths) = &spec.lengths {
            same_len("attention lengths", &[lengths.len(), batch]);
            let over = lengths.iter().position(|&n| n > keys);
            assert!(over.is_none(), "attention: sequence {} is longer than its {keys} keys", over.unwrap_or(0));
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

    /// Panics unless the gradients have room, each of its own.
    #[track_caller]
    pub(super) fn check_grads(&self, go: Heads<'_, T>, grads: &AttentionGrads<'_, T>) {
        let AttentionSpec { batch, heads, queries, keys, width, .. } = *self.spec;
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
            let bias = self.bias.expect("attention_vjp: a gradient is asked of a bias that is not given");
            same_len("attention_vjp bias", &[gbias.len(), bias.data.len()]);
        }
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

/// Is every element of these places, (B, H, positions, width) each, one of its own? (Layouts that are neither nested nor apart
/// are refused, though they might be.)
pub(super) fn disjoint(places: [Place; 3], sizes: [[usize; 3]; 3], width: usize) -> bool {
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
