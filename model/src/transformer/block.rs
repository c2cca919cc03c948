//! A Transformer block (Vaswani et al. 2017; GPT-1 §3.1): self-attention and feed-forward branches with residual connections.
//!
//! ```text
//! post-norm     n = LN₁(x + attn(x))        h = LN₂(n + mlp(n))          GPT-1, BERT
//! pre-norm      n = x + attn(LN₁(x))        h = n + mlp(LN₂(n))          GPT-2
//! ```

use gradus_autograd::Var;
use gradus_autograd::ops::Attention;
use gradus_tensor::Real;

use super::attention::SelfAttention;
use super::cache::LayerCache;
use super::config::{NormPlace, TransformerConfig};
use crate::dropout::{Dropout, DropoutSeed, Site};
use crate::layers::{LayerNorm, Mlp};
use crate::param::{Param, Serves};
use crate::tree;
use crate::tree::Tree;

tree! {
    /// A Transformer block.
    pub struct Block<V> {
        /// Self-attention.
        attn: SelfAttention<V>,
        /// The attention branch's norm.
        ln_1: LayerNorm<V>,
        /// Feed-forward network.
        mlp: Mlp<V>,
        /// The feed-forward branch's norm.
        ln_2: LayerNorm<V>,
    } with {
        norm: NormPlace,
        drop_attn: Dropout,
        drop_mlp: Dropout,
    }
}

impl Block<Param> {
    /// Declares block `layer`, counted from the input, of a model of width d.
    pub fn declare(d: usize, c: &TransformerConfig, layer: usize) -> Self {
        let stds = [c.initializer_range, c.residual_std()];
        let norm = || LayerNorm::declare(d, c.layer_norm_epsilon);
        let drop = |site| Dropout::new(c.resid_dropout, site);
        let block = Block {
            attn: SelfAttention::declare(d, c.heads, stds, Dropout::new(c.attn_dropout, Site::Attention(layer))),
            ln_1: norm(),
            mlp: Mlp::declare(d, c.inner(d), c.activation, stds),
            ln_2: norm(),
            norm: c.norm,
            drop_attn: drop(Site::AttentionBranch(layer)),
            drop_mlp: drop(Site::MlpBranch(layer)),
        };
        block.map(|_, p| p.serving(Serves::Block(layer)))
    }
}

impl<'t, T: Real> Block<Var<'t, T>> {
    /// Maps (B, T, d) to (B, T, d); with a seed, dropout is active.
    pub fn forward(&self, x: &Var<'t, T>, attention: &Attention, dropout: Option<DropoutSeed>) -> Var<'t, T> {
        let attn = |x: &Var<'t, T>| self.drop_attn.forward(self.attn.forward(x, attention, dropout), dropout);
        let mlp = |x: &Var<'t, T>| self.drop_mlp.forward(self.mlp.forward(x), dropout);
        let n = self.branch(x, ("attn", attn), ("ln_1", &self.ln_1));
        self.branch(&n, ("mlp", mlp), ("ln_2", &self.ln_2))
    }

    /// Computes the next positions, and appends them to `cache`.
    pub fn decode(&self, x: &Var<'t, T>, cache: &mut LayerCache<T>) -> Var<'t, T> {
        let attn = |x: &Var<'t, T>| self.attn.decode(x, cache);
        let n = self.branch(x, ("attn", attn), ("ln_1", &self.ln_1));
        self.branch(&n, ("mlp", |x: &Var<'t, T>| self.mlp.forward(x)), ("ln_2", &self.ln_2))
    }

    /// Computes x + f(x), with pre-norm or post-norm.
    fn branch(
        &self,
        x: &Var<'t, T>,
        (name, f): (&str, impl FnOnce(&Var<'t, T>) -> Var<'t, T>),
        (norm_name, norm): (&str, &LayerNorm<Var<'t, T>>),
    ) -> Var<'t, T> {
        let branch = |x: &Var<'t, T>| x.tape().scope(name, || f(x));
        match self.norm {
            NormPlace::After => {
                let y = branch(x);
                x.tape().scope(norm_name, || norm.forward(&(x + y)))
            }
            NormPlace::Before => x + branch(&x.tape().scope(norm_name, || norm.forward(x))),
        }
    }
}
