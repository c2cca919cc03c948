//! The layers of a Transformer: linear, layer norm, embedding, attention, the feed-forward network.
//!
//! `declare` states a layer's parameters and settings, `forward` what it computes.

use gradus_autograd::Var;
use gradus_autograd::ops::Attention;
use gradus_tensor::{Mask, Real};

use crate::cache::LayerCache;
use crate::config::Activation;
use crate::dropout::{Dropout, DropoutSeed};
use crate::param::{Init, Param, Role};
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

impl Linear<Param> {
    /// W from N(0, std²), b = 0.
    pub fn declare(from: usize, to: usize, std: f64) -> Self {
        Linear { weight: P(Param::weight([from, to], std)), bias: P(Param::bias(to)) }
    }
}

impl<'t, T: Real> Linear<Var<'t, T>> {
    /// (…, in) → (…, out).
    pub fn forward(&self, x: &Var<'t, T>) -> Var<'t, T> {
        x.linear(&self.weight.0, &self.bias.0)
    }

    /// The activation of the same.
    pub fn activated(&self, x: &Var<'t, T>, activation: Activation) -> Var<'t, T> {
        match activation {
            Activation::Gelu => x.linear_gelu(&self.weight.0, &self.bias.0),
            Activation::GeluErf => {
                let u = self.forward(x);
                0.5 * &u * (1.0 + (&u * std::f64::consts::FRAC_1_SQRT_2).erf())
            }
            Activation::Relu => self.forward(x).relu(),
        }
    }
}

tree! {
    /// Layer normalisation: gain ∘ (x − μ)/√(σ² + ε) + bias over the last axis.
    pub struct LayerNorm<V> {
        /// The gain (d).
        weight: P<V>,
        /// The bias (d).
        bias: P<V>,
    } with {
        eps: f64,
    }
}

impl LayerNorm<Param> {
    /// Gain 1, bias 0.
    pub fn declare(d: usize, eps: f64) -> Self {
        LayerNorm { weight: P(Param::gain(d)), bias: P(Param::bias(d)), eps }
    }
}

impl<'t, T: Real> LayerNorm<Var<'t, T>> {
    /// (…, d) → (…, d).
    pub fn forward(&self, x: &Var<'t, T>) -> Var<'t, T> {
        x.layer_norm(&self.weight.0, &self.bias.0, self.eps)
    }
}

tree! {
    /// A matrix of one vector per row.
    pub struct Table<V> {
        /// (rows, d).
        weight: P<V>,
    }
}

impl Table<Param> {
    /// A row per token or position, from N(0, std²).
    pub fn declare(rows: usize, d: usize, std: f64, role: Role) -> Self {
        Table { weight: P(Param { shape: [rows, d].into(), init: Init::Normal(std), role, block: None }) }
    }
}

/// The length T of B sequences of tokens (B·T) at positions `first ..`.
///
/// Panics where a token is not in the vocabulary or a position not in the context: callers check user input.
pub(crate) fn sequence_length(ids: &[u32], sequences: usize, first: usize, vocab: usize, context: usize) -> usize {
    let t = ids.len().checked_div(sequences).unwrap_or(0);
    assert!(first + t <= context, "positions {first}..{} in a context of {context}", first + t);
    assert!(ids.iter().all(|&id| (id as usize) < vocab), "a token lies beyond the vocabulary of {vocab}");
    t
}

/// The number of slots T of B sequences of tokens (B·T) at explicit positions (B·T).
///
/// Panics where a token is not in the vocabulary or a position not in the context: callers check user input.
pub(crate) fn check_slots(ids: &[u32], positions: &[u32], sequences: usize, vocab: usize, context: usize) -> usize {
    assert_eq!(positions.len(), ids.len(), "a position for each slot");
    assert!(positions.iter().all(|&p| (p as usize) < context), "a position lies beyond the context of {context}");
    assert!(ids.iter().all(|&id| (id as usize) < vocab), "a token lies beyond the vocabulary of {vocab}");
    ids.len() / sequences
}

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
    /// `heads` heads of width d/heads; weights into the heads from N(0, std²), out of them from N(0, out²); the dropout falls on the
    /// probabilities.
    pub fn declare(d: usize, heads: usize, [std, out]: [f64; 2], dropout: Dropout) -> Self {
        SelfAttention { c_attn: Linear::declare(d, 3 * d, std), c_proj: Linear::declare(d, d, out), heads, dropout }
    }
}

impl<'t, T: Real> SelfAttention<Var<'t, T>> {
    /// (B, T, d) → (B, T, d).
    pub fn forward(&self, x: &Var<'t, T>, attention: &Attention, dropout: Option<DropoutSeed>) -> Var<'t, T> {
        let dropout = self.dropout.key(self.heads * x.shape()[1], dropout);
        let qkv = self.c_attn.forward(x); // (B, T, 3d)
        let o = qkv.self_attention(self.heads, Attention { dropout, ..attention.clone() });
        self.c_proj.forward(&o)
    }

    /// The same for positions that follow those in `cache`, which is extended by theirs, and see those before them.
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

tree! {
    /// The position-wise feed-forward network.
    pub struct Mlp<V> {
        /// d → f, of GPT-1 4d.
        c_fc: Linear<V>,
        /// f → d.
        c_proj: Linear<V>,
    } with {
        activation: Activation,
    }
}

impl Mlp<Param> {
    /// Of width `inner` inside; weights into it from N(0, std²), out of it from N(0, out²).
    pub fn declare(d: usize, inner: usize, activation: Activation, [std, out]: [f64; 2]) -> Self {
        Mlp { c_fc: Linear::declare(d, inner, std), c_proj: Linear::declare(inner, d, out), activation }
    }
}

impl<'t, T: Real> Mlp<Var<'t, T>> {
    /// (…, d) → (…, d).
    pub fn forward(&self, x: &Var<'t, T>) -> Var<'t, T> {
        self.c_proj.forward(&self.c_fc.activated(x, self.activation))
    }
}
