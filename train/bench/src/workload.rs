//! Fixed training workloads.

use gradus_model::{
    Batch, GradientMode, Input, ModelConfig, OutputConfig, Predicts, Sight, Sizes, TransformConfig, TransformerConfig,
};
use gradus_tensor::Device;
use gradus_tensor::rng::Philox;
use gradus_train::hyperparameters::{RangeError, require};
use gradus_train::systems;
use gradus_train::trainer::{Recipe, default_shards};

/// A fixed piece of training work on random tokens, and its device.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The workload's name.
    pub name: &'static str,
    /// The sizes of the model.
    pub sizes: Sizes,
    /// The other options of the model.
    pub config: TransformerConfig,
    /// The number of sequences per batch, each as long as the context.
    pub sequences: usize,
    /// The number of micro-batches, computed one after the other; at most the number of sequences.
    pub accumulate: usize,
    /// The number of logical shards of a micro-batch, which threads share.
    pub shards: usize,
    /// Whether only the activations of one block are stored at a time.
    pub recompute: bool,
    /// Whether every second step checks for non-finite numbers.
    pub anomaly: bool,
    /// The fraction of masked tokens if the model predicts masked tokens; `None` if it predicts the next.
    pub masked: Option<f64>,
    /// The device.
    pub device: Device,
}

impl Workload {
    /// The names of the workloads, the smallest first.
    pub const NAMES: [&'static str; 3] = ModelConfig::PRESETS;

    /// Returns a workload by name: `tiny` has 16 × 128 tokens and a vocabulary of 2,000, `small` 8 × 256 and 8,000, `gpt1` 1 × 512
    /// and 40,478.
    pub fn named(name: &str) -> Option<Self> {
        let (sequences, vocab) = match name {
            "tiny" => (16, 2_000),
            "small" => (8, 8_000),
            "gpt1" => (1, 40_478),
            _ => return None,
        };
        let preset = ModelConfig::preset(name)?.with_vocab(vocab);
        Some(Workload {
            name: Self::NAMES.into_iter().find(|&known| known == name)?,
            sizes: preset.sizes,
            config: *preset.transformer()?,
            sequences,
            accumulate: 1,
            shards: default_shards(sequences),
            recompute: false,
            anomaly: false,
            masked: None,
            device: Device::CPU,
        })
    }

    /// Returns the workload on another device.
    pub fn on(self, device: Device) -> Self {
        Workload { shards: default_shards_on(&device, self.sequences), device, ..self }
    }

    /// Returns a workload of the same sizes with BERT's parts, bidirectional, with this fraction of masked tokens.
    ///
    /// # Errors
    /// Returns an error if `share` is not above 0 and at most 1.
    pub fn masked(self, share: f64) -> Result<Self, RangeError> {
        require("masked", share, share > 0.0 && share <= 1.0, "a fraction of the tokens, above 0 and at most 1")?;
        let first = systems::ALL.iter().find(|card| !card.axes.view.is_next()).expect("one fills masks");
        let TransformerConfig { layers, heads, .. } = self.config;
        let parts = first.axes.body.transformer().expect("a Transformer").parts();
        Ok(Workload { config: TransformerConfig { layers, heads, ..parts }, masked: Some(share), ..self })
    }

    /// Returns the model's configuration.
    pub fn model(&self) -> ModelConfig {
        let TransformerConfig { activation, layer_norm_epsilon, .. } = self.config;
        let transform = Some(TransformConfig { activation, layer_norm_epsilon });
        let masked = OutputConfig { predicts: Predicts::Masked, transform, ..OutputConfig::NEXT };
        let outputs = vec![if self.masked.is_some() { masked } else { OutputConfig::NEXT }];
        ModelConfig { outputs, ..ModelConfig::new(self.sizes, self.config) }
    }

    /// Returns `sequences` sequences of random tokens.
    pub fn batch(&self, sequences: usize, seed: u64) -> Batch {
        let batch = random_windows(self.sizes, sequences, seed);
        if self.masked.is_none() {
            return batch;
        }
        let (t, each) = (self.sizes.context, self.asked());
        let slots: Vec<u32> = (0..sequences * each).map(|i| ((i / each) * t + i % each * t / each) as u32).collect();
        let segments = (0..batch.input.tokens.len()).map(|i| u32::from(i % t >= t / 2)).collect();
        let input = Input { segments: Some(segments), sight: Sight::Full(None), ..batch.input.clone() };
        let next = batch.tokens().next().expect("windows predict tokens");
        let (targets, n): (Vec<u32>, _) = (slots.iter().map(|&slot| next.targets[slot as usize]).collect(), slots.len());
        Batch::of(input).with_tokens(Some(slots.into()), targets, vec![1.0 / n as f64; n])
    }

    /// Returns the number of predicted tokens of a sequence.
    fn asked(&self) -> usize {
        let context = self.sizes.context;
        self.masked.map_or(context, |share| ((share * context as f64).round() as usize).clamp(1, context))
    }

    /// Returns the FLOPs per token of a training step, in which only predicted tokens use the output's matrix, and BERT's layer
    /// before it:
    ///
    /// ```text
    /// 72·L·d² + 12·L·T·d + a·(6·d·V + 6·d²)        a: fraction of masked tokens; without that layer and with a = 1 for next tokens
    /// ```
    pub fn flops(&self) -> f64 {
        let whole = self.config.training_flops(self.sizes) as f64;
        let (d, v) = (self.sizes.width as f64, self.sizes.vocab as f64);
        let asked = self.asked() as f64 / self.sizes.context as f64;
        if self.masked.is_some() { whole - 6.0 * d * v + asked * 6.0 * d * (v + d) } else { whole }
    }

    /// Returns the FLOPs per token without those hidden by a causal mask: a slot attends to (T + 1)/2 slots on average, so
    /// attention's 12·L·T·d becomes 6·L·(T + 1)·d. It compares steps with causal and with bidirectional attention.
    pub fn needed_flops(&self) -> f64 {
        let Sizes { context, width, .. } = self.sizes;
        let hidden = 6.0 * (self.config.layers * (context - 1) * width) as f64;
        if self.masked.is_some() { self.flops() } else { self.flops() - hidden }
    }

    /// Returns the number of tokens per batch.
    pub fn tokens(&self) -> usize {
        self.sequences * self.sizes.context
    }

    /// Returns the number of rows of logits that the output computes at a time.
    pub fn rows_of_logits(&self) -> usize {
        let most = self.device.rows_of_logits(self.sizes.vocab).unwrap_or(LOGIT_ROWS);
        most.min(self.tokens() / self.accumulate)
    }
}

/// The minimum number of rows of logits that a CPU computes at a time.
const LOGIT_ROWS: usize = 256;

/// Returns the default number of logical shards: a CPU's threads share them, and one keeps a GPU busy.
pub fn default_shards_on(device: &Device, sequences: usize) -> usize {
    if device.is_cpu() { default_shards(sequences) } else { 1 }
}

/// Returns the recipe of a run far longer than any benchmark.
pub fn recipe(shards: usize, concurrent_shards: usize, recompute: bool) -> Recipe {
    let backward = if recompute { GradientMode::Recompute } else { GradientMode::Whole };
    Recipe { concurrent_shards, backward, ..Recipe::new(100_000, shards) }
}

/// Returns uniformly random tokens, each with the next as its target.
pub fn random_windows(sizes: Sizes, sequences: usize, seed: u64) -> Batch {
    let (t, mut rng) = (sizes.context, Philox::new(seed));
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..sequences {
        let window: Vec<u32> = (0..=t).map(|_| rng.below(sizes.vocab as u64) as u32).collect();
        inputs.extend_from_slice(&window[..t]);
        targets.extend_from_slice(&window[1..]);
    }
    let weights = vec![1.0 / inputs.len() as f64; inputs.len()];
    Batch::next(sequences, inputs, targets, weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Query i of T attends to i + 1 keys: 12·L·d FLOPs for each. A kernel that skips nothing computes all T.
    #[test]
    fn a_causal_mask_reduces_the_needed_flops_of_attention() {
        let gpt = Workload::named("tiny").unwrap();
        let (layers, Sizes { context, width, .. }) = (gpt.config.layers, gpt.sizes);
        let seen: usize = (1..=context).sum();
        let hidden = 12.0 * (layers * width * (context * context - seen)) as f64 / context as f64;
        assert_eq!(gpt.flops() - gpt.needed_flops(), hidden);
        let bert = gpt.masked(0.15).unwrap();
        assert_eq!(bert.needed_flops(), bert.flops(), "each sees all");
    }
}
