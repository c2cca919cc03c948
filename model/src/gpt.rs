//! GPT-1 (§3.1, equation 2):
//!
//! ```text
//! h₀ = U Wₑ + W_p        hₗ = block(hₗ₋₁), l = 1 … n        P(u) = softmax(hₙ Wₑᵀ)
//! ```

use std::sync::Arc;

use gradus_autograd::{Tape, Var};
use gradus_tensor::rng::Philox;
use gradus_tensor::{Real, Shape, Tensor};

use crate::batch::Batch;
use crate::block::Block;
use crate::config::{Embedding, GptConfig, Positions};
use crate::layers::{LayerNorm, Linear, Mlp, SelfAttention, Table};
use crate::noise::{Noise, Site};
use crate::tree;
use crate::tree::{P, Seq, Tree};

tree! {
    /// A GPT with a `V` for every parameter.
    pub struct Gpt<V> {
        /// Wₑ (V, d), the output's matrix too; with the joint embedding the position rows follow the tokens'.
        tokens_embed: Table<V>,
        /// W_p (context, d); absent where positions are sinusoidal or joint.
        positions_embed: Option<Table<V>>,
        /// The blocks.
        h: Seq<Block<V>>,
    }
}

impl Gpt<Shape> {
    /// The shape of every parameter.
    pub fn shapes(config: &GptConfig) -> Self {
        let d = config.width;
        let table = |rows: usize| Table { weight: P(Shape::from([rows, d])) };
        let linear = |from: usize, to: usize| Linear { weight: P([from, to].into()), bias: P([to].into()) };
        let norm = || LayerNorm { weight: P([d].into()), bias: P([d].into()) };
        let block = || Block {
            attn: SelfAttention { c_attn: linear(d, 3 * d), c_proj: linear(d, d) },
            ln_1: norm(),
            mlp: Mlp { c_fc: linear(d, 4 * d), c_proj: linear(4 * d, d) },
            ln_2: norm(),
        };
        let learned = config.embedding == Embedding::Separate && config.positions == Positions::Learned;
        Gpt {
            tokens_embed: table(config.output_rows()),
            positions_embed: learned.then(|| table(config.context)),
            h: Seq((0..config.layers).map(|_| block()).collect()),
        }
    }
}

impl<T: Real> Gpt<Tensor<T>> {
    /// Fresh parameters (§4.1): weights N(0, σ²), σ the configuration's initializer_range (the paper's 0.02), biases 0, gains
    /// 1. Each parameter has a random stream of its own.
    pub fn init(config: &GptConfig, seed: u64) -> Self {
        let mut stream = 0;
        Gpt::shapes(config).map(|path, shape| {
            stream += 1;
            match path {
                _ if shape.len() > 1 => Tensor::normal(shape, config.initializer_range, &mut Philox::with_stream(seed, stream)),
                _ if path.ends_with("weight") => Tensor::full(shape, T::one()),
                _ => Tensor::zeros(shape),
            }
        })
    }

    /// The parameters as leaves of a tape, to be differentiated with respect to, each in a scope of its name.
    pub fn leaves<'t>(&self, tape: &'t Tape<T>) -> Gpt<Var<'t, T>> {
        self.as_ref().map(|name, p| tape.scope(name, || tape.leaf(p.clone())))
    }

    /// The parameters as constants of a tape.
    pub fn constants<'t>(&self, tape: &'t Tape<T>) -> Gpt<Var<'t, T>> {
        self.as_ref().map(|_, p| tape.constant(p.clone()))
    }

    /// The parameters as another scalar.
    pub fn cast<U: Real>(&self) -> Gpt<Tensor<U>> {
        self.as_ref().map(|_, p| p.cast())
    }
}

/// The hidden states of a batch, and the matrix that turns them into logits.
#[derive(Debug)]
pub struct Hidden<'t, T: Real> {
    /// hₙ (B, T, d).
    pub states: Var<'t, T>,
    /// Wₑ (rows, d), after its dropout in the joint form.
    pub output: Var<'t, T>,
}

impl<'t, T: Real> Gpt<Var<'t, T>> {
    /// h₀ (B, T, d) of tokens (B·T) at positions `first ..`, and the output's matrix.
    ///
    /// Panics where a token is not in the vocabulary or a position not in the context: callers check user input.
    pub fn embed(&self, config: &GptConfig, ids: &[u32], batch: usize, first: usize, noise: Option<&Noise>) -> Hidden<'t, T> {
        let t = ids.len().checked_div(batch).unwrap_or(0);
        assert!(first + t <= config.context, "positions {first}..{} in a context of {}", first + t, config.context);
        assert!(ids.iter().all(|&id| (id as usize) < config.vocab), "every token below the vocabulary of {}", config.vocab);
        let table = &self.tokens_embed.weight.0;
        let key = |rows| noise.and_then(|n| n.key(Site::Embedding, config.embd_dropout, rows));
        let drop = |x: Var<'t, T>, rows| match key(rows) {
            Some(key) => x.dropout(key),
            None => x,
        };
        let joint = config.embedding == Embedding::Joint;
        // The joint matrix is dropped as a whole, the same for every sequence: no rows are counted by sequence.
        let output = if joint { drop(table.clone(), 0) } else { table.clone() };
        let tokens = output.gather(ids, [batch, t]); // (B, T, d)
        let positions = if joint {
            let rows: Arc<[u32]> = (first..first + t).map(|p| (config.vocab + p) as u32).collect();
            output.gather(rows, [t])
        } else if let Some(learned) = &self.positions_embed {
            learned.weight.0.slice(0, first..first + t)
        } else {
            table.tape().constant(sinusoids(first..first + t, config.width))
        }; // (T, d)
        let sum = tokens + positions;
        Hidden { states: if joint { sum } else { drop(sum, t) }, output }
    }

    /// hₙ of tokens (B·T), B sequences of one length; with `noise` the dropouts are active.
    pub fn hidden(&self, config: &GptConfig, ids: &[u32], batch: usize, noise: Option<&Noise>) -> Hidden<'t, T> {
        let tape = self.tokens_embed.weight.0.tape();
        let Hidden { mut states, output } = tape.scope("embed", || self.embed(config, ids, batch, 0, noise));
        for (layer, block) in self.h.0.iter().enumerate() {
            states = tape.scope(&format!("h{layer}"), || block.forward(&states, config, layer, noise));
        }
        Hidden { states, output }
    }

    /// Logits (B, T, rows) of tokens (B·T).
    pub fn logits(&self, config: &GptConfig, ids: &[u32], batch: usize) -> Var<'t, T> {
        self.hidden(config, ids, batch, None).logits()
    }

    /// Σᵢ wᵢ·(−log P(targetᵢ)), over tokens (B·T), their targets and weights ([`crate::objectives`] gives the weights).
    pub fn loss(&self, config: &GptConfig, batch: &Batch, noise: Option<&Noise>) -> Var<'t, T> {
        self.hidden(config, &batch.inputs, batch.sequences, noise).loss(batch)
    }
}

impl<'t, T: Real> Hidden<'t, T> {
    /// Σᵢ wᵢ·(−log P(targetᵢ)) of a batch, given its hidden states.
    pub fn loss(&self, batch: &Batch) -> Var<'t, T> {
        let rows = self.states.reshape([batch.inputs.len(), self.states.shape()[2]]);
        let tape = rows.tape();
        tape.scope("lm", || rows.linear_cross_entropy(&self.output, batch.targets.clone(), batch.weights.clone()))
    }

    /// −log P(targetᵢ) of each prediction (B·T): no gradient, and at most 1,024 rows of logits are held.
    pub fn token_losses(&self, targets: &[u32]) -> Tensor<T> {
        let (states, output, n) = (self.states.value().dense(), self.output.value().dense(), targets.len());
        let (width, weights) = (output.shape()[1], Tensor::full([n], T::one()));
        let (h, w, weights) = (states.as_slice(), output.as_slice(), weights.as_slice());
        Tensor::write([n], |loss| T::kernels().linear_cross_entropy(h, w, width, targets, weights, loss, None))
    }

    /// hₙ Wₑᵀ, (B, T, rows).
    pub fn logits(&self) -> Var<'t, T> {
        let (b, t, d) = (self.states.shape()[0], self.states.shape()[1], self.states.shape()[2]);
        let rows = self.output.shape()[0];
        self.states.reshape([b * t, d]).matmul(&self.output.t()).reshape([b, t, rows])
    }
}

/// Fixed positions (Vaswani et al. 2017, §3.5), (positions, d):
///
/// ```text
/// P(t, 2i) = sin(t / 10000^(2i/d))        P(t, 2i+1) = cos(t / 10000^(2i/d))
/// ```
pub fn sinusoids<T: Real>(positions: std::ops::Range<usize>, d: usize) -> Tensor<T> {
    let mut values = Vec::with_capacity(positions.len() * d);
    for t in positions.clone() {
        for i in 0..d {
            let angle = t as f64 / libm::pow(10_000.0, (i / 2 * 2) as f64 / d as f64);
            values.push(T::lit(if i % 2 == 0 { libm::sin(angle) } else { libm::cos(angle) }));
        }
    }
    Tensor::new([positions.len(), d], values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinusoids_are_those_of_attention_is_all_you_need() {
        let p = sinusoids::<f64>(1..3, 4).to_vec();
        // Two frequencies, 1 and 10000^(−2/4) = 1/100: sine and cosine of each, side by side.
        let expected =
            [1.0f64.sin(), 1.0f64.cos(), 0.01f64.sin(), 0.01f64.cos(), 2.0f64.sin(), 2.0f64.cos(), 0.02f64.sin(), 0.02f64.cos()];
        assert!(p.iter().zip(expected).all(|(p, e)| (p - e).abs() < 1e-15), "{p:?}");
    }
}
