//! Multi-head self-attention (Vaswani et al. 2017, §3.2.2).

use gradus_autograd::Var;
use gradus_autograd::ops::Attention;
use gradus_tensor::{Mask, Real};

use super::cache::LayerCache;
use crate::dropout::{Dropout, DropoutSeed};
use crate::layers::Linear;
use crate::param::Param;
use crate::tree;

tree! {
    /// Multi-head self-attention: one projection to [q | k | v], one back.
    pub struct SelfAttention<V> {
        /// d → 3d.
        c_attn: Linear<V>,
        /// d → d.
        c_proj: Linear<V>,
    } with {
        heads: usize,
        dropout: Dropout,
    }
}

impl SelfAttention<Param> {
    /// Declares `heads` heads of width d/heads: weights into the heads from N(0, std²), out of them from N(0, out²); dropout
    /// applies to the probabilities.
    pub fn declare(d: usize, heads: usize, [std, out]: [f64; 2], dropout: Dropout) -> Self {
        SelfAttention { c_attn: Linear::declare(d, 3 * d, std), c_proj: Linear::declare(d, d, out), heads, dropout }
    }
}

impl<'t, T: Real> SelfAttention<Var<'t, T>> {
    /// Maps (B, T, d) to (B, T, d).
    pub fn forward(&self, x: &Var<'t, T>, attention: &Attention, dropout: Option<DropoutSeed>) -> Var<'t, T> {
        let dropout = self.dropout.key(self.heads * x.shape()[1], dropout);
        let qkv = self.c_attn.forward(x); // (B, T, 3d)
        let o = qkv.self_attention(self.heads, Attention { dropout, ..attention.clone() });
        self.c_proj.forward(&o)
    }

    /// Computes the positions that follow those in `cache`, and appends them to it.
    pub fn decode(&self, x: &Var<'t, T>, cache: &mut LayerCache<T>) -> Var<'t, T> {
        let (b, t, d, heads) = (x.shape()[0], x.shape()[1], x.shape()[2], self.heads);
        let qkv = self.c_attn.forward(x);
        let part = |i: usize| qkv.slice(2, i * d..(i + 1) * d).reshape([b, t, heads, d / heads]).permute(&[0, 2, 1, 3]);
        let (k, v) = cache.extend(part(1).value(), part(2).value());
        let (k, v) = (x.tape().constant(k), x.tape().constant(v));
        let o = part(0).attention(&k, &v, None, Attention::new(Mask::Causal)); // (B, H, T, D)
        self.c_proj.forward(&o.permute(&[0, 2, 1, 3]).reshape([b, t, d]))
    }
}
