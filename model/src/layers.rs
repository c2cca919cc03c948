//! The layers of a GPT: linear, layer norm, embedding, attention, the feed-forward network.

use gradus_autograd::Var;
use gradus_autograd::ops::Attention;
use gradus_tensor::Real;
use gradus_tensor::kernels::Mask;
use gradus_tensor::rng::DropoutKey;

use crate::config::Activation;
use crate::decode::LayerCache;
use crate::tree;
use crate::tree::P;

tree! {
    /// y = x·W + b, W stored [in, out].
    pub struct Linear<V> {
        /// W (in, out).
        weight: P<V>,
        /// b (out).
        bias: P<V>,
    }
}

tree! {
    /// Layer normalisation: gain ∘ (x − μ)/√(σ² + ε) + bias over the last axis.
    pub struct LayerNorm<V> {
        /// The gain (d).
        weight: P<V>,
        /// The bias (d).
        bias: P<V>,
    }
}

tree! {
    /// A matrix of one vector a row.
    pub struct Table<V> {
        /// (rows, d).
        weight: P<V>,
    }
}

tree! {
    /// Multi-head self-attention: one projection to [q | k | v], one back.
    pub struct SelfAttention<V> {
        /// d → 3d.
        c_attn: Linear<V>,
        /// d → d.
        c_proj: Linear<V>,
    }
}

tree! {
    /// The position-wise feed-forward network.
    pub struct Mlp<V> {
        /// d → 4d.
        c_fc: Linear<V>,
        /// 4d → d.
        c_proj: Linear<V>,
    }
}

impl<'t, T: Real> Linear<Var<'t, T>> {
    /// (…, in) → (…, out).
    pub fn forward(&self, x: &Var<'t, T>) -> Var<'t, T> {
        x.linear(&self.weight.0, &self.bias.0)
    }
}

impl<'t, T: Real> LayerNorm<Var<'t, T>> {
    /// (…, d) → (…, d).
    pub fn forward(&self, x: &Var<'t, T>, eps: f64) -> Var<'t, T> {
        x.layer_norm(&self.weight.0, &self.bias.0, eps)
    }
}

impl<'t, T: Real> SelfAttention<Var<'t, T>> {
    /// (B, T, d) → (B, T, d), each position seeing itself and those before it.
    pub fn forward(&self, x: &Var<'t, T>, heads: usize, dropout: Option<DropoutKey>) -> Var<'t, T> {
        let qkv = self.c_attn.forward(x); // (B, T, 3d)
        let o = qkv.self_attention(heads, Attention { mask: Mask::Causal, dropout });
        self.c_proj.forward(&o)
    }

    /// The same for positions that follow those in `cache`, which is extended by theirs.
    pub fn decode(&self, x: &Var<'t, T>, heads: usize, cache: &mut LayerCache<T>) -> Var<'t, T> {
        let (b, t, d) = (x.shape()[0], x.shape()[1], x.shape()[2]);
        let qkv = self.c_attn.forward(x);
        let part = |i: usize| qkv.slice(2, i * d..(i + 1) * d).reshape([b, t, heads, d / heads]).permute(&[0, 2, 1, 3]);
        let (k, v) = cache.extend(part(1).value(), part(2).value());
        let (k, v) = (x.tape().constant(k), x.tape().constant(v));
        let o = part(0).attention(&k, &v, None, Attention { mask: Mask::Causal, dropout: None }); // (B, H, T, D)
        self.c_proj.forward(&o.permute(&[0, 2, 1, 3]).reshape([b, t, d]))
    }
}

impl<'t, T: Real> Mlp<Var<'t, T>> {
    /// (…, d) → (…, d).
    pub fn forward(&self, x: &Var<'t, T>, activation: Activation) -> Var<'t, T> {
        let u = self.c_fc.forward(x);
        let a = match activation {
            Activation::Gelu => u.gelu(),
            Activation::GeluErf => 0.5 * &u * (1.0 + (&u * std::f64::consts::FRAC_1_SQRT_2).erf()),
            Activation::Relu => u.relu(),
        };
        self.c_proj.forward(&a)
    }
}
