//! A Transformer block, post-norm: n = LN(x + attn(x)), h = LN(n + mlp(n)) (Vaswani et al. 2017; GPT-1 §3.1).

use gradus_autograd::Var;
use gradus_tensor::Real;

use crate::config::GptConfig;
use crate::decode::LayerCache;
use crate::layers::{LayerNorm, Mlp, SelfAttention};
use crate::noise::{Noise, Site};
use crate::tree;

tree! {
    /// One of the model's n blocks.
    pub struct Block<V> {
        /// Self-attention.
        attn: SelfAttention<V>,
        /// Norm after the attention branch is added.
        ln_1: LayerNorm<V>,
        /// Feed-forward network.
        mlp: Mlp<V>,
        /// Norm after the feed-forward branch is added.
        ln_2: LayerNorm<V>,
    }
}

impl<'t, T: Real> Block<Var<'t, T>> {
    /// (B, T, d) → (B, T, d); `layer` is the block's number, for its noise.
    pub fn forward(&self, x: &Var<'t, T>, config: &GptConfig, layer: usize, noise: Option<&Noise>) -> Var<'t, T> {
        let (tape, t, eps) = (x.tape(), x.shape()[1], config.layer_norm_epsilon);
        let key = |site, p, rows| noise.and_then(|n| n.key(site, p, rows));
        let drop = |x: Var<'t, T>, site| match key(site, config.resid_dropout, t) {
            Some(key) => x.dropout(key),
            None => x,
        };
        let attn_key = key(Site::Attention(layer), config.attn_dropout, config.heads * t);
        let a = tape.scope("attn", || drop(self.attn.forward(x, config.heads, attn_key), Site::AttentionBranch(layer)));
        let n = tape.scope("ln_1", || self.ln_1.forward(&(x + a), eps));
        let m = tape.scope("mlp", || drop(self.mlp.forward(&n, config.activation), Site::MlpBranch(layer)));
        tape.scope("ln_2", || self.ln_2.forward(&(n + m), eps))
    }

    /// The same for positions that follow those in `cache`.
    pub fn decode(&self, x: &Var<'t, T>, config: &GptConfig, cache: &mut LayerCache<T>) -> Var<'t, T> {
        let n = self.ln_1.forward(&(x + self.attn.decode(x, config.heads, cache)), config.layer_norm_epsilon);
        let m = self.mlp.forward(&n, config.activation);
        self.ln_2.forward(&(n + m), config.layer_norm_epsilon)
    }
}
