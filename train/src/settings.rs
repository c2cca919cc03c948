//! Every size and hyperparameter of a run: a flag, a field of the config file, and what they settle to.
//!
//! Later ones win: preset, config file (TOML, the flags' names with `_` for `-`), flags.

use std::path::{Path, PathBuf};

use gradus_model::{
    Activation, BackboneConfig, ConfigError, Embedding, GptConfig, GradientMode, LstmConfig, Objective, Positions,
};
use serde::{Deserialize, Serialize};

use crate::optim::{OptimError, Optimizer, OptimizerKind, Schedule, ScheduleKind, Warmup};
use crate::trainer::{Recipe, default_shards};

/// What a user may say, on the command line or in a config file; what is not said takes the preset's value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Sizes to start from: `tiny` (4 layers, d 128, 4 heads, context 128), `small` (6, 384, 6, 256), `gpt1` (12, 768, 12, 512) [default: tiny]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub preset: Option<String>,
    /// `transformer` (the paper's), or `lstm`: one recurrent layer, of the same context, width and dropout (§5) [default:
    /// transformer]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub backbone: Option<BackboneKind>,
    /// Units of an LSTM [default: 2048, the paper's]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub units: Option<usize>,
    /// Most tokens the model sees at once [default: the preset's; 208 in the micro-world]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub context: Option<usize>,
    /// Number of blocks
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub layers: Option<usize>,
    /// Width d of a hidden state, a multiple of the heads
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub width: Option<usize>,
    /// Attention heads per block
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub heads: Option<usize>,
    /// `gelu` (tanh form, the paper's), `gelu_erf` or `relu` [default: gelu]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model", value_parser = named::<Activation>))]
    pub activation: Option<Activation>,
    /// `learned` (the paper's) or `sinusoidal` [default: learned]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model", value_parser = named::<Positions>))]
    pub positions: Option<Positions>,
    /// `separate` (the paper's) or `joint` (OpenAI's code: one matrix of tokens and positions; Gradus-only) [default: separate]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model", value_parser = named::<Embedding>))]
    pub embedding: Option<Embedding>,
    /// All three dropout probabilities at once [default: 0.1]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub dropout: Option<f64>,
    /// Dropout on the embeddings
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub embd_dropout: Option<f64>,
    /// Dropout on attention probabilities
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub attn_dropout: Option<f64>,
    /// Dropout on the residual branches
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub resid_dropout: Option<f64>,
    /// ε of layer norm [default: 1e-5]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub epsilon: Option<f64>,
    /// Standard deviation of the initial weights [default: 0.02·√(768/width), the paper's at the paper's width]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Model"))]
    pub init_std: Option<f64>,

    /// Sequences per update [default: tiny 16, small 8, gpt1 64]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub batch: Option<usize>,
    /// Parts a batch is computed in, one after the other, to save memory (gradient accumulation) [default: 1]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub accumulate: Option<usize>,
    /// Logical shards of each part, which threads share; each holds a gradient of its own; the bits of a run
    /// depend on their number, not on the threads [default: 2, of a part of one sequence 1]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub shards: Option<usize>,
    /// Keep only each block's input and compute its activations again when they are needed: memory for activations falls to
    /// about one block's, a step takes about a third longer, and no bit changes (--resume may switch it) [default: false]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL"))]
    pub recompute: Option<bool>,
    /// Number of updates [default: one epoch]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training", conflicts_with = "epochs"))]
    pub steps: Option<u64>,
    /// Length of the run in epochs instead: an epoch draws as many tokens as the corpus has
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub epochs: Option<f64>,
    /// Update rule: `openai`, `paper37`, `adamw`, `adam_l2` or `sgd` [default: openai]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub optimizer: Option<OptimizerKind>,
    /// Peak learning rate [default: tiny 1e-3, small 3e-4, gpt1 2.5e-4]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub lr: Option<f64>,
    /// β₁ of Adam [default: 0.9]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub beta1: Option<f64>,
    /// β₂ of Adam [default: 0.999]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub beta2: Option<f64>,
    /// ε of Adam [default: 1e-8]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub adam_eps: Option<f64>,
    /// Weight decay, on weights with more than one axis [default: 0.01]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub decay: Option<f64>,
    /// Learning-rate schedule: `paper` (linear up, cosine to 0), `warmup_linear`, `warmup_cosine`, `warmup_constant`, `constant`
    /// [default: paper]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub schedule: Option<ScheduleKind>,
    /// Warm-up: updates (2000), or with a decimal point a share of them (0.02) [default: 0.02; gpt1 2000]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub warmup: Option<Warmup>,
    /// Scale the gradient down to this global norm where it is longer; 0: never [default: 1]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub clip: Option<f64>,
    /// Mean of the loss: `token_mean` (equation 1 over the number of tokens) or `sequence_mean` (OpenAI's code) [default: token_mean]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub objective: Option<Objective>,
    /// Seed of parameters, data order and dropout [default: 1]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Training"))]
    pub seed: Option<u64>,

    /// Share of the corpus, at its end, that is held out for validation [default: 0.1]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Data and evaluation"))]
    pub held_out: Option<f64>,
    /// Validate on this file or folder instead
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Data and evaluation", conflicts_with = "held_out"))]
    pub held_out_corpus: Option<PathBuf>,
    /// `char`, `byte`, a directory with a tokenizer, or nothing: a BPE is trained on the corpus
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Data and evaluation"))]
    pub tokenizer: Option<String>,
    /// Vocabulary of a BPE that is trained here [default: 8000]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Data and evaluation"))]
    pub vocab: Option<usize>,
    /// Train on the micro-world's sentences in an order that no story has (the paper's argument for contiguous text, §4.1)
    /// [default: false]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Data and evaluation", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL"))]
    pub shuffle_sentences: Option<bool>,
    /// Updates between evaluations, each with a checkpoint [default: a twentieth of the run]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Data and evaluation"))]
    pub eval_every: Option<u64>,
    /// Most held-out tokens an evaluation during training reads; the last one reads all [default: 100000]
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Data and evaluation"))]
    pub eval_tokens: Option<usize>,
}

/// What stands under the objective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum BackboneKind {
    /// The paper's Transformer.
    #[default]
    Transformer,
    /// One recurrent layer.
    Lstm,
}

/// A value by its name in a config file.
#[cfg(feature = "clap")]
fn named<T: serde::de::DeserializeOwned>(name: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::from(name)).map_err(|e| e.to_string())
}

/// Everything a run is made of, settled; saved with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The model; its vocabulary is the tokenizer's.
    pub model: BackboneConfig,
    /// The update rule.
    pub optimizer: Optimizer,
    /// Its learning-rate schedule.
    pub schedule: Schedule,
    /// Sequences per update.
    pub batch: usize,
    /// Parts of an update, one after the other.
    pub accumulate: usize,
    /// Logical shards of a part.
    pub shards: usize,
    /// Activations of one block at a time; runs from before this option have none.
    #[serde(default)]
    pub recompute: bool,
    /// Length of the run.
    pub length: Length,
    /// Most the gradient's global norm may be; 0: anything.
    pub clip: f64,
    /// Mean of the loss.
    pub objective: Objective,
    /// Seed of everything random.
    pub seed: u64,
    /// Share of the corpus that is held out.
    pub held_out: f64,
    /// Corpus to validate on instead.
    pub held_out_corpus: Option<PathBuf>,
    /// `char`, `byte` or a directory; none: train a BPE.
    pub tokenizer: Option<String>,
    /// Vocabulary of that BPE.
    pub vocab: usize,
    /// The micro-world's sentences in an order that no story has: what a corpus without long passages would teach (§4.1).
    #[serde(default)]
    pub shuffle_sentences: bool,
    /// Updates between evaluations.
    pub eval_every: Option<u64>,
    /// Most held-out tokens of an evaluation on the way.
    pub eval_tokens: usize,
}

/// The length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// A number of updates.
    Steps(u64),
    /// A number of epochs.
    Epochs(f64),
}

/// Options that make no run.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The config file cannot be read.
    #[error("config file {path}: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        problem: String,
    },
    /// A model that cannot be.
    #[error(transparent)]
    Model(#[from] ConfigError),
    /// An optimizer that cannot be.
    #[error(transparent)]
    Optimizer(#[from] OptimError),
    /// Another number out of its range.
    #[error("--{flag} {found}: expected {expected}")]
    Range {
        /// The flag.
        flag: &'static str,
        /// What was given.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
}

impl Options {
    /// How the micro-world is learnt, to within a few percent of its limit in a few minutes.
    pub fn micro_world() -> Options {
        Options {
            preset: Some("tiny".into()),
            context: Some(208), // the longest story has 206 words and marks
            dropout: Some(0.0), // no story is seen twice
            batch: Some(8),
            lr: Some(1e-3),
            beta2: Some(0.98), // the gradient changes its nature when copying is learnt: a shorter memory follows it
            decay: Some(0.0),
            init_std: Some(0.07), // the paper's 0.02 at its width is 0.05 at this one; a little more, and copying is learnt sooner
            steps: Some(5000),
            ..Options::default()
        }
    }

    /// Reads a config file.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let error = |problem: String| SettingsError::File { path: path.to_owned(), problem };
        let text = std::fs::read_to_string(path).map_err(|e| error(e.to_string()))?;
        toml::from_str(&text).map_err(|e| error(e.to_string()))
    }

    /// These options, and those of `base` where these say nothing.
    pub fn over(self, base: Options) -> Options {
        let said_length = self.steps.is_some() || self.epochs.is_some();
        let base = if said_length { Options { steps: None, epochs: None, ..base } } else { base };
        macro_rules! either {
            ($($field:ident)*) => { Options { $($field: self.$field.or(base.$field)),* } };
        }
        either! {
            preset backbone units context layers width heads activation positions embedding
            dropout embd_dropout attn_dropout resid_dropout epsilon init_std batch accumulate
            shards recompute steps epochs optimizer lr beta1 beta2 adam_eps
            decay schedule warmup clip objective seed held_out held_out_corpus
            tokenizer vocab shuffle_sentences eval_every eval_tokens
        }
    }

    /// The settings that these options make.
    pub fn settle(&self) -> Result<Settings, SettingsError> {
        let preset = self.preset.as_deref().unwrap_or("tiny");
        let range = |flag, found: String, expected| SettingsError::Range { flag, found, expected };
        let base = GptConfig::preset(preset).ok_or_else(|| range("preset", preset.into(), "tiny, small or gpt1"))?;
        let dropout = self.dropout.unwrap_or(base.embd_dropout);
        let width = self.width.unwrap_or(base.width);
        let model = GptConfig {
            vocab: 1, // known once there is a tokenizer
            context: self.context.unwrap_or(base.context),
            width,
            layers: self.layers.unwrap_or(base.layers),
            heads: self.heads.unwrap_or(base.heads),
            activation: self.activation.unwrap_or_default(),
            positions: self.positions.unwrap_or_default(),
            embedding: self.embedding.unwrap_or_default(),
            embd_dropout: self.embd_dropout.unwrap_or(dropout),
            attn_dropout: self.attn_dropout.unwrap_or(dropout),
            resid_dropout: self.resid_dropout.unwrap_or(dropout),
            layer_norm_epsilon: self.epsilon.unwrap_or(base.layer_norm_epsilon),
            initializer_range: self.init_std.unwrap_or(base.initializer_range * (768.0 / width as f64).sqrt()),
        };
        let model = match self.backbone.unwrap_or_default() {
            BackboneKind::Transformer => BackboneConfig::from(model),
            BackboneKind::Lstm => LstmConfig {
                vocab: model.vocab,
                context: model.context,
                width: model.width,
                units: self.units.unwrap_or(LstmConfig::default().units),
                embd_dropout: model.embd_dropout,
                resid_dropout: model.resid_dropout,
                initializer_range: model.initializer_range,
            }
            .into(),
        };
        if self.units.is_some() && self.backbone != Some(BackboneKind::Lstm) {
            return Err(range("units", self.units.unwrap_or(0).to_string(), "to be left out, or --backbone lstm beside it"));
        }
        // Small models bear higher rates than the paper's 2.5e-4.
        let (batch, lr) = match preset {
            "tiny" => (16, 1e-3),
            "small" => (8, 3e-4),
            _ => (64, 2.5e-4),
        };
        let o = Optimizer::default();
        let optimizer = Optimizer {
            name: self.optimizer.unwrap_or(o.name),
            lr: self.lr.unwrap_or(lr),
            beta1: self.beta1.unwrap_or(o.beta1),
            beta2: self.beta2.unwrap_or(o.beta2),
            eps: self.adam_eps.unwrap_or(o.eps),
            decay: self.decay.unwrap_or(o.decay),
        };
        let warmup = if preset == "gpt1" { Warmup::Updates(2000) } else { Warmup::Share(0.02) };
        let schedule = Schedule { kind: self.schedule.unwrap_or_default(), warmup: self.warmup.unwrap_or(warmup) };
        let length = match (self.steps, self.epochs) {
            (Some(n), _) => Length::Steps(n),
            (None, Some(e)) => Length::Epochs(e),
            (None, None) => Length::Epochs(1.0),
        };
        let (batch, accumulate) = (self.batch.unwrap_or(batch), self.accumulate.unwrap_or(1));
        let settings = Settings {
            model,
            optimizer,
            schedule,
            batch,
            accumulate,
            shards: self.shards.unwrap_or(default_shards(batch / accumulate.max(1))),
            recompute: self.recompute.unwrap_or(false),
            length,
            clip: self.clip.unwrap_or(1.0),
            objective: self.objective.unwrap_or_default(),
            seed: self.seed.unwrap_or(1),
            held_out: self.held_out.unwrap_or(0.1),
            held_out_corpus: self.held_out_corpus.clone(),
            tokenizer: self.tokenizer.clone(),
            vocab: self.vocab.unwrap_or(8000),
            shuffle_sentences: self.shuffle_sentences.unwrap_or(false),
            eval_every: self.eval_every,
            eval_tokens: self.eval_tokens.unwrap_or(100_000),
        };
        settings.check()?;
        Ok(settings)
    }
}

impl Settings {
    /// Can these settings make a run?
    pub fn check(&self) -> Result<(), SettingsError> {
        self.model.check()?;
        self.optimizer.validate()?;
        self.schedule.validate()?;
        let bounds = |flag, n: usize, ok: bool, expected| {
            if ok { Ok(()) } else { Err(SettingsError::Range { flag, found: n.to_string(), expected }) }
        };
        let number = |flag, x: f64, ok: bool, expected| {
            if ok { Ok(()) } else { Err(SettingsError::Range { flag, found: x.to_string(), expected }) }
        };
        bounds("batch", self.batch, (1..=1 << 20).contains(&self.batch), "a number of sequences from 1 to 1048576")?;
        bounds("accumulate", self.accumulate, (1..=self.batch).contains(&self.accumulate), "a number from 1 to --batch")?;
        let shards = self.accumulate.saturating_mul(self.shards);
        bounds(
            "shards",
            self.shards,
            self.shards > 0 && shards <= self.batch,
            "at least 1, and times --accumulate at most --batch",
        )?;
        bounds("vocab", self.vocab, (2..=1 << 24).contains(&self.vocab), "a number of tokens from 2 to 16777216")?;
        bounds("eval-tokens", self.eval_tokens, self.eval_tokens > 0, "at least 1 token")?;
        number("clip", self.clip, self.clip >= 0.0 && self.clip.is_finite(), "0 (never) or a positive number")?;
        number("held-out", self.held_out, (0.0..1.0).contains(&self.held_out), "a share from 0 to below 1")?;
        match self.length {
            Length::Steps(n) => {
                let expected = "a number of updates from 1 to a billion";
                if !(1..=1_000_000_000).contains(&n) {
                    return Err(SettingsError::Range { flag: "steps", found: n.to_string(), expected });
                }
            }
            Length::Epochs(e) => number("epochs", e, e > 0.0 && e <= 1e6, "a positive number up to a million")?,
        }
        if self.eval_every == Some(0) {
            return Err(SettingsError::Range { flag: "eval-every", found: "0".into(), expected: "at least 1 update" });
        }
        Ok(())
    }

    /// Number of updates on a corpus of so many tokens, of which an update sees so many.
    pub fn updates(&self, corpus_tokens: u64, an_update: f64) -> u64 {
        match self.length {
            Length::Steps(n) => n,
            Length::Epochs(e) => ((e * corpus_tokens as f64 / an_update).ceil() as u64).max(1),
        }
    }

    /// What the trainer needs of them.
    pub fn recipe(&self, updates: u64) -> Recipe {
        Recipe {
            optimizer: self.optimizer,
            schedule: self.schedule,
            updates,
            clip: (self.clip > 0.0).then_some(self.clip),
            shards: self.accumulate * self.shards,
            at_once: self.shards,
            backward: if self.recompute { GradientMode::Recompute } else { GradientMode::Whole },
            seed: self.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_preset() {
        let file: Options = toml::from_str("preset = \"small\"\nlr = 0.01\nepochs = 3.0\nactivation = \"relu\"").unwrap();
        let flags = Options { lr: Some(0.02), steps: Some(7), ..Options::default() };
        let settings = flags.over(file).settle().unwrap();
        assert_eq!(settings.optimizer.lr, 0.02);
        assert_eq!(settings.length, Length::Steps(7));
        let BackboneConfig::Gpt(model) = settings.model else { panic!("a Transformer") };
        assert_eq!((model.width, model.activation), (384, Activation::Relu));
    }

    #[test]
    fn an_lstm_has_the_sizes_of_the_transformer_and_units() {
        let lstm = Options { backbone: Some(BackboneKind::Lstm), preset: Some("tiny".into()), ..Options::default() };
        let BackboneConfig::Lstm(model) = lstm.settle().unwrap().model else { panic!("an LSTM") };
        assert_eq!((model.units, model.width, model.context), (2048, 128, 128));
        let error = Options { units: Some(64), ..Options::default() }.settle().unwrap_err().to_string();
        assert!(error.contains("--units 64") && error.contains("--backbone lstm"), "{error}");
    }

    #[test]
    fn absurd_numbers_are_refused_by_name() {
        let error = |o: Options| o.settle().unwrap_err().to_string();
        let none = Options::default;
        assert!(error(Options { batch: Some(0), ..none() }).starts_with("--batch 0: expected"));
        assert!(error(Options { heads: Some(3), ..none() }).contains("a multiple of the 3 heads"));
        assert!(error(Options { dropout: Some(1.0), ..none() }).contains("embd_dropout = 1"));
        assert!(error(Options { lr: Some(f64::NAN), ..none() }).contains("lr"));
        assert!(error(Options { preset: Some("huge".into()), ..none() }).contains("tiny, small or gpt1"));
        assert!(error(Options { steps: Some(0), ..none() }).contains("--steps 0"));
        assert!(error(Options { layers: Some(1_000_000), ..none() }).contains("layers = 1000000"));
        assert!(error(Options { width: Some(0), ..none() }).contains("width = 0"));
    }

    #[test]
    fn not_a_number_is_not_the_default() {
        let merged = Options { lr: Some(f64::NAN), ..Options::default() }.over(Options { lr: Some(1e-3), ..Options::default() });
        assert!(merged.settle().unwrap_err().to_string().contains("lr"));
    }

    #[test]
    fn initial_weights_keep_the_size_of_a_product() {
        let std = |preset: &str| {
            Options { preset: Some(preset.into()), ..Options::default() }.settle().unwrap().model.initializer_range()
        };
        assert_eq!(std("gpt1"), 0.02);
        assert!((std("tiny") - 0.04899).abs() < 1e-5 && (std("small") - 0.02828).abs() < 1e-5);
    }

    #[test]
    fn a_misspelt_field_of_a_config_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.toml");
        std::fs::write(&path, "lerning_rate = 1.0\n").unwrap();
        let message = Options::read(&path).unwrap_err().to_string();
        assert!(message.contains("run.toml") && message.contains("lerning_rate"), "{message}");
    }
}
