//! Fixed pieces of work.

use gradus_model::{Batch, GptConfig, GradientMode};
use gradus_tensor::Device;
use gradus_tensor::rng::Philox;
use gradus_train::trainer::{Recipe, default_shards};

/// A fixed piece of training work, random tokens included, and where it is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// The model.
    pub config: GptConfig,
    /// Sequences per batch, each as long as the context.
    pub sequences: usize,
    /// Parts that a batch is computed in, one after the other; at most as many as sequences.
    pub accumulate: usize,
    /// Logical shards of a part, which threads share.
    pub shards: usize,
    /// Whether the activations of one block are held at a time.
    pub recompute: bool,
    /// Whether every second step is watched for non-finite numbers.
    pub anomaly: bool,
    /// What computes.
    pub device: Device,
}

impl Workload {
    /// The names, smallest first.
    pub const NAMES: [&'static str; 3] = GptConfig::PRESETS;

    /// A workload by name: `tiny` 16 × 128 tokens and a vocabulary of 2,000, `small` 8 × 256 and 8,000, `gpt1` 1 × 512 and
    /// 40,478.
    pub fn named(name: &str) -> Option<Self> {
        let (sequences, vocab) = match name {
            "tiny" => (16, 2_000),
            "small" => (8, 8_000),
            "gpt1" => (1, 40_478),
            _ => return None,
        };
        let config = GptConfig { vocab, ..GptConfig::preset(name)? };
        Some(Workload {
            name: Self::NAMES.into_iter().find(|&known| known == name)?,
            config,
            sequences,
            accumulate: 1,
            shards: default_shards(sequences),
            recompute: false,
            anomaly: false,
            device: Device::Cpu,
        })
    }

    /// The same on another device.
    pub fn on(self, device: Device) -> Self {
        Workload { shards: default_shards_on(&device, self.sequences), device, ..self }
    }

    /// Tokens per batch.
    pub fn tokens(&self) -> usize {
        self.sequences * self.config.context
    }

    /// Rows of logits that the output holds at a time.
    pub fn rows_of_logits(&self) -> usize {
        let most = self.device.rows_of_logits(self.config.vocab).unwrap_or(LOGIT_ROWS);
        most.min(self.tokens() / self.accumulate)
    }
}

/// Rows of logits that a CPU holds at once, at least.
const LOGIT_ROWS: usize = 256;

/// The default number of logical shards: a CPU's threads share them, a GPU is busy with one.
pub fn default_shards_on(device: &Device, sequences: usize) -> usize {
    if *device == Device::Cpu { default_shards(sequences) } else { 1 }
}

/// The recipe of a run far longer than any benchmark.
pub fn recipe(shards: usize, concurrent_shards: usize, recompute: bool) -> Recipe {
    let backward = if recompute { GradientMode::Recompute } else { GradientMode::Whole };
    Recipe { concurrent_shards, backward, ..Recipe::new(100_000, shards) }
}

/// Uniformly random tokens, each predicting the next.
pub fn random_windows(config: &GptConfig, sequences: usize, seed: u64) -> Batch {
    let (t, mut rng) = (config.context, Philox::new(seed));
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..sequences {
        let window: Vec<u32> = (0..=t).map(|_| rng.below(config.vocab as u64) as u32).collect();
        inputs.extend_from_slice(&window[..t]);
        targets.extend_from_slice(&window[1..]);
    }
    let weights = vec![1.0 / inputs.len() as f64; inputs.len()];
    Batch::next(sequences, inputs, targets, weights)
}
