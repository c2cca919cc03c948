//! The Transformer of GPT-1 (§3.1, equation 2):
//!
//! ```text
//! h₀ = U Wₑ + W_p        hₗ = block(hₗ₋₁), l = 1 … n        P(u) = softmax(hₙ Wₑᵀ)
//! ```
//!
//! and its variants ([`TransformerConfig`]):
//!
//! ```text
//! BERT      h₀ = LN(U Wₑ + W_p + S W_s)          P(u) = softmax(LN(gelu(hₙ W + b)) Wₑᵀ + b′)
//! GPT-2     P(u) = softmax(LN(hₙ) Wₑᵀ), with norms before the branches of a block
//! ```

mod attention;
mod block;
mod cache;
mod config;
mod recompute;

use std::sync::Arc;

use gradus_autograd::Var;
use gradus_tensor::{Real, Tensor};

pub use attention::SelfAttention;
pub use block::Block;
pub use cache::LayerCache;
pub use config::{Embedding, NormPlace, Positions, TransformerConfig};

use crate::batch::Input;
use crate::config::Sizes;
use crate::dropout::{Dropout, DropoutSeed, Site};
use crate::layers::{LayerNorm, Table, sequence_length};
use crate::param::{Param, Role, Serves};
use crate::tree;
use crate::tree::{Seq, Tree};

tree! {
    /// A Transformer, of GPT-1 or a relative, with a `V` for every parameter.
    pub struct Transformer<V> {
        /// Wₑ (V, d), shared with tied outputs; if joint, followed by the position rows.
        tokens_embed: Table<V>,
        /// W_p (context, d), after a padding row if `padding` is set; absent if sinusoidal or joint.
        positions_embed: Option<Table<V>>,
        /// W_s (segments, d); absent without segments.
        segments_embed: Option<Table<V>>,
        /// Norm of the sum of the embeddings.
        ln_embed: Option<LayerNorm<V>>,
        /// The blocks.
        h: Seq<Block<V>>,
        /// Norm of the last hidden states.
        ln_f: Option<LayerNorm<V>>,
    } with {
        sizes: Sizes,
        config: Arc<TransformerConfig>,
    }
}

impl Transformer<Param> {
    /// Declares the parameters (§4.1): weights from N(0, σ²), σ the configuration's initializer_range (the paper's 0.02), biases
    /// 0, gains 1.
    pub fn declare(sizes: Sizes, config: &TransformerConfig) -> Self {
        let table = |rows, role| Table::declare(rows, sizes.width, config.initializer_range, role);
        let learned = config.embedding == Embedding::Separate && config.positions == Positions::Learned;
        let eps = config.layer_norm_epsilon;
        Transformer {
            tokens_embed: table(config.output_rows(sizes), Role::TokenEmbedding),
            positions_embed: learned.then(|| table(config.position_rows(sizes.context), Role::PositionEmbedding)),
            segments_embed: (config.segments > 0).then(|| table(config.segments, Role::SegmentEmbedding)),
            ln_embed: config
                .embedding_norm
                .then(|| LayerNorm::declare(sizes.width, eps).map(|_, p| p.serving(Serves::Embedding))),
            h: Seq((0..config.layers).map(|layer| Block::declare(sizes.width, config, layer)).collect()),
            ln_f: config.final_norm.then(|| LayerNorm::declare(sizes.width, eps)),
            sizes,
            config: Arc::new(*config),
        }
    }
}

impl<V> Transformer<V> {
    /// Returns the sizes.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Returns the options.
    pub fn config(&self) -> &TransformerConfig {
        &self.config
    }
}

impl<'t, T: Real> Transformer<Var<'t, T>> {
    /// Computes h₀ (B, T, d) of the input at positions `first ..`, with the output matrix.
    ///
    /// Panics if a token is not in the vocabulary or a position not in the context: callers check user input.
    pub fn embed(&self, input: &Input, first: usize, dropout: Option<DropoutSeed>) -> (Var<'t, T>, Var<'t, T>) {
        let c = &self.config;
        let (ids, b) = (&input.tokens, input.sequences);
        let t = sequence_length(input, first, self.sizes.vocab, self.sizes.context);
        let dropping = Dropout::new(c.embd_dropout, Site::Embedding);
        let table = self.tokens_embed.weight.0.clone();
        let joint = c.embedding == Embedding::Joint;
        // Dropout applies to the joint matrix, so all sequences share one mask.
        let output = if joint { dropping.by_rows(table, 0, dropout) } else { table };
        let tokens = output.gather(ids.clone(), [b, t]); // (B, T, d)
        let positions = match &input.positions {
            Some(positions) => self.positions(positions, &output).reshape([b, t, self.sizes.width]),
            None => match (self.positions_embed.as_ref().filter(|_| !joint), c.padding) {
                (Some(learned), Some(padding)) => counted(&learned.weight.0, ids, t, padding),
                (Some(learned), None) => learned.weight.0.slice(0, first..first + t),
                (None, _) => self.positions(&(first as u32..(first + t) as u32).collect(), &output),
            },
        }; // (T, d), or (B, T, d)
        let sum = self.in_segments(tokens + positions, input);
        let normed = self.ln_embed.as_ref().map_or(sum.clone(), |norm| norm.forward(&sum));
        (if joint { normed } else { dropping.forward(normed, dropout) }, output)
    }

    /// Returns the vectors (n, d) of these positions, given the output's matrix. With padding, row 0 is that of padding.
    fn positions(&self, positions: &Arc<[u32]>, output: &Var<'t, T>) -> Var<'t, T> {
        let (c, n) = (&self.config, positions.len());
        let shifted = |by: usize| positions.iter().map(|p| p + by as u32).collect::<Arc<[u32]>>();
        match &self.positions_embed {
            _ if c.embedding == Embedding::Joint => output.gather(shifted(self.sizes.vocab), [n]),
            Some(learned) => learned.weight.0.gather(shifted(usize::from(c.padding.is_some())), [n]),
            None => output.constant(sinusoids(output.value(), positions.iter().copied(), self.sizes.width)),
        }
    }

    /// Adds the vector of each slot's segment, if the model has segments.
    fn in_segments(&self, x: Var<'t, T>, input: &Input) -> Var<'t, T> {
        let Some(table) = &self.segments_embed else { return x };
        let first = || vec![0; input.tokens.len()].into();
        x + table.weight.0.gather(input.segments.clone().unwrap_or_else(first), [input.sequences, input.length()])
    }

    /// Computes hₙ, with the output's matrix; with a seed, dropout is active.
    pub fn hidden(&self, input: &Input, dropout: Option<DropoutSeed>) -> (Var<'t, T>, Var<'t, T>) {
        let tape = self.tokens_embed.weight.0.tape();
        let (mut states, table) = tape.scope("embed", || self.embed(input, 0, dropout));
        let attention = input.attention();
        for (layer, block) in self.h.0.iter().enumerate() {
            states = tape.scope(&format!("h{layer}"), || block.forward(&states, &attention, dropout));
        }
        (normed(self.ln_f.as_ref(), states), table)
    }
}

/// Applies the final norm to the states after the last block, if there is one.
pub(crate) fn normed<'t, T: Real>(ln_f: Option<&LayerNorm<Var<'t, T>>>, states: Var<'t, T>) -> Var<'t, T> {
    match ln_f {
        Some(norm) => states.tape().scope("ln_f", || norm.forward(&states)),
        None => states,
    }
}

/// Computes position embeddings that skip padding (RoBERTa's `create_position_ids_from_input_ids` in `transformers`), (T, d), or
/// (B, T, d) if the batch has padding tokens. They are rows pₜ of the table, with mₜ = [uₜ ≠ padding]:
///
/// ```text
/// pₜ = mₜ Σₛ₌₁ᵗ mₛ        row 0 is padding's; it has no gradient, as PyTorch's `padding_idx`
/// ```
fn counted<'t, T: Real>(table: &Var<'t, T>, ids: &[u32], t: usize, padding: u32) -> Var<'t, T> {
    if !ids.contains(&padding) {
        return table.slice(0, 1..1 + t);
    }
    let rows: Vec<u32> = ids
        .chunks(t)
        .flat_map(|row| {
            row.iter().scan(0, |before, &id| {
                let is_token = u32::from(id != padding);
                *before += is_token;
                Some(*before * is_token)
            })
        })
        .collect();
    let fixed = table.constant(table.value().slice(0, 0..1));
    let n = table.shape()[0];
    Var::concat(&[&fixed, &table.slice(0, 1..n)], 0).gather(rows, [ids.len() / t, t])
}

/// Computes fixed positions (Vaswani et al. 2017, §3.5), (positions, d), on `like`'s device:
///
/// ```text
/// P(t, 2i) = sin(t / 10000^(2i/d))        P(t, 2i+1) = cos(t / 10000^(2i/d))
/// ```
pub fn sinusoids<T: Real>(like: &Tensor<T>, positions: impl IntoIterator<Item = u32>, d: usize) -> Tensor<T> {
    let value = |t: u32, i: usize| {
        let angle = f64::from(t) / libm::pow(10_000.0, (i / 2 * 2) as f64 / d as f64);
        T::lit(if i.is_multiple_of(2) { libm::sin(angle) } else { libm::cos(angle) })
    };
    let values: Vec<T> = positions.into_iter().flat_map(|t| (0..d).map(move |i| value(t, i))).collect();
    like.constant([values.len() / d, d], values)
}

#[cfg(test)]
mod tests {
    use gradus_autograd::Tape;

    use super::*;

    /// The table's rows are their own numbers.
    #[test]
    fn positions_skip_padding_tokens() {
        let (tape, padding) = (Tape::<f64>::new(), 9);
        let table = tape.leaf(Tensor::new([4, 1], vec![0.0, 1.0, 2.0, 3.0]));
        let of = |ids: &[u32], t| {
            let found = counted(&table, ids, t, padding);
            (found.shape().to_vec(), found.value().to_vec())
        };
        assert_eq!(of(&[5, 6, 7, 8], 2), (vec![2, 1], vec![1.0, 2.0]));
        assert_eq!(of(&[9, 5, 6, 5, 9, 6], 3), (vec![2, 3, 1], vec![0.0, 1.0, 2.0, 1.0, 0.0, 2.0]));
    }

    #[test]
    fn sinusoids_are_those_of_attention_is_all_you_need() {
        let p = sinusoids(&Tensor::<f64>::scalar(0.0), [1, 2], 4).to_vec();
        // Two frequencies, 1 and 10000^(−2/4) = 1/100: sine and cosine of each, side by side.
        let expected =
            [1.0f64.sin(), 1.0f64.cos(), 0.01f64.sin(), 0.01f64.cos(), 2.0f64.sin(), 2.0f64.cos(), 0.02f64.sin(), 0.02f64.cos()];
        assert!(p.iter().zip(expected).all(|(p, e)| (p - e).abs() < 1e-15), "{p:?}");
    }
}
