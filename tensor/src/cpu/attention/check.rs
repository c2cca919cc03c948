//! Checks of sizes, strides and places, once per call. The `unsafe` code of the kernels relies on them.

use super::super::same_len;
use crate::operands::{AttentionGrads, AttentionOperands, AttentionSpec, Heads, Mask, fits};

impl<T: Copy> AttentionOperands<'_, T> {
    /// Panics unless sizes, strides and options agree.
    #[track_caller]
    pub(super) fn check(&self, o: &[T], lse: &[T]) {
        let AttentionOperands { spec, q, k, v, bias } = *self;
        let AttentionSpec { batch, heads, queries, keys, width, .. } = *spec;
        for (name, x, positions) in [("q", q, queries), ("k", k, keys), ("v", v, keys)] {
            let sizes = [batch, heads, positions];
            assert!(
                fits(x.strides, sizes, width, x.data.len()),
                "attention: {name} ({batch}, {heads}, {positions}, {width}) leaves its slice"
            );
        }
        same_len("attention", &[o.len(), batch * heads * queries * width]);
        same_len("attention", &[lse.len(), batch * heads * queries]);
        spec.check(bias.map(|bias| ([bias.batch, bias.heads], bias.data.len())));
    }

    /// Panics unless the output's gradient lies in its slice and the gradients of the inputs have the right lengths.
    #[track_caller]
    pub(super) fn check_grads(&self, go: Heads<'_, T>, grads: &AttentionGrads<'_, T>) {
        let AttentionSpec { batch, heads, queries, keys, width, .. } = *self.spec;
        let sizes = [batch, heads, queries];
        assert!(fits(go.strides, sizes, width, go.data.len()), "attention_vjp: the output's gradient leaves its slice");
        assert!(!grads.packed || keys == queries, "attention_vjp: a packed gradient needs as many keys as queries");
        same_len("attention_vjp", &[grads.data.len(), batch * heads * (queries + 2 * keys) * width]);
        if let Some(gbias) = &grads.gbias {
            let bias = self.bias.expect("attention_vjp: the gradient of a bias is requested, but there is no bias");
            same_len("attention_vjp bias", &[gbias.len(), bias.data.len()]);
        }
    }
}

impl AttentionSpec {
    /// Panics unless the mask, the lengths and the bias agree with the sizes. The bias is given by its sizes (B|1, H|1) and its
    /// number of elements.
    #[track_caller]
    pub(crate) fn check(&self, bias: Option<([usize; 2], usize)>) {
        let AttentionSpec { batch, heads, queries, keys, .. } = *self;
        match &self.mask {
            Mask::Full => {}
            Mask::Causal => assert!(keys >= queries, "attention: causal needs Tk ≥ Tq, got {keys} keys, {queries} queries"),
            Mask::Allowed(allowed) => {
                let (n, one) = (allowed.len(), queries * keys);
                assert!(n == one || n == batch * one, "attention: mask (B|1, Tq, Tk) expected, got {n} elements");
            }
        }
        if let Some(lengths) = &self.lengths {
            same_len("attention lengths", &[lengths.len(), batch]);
            let over = lengths.iter().position(|&n| n > keys);
            assert!(over.is_none(), "attention: sequence {} is longer than its {keys} keys", over.unwrap_or(0));
        }
        if let Some(([b, h], len)) = bias {
            let broadcast = [1, batch].contains(&b) && [1, heads].contains(&h);
            assert!(broadcast, "attention: bias (B|1, H|1, Tq, Tk) expected, got B = {b}, H = {h}");
            same_len("attention bias", &[len, b * h * queries * keys]);
        }
    }
}
