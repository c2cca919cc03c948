//! Every size and hyperparameter of a pre-training: a flag, a key of the config file, and the value after defaults.
//!
//! Precedence, lowest first: preset, config file (TOML, the flags' names with `_` for `-`), flags.

use std::path::{Path, PathBuf};

use gradus_io::disk;
use gradus_model::{
    Activation, BodyConfig, ConfigError, Embedding, Form, GradientMode, HeadConfig, LstmConfig, ModelConfig, NEXT, NormPlace,
    Objective, OutputConfig, Positions, Predicts, Sizes, TransformConfig, TransformerConfig,
};
use gradus_text::Mode;
use serde::{Deserialize, Serialize};

use crate::hyperparameters::{RangeError, clip_in_range, hyperparameters, require};
use crate::optim::{OptimError, Optimizer, OptimizerKind, Schedule, ScheduleKind, Warmup};
use crate::systems::{self, Axes, Card, SystemBody, transformer_axes};
use crate::trainer::{Recipe, default_shards};
use crate::views::{Corrupt, MaskMix, Noise, Redraw, ViewPlan};

hyperparameters! {
    /// Options from the command line or a config file; an option that is not given takes the preset's value.
    #[serde(deny_unknown_fields, default)]
    pub struct PretrainOptions {
        "Model": {
            /// Sizes to start from: `tiny` (4 layers, d 128, 4 heads, context 128), `small` (6, 384, 6, 256), `gpt1` (12, 768, 12, 512) [default: tiny]
            preset: Option<String>,
            /// System whose axes to take, each of which is a flag too (`gradus systems` lists the systems; the defaults below are
            /// those of `gpt`) [default: gpt]
            system: Option<String>,
            /// `transformer` (the paper's); `lstm`: one recurrent layer, of the same context, width and dropout (§5); or `ngram`:
            /// counts of n-grams, without training [default: transformer]
            backbone: Option<String>,
            /// Number of tokens of the longest n-gram that is counted [default: 5]
            order: Option<usize>,
            /// Number of units of an LSTM [default: 2048, the paper's]
            units: Option<usize>,
            /// Maximum number of tokens the model reads at once [default: the preset's; 208 in the micro-world, 236 with --retold]
            context: Option<usize>,
            /// Number of blocks
            layers: Option<usize>,
            /// Width d of a hidden state, a multiple of the heads
            width: Option<usize>,
            /// Attention heads per block
            heads: Option<usize>,
            /// Width between the two layers of a feed-forward network [default: 4·width]
            inner: Option<usize>,
            /// `gelu` (tanh form, the paper's), `gelu_erf` or `relu` [default: gelu]
            #[cfg_attr(feature = "clap", arg(value_parser = named::<Activation>))]
            activation: Option<Activation>,
            /// `learned` (the paper's) or `sinusoidal` [default: learned]
            #[cfg_attr(feature = "clap", arg(value_parser = named::<Positions>))]
            positions: Option<Positions>,
            /// `separate` (the paper's) or `joint` (OpenAI's code: one matrix of tokens and positions; Gradus-only) [default: separate]
            #[cfg_attr(feature = "clap", arg(value_parser = named::<Embedding>))]
            embedding: Option<Embedding>,
            /// All three dropout probabilities at once [default: 0.1]
            dropout: Option<f64>,
            /// Dropout on the embeddings
            embd_dropout: Option<f64>,
            /// Dropout on attention probabilities
            attn_dropout: Option<f64>,
            /// Dropout on the residual branches
            resid_dropout: Option<f64>,
            /// ε of layer norm [default: 1e-5]
            epsilon: Option<f64>,
            /// Place of the layer norms in a block: `after` each residual branch is added, or `before` the branch (GPT-2)
            /// [default: after]
            #[cfg_attr(feature = "clap", arg(value_parser = named::<NormPlace>))]
            norm: Option<NormPlace>,
            /// A layer norm after the last block (GPT-2) [default: false]
            #[cfg_attr(feature = "clap", arg(num_args = 0..=1, default_missing_value = "true", value_name = "BOOL"))]
            final_norm: Option<bool>,
            /// A layer norm after the embeddings (BERT) [default: false]
            #[cfg_attr(feature = "clap", arg(num_args = 0..=1, default_missing_value = "true", value_name = "BOOL"))]
            embedding_norm: Option<bool>,
            /// Number of segment embeddings (BERT: 2) [default: 0]
            segments: Option<usize>,
            /// A layer before the output, and a bias on the output (BERT) [default: false]
            #[cfg_attr(feature = "clap", arg(num_args = 0..=1, default_missing_value = "true", value_name = "BOOL"))]
            transform: Option<bool>,
            /// Scale the initial weights of the last layer of each residual branch by 1/√(2·layers) (GPT-2) [default: false]
            #[cfg_attr(feature = "clap", arg(num_args = 0..=1, default_missing_value = "true", value_name = "BOOL"))]
            scaled_init: Option<bool>,
            /// Standard deviation of the initial weights [default: 0.02·√(768/width), the paper's at the paper's width]
            init_std: Option<f64>,
        }
        "View": {
            /// The view of texts: what the model predicts, from which tokens [default: next]
            #[cfg_attr(feature = "clap", arg(help = ViewPlan::HELP))]
            view: Option<String>,
            /// Fraction of the tokens that is predicted in a masked view [default: 0.15]
            mask_rate: Option<f64>,
            /// Fraction of the predicted tokens that is replaced by the mask token [default: 0.8]
            mask_hide: Option<f64>,
            /// Fraction of the predicted tokens that is replaced by a random token; the rest stays as it is [default: 0.1]
            mask_replace: Option<f64>,
            /// How often the mask of a text changes: `static`, never; `copies`, ten masks in turn; `dynamic`, at each reading
            /// [default: dynamic]
            masks: Option<Redraw>,
            /// Read pairs of texts, and predict also whether the second follows the first (BERT) [default: false]
            #[cfg_attr(feature = "clap", arg(num_args = 0..=1, default_missing_value = "true", value_name = "BOOL"))]
            pairs: Option<bool>,
        }
        "Training": {
            /// Sequences per step [default: tiny 16, small 8, gpt1 64]
            batch: Option<usize>,
            /// Parts into which a batch is split, computed one after the other to save memory (gradient accumulation) [default: 1]
            accumulate: Option<usize>,
            /// Number of logical shards into which each part is cut; threads compute them side by side, and each has its own
            /// gradient. The last bits of results, and dropout, depend on this number, not on the number of threads [default: 2;
            /// 1 for a part of one sequence, and on a GPU]
            shards: Option<usize>,
            /// Keep only each block's input and compute its activations again when they are needed: memory for activations falls
            /// to about one block's, a step takes about a third longer, and the result is the same to the bit (--resume may
            /// switch it) [default: false]
            #[cfg_attr(feature = "clap", arg(num_args = 0..=1, default_missing_value = "true", value_name = "BOOL"))]
            recompute: Option<bool>,
            /// Number of steps [default: one epoch]
            #[cfg_attr(feature = "clap", arg(conflicts_with = "epochs"))]
            steps: Option<u64>,
            /// Length of the run in epochs instead of --steps; an epoch draws as many tokens as the corpus has
            epochs: Option<f64>,
            /// Update rule: `openai`, `paper37`, `adamw`, `adam_l2` or `sgd` [default: openai]
            optimizer: Option<OptimizerKind>,
            /// Peak learning rate [default: tiny 1e-3, small 3e-4, gpt1 2.5e-4]
            lr: Option<f64>,
            /// β₁ of Adam [default: 0.9]
            beta1: Option<f64>,
            /// β₂ of Adam [default: 0.999]
            beta2: Option<f64>,
            /// ε of Adam [default: 1e-8]
            adam_eps: Option<f64>,
            /// Weight decay, on all but biases and gains [default: 0.01]
            decay: Option<f64>,
            /// Learning-rate schedule: `paper` (linear up, cosine to 0), `warmup_linear`, `warmup_cosine`, `warmup_constant`,
            /// `constant` [default: paper]
            schedule: Option<ScheduleKind>,
            /// Warm-up: steps (2000), or with a decimal point a fraction of them (0.02) [default: 0.02; gpt1 2000]
            warmup: Option<Warmup>,
            /// Largest global norm of the gradient: a larger gradient is scaled down to it; 0: no clipping [default: 1]
            clip: Option<f64>,
            /// Mean of the loss: `token_mean` (equation 1 over the number of tokens) or `sequence_mean` (OpenAI's code) [default: token_mean]
            objective: Option<Objective>,
            /// Seed of parameters, data order and dropout [default: 1]
            seed: Option<u64>,
        }
        "Data and evaluation": {
            /// Fraction of the corpus, at its end, that is held out for evaluation [default: 0.1]
            held_out: Option<f64>,
            /// Evaluate on this file or folder, its files joined, instead of the corpus's end
            #[cfg_attr(feature = "clap", arg(conflicts_with = "held_out"))]
            held_out_corpus: Option<PathBuf>,
            /// `char`, `byte`, or a directory with a tokenizer [default: a BPE trained on the corpus]
            tokenizer: Option<String>,
            /// How a BPE splits text into words: `basic` as `transformers` does, or `spacy` as OpenAI's code does, with ftfy and
            /// spaCy's rules [default: the mode stored with the tokenizer; basic for one trained here]
            mode: Option<Mode>,
            /// Number of tokens of a BPE that is trained here [default: 8000]
            vocab: Option<usize>,
            /// Train on the micro-world's sentences in random order instead of whole stories (the paper's argument for contiguous
            /// text, §4.1) [default: false]
            #[cfg_attr(feature = "clap", arg(num_args = 0..=1, default_missing_value = "true", value_name = "BOOL"))]
            shuffle_sentences: Option<bool>,
            /// Train on the micro-world whose stories end with a short retelling, which is sometimes wrong [default: false]
            #[cfg_attr(feature = "clap", arg(num_args = 0..=1, default_missing_value = "true", value_name = "BOOL"))]
            retold: Option<bool>,
            /// Steps between evaluations, each with a checkpoint [default: a twentieth of the run]
            eval_every: Option<u64>,
            /// Maximum number of held-out tokens that an evaluation during training reads; the last evaluation reads all, and
            /// these once more, since the best model is that with the lowest loss over the same tokens [default: at most 100000;
            /// the evaluations of a run together read at most 30 % of its training tokens, the last one at most 15 %, unless this
            /// flag and --eval-every are set]
            eval_tokens: Option<usize>,
        }
    }
}

/// Parses a value by its name in a config file.
#[cfg(feature = "clap")]
fn named<T: serde::de::DeserializeOwned>(name: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::from(name)).map_err(|e| e.to_string())
}

/// All settings of a pre-training run, with defaults filled in; stored in `run.json`. The model's vocabulary is the tokenizer's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "PretrainOptions says what each is")]
pub struct PretrainSettings {
    pub model: ModelConfig,
    /// The length of the longest n-gram, for a run that counts; such a run uses only the vocabulary of `model`, and in the
    /// micro-world also its context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<usize>,
    #[serde(default, skip_serializing_if = "ViewPlan::is_next")]
    pub view: ViewPlan,
    pub optimizer: Optimizer,
    pub schedule: Schedule,
    pub batch: usize,
    pub accumulate: usize,
    pub shards: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recompute: bool,
    pub length: Length,
    pub clip: f64,
    pub objective: Objective,
    pub seed: u64,
    pub held_out: f64,
    pub held_out_corpus: Option<PathBuf>,
    pub tokenizer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    pub vocab: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shuffle_sentences: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retold: bool,
    pub eval_every: Option<u64>,
    pub eval_tokens: Option<usize>,
    /// The maximum number of held-out tokens that the last evaluation reads; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_last: Option<usize>,
}

/// The length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// A number of steps.
    Steps(u64),
    /// A number of epochs.
    Epochs(f64),
}

/// The reason why options do not describe a valid run.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum SettingsError {
    #[error("config file {path}: {problem}")]
    File { path: PathBuf, problem: String },
    #[error(transparent)]
    Model(#[from] ConfigError),
    #[error(transparent)]
    Optimizer(#[from] OptimError),
    #[error(transparent)]
    Range(#[from] RangeError),
}

/// The options that a run of counts accepts.
const COUNTED: [&str; 12] = [
    "system",
    "backbone",
    "order",
    "view",
    "seed",
    "held_out",
    "held_out_corpus",
    "tokenizer",
    "mode",
    "vocab",
    "shuffle_sentences",
    "retold",
];

/// Lists options by name, each with whether it is given.
macro_rules! given {
    ($options:ident; $($option:ident $($field:ident)?),*) => { [$((stringify!($option), $options.$option.is_some())),*] };
}

/// Returns the flag of the first option that is given.
fn first(given: &[(&str, bool)]) -> Option<String> {
    given.iter().find(|(_, is_given)| *is_given).map(|(name, _)| name.replace('_', "-"))
}

impl PretrainOptions {
    /// Returns a context that holds every story of the micro-world.
    pub fn world_context(retold: bool) -> usize {
        if retold { 236 } else { 208 } // the longest have 234 and 206 words and marks
    }

    /// Returns options with which a model learns the micro-world to within a few percent of its limit in a few minutes.
    pub fn micro_world() -> Self {
        PretrainOptions {
            preset: Some("tiny".into()),
            context: Some(Self::world_context(false)),
            dropout: Some(0.0), // no story is seen twice
            batch: Some(8),
            lr: Some(1e-3),
            beta2: Some(0.98), // the gradient's statistics change when copying is learnt: a shorter average adapts sooner
            decay: Some(0.0),
            init_std: Some(0.07), // 0.02 at the paper's width is 0.05 at this one; with a little more, copying is learnt sooner
            steps: Some(5000),
            ..Self::default()
        }
    }

    /// Reads a config file.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let error = |problem: String| SettingsError::File { path: path.to_owned(), problem };
        let text = disk::read_text(path).map_err(|e| error(e.to_string()))?;
        Self::parse(path, &text)
    }

    /// Parses the text of a config file; errors name `path`.
    ///
    /// # Errors
    /// Returns [`SettingsError::File`] if the text is not a valid config file, or if two of its options exclude each other.
    pub fn parse(path: &Path, text: &str) -> Result<Self, SettingsError> {
        let error = |problem: String| SettingsError::File { path: path.to_owned(), problem };
        let options: Self = toml::from_str(text).map_err(|e| error(e.to_string()))?;
        let twice = [
            (options.steps.is_some() && options.epochs.is_some(), "steps and epochs both set the length of the run"),
            (
                options.held_out.is_some() && options.held_out_corpus.is_some(),
                "held_out and held_out_corpus both set the held-out text",
            ),
        ];
        match twice.into_iter().find(|(both, _)| *both) {
            Some((_, what)) => Err(error(format!("{what}; leave one of them out"))),
            None => Ok(options),
        }
    }

    /// Returns the settings that these options give, with defaults for those left out.
    pub fn settle(&self) -> Result<PretrainSettings, SettingsError> {
        let axes = self.axes()?;
        let preset = self.preset.as_deref().unwrap_or("tiny");
        let base = ModelConfig::preset(preset).ok_or_else(|| {
            let [tiny, small, gpt1] = ModelConfig::PRESETS;
            RangeError::new("preset", preset, format!("{tiny}, {small} or {gpt1}"))
        })?;
        // Small models tolerate higher rates than the paper's 2.5e-4.
        let (batch, lr, warmup) = match preset {
            "tiny" => (16, 1e-3, Warmup::Share(0.02)),
            "small" => (8, 3e-4, Warmup::Share(0.02)),
            _ => (64, 2.5e-4, Warmup::Steps(2000)),
        };
        let (batch, accumulate) = (self.batch.unwrap_or(batch), self.accumulate.unwrap_or(1));
        let settings = PretrainSettings {
            model: self.model(&base, &axes),
            order: axes.body.order(),
            view: axes.view,
            optimizer: self.optimizer(lr),
            schedule: Schedule { kind: self.schedule.unwrap_or_default(), warmup: self.warmup.unwrap_or(warmup) },
            batch,
            accumulate,
            shards: self.shards.unwrap_or(default_shards(batch / accumulate.max(1))),
            recompute: self.recompute.unwrap_or(false),
            length: self.steps.map_or(Length::Epochs(self.epochs.unwrap_or(1.0)), Length::Steps),
            clip: self.clip.unwrap_or(1.0),
            objective: self.objective.unwrap_or_default(),
            seed: self.seed.unwrap_or(1),
            held_out: self.held_out.unwrap_or(0.1),
            held_out_corpus: self.held_out_corpus.clone(),
            tokenizer: self.tokenizer.clone(),
            mode: self.mode,
            vocab: self.vocab.unwrap_or(8000),
            shuffle_sentences: self.shuffle_sentences.unwrap_or(false),
            retold: self.retold.unwrap_or(false),
            eval_every: self.eval_every,
            eval_tokens: self.eval_tokens,
            eval_last: None,
        };
        self.check_used(&settings)?;
        settings.check()?;
        Ok(settings)
    }

    /// Returns an error if an option was given that has no effect with these settings.
    fn check_used(&self, settings: &PretrainSettings) -> Result<(), RangeError> {
        let unused = |is_so: bool, given: &[(&str, bool)], with: &str, expected: &str| match first(given) {
            Some(flag) if is_so => Err(RangeError::new(&*flag, with, format!("{expected} with it, or no --{flag}"))),
            _ => Ok(()),
        };
        let tokenizer = settings.tokenizer.as_deref().unwrap_or_default();
        let with = format!("with --tokenizer {tokenizer}, which has a vocabulary of its own");
        unused(settings.tokenizer.is_some(), &given!(self; vocab), &with, "a BPE that is trained here")?;
        if let Some(order) = settings.order {
            require("order", order, (1..256).contains(&order), "a number of tokens from 1 to 255")?;
            let given = serde_json::to_value(self).expect("plain values");
            let given = given.as_object().expect("an object").iter().filter(|(_, value)| !value.is_null());
            return match given.map(|(name, _)| name).find(|name| !COUNTED.contains(&name.as_str())) {
                None => Ok(()),
                Some(name) => {
                    let flag = name.replace('_', "-");
                    Err(RangeError::new(
                        &*flag,
                        "with counts of n-grams",
                        format!("a network, to which it applies, or no --{flag}"),
                    ))
                }
            };
        }
        let sizes = given!(self; layers, heads, inner, positions, embedding, attn_dropout, transform, recompute);
        let of_transformers = [&sizes[..], &transformer_axes!(given!(self))].concat();
        let body = settings.model.body;
        let (with, is_recurrent) = (format!("with {}, which has no such part", body.words()), body.transformer().is_none());
        unused(is_recurrent, &of_transformers, &with, "--backbone transformer")?;
        unused(true, &given!(self; order), "with a network, which counts nothing", "--system kneser-ney")?;
        unused(!is_recurrent, &given!(self; units), "with a Transformer, which has none", "--system lstm")?;
        let (optimizer, schedule) = (settings.optimizer.name, settings.schedule.kind);
        let of_moments = given!(self; beta1, beta2, adam_eps);
        unused(!optimizer.has_moments(), &of_moments, "with sgd, which has no moments", "another --optimizer")?;
        unused(schedule == ScheduleKind::Constant, &given!(self; warmup), "with a constant rate", "another --schedule")
    }

    /// Returns whether the run counts n-grams, which has neither windows nor steps.
    pub fn counts(&self) -> bool {
        let system = systems::named(self.system.as_deref().unwrap_or(systems::DEFAULT.name));
        let named = self.backbone.as_deref().map_or(system.map(|card| card.axes.body), SystemBody::named);
        named.is_some_and(|body| body.network().is_none())
    }

    /// Returns an error if an option was given that has no effect on a corpus, or in the micro-world, which a run without a
    /// corpus reads.
    ///
    /// # Errors
    /// Returns [`SettingsError::Range`] for such an option.
    pub fn check_source(&self, has_corpus: bool) -> Result<(), SettingsError> {
        let (unused, with, expected) = match has_corpus {
            true if self.counts() => {
                (first(&given!(self; seed)), "with counts of a corpus, which are not random", "a network, to which it applies,")
            }
            true => return Ok(()),
            false => (
                first(&given!(self; held_out, held_out_corpus, tokenizer, vocab)),
                "in the micro-world, which has a tokenizer and held-out stories of its own",
                "a --corpus",
            ),
        };
        let refused = |flag: String| RangeError::new(&*flag, with, format!("{expected} with it, or no --{flag}"));
        unused.map_or(Ok(()), |flag| Err(refused(flag).into()))
    }

    /// Returns the axes of the system, overridden by the options that are given.
    fn axes(&self) -> Result<Axes, RangeError> {
        let system = self.system.as_deref().unwrap_or(systems::DEFAULT.name);
        let card = systems::named(system).ok_or_else(|| RangeError::new("system", system, systems::names()))?;
        let (transform, view) = (self.transform.unwrap_or(card.axes.transform), self.view(card.axes.view)?);
        let named = |name: &str| SystemBody::named(name).ok_or_else(|| RangeError::new("backbone", name, SystemBody::names()));
        let own = self.backbone.as_deref().map(named).transpose()?.filter(|body| body.name() != card.axes.body.name());
        let mut body = own.unwrap_or(card.axes.body);
        if body.transformer().is_none() {
            let has_parts = card.axes.body.transformer().is_some_and(|c| c.parts() != TransformerConfig::GPT1);
            let is_of_gpt = !has_parts && !card.axes.transform && card.axes.view.is_next();
            require("backbone", body.name(), is_of_gpt, format!("transformer, for the other axes of --system {system}"))?;
            require("view", view, view.is_next(), format!("next, the only view of {}", body.words()))?;
        }
        macro_rules! set {
            ($c:ident; $($option:ident $field:ident),*) => { $($c.$field = self.$option.unwrap_or($c.$field);)* };
        }
        match &mut body {
            SystemBody::Network(BodyConfig::Transformer(c)) => {
                transformer_axes!(set!(c));
            }
            SystemBody::Network(_) => {}
            SystemBody::Ngram { order } => *order = self.order.unwrap_or(*order),
        }
        Ok(Axes { body, transform, view })
    }

    /// Leaves out what `flags` state of the view, in the text of `view` or as an option of its own.
    pub fn drop_view_of(&mut self, flags: &Self) {
        if flags.view.is_some() {
            (self.mask_rate, self.mask_hide, self.mask_replace, self.masks, self.pairs) = Default::default();
        } else if let Some(view) = &mut self.view {
            let given = given!(flags; mask_rate, mask_hide, mask_replace, masks);
            let names = ViewPlan::OPTIONS.into_iter().zip(given).filter(|(_, (_, is_given))| *is_given);
            *view = ViewPlan::without(view, &names.map(|(name, _)| name).collect::<Vec<_>>());
        }
    }

    /// Returns the view of the system, overridden by the options that are given.
    fn view(&self, of_system: ViewPlan) -> Result<ViewPlan, RangeError> {
        let base = of_system.corrupt().copied().unwrap_or(Corrupt::BERT);
        let read = |text| ViewPlan::read(text, base).map_err(|expected| RangeError::new("view", text, expected));
        let plan = self.view.as_deref().map_or(Ok(of_system), read)?;
        let text = self.view.as_deref().unwrap_or_default();
        let Some(&Corrupt { noise, replacement: MaskMix { mask, replace }, redraw }) = plan.corrupt() else {
            // Counts of n-grams refuse these options themselves: they have no other view.
            return match first(&given!(self; mask_rate, mask_hide, mask_replace, masks, pairs)).filter(|_| !self.counts()) {
                Some(flag) => {
                    let expected = if flag == "pairs" { "--view pairs instead" } else { "--view masked or pairs with it" };
                    Err(RangeError::new(flag, format!("with the view {plan}"), expected))
                }
                None => Ok(plan),
            };
        };
        for (name, (flag, is_given)) in ViewPlan::OPTIONS.iter().zip(given!(self; mask_rate, mask_hide, mask_replace, masks)) {
            let is_twice = is_given && text.contains(&format!("{name}="));
            require("view", text, !is_twice, format!("{name} here or as --{}, found both", flag.replace('_', "-")))?;
        }
        let pairs = self.pairs.unwrap_or(plan.has_pairs());
        let (agrees, kind) = (text.is_empty() || pairs == plan.has_pairs(), if pairs { "pairs" } else { "masked" });
        require("view", text, agrees, format!("{kind} with --pairs {pairs}, or no --pairs"))?;
        let corrupt = Corrupt {
            noise: self.mask_rate.map_or(noise, Noise::Share),
            replacement: MaskMix { mask: self.mask_hide.unwrap_or(mask), replace: self.mask_replace.unwrap_or(replace) },
            redraw: self.masks.unwrap_or(redraw),
        };
        Ok(if pairs { ViewPlan::Pairs(corrupt) } else { ViewPlan::Masked(corrupt) })
    }

    /// Returns the model's configuration, with a vocabulary of 1 until there is a tokenizer.
    pub fn model(&self, preset: &ModelConfig, axes: &Axes) -> ModelConfig {
        let base = preset.transformer().expect("presets are Transformers");
        let (width, dropout) = (self.width.unwrap_or(preset.sizes.width), self.dropout.unwrap_or(base.embd_dropout));
        // Counts have no windows: the context only has to hold every story of the micro-world.
        let context = axes.body.order().map_or(preset.sizes.context, |_| Self::world_context(true));
        let sizes = Sizes { vocab: 1, context: self.context.unwrap_or(context), width };
        let initializer_range = self.init_std.unwrap_or(base.initializer_range * (768.0 / width as f64).sqrt());
        let dropouts = [self.embd_dropout, self.attn_dropout, self.resid_dropout];
        let [embd_dropout, attn_dropout, resid_dropout] = dropouts.map(|p| p.unwrap_or(dropout));
        let body: BodyConfig = match axes.body.network().copied().unwrap_or(TransformerConfig::GPT1.into()) {
            BodyConfig::Transformer(c) => {
                let c = TransformerConfig {
                    layers: self.layers.unwrap_or(base.layers),
                    heads: self.heads.unwrap_or(base.heads),
                    positions: self.positions.unwrap_or_default(),
                    embedding: self.embedding.unwrap_or_default(),
                    embd_dropout,
                    attn_dropout,
                    resid_dropout,
                    initializer_range,
                    ..c
                };
                self.inner.map_or(c, |inner| c.with_inner(inner, width)).into()
            }
            BodyConfig::Lstm(c) => {
                let units = self.units.unwrap_or(c.units);
                LstmConfig { units, embd_dropout, resid_dropout, initializer_range }.into()
            }
        };
        let TransformerConfig { activation, layer_norm_epsilon, .. } = axes.body.transformer().copied().unwrap_or_default();
        let output = OutputConfig {
            predicts: if axes.view.is_next() { Predicts::Next } else { Predicts::Masked },
            transform: axes.transform.then_some(TransformConfig { activation, layer_norm_epsilon }),
            ..OutputConfig::NEXT
        };
        let next = HeadConfig {
            bias: true,
            pooler: true,
            dropout: 0.0,
            labels: NEXT.map(str::to_owned).into(),
            ..HeadConfig::new(Form::Classify, NEXT.len())
        };
        let pairs = axes.view.has_pairs();
        ModelConfig { outputs: vec![output], heads: pairs.then_some(next).into_iter().collect(), ..ModelConfig::new(sizes, body) }
    }

    fn optimizer(&self, lr: f64) -> Optimizer {
        let paper = Optimizer::default();
        Optimizer {
            name: self.optimizer.unwrap_or(paper.name),
            lr: self.lr.unwrap_or(lr),
            beta1: self.beta1.unwrap_or(paper.beta1),
            beta2: self.beta2.unwrap_or(paper.beta2),
            eps: self.adam_eps.unwrap_or(paper.eps),
            decay: self.decay.unwrap_or(paper.decay),
        }
    }
}

impl PretrainSettings {
    /// Returns an error if these settings cannot make a run.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.model.check()?;
        self.check_view()?;
        self.optimizer.validate()?;
        self.schedule.validate()?;
        let (batch, accumulate, shards) = (self.batch, self.accumulate, self.shards);
        require("batch", batch, (1..=1 << 20).contains(&batch), "a number of sequences from 1 to 1048576")?;
        require("accumulate", accumulate, (1..=batch).contains(&accumulate), "a number from 1 to --batch")?;
        let fits = shards > 0 && accumulate.saturating_mul(shards) <= batch;
        require("shards", shards, fits, "at least 1, and times --accumulate at most --batch")?;
        require("vocab", self.vocab, (2..=1 << 24).contains(&self.vocab), "a number of tokens from 2 to 16777216")?;
        require("eval-tokens", 0, self.eval_tokens != Some(0), "at least 1 token")?;
        clip_in_range(self.clip)?;
        require("held-out", self.held_out, (0.0..1.0).contains(&self.held_out), "a fraction from 0 to below 1")?;
        match self.length {
            Length::Steps(n) => {
                require("steps", n, (1..=1_000_000_000).contains(&n), "a number of steps from 1 to a billion")?;
            }
            Length::Epochs(e) => require("epochs", e, e > 0.0 && e <= 1e6, "a positive number up to a million")?,
        }
        Ok(require("eval-every", 0, self.eval_every != Some(0), "at least 1 step")?)
    }

    /// Returns an error if the view, the model and the objective do not fit together.
    fn check_view(&self) -> Result<(), RangeError> {
        let predicts = self.model.predicts();
        if self.view.is_next() {
            return require("view", "next", predicts == Predicts::Next, "masked, for a model that fills masks");
        }
        self.view.check()?;
        let pairs = self.view.has_pairs();
        require("view", "masked", predicts == Predicts::Masked, "next, for a model that predicts the next token")?;
        let segments = self.model.body.segments();
        require("segments", segments, !pairs || segments >= 2, "at least 2, for the two texts of a pair")?;
        let (found, context) = (self.objective, self.model.sizes.context);
        require("objective", found, found == Objective::TokenMean, "token_mean, over the predicted tokens")?;
        require("context", context, context > Corrupt::SPECIAL_SLOTS, "more than 2, since a view has two special tokens")?;
        let expected = "more than 4 with pairs, for a token of each text and three special tokens";
        require("context", context, !pairs || context > Corrupt::SPECIAL_SLOTS + 2, expected)
    }

    /// Returns the axes of the system that the run trains.
    pub fn axes(&self) -> Axes {
        let network = SystemBody::Network(self.model.body.design());
        Axes {
            body: self.order.map_or(network, |order| SystemBody::Ngram { order }),
            transform: self.model.outputs.iter().any(|output| output.transform.is_some()),
            view: self.view,
        }
    }

    /// Returns the system that the run trains; `None` if no system has exactly these axes.
    pub fn system(&self) -> Option<&'static Card> {
        systems::of(&self.axes())
    }

    /// Returns the number of steps on a corpus of `corpus_tokens` tokens if a step reads `tokens_per_step` of them.
    pub fn steps(&self, corpus_tokens: u64, tokens_per_step: f64) -> u64 {
        match self.length {
            Length::Steps(n) => n,
            Length::Epochs(e) => ((e * corpus_tokens as f64 / tokens_per_step).ceil() as u64).max(1),
        }
    }

    /// Returns the settings of the trainer.
    pub fn recipe(&self, steps: u64) -> Recipe {
        Recipe {
            optimizer: self.optimizer,
            schedule: self.schedule,
            steps,
            clip: (self.clip > 0.0).then_some(self.clip),
            shards: self.accumulate * self.shards,
            concurrent_shards: self.shards,
            backward: if self.recompute { GradientMode::Recompute } else { GradientMode::Whole },
            seed: self.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_draws_as_many_tokens_as_the_corpus_has() {
        let steps =
            |text: &str, per_step| toml::from_str::<PretrainOptions>(text).unwrap().settle().unwrap().steps(1000, per_step);
        assert_eq!((steps("", 40.0), steps("", 30.0), steps("epochs = 0.5", 40.0)), (25, 34, 13));
        assert_eq!((steps("epochs = 1e-6", 40.0), steps("steps = 7", 40.0)), (1, 7));
    }

    #[test]
    fn the_example_config_is_valid() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cloze.toml");
        let settings = PretrainOptions::read(&path).unwrap().settle().unwrap();
        let ViewPlan::Masked(Corrupt { noise: Noise::Share(rate), .. }) = settings.view else { panic!("masked") };
        assert_eq!((rate, settings.batch, settings.optimizer.lr), (0.2, 32, 6e-4));
    }

    #[test]
    fn unset_options_are_those_of_the_preset() {
        let options: PretrainOptions =
            toml::from_str("preset = \"small\"\nlr = 0.01\nepochs = 3.0\nactivation = \"relu\"").unwrap();
        let settings = options.settle().unwrap();
        assert_eq!((settings.optimizer.lr, settings.length, settings.batch), (0.01, Length::Epochs(3.0), 8));
        let activation = settings.model.transformer().unwrap().activation;
        assert_eq!((settings.model.sizes.width, activation), (384, Activation::Relu));
    }

    #[test]
    fn an_lstm_takes_sizes_of_the_transformer_and_its_own_units() {
        let lstm = PretrainOptions { backbone: Some("lstm".into()), ..Default::default() };
        let ModelConfig { sizes, body: BodyConfig::Lstm(lstm), .. } = lstm.settle().unwrap().model else { panic!("an LSTM") };
        assert_eq!((lstm.units, sizes.width, sizes.context), (2048, 128, 128));
    }

    #[test]
    fn numbers_out_of_range_are_rejected_by_name() {
        for (text, words) in [
            ("batch = 0", "--batch 0: expected a number of sequences from 1 to 1048576"),
            ("heads = 3", "width = 128: expected a multiple of the 3 heads"),
            ("dropout = 1.0", "embd_dropout = 1: expected a probability from 0 to below 1"),
            ("lr = nan", "--lr NaN: expected a learning rate above 0. "),
            ("adam_eps = 0.0", "--adam-eps 0: expected a number above 0. "),
            ("preset = 'huge'", "--preset huge: expected tiny, small or gpt1"),
            ("steps = 0", "--steps 0: expected a number of steps from 1"),
            ("layers = 1000000", "layers = 1000000: expected a number from 1 to 1024"),
            ("width = 0", "width = 0: expected a number from 1 to 65536"),
            ("eval_every = 0", "--eval-every 0: expected at least 1"),
            ("system = 'gpt9'", "--system gpt9: expected kneser-ney, gpt, lstm, "),
            ("mask_rate = 0.1", "--mask-rate with the view next: expected --view masked or pairs with it"),
            (
                "view = 'masked'\nmask_rate = 0.0",
                "--view masked:rate=0,hide=0.8,replace=0.1,masks=dynamic: expected a rate (--mask-rate) above 0",
            ),
            (
                "view = 'masked:rate=0.2'\nmask_rate = 0.3",
                "--view masked:rate=0.2: expected rate here or as --mask-rate, found both",
            ),
            ("view = 'masked:rate=0.2,rate=0.3'", "--view masked:rate=0.2,rate=0.3: expected one value of rate, found two"),
            ("view = 'mask'", "--view mask: expected next, masked or pairs"),
            ("view = ''", "--view : expected next, masked or pairs"),
            ("view = 'pairs'\npairs = false", "--view pairs: expected masked with --pairs false, or no --pairs"),
            ("view = 'masked'\nobjective = 'sequence_mean'", "--objective sequence_mean: expected token_mean"),
            ("view = 'masked'\npairs = true", "--view masked: expected pairs with --pairs true, or no --pairs"),
            ("view = 'pairs'", "--segments 0: expected at least 2, for the two texts of a pair"),
            ("system = 'bert'\nbackbone = 'lstm'", "--backbone lstm: expected transformer, for the other axes of --system bert"),
            (
                "system = 'lstm'\nview = 'masked'",
                "--view masked:rate=0.15,hide=0.8,replace=0.1,masks=dynamic: expected next, the only view of an LSTM",
            ),
            (
                "backbone = 'ngram'\nview = 'pairs'",
                "--view pairs:rate=0.15,hide=0.8,replace=0.1,masks=dynamic: expected next, the only view of counts",
            ),
            ("system = 'kneser-ney'\ntokenizer = 'char'\nvocab = 300", "--vocab with --tokenizer char, which has a vocabulary"),
            ("system = 'kneser-ney'\ncontext = 4", "--context with counts of n-grams"),
            (
                "tokenizer = 'byte'\nvocab = 99",
                "--vocab with --tokenizer byte, which has a vocabulary of its own: expected a BPE",
            ),
            ("system = 'bert'\ncontext = 2", "--context 2: expected more than 2"),
            ("system = 'bert'\ncontext = 4", "--context 4: expected more than 4 with pairs"),
            ("units = 64", "--units with a Transformer, which has none: expected --system lstm with it, or no --units"),
            (
                "system = 'lstm'\ninner = 64",
                "--inner with an LSTM of one layer, which has no such part: expected --backbone transformer with it, or no --inner",
            ),
            ("optimizer = 'sgd'\nbeta2 = 0.9", "--beta2 with sgd, which has no moments: expected another --optimizer with it"),
            ("schedule = 'constant'\nwarmup = 0.1", "--warmup with a constant rate: expected another --schedule with it"),
        ] {
            let error = toml::from_str::<PretrainOptions>(text).unwrap().settle().unwrap_err().to_string();
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_system_sets_axes_and_flags_change_them() {
        let settle = |text: &str| toml::from_str::<PretrainOptions>(text).unwrap().settle().unwrap();
        for card in systems::ALL {
            let settings = settle(&format!("system = '{}'", card.name));
            assert_eq!(settings.system(), Some(*card), "{}", card.name);
        }
        assert_eq!(settle(""), settle("system = 'gpt'"));
        let single = settle("system = 'bert'\npairs = false");
        assert_eq!((single.system(), single.model.head().cloned()), (None, None));
        assert_eq!(single.view, ViewPlan::Masked(Corrupt { redraw: Redraw::Copies, ..Corrupt::BERT }));
        assert_eq!(
            settle("system = 'bert'\nview = 'masked'\nmask_rate = 0.3"),
            settle("system = 'bert'\nview = 'masked:rate=0.3'")
        );
        assert_eq!(settle("system = 'bert'\nview = 'masked'"), single, "the other options are the system's");
        let bert = settle("system = 'bert'");
        assert_eq!(bert.model.head().unwrap().labels, NEXT);
        // RoBERTa is BERT without pairs, with one segment, and a new mask each time (and in fairseq's numbers).
        let same = "system = 'bert'\npairs = false\nsegments = 1\nmasks = 'dynamic'\nactivation = 'gelu_erf'\nepsilon = 1e-5";
        assert_eq!(settle(same), settle("system = 'roberta'"));
        let same = "norm = 'before'\nfinal_norm = true\nscaled_init = true";
        assert_eq!(settle(same), settle("system = 'gpt2'"));
        let causal = settle("system = 'bert'\nview = 'next'");
        assert!(causal.view.is_next() && causal.model.predicts() == Predicts::Next, "a BERT that reads from left to right");
    }

    /// For every system, each option changes the settings or is rejected by name.
    #[test]
    fn no_flag_is_ignored_silently() {
        let values: serde_json::Map<String, serde_json::Value> = serde_json::from_str(
            r#"{"preset": "small", "system": "gpt2", "backbone": "lstm", "order": 3, "units": 7, "context": 40, "layers": 3, "width": 64, "heads": 2,
                "inner": 24, "activation": "relu", "positions": "sinusoidal", "embedding": "joint", "dropout": 0.3, "embd_dropout": 0.3,
                "attn_dropout": 0.3, "resid_dropout": 0.3, "epsilon": 1e-3, "norm": "before", "final_norm": true, "embedding_norm": true,
                "segments": 3, "transform": true, "scaled_init": true, "init_std": 0.5, "view": "masked", "mask_rate": 0.3,
                "mask_hide": 0.5, "mask_replace": 0.2, "masks": "static", "pairs": true, "batch": 12, "accumulate": 2, "shards": 4,
                "recompute": true, "steps": 9, "epochs": 3.0, "optimizer": "sgd", "lr": 0.5, "beta1": 0.5, "beta2": 0.5, "adam_eps": 0.1,
                "decay": 0.5, "schedule": "constant", "warmup": 77, "clip": 3.0, "objective": "sequence_mean", "seed": 9, "held_out": 0.2,
                "held_out_corpus": "b.txt", "tokenizer": "char", "mode": "spacy", "vocab": 99, "shuffle_sentences": true, "retold": true,
                "eval_every": 5, "eval_tokens": 7}"#,
        )
        .unwrap();
        // Second values, for systems whose default is the first.
        let others: serde_json::Map<String, serde_json::Value> = serde_json::from_str(
            r#"{"system": "lstm", "backbone": "transformer", "norm": "after", "final_norm": false, "embedding_norm": false, "segments": 0,
                "transform": false, "scaled_init": false, "view": "next", "mask_rate": 0.15, "masks": "dynamic", "pairs": false,
                "recompute": false, "activation": "gelu_erf"}"#,
        )
        .unwrap();
        let fields = serde_json::to_value(PretrainOptions::default()).unwrap();
        let mut refused = 0;
        for card in systems::ALL {
            let settle = |given: &[(&String, &serde_json::Value)]| {
                let mut options = serde_json::json!({ "system": card.name });
                given.iter().for_each(|(name, value)| options[*name] = (*value).clone());
                let options: PretrainOptions = serde_json::from_value(options).unwrap();
                options.settle().map_err(|e| e.to_string())
            };
            let plain = settle(&[]).unwrap();
            for name in fields.as_object().unwrap().keys() {
                let value = values.get(name).unwrap_or_else(|| panic!("{name} has no value here"));
                let mut changes = false;
                for value in [Some(value), others.get(name)].into_iter().flatten() {
                    match settle(&[(name, value)]) {
                        Ok(settings) => changes |= settings != plain,
                        Err(error) => {
                            let flag = format!("--{}", name.replace('_', "-"));
                            let is_named = [&*flag, "--backbone lstm", "--system lstm", "--segments ", "ngram"]
                                .iter()
                                .any(|f| error.contains(f));
                            assert!(is_named, "{}: {name}: {error}", card.name);
                            (changes, refused) = (true, refused + 1);
                        }
                    }
                }
                assert!(changes, "{}: --{name} changes nothing", card.name);
            }
        }
        assert!(refused > 40, "{refused}");
    }

    /// A run without a corpus reads the micro-world.
    #[test]
    fn no_corpus_flag_is_ignored_silently() {
        let mut refused = 0;
        for text in
            ["held_out = 0.2", "held_out_corpus = 'b.txt'", "tokenizer = 'char'", "vocab = 99", "steps = 9", "retold = true"]
        {
            let options = toml::from_str::<PretrainOptions>(text).unwrap();
            options.check_source(true).unwrap();
            if let Err(error) = options.check_source(false) {
                let (name, _) = text.split_once(" = ").unwrap();
                let flag = name.replace('_', "-");
                let message = error.to_string();
                assert!(message.starts_with(&format!("--{flag} in the micro-world")), "{message}");
                assert!(message.ends_with(&format!("expected a --corpus with it, or no --{flag}")), "{message}");
                refused += 1;
            }
        }
        assert_eq!(refused, 4);
    }

    #[test]
    fn initial_weights_keep_the_size_of_a_product() {
        let std = |preset: &str| {
            PretrainOptions { preset: Some(preset.into()), ..Default::default() }.settle().unwrap().model.body.initializer_range()
        };
        assert_eq!(std("gpt1"), 0.02);
        assert!((std("tiny") - 0.04899).abs() < 1e-5 && (std("small") - 0.02828).abs() < 1e-5);
    }

    #[test]
    fn an_invalid_config_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.toml");
        for (text, expected) in [
            ("lerning_rate = 1.0", "lerning_rate"),
            ("warmup = \"a\"", "a fraction of them (0.02)"),
            ("steps = 2\nepochs = 3.0", "steps and epochs both"),
            ("held_out = 0.1\nheld_out_corpus = \"b.txt\"", "held_out and held_out_corpus both"),
        ] {
            std::fs::write(&path, text).unwrap();
            let message = PretrainOptions::read(&path).unwrap_err().to_string();
            assert!(message.contains(&format!("{}: ", path.display())) && message.contains(expected), "{message}");
        }
    }
}
