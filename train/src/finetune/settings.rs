//! Every hyperparameter of a fine-tuning: a flag with the paper's value as its default.

use gradus_model::{BackboneConfig, GradientMode, HeadConfig, Objective, Transfer};
use serde::{Deserialize, Serialize};

use super::FinetuneError;
use crate::optim::{Optimizer, OptimizerKind, Schedule, ScheduleKind, Warmup};
use crate::trainer::Recipe;

/// How a model is fine-tuned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Peak learning rate (§4.1)
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 6.25e-5, help_heading = "Training"))]
    pub lr: f64,
    /// Examples per update; where there are fewer training rows, all of them (§4.1)
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 32, help_heading = "Training"))]
    pub batch: usize,
    /// Passes over the training rows (§4.1)
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 3, help_heading = "Training"))]
    pub epochs: u64,
    /// λ of L₃ = L₂ + λL₁, the share of the language model; 0 leaves it out (§3.2)
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 0.5, value_name = "LAMBDA", help_heading = "Training"))]
    pub aux: f64,
    /// Mean of L₁: `sequence_mean` (OpenAI's code) or `token_mean` (Hugging Face's)
    #[cfg_attr(feature = "clap", arg(long, default_value = "sequence_mean", help_heading = "Training"))]
    pub objective: Objective,
    /// Learning-rate schedule: `warmup_linear` (§4.1), `paper`, `warmup_cosine`, `warmup_constant` or `constant`
    #[cfg_attr(feature = "clap", arg(long, default_value = "warmup_linear", help_heading = "Training"))]
    pub schedule: ScheduleKind,
    /// Warm-up: a share of all updates, or without a decimal point updates (§4.1: 0.002)
    #[cfg_attr(feature = "clap", arg(long, default_value = "0.002", help_heading = "Training"))]
    pub warmup: Warmup,
    /// Update rule: `openai`, `paper37`, `adamw`, `adam_l2` or `sgd`
    #[cfg_attr(feature = "clap", arg(long, default_value = "openai", help_heading = "Training"))]
    pub optimizer: OptimizerKind,
    /// β₁ of Adam
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 0.9, help_heading = "Training"))]
    pub beta1: f64,
    /// β₂ of Adam
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 0.999, help_heading = "Training"))]
    pub beta2: f64,
    /// ε of Adam
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 1e-8, help_heading = "Training"))]
    pub adam_eps: f64,
    /// Weight decay, on weights with more than one axis
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 0.01, help_heading = "Training"))]
    pub decay: f64,
    /// Scale the gradient down to this global norm where it is longer; 0: never
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 1.0, help_heading = "Training"))]
    pub clip: f64,
    /// Logical shards of an update, which threads share, each of examples of about one length; the bits depend on their number,
    /// not on the threads
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 4, help_heading = "Training"))]
    pub shards: usize,
    /// At most this many training rows, evenly spaced over the file [default: all]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Training"))]
    pub rows: Option<usize>,
    /// At most this many dev rows, evenly spaced [default: all]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Training"))]
    pub dev_rows: Option<usize>,
    /// Seed of the head, the special tokens, the order of rows and dropout
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 1, help_heading = "Training"))]
    pub seed: u64,

    /// How much of the pre-trained model is kept: `all`, `none`, or embeddings and this many blocks, 0 … n (figure 2)
    #[cfg_attr(feature = "clap", arg(long, default_value = "all", value_name = "all|none|N", help_heading = "Model"))]
    pub transfer: Transfer,
    /// Train the head alone, on the pre-trained model's hidden states as features; wants --aux 0
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub frozen: bool,
    /// Dropout before W_y (§4.1)
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 0.1, help_heading = "Model"))]
    pub classifier_dropout: f64,
    /// The backbone's three dropouts at once [default: as it was pre-trained]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub dropout: Option<f64>,
    /// Give the head a bias, as OpenAI's code does (the paper and Hugging Face have none)
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub head_bias: bool,
}

impl Default for Settings {
    /// The paper's.
    fn default() -> Self {
        Settings {
            lr: 6.25e-5,
            batch: 32,
            epochs: 3,
            aux: 0.5,
            objective: Objective::SequenceMean,
            schedule: ScheduleKind::WarmupLinear,
            warmup: Warmup::Share(0.002),
            optimizer: OptimizerKind::default(),
            beta1: 0.9,
            beta2: 0.999,
            adam_eps: 1e-8,
            decay: 0.01,
            clip: 1.0,
            shards: 4,
            rows: None,
            dev_rows: None,
            seed: 1,
            transfer: Transfer::All,
            frozen: false,
            classifier_dropout: 0.1,
            dropout: None,
            head_bias: false,
        }
    }
}

impl Settings {
    /// Can these settings fine-tune a model?
    ///
    /// # Errors
    /// The flag, its value and what it may be.
    pub fn check(&self, backbone: &BackboneConfig) -> Result<(), FinetuneError> {
        self.optimizer().validate()?;
        self.schedule().validate()?;
        let range = |flag, found: String, ok: bool, expected: &str| {
            if ok { Ok(()) } else { Err(FinetuneError::Range { flag, found, expected: expected.into() }) }
        };
        let count = |flag, n: usize| range(flag, n.to_string(), (1..=1 << 24).contains(&n), "a number from 1 to 16777216");
        count("batch", self.batch)?;
        count("shards", self.shards)?;
        count("rows", self.rows.unwrap_or(1))?;
        count("dev-rows", self.dev_rows.unwrap_or(1))?;
        range("epochs", self.epochs.to_string(), (1..=100_000).contains(&self.epochs), "a number from 1 to 100000")?;
        range("aux", self.aux.to_string(), (0.0..=100.0).contains(&self.aux), "a number from 0 to 100")?;
        range("clip", self.clip.to_string(), (0.0..=1e9).contains(&self.clip), "a number from 0, where 0 never clips")?;
        let probability = "a probability from 0 to below 1";
        let dropout = self.dropout.unwrap_or(0.0);
        range("dropout", dropout.to_string(), (0.0..1.0).contains(&dropout), probability)?;
        let p = self.classifier_dropout;
        range("classifier-dropout", p.to_string(), (0.0..1.0).contains(&p), probability)?;
        range(
            "aux",
            self.aux.to_string(),
            !self.frozen || self.aux == 0.0,
            "0 with --frozen, where the language model does not learn",
        )?;
        let layers = backbone.layers();
        if let Transfer::Layers(n) = self.transfer {
            let expected = match layers {
                0 => "all, none or 0, the embeddings: an LSTM has no blocks".into(),
                _ => format!("all, none or 0 to {layers}, the model's blocks"),
            };
            range("transfer", n.to_string(), n <= layers, &expected)?;
        }
        Ok(())
    }

    /// The head of a task with these settings.
    pub(super) fn head(&self, head: HeadConfig) -> HeadConfig {
        HeadConfig { bias: self.head_bias, dropout: self.classifier_dropout, ..head }
    }

    fn optimizer(&self) -> Optimizer {
        let (beta1, beta2, eps) = (self.beta1, self.beta2, self.adam_eps);
        Optimizer { name: self.optimizer, lr: self.lr, beta1, beta2, eps, decay: self.decay }
    }

    fn schedule(&self) -> Schedule {
        Schedule { kind: self.schedule, warmup: self.warmup }
    }

    /// The trainer's part of these settings.
    pub(super) fn recipe(&self, batch: usize, updates: u64) -> Recipe {
        let shards = self.shards.min(batch);
        Recipe {
            optimizer: self.optimizer(),
            schedule: self.schedule(),
            updates,
            clip: (self.clip > 0.0).then_some(self.clip),
            shards,
            at_once: shards,
            backward: if self.frozen { GradientMode::Head } else { GradientMode::Whole },
            seed: self.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// §4.1.
    #[test]
    fn the_defaults_are_those_of_the_paper() {
        let settings = Settings::default();
        assert_eq!((settings.lr, settings.batch, settings.epochs, settings.aux), (6.25e-5, 32, 3, 0.5));
        assert_eq!((settings.classifier_dropout, settings.clip, settings.decay), (0.1, 1.0, 0.01));
        assert_eq!((settings.schedule, settings.warmup), (ScheduleKind::WarmupLinear, Warmup::Share(0.002)));
        assert!(!settings.head_bias && settings.transfer == Transfer::All);
    }
}
