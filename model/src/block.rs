//! A Transformer block, post-norm (Vaswani et al. 2017; GPT-1 §3.1):
//!
//! ```text
//! n = LN₁(x + attn(x))        h = LN₂(n + mlp(n))
//! ```

use gradus_autograd::Var;
use gradus_tensor::Real;

use crate::cache::LayerCache;
use crate::config::GptConfig;
use crate::dropout::{Dropout, DropoutSeed, Site};
use crate::layers::{LayerNorm, Mlp, SelfAttention, Sight};
use crate::param::Param;
use crate::tree;
use crate::tree::Tree;

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
    } with {
        drop_attn: Dropout,
        drop_mlp: Dropout,
    }
}

impl Block<Param> {
    /// Block `layer` of the model, counted from the input.
    pub fn declare(c: &GptConfig, layer: usize, sight: Sight) -> Self {
        let (d, std) = (c.width, c.initializer_range);
        let norm = || LayerNorm::declare(d, c.layer_norm_epsilon);
        let drop = |site| Dropout::new(c.resid_dropout, site);
        let probabilities = Dropout::new(c.attn_dropout, Site::Attention(layer));
        let block = Block {
            attn: SelfAttention::declare(d, c.heads, std, sight, probabilities),
            ln_1: norm(),
            mlp: Mlp::declare(d, c.activation, std),
            ln_2: norm(),
            drop_attn: drop(Site::AttentionBranch(layer)),
            drop_mlp: drop(Site::MlpBranch(layer)),
        };
        block.map(|_, p| Param { block: Some(layer), ..p })
    }
}

impl<'t, T: Real> Block<Var<'t, T>> {
    /// (B, T, d) → (B, T, d); with a seed the dropouts are active.
    pub fn forward(&self, x: &Var<'t, T>, dropout: Option<DropoutSeed>) -> Var<'t, T> {
        let tape = x.tape();
        let a = tape.scope("attn", || self.drop_attn.forward(self.attn.forward(x, dropout), dropout));
        let n = tape.scope("ln_1", || self.ln_1.forward(&(x + a)));
        let m = tape.scope("mlp", || self.drop_mlp.forward(self.mlp.forward(&n), dropout));
        tape.scope("ln_2", || self.ln_2.forward(&(n + m)))
    }

    /// The same for positions that follow those in `cache`.
    pub fn decode(&self, x: &Var<'t, T>, cache: &mut LayerCache<T>) -> Var<'t, T> {
        let n = self.ln_1.forward(&(x + self.attn.decode(x, cache)));
        let m = self.mlp.forward(&n);
        self.ln_2.forward(&(n + m))
    }
}
