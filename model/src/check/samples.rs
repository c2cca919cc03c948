//! Small models with every form of embedding, objective and head, and random batches, for the checks.

use std::sync::Arc;

use gradus_tensor::Tensor;
use gradus_tensor::rng::Philox;

use super::Loss;
use crate::batch::{Batch, ClassLoss, Input, LossTerm, Sight, TokenLoss};
use crate::config::Sizes;
use crate::dropout::DropoutSeed;
use crate::head::{Form, HeadConfig};
use crate::model::{Model, ModelConfig};
use crate::objectives::Objective;
use crate::output::{OutputConfig, Predicts, TransformConfig};
use crate::recurrent::LstmConfig;
use crate::transformer::{Embedding, NormPlace, Positions, TransformerConfig};
use crate::tree::Tree;

/// A small model, and the computation of its loss from a batch.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The name, which states the special property.
    pub name: &'static str,
    /// The model's configuration.
    pub config: ModelConfig,
    /// The mean of the token losses.
    pub objective: Objective,
    /// The factor λ of the token losses.
    pub lambda: f64,
    /// The way in which its sequences are read.
    pub reads: Reads,
}

/// The way in which the sequences of a sample are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// From left to right.
    Forward,
    /// At once, with some tokens predicted in their own slots.
    Masked,
    /// A prefix at once and the rest from left to right, at explicit positions.
    Prefix,
    /// In another order, by an explicit mask.
    Permuted,
    /// At once, by two query-only slots too, whose positions are those of other slots.
    Queried,
}

impl Sample {
    /// Creates a language model.
    pub fn new(name: &'static str, config: ModelConfig, objective: Objective) -> Self {
        Sample { name, config, objective, lambda: 1.0, reads: Reads::Forward }
    }

    /// Creates a model with a head.
    pub fn under(name: &'static str, model: ModelConfig, head: HeadConfig, lambda: f64) -> Self {
        Sample::under_all(name, model, vec![head], lambda)
    }

    /// Creates a model with several heads, each with a term of the loss.
    pub fn under_all(name: &'static str, model: ModelConfig, heads: Vec<HeadConfig>, lambda: f64) -> Self {
        let config = ModelConfig { heads, ..model };
        Sample { name, config, objective: Objective::SequenceMean, lambda, reads: Reads::Forward }
    }

    /// Returns the sample with its sequences read in another way.
    pub fn read(self, reads: Reads) -> Self {
        Sample { reads, ..self }
    }

    /// Returns the loss on four sequences of seven random tokens; parameters, tokens and dropout are drawn with this seed.
    pub fn loss(&self, seed: u64) -> Loss {
        let model = Model::init(&self.config, seed).map(shaken(seed));
        let batch = labelled_batch(&self.config, self.objective, self.lambda, (4, 7), seed);
        let input = &batch.input;
        let (b, t) = (input.sequences, input.length());
        let reads = |positions: &dyn Fn(usize) -> usize, sight| Input {
            positions: Some((0..b * t).map(|i| positions(i % t) as u32).collect()),
            sight,
            ..input.clone()
        };
        let input = match self.reads {
            Reads::Forward | Reads::Masked => input.clone(),
            Reads::Prefix => reads(&|i| t - 1 - i, Sight::Prefix((0..b).map(|s| 1 + s).collect())),
            Reads::Permuted => {
                let rank = |s: usize, i: usize| (3 * i + s) % t;
                let slots = (0..b * t * t).map(|at| (at / (t * t), at / t % t, at % t));
                Input { sight: Sight::Allowed(slots.map(|(s, i, j)| rank(s, j) <= rank(s, i)).collect()), ..input.clone() }
            }
            Reads::Queried => Input { query_only: 2, ..reads(&|i| if i < t - 2 { i } else { i - 3 }, Sight::Full(None)) },
        };
        let batch = Batch { input, ..batch };
        let batch = if self.reads == Reads::Masked { masked_batch(batch, &self.config, self.lambda) } else { batch };
        Loss { model, batch, dropout: Some(DropoutSeed::new(seed, 1)) }
    }
}

/// Returns a GPT of 4,000 parameters, with weights far wider than 0.02, so that no term of the gradient is negligible.
pub fn tiny_gpt() -> ModelConfig {
    ModelConfig::new(SIZES, TransformerConfig { layers: 2, heads: 3, initializer_range: 0.3, ..Default::default() })
}

const SIZES: Sizes = Sizes { vocab: 19, context: 9, width: 12 };

/// Returns a BERT of the same sizes.
pub fn tiny_bert() -> ModelConfig {
    let TransformerConfig { activation, layer_norm_epsilon, .. } = TransformerConfig::default();
    let transform = Some(TransformConfig { activation, layer_norm_epsilon });
    let outputs = vec![OutputConfig { predicts: Predicts::Masked, transform, ..OutputConfig::NEXT }];
    ModelConfig { outputs, ..tiny_gpt().with_transformer(|c| (c.segments, c.embedding_norm) = (2, true)) }
}

/// Returns a GPT-2 of the same sizes.
pub fn tiny_gpt2() -> ModelConfig {
    tiny_gpt().with_transformer(|c| (c.norm, c.final_norm, c.scaled_init) = (NormPlace::Before, true, true))
}

/// Returns an LSTM of the same sizes.
pub fn tiny_lstm() -> ModelConfig {
    ModelConfig::new(SIZES, LstmConfig { units: 11, initializer_range: 0.3, ..Default::default() })
}

/// Returns a GPT with two outputs: one with a matrix of its own, and one like BERT's.
fn two_outputs() -> ModelConfig {
    let untied = OutputConfig { tied: false, ..OutputConfig::NEXT };
    ModelConfig { outputs: [vec![untied], tiny_bert().outputs].concat(), ..tiny_gpt() }
}

/// Returns samples with each of the three forms of embedding, both objectives, every head, every optional part, and LSTMs.
pub fn samples() -> Vec<Sample> {
    let head = |form, classes| HeadConfig { bias: form == Form::Classify, ..HeadConfig::new(form, classes) };
    let classify = || head(Form::Classify, 3);
    let (mean, per_sequence, gpt, lstm) = (Objective::TokenMean, Objective::SequenceMean, tiny_gpt, tiny_lstm);
    vec![
        Sample::new("GPT, token mean", gpt(), mean),
        Sample::new("GPT, sequence mean", gpt(), per_sequence),
        Sample::new("GPT, joint embedding", gpt().with_transformer(|c| c.embedding = Embedding::Joint), mean),
        Sample::new("GPT, sinusoidal positions", gpt().with_transformer(|c| c.positions = Positions::Sinusoidal), mean),
        Sample::under("GPT, classification, λ = ½", gpt(), classify(), 0.5),
        Sample::under("GPT, classification, λ = 0", gpt(), classify(), 0.0),
        Sample::under("GPT, similarity", gpt(), head(Form::Similar, 6), 0.5),
        Sample::under("GPT, multiple choice", gpt(), head(Form::Choose, 1), 0.5),
        Sample::under_all("GPT, two heads", gpt(), vec![classify(), head(Form::Choose, 1)], 0.5),
        Sample::new("BERT", tiny_bert(), mean).read(Reads::Masked),
        Sample::under("BERT, classification, λ = ½", tiny_bert(), HeadConfig { pooler: true, ..classify() }, 0.5)
            .read(Reads::Masked),
        Sample::new("GPT-2", tiny_gpt2(), mean),
        Sample::new("GPT, two outputs", two_outputs(), mean),
        Sample::new("GPT, prefix", gpt(), mean).read(Reads::Prefix),
        Sample::new("GPT-2, permuted", tiny_gpt2(), mean).read(Reads::Permuted),
        Sample::new("BERT, query-only slots", tiny_bert(), mean).read(Reads::Queried),
        Sample::new("LSTM, token mean", lstm(), mean),
        Sample::under("LSTM, classification", lstm(), classify(), 0.5),
        Sample::under("LSTM, multiple choice", lstm(), head(Form::Choose, 1), 0.5),
    ]
}

/// Returns a function for [`Tree::map`] that adds 0.1·N(0, 1) to p, each leaf from its own random numbers. It moves gains off 1
/// and biases off 0, where some gradients would vanish.
pub fn shaken(seed: u64) -> impl FnMut(&str, Tensor<f64>) -> Tensor<f64> {
    let mut stream = 0;
    move |_, p| {
        stream += 1;
        let noise: Tensor<f64> = Tensor::normal(*p.shape(), 0.1, &mut Philox::with_stream(seed, stream));
        p.zip(&noise, |p, n| p + n)
    }
}

/// Returns sequences of random tokens, each of which predicts a random token; there are as many tokens as weights.
pub fn random_batch(rng: &mut Philox, vocab: usize, sequences: usize, weights: Vec<f64>) -> Batch {
    let mut ids = || weights.iter().map(|_| rng.below(vocab as u64) as u32).collect::<Vec<_>>();
    let (inputs, targets) = (ids(), ids());
    Batch::next(sequences, inputs, targets, weights)
}

/// Returns random tokens (sequences, tokens), some sequences ending in padding, with labels for the heads.
pub fn labelled_batch(config: &ModelConfig, objective: Objective, lambda: f64, (b, t): (usize, usize), seed: u64) -> Batch {
    let end = |s: usize| t - 1 - s % t.min(3); // the first is whole, the others are a token or two shorter
    let mask: Vec<f64> = (0..b * t).map(|i| if i % t < end(i / t) { 1.0 } else { 0.0 }).collect();
    let weights = objective.weights(&mask, b).into_iter().map(|w| lambda * w).collect();
    let batch = random_batch(&mut Philox::with_stream(seed, 0x6175_6469), config.sizes.vocab, b, weights);
    let classes = config.heads.iter().enumerate().map(|(number, head)| {
        let group = if head.form == Form::Classify { 1 } else { 2 };
        let (n, classes) = (b / group, if head.form == Form::Choose { group } else { head.classes });
        // Shared by two classes, so that targets are not one-hot.
        let share = |i: usize| [0.25, 0.75].get(i % classes).copied().unwrap_or(0.0);
        LossTerm::Classes(ClassLoss {
            head: number,
            slots: (0..b).map(|s| (s * t + end(s)) as u32).collect(),
            group,
            targets: (0..n * classes).map(share).collect(),
            weights: vec![1.0 / n as f64; n].into(),
        })
    });
    let tokens = batch.losses.into_iter().filter(|tokens| config.heads.is_empty() || tokens.counts());
    let tokens: Vec<LossTerm> = tokens.collect();
    let of_output = |output: usize| {
        tokens.iter().cloned().map(move |term| match term {
            LossTerm::Tokens(tokens) => LossTerm::Tokens(TokenLoss { output, ..tokens }),
            LossTerm::Classes(_) => term,
        })
    };
    Batch { input: batch.input, losses: classes.chain((0..config.outputs.len()).flat_map(of_output)).collect() }
}

/// Converts a batch for a model with full attention: in two segments if the model has segments, with the same sequences ending in
/// padding, and every third slot predicted.
pub fn masked_batch(batch: Batch, config: &ModelConfig, lambda: f64) -> Batch {
    let (b, t) = (batch.input.sequences, batch.input.length());
    let length = |s: usize| t - s % t.min(3);
    let asked: Arc<[u32]> = (0..b * t).filter(|i| i % 3 == 1 && i % t < length(i / t)).map(|i| i as u32).collect();
    let segments = config.body.segments() > 1;
    let input = Input {
        segments: segments.then(|| (0..b * t).map(|i| u32::from(i % t > t / 2)).collect()),
        sight: Sight::Full(Some((0..b).map(length).collect())),
        ..batch.input
    };
    let term = |term: LossTerm| match term {
        // Heads read the first slot.
        LossTerm::Classes(classes) => LossTerm::Classes(ClassLoss { slots: (0..b).map(|s| (s * t) as u32).collect(), ..classes }),
        LossTerm::Tokens(tokens) => LossTerm::Tokens(TokenLoss {
            targets: asked.iter().map(|&slot| tokens.targets[slot as usize]).collect(),
            weights: vec![lambda / asked.len() as f64; asked.len()].into(),
            slots: Some(asked.clone()),
            output: tokens.output,
        }),
    };
    Batch { input, losses: batch.losses.into_iter().map(term).collect() }
}
