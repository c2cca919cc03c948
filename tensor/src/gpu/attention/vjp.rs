//! The gradients of q, k and v, and of the bias.

use super::{Array, Attention, Heads, TILE, word, words};
use crate::cpu::same_len;
use crate::device::{Buffer, shader};
use crate::gpu::fill;
use crate::operands::{AttentionSpec, HeadLayout, fits};
use crate::shape::Shape;

impl Attention<'_> {
    /// Returns q̄, k̄ and v̄ one after the other, and the bias's gradient, from o and ō (B, H, Tq, D) and lse.
    #[track_caller]
    pub fn vjp(&self, [o, lse, go]: [&Array; 3], wants_bias: bool) -> (Array, Option<Array>) {
        let AttentionSpec { batch, heads, queries, keys, width, .. } = *self.spec;
        let places = self.spec.places(false);
        self.grads(
            [Heads::of(o), Heads::of(go)],
            lse,
            Shape::new(&[batch * heads * (queries + 2 * keys) * width]),
            places,
            wants_bias,
        )
    }

    /// Returns the gradient of a packed projection of this shape, from dense o and ō (B, T, H·D) and lse.
    #[track_caller]
    pub fn packed_vjp(&self, [o, lse, go]: [&Array; 3], shape: Shape) -> Array {
        let AttentionSpec { batch, heads, queries, keys, width, .. } = *self.spec;
        assert!(keys == queries, "attention_vjp: a packed gradient needs as many keys as queries");
        same_len("attention_vjp", &[shape.numel(), batch * heads * (queries + 2 * keys) * width]);
        let [place, ..] = self.spec.places(false);
        let split =
            |x: &Array| Heads { buffer: x.buffer.clone(), place: HeadLayout { offset: x.layout.offset, ..place }, len: x.len() };
        self.grads([split(o), split(go)], lse, shape, self.spec.places(true), false).0
    }

    #[track_caller]
    fn grads(
        &self,
        [o, go]: [Heads; 2],
        lse: &Array,
        shape: Shape,
        places: [HeadLayout; 3],
        wants_bias: bool,
    ) -> (Array, Option<Array>) {
        let AttentionSpec { batch, heads, queries, keys, width, .. } = *self.spec;
        let (pairs, sizes) = (batch * heads, [batch, heads, queries]);
        assert!(fits(o.place.strides, sizes, width, o.len), "attention_vjp: the output leaves its slice");
        assert!(fits(go.place.strides, sizes, width, go.len), "attention_vjp: the output's gradient leaves its slice");
        same_len("attention", &[lse.len(), pairs * queries]);

        let rows = self.rows([&o, &go], lse);
        let grads = Array::unwritten(self.gpu(), shape);
        let params = self.params([o.place, go.place], places);
        let sight = self.sight();
        let run = |name: &str, text: &'static str, out: &Array, groups: usize| {
            let none = &*self.q.buffer; // a binding that is never read needs a buffer nonetheless
            let bias = self.bias.as_ref().map_or(none, |bias| &bias.buffer);
            let reads = [&self.q.buffer, &self.k.buffer, &self.v.buffer, &go.buffer, bias, sight.as_ref().unwrap_or(none), &rows];
            let shader = self.shader(name, [include_str!("vjp_tile.wgsl"), text], &[&go]);
            self.gpu().dispatch(&shader, &params, &[&out.buffer], &reads, groups);
        };
        run("attention_vjp of keys", include_str!("vjp_keys.wgsl"), &grads, pairs * keys.div_ceil(TILE));
        run("attention_vjp of queries", include_str!("vjp_queries.wgsl"), &grads, pairs * queries.div_ceil(TILE));
        let gbias = self.bias.as_ref().filter(|_| wants_bias).map(|bias| {
            if pairs == 0 {
                return fill(self.gpu(), bias.shape(), 0.0);
            }
            let gbias = Array::unwritten(self.gpu(), bias.shape());
            let tiles = bias.shape()[0] * bias.shape()[1] * queries.div_ceil(TILE) * keys.div_ceil(TILE);
            run("attention_vjp of the bias", include_str!("vjp_bias.wgsl"), &gbias, tiles);
            gbias
        });
        (grads, gbias)
    }

    /// Returns lse and ⟨ō, o⟩ of each query.
    fn rows(&self, [o, go]: [&Heads; 2], lse: &Array) -> Buffer {
        let AttentionSpec { batch, heads, queries, width, .. } = *self.spec;
        let (n, lse) = (batch * heads * queries, lse.dense());
        let rows = Buffer::recycled(self.gpu(), 2 * n);
        let places = [words(o.place), words(go.place)].concat();
        let params = [places, vec![word(n), word(heads), word(queries), word(width), lse.at()]].concat();
        self.gpu().dispatch(&shader!("vjp_rows"), &params, &[&rows], &[&o.buffer, &go.buffer, &lse.buffer], n.div_ceil(8));
        rows
    }
}
