//! The hyperparameters of fine-tuning: flags with the paper's values as defaults.

use gradus_model::{GradientMode, HeadConfig, ModelConfig, Objective, Predicts, Transfer};
use gradus_text::Mode;

use super::FinetuneError;
use crate::hyperparameters::{clip_in_range, hyperparameters, require};
use crate::optim::{Optimizer, OptimizerKind, Schedule, ScheduleKind, Warmup};
use crate::trainer::Recipe;

hyperparameters! {
    /// The settings of fine-tuning. The defaults are the paper's, also for models other than GPT-1.
    #[serde(deny_unknown_fields)]
    pub struct FinetuneSettings {
        "Training": {
            /// Peak learning rate (§4.1)
            lr: f64 = 6.25e-5,
            /// Examples per step; all training rows if there are fewer (§4.1)
            batch: usize = 32,
            /// Passes over the training rows (§4.1)
            epochs: u64 = 3,
            /// λ of L₃ = L₂ + λL₁, the weight of the auxiliary language-modelling loss; 0 leaves it out [default: 0.5 (§3.2); 0,
            /// the only value, for a model that fills masks]
            #[cfg_attr(feature = "clap", arg(value_name = "LAMBDA"))]
            aux: Option<f64>,
            /// Mean of L₁: `sequence_mean` (OpenAI's code) or `token_mean` (Hugging Face's)
            objective: Objective = Objective::SequenceMean,
            /// Learning-rate schedule: `warmup_linear` (§4.1), `paper`, `warmup_cosine`, `warmup_constant` or `constant`
            schedule: ScheduleKind = ScheduleKind::WarmupLinear,
            /// Warm-up: a fraction of all steps, or without a decimal point steps (§4.1: 0.002)
            warmup: Warmup = Warmup::Share(0.002),
            /// Update rule: `openai`, `paper37`, `adamw`, `adam_l2` or `sgd`
            optimizer: OptimizerKind = Optimizer::default().name,
            /// β₁ of Adam
            beta1: f64 = Optimizer::default().beta1,
            /// β₂ of Adam
            beta2: f64 = Optimizer::default().beta2,
            /// ε of Adam
            adam_eps: f64 = Optimizer::default().eps,
            /// Weight decay, on all but biases and gains
            decay: f64 = Optimizer::default().decay,
            /// Largest global norm of the gradient: a larger gradient is scaled down to it; 0: no clipping
            clip: f64 = 1.0,
            /// Number of logical shards into which the examples of a step are cut, by similar length; threads compute them side
            /// by side. The last bits of results, and dropout, depend on this number, not on the number of threads. Without this
            /// flag, a GPU has 1
            shards: usize = 4,
            /// At most this many training rows, evenly spaced over the file [default: all]
            #[cfg_attr(feature = "clap", arg(value_name = "N"))]
            rows: Option<usize>,
            /// At most this many dev rows, evenly spaced [default: all]
            #[cfg_attr(feature = "clap", arg(value_name = "N"))]
            dev_rows: Option<usize>,
            /// How a BPE splits text into words: `basic` as `transformers` does, or `spacy` as OpenAI's code does, with ftfy and
            /// spaCy's rules [default: the mode stored with the model's tokenizer]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            mode: Option<Mode>,
            /// Seed of the head, the special tokens, the order of rows and dropout
            seed: u64 = 1,
        }
        "Model": {
            /// Part of the pre-trained model to keep: `all`, `none`, or embeddings and this many blocks, 0 … n (figure 2)
            #[cfg_attr(feature = "clap", arg(value_name = "all|none|N"))]
            transfer: Transfer = Transfer::All,
            /// Train only the head, on the pre-trained model's hidden states as features; requires --aux 0
            frozen: bool = false,
            /// Dropout before W_y (§4.1)
            classifier_dropout: f64 = 0.1,
            /// The backbone's three dropouts at once [default: as in pre-training]
            dropout: Option<f64>,
            /// Give the head a bias, as OpenAI's code does (the paper and Hugging Face have none; BERT's always has one)
            head_bias: bool = false,
        }
    }
}

impl FinetuneSettings {
    /// Returns an error if these settings cannot fine-tune this model.
    pub fn check(&self, model: &ModelConfig) -> Result<(), FinetuneError> {
        self.optimizer().validate()?;
        self.schedule().validate()?;
        let count = |flag, n: usize| require(flag, n, (1..=1 << 24).contains(&n), "a number from 1 to 16777216");
        count("batch", self.batch)?;
        count("shards", self.shards)?;
        count("rows", self.rows.unwrap_or(1))?;
        count("dev-rows", self.dev_rows.unwrap_or(1))?;
        require("epochs", self.epochs, (1..=100_000).contains(&self.epochs), "a number from 1 to 100000")?;
        let (aux, masked) = (self.lambda(model.predicts()), model.predicts() == Predicts::Masked);
        require("aux", aux, (0.0..=100.0).contains(&aux), "a number from 0 to 100")?;
        let none = "0 for a model that fills masks: a task's texts have no masked tokens to predict; leave --aux out";
        require("aux", aux, aux == 0.0 || !masked, none)?;
        clip_in_range(self.clip)?;
        let probability = |flag, p: f64| require(flag, p, (0.0..1.0).contains(&p), "a probability from 0 to below 1");
        probability("dropout", self.dropout.unwrap_or(0.0))?;
        probability("classifier-dropout", self.classifier_dropout)?;
        let learns = !self.frozen || aux == 0.0;
        require("aux", aux, learns, "0 with --frozen, where the language model is not trained")?;
        if let Transfer::Layers(n) = self.transfer {
            let layers = model.body.layers();
            let expected = match layers {
                0 => format!("all, none or 0, the embeddings: {} has no blocks", model.body.words()),
                _ => format!("all, none or 0 to {layers}, the model's blocks"),
            };
            require("transfer", n, n <= layers, expected)?;
        }
        Ok(())
    }

    /// Returns λ for a model that predicts such tokens: the value given, else the paper's; 0 for masked tokens, absent in tasks.
    pub fn lambda(&self, predicts: Predicts) -> f64 {
        self.aux.unwrap_or(match predicts {
            Predicts::Next => 0.5,
            Predicts::Masked => 0.0,
        })
    }

    /// Returns the head of a task with these settings.
    pub(super) fn head(&self, head: HeadConfig) -> HeadConfig {
        HeadConfig { bias: self.head_bias || head.bias, dropout: self.classifier_dropout, ..head }
    }

    fn optimizer(&self) -> Optimizer {
        let (beta1, beta2, eps) = (self.beta1, self.beta2, self.adam_eps);
        Optimizer { name: self.optimizer, lr: self.lr, beta1, beta2, eps, decay: self.decay }
    }

    fn schedule(&self) -> Schedule {
        Schedule { kind: self.schedule, warmup: self.warmup }
    }

    /// Returns the settings of the trainer.
    pub(super) fn recipe(&self, batch: usize, steps: u64) -> Recipe {
        let shards = self.shards.min(batch);
        Recipe {
            optimizer: self.optimizer(),
            schedule: self.schedule(),
            steps,
            clip: (self.clip > 0.0).then_some(self.clip),
            shards,
            concurrent_shards: shards,
            backward: if self.frozen { GradientMode::Head } else { GradientMode::Whole },
            seed: self.seed,
        }
    }
}

#[cfg(test)]
mod tests {

    use gradus_model::check::tiny_bert;

    use super::*;

    /// The defaults are from §4.1.
    #[test]
    fn the_defaults_are_those_of_the_paper() {
        let settings = FinetuneSettings::default();
        assert_eq!((settings.lr, settings.batch, settings.epochs), (6.25e-5, 32, 3));
        let (gpt, bert) = (ModelConfig::default(), tiny_bert());
        assert_eq!((settings.lambda(gpt.predicts()), settings.lambda(bert.predicts())), (0.5, 0.0));
        assert!(settings.check(&gpt).is_ok() && settings.check(&bert).is_ok());
        let other = FinetuneSettings { aux: Some(0.5), ..settings.clone() };
        assert!(other.check(&gpt).is_ok());
        let error = other.check(&bert).unwrap_err().to_string();
        assert!(
            error.starts_with("--aux 0.5: expected 0 for a model that fills masks") && error.ends_with("leave --aux out"),
            "{error}"
        );
        assert_eq!((settings.classifier_dropout, settings.clip, settings.decay), (0.1, 1.0, 0.01));
        assert_eq!((settings.schedule, settings.warmup), (ScheduleKind::WarmupLinear, Warmup::Share(0.002)));
        assert!(!settings.head_bias && settings.transfer == Transfer::All);
    }
}
