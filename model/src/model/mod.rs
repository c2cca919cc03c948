//! A body, its outputs and its heads: loss, gradient, evaluation.
//!
//! ```text
//! tokens ──body──▶ hidden states ──outputs──▶ probabilities of tokens
//!                               └──heads────▶ probabilities of classes
//!
//! pre-training     L₁(U)                                      (equation 1)
//! fine-tuning      L₃(C) = L₂(C) + λ·L₁(C)                    (equation 5)
//! ```
//!
//! The loss is the sum of the batch's terms. The token weights include λ. With λ = 0, the token term and its output are omitted.

mod limits;

use std::collections::HashMap;
use std::sync::Arc;

use gradus_autograd::observer::Observer;
use gradus_autograd::{Tape, Var};
use gradus_tensor::{Real, Tensor, on_pool};
use serde::{Deserialize, Serialize};

use crate::batch::{Batch, Input, LossTerm, TokenLoss};
use crate::body::{Body, BodyConfig};
use crate::config::{ConfigError, Sizes, ensure};
use crate::dropout::DropoutSeed;
use crate::head::{Head, HeadConfig, Heads};
use crate::output::{Hidden, Output, OutputConfig, Outputs, Predicts};
use crate::param::{Param, draw};
use crate::recurrent::Lstm;
use crate::transformer::{Embedding, Transformer, TransformerConfig};
use crate::tree;
use crate::tree::Tree;

tree! {
    /// A body, its outputs and its heads, with parameters of type `V`.
    pub struct Model<V> {
        /// The body; names have no prefix.
        body as "": Body<V>,
        /// The outputs, which predict tokens.
        outputs as "": Outputs<V>,
        /// The heads, which predict classes.
        heads as "": Heads<V>,
    } with {
        pub(crate) model_type: Option<Arc<str>>,
    }
}

/// Sizes and options of a [`Model`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The sizes that all parts share.
    pub sizes: Sizes,
    /// The body.
    pub body: BodyConfig,
    /// The outputs.
    pub outputs: Vec<OutputConfig>,
    /// The heads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<HeadConfig>,
    /// The `transformers` model type to save as, if several fit; `None`: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_type: Option<Arc<str>>,
}

/// The method of gradient computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GradientMode {
    /// On one tape.
    #[default]
    Whole,
    /// Activation checkpointing: recomputes block by block; bit-identical. (No effect on an LSTM.)
    Recompute,
    /// Only for the heads: the body is frozen and runs without dropout.
    Head,
}

impl Default for ModelConfig {
    /// Returns the paper's GPT-1.
    ///
    /// ```
    /// assert_eq!(gradus_model::ModelConfig::default().parameters(), 116_534_784);
    /// ```
    fn default() -> Self {
        ModelConfig::new(Sizes { vocab: 40_478, context: 512, width: 768 }, TransformerConfig::default())
    }
}

impl<V> From<Body<V>> for Model<V> {
    fn from(body: Body<V>) -> Self {
        let output = Output { lm_head: None, transform: None, config: OutputConfig::NEXT };
        Model { body, outputs: Outputs::new(vec![output]), heads: Heads::new(Vec::new()), model_type: None }
    }
}

impl<V> From<Lstm<V>> for Model<V> {
    fn from(lstm: Lstm<V>) -> Self {
        Body::Lstm(lstm).into()
    }
}

impl<V> From<Transformer<V>> for Model<V> {
    fn from(transformer: Transformer<V>) -> Self {
        Body::Transformer(transformer).into()
    }
}

impl ModelConfig {
    /// The names of [`ModelConfig::preset`], smallest first.
    pub const PRESETS: [&str; 3] = ["tiny", "small", "gpt1"];

    /// Creates a language model like GPT-1: one tied output that predicts the next token.
    pub fn new(sizes: Sizes, body: impl Into<BodyConfig>) -> Self {
        ModelConfig { sizes, body: body.into(), outputs: vec![OutputConfig::NEXT], heads: Vec::new(), model_type: None }
    }

    /// Creates a GPT with `layers` blocks and `heads` attention heads per block.
    pub fn gpt(sizes: Sizes, layers: usize, heads: usize) -> Self {
        Self::new(sizes, TransformerConfig { layers, heads, ..TransformerConfig::GPT1 })
    }

    /// Creates a GPT of a named size: `tiny`, `small` or `gpt1`.
    pub fn preset(name: &str) -> Option<Self> {
        let gpt1 = Self::default();
        Some(match name {
            "tiny" => Self::gpt(Sizes { context: 128, width: 128, ..gpt1.sizes }, 4, 4),
            "small" => Self::gpt(Sizes { context: 256, width: 384, ..gpt1.sizes }, 6, 6),
            "gpt1" => gpt1,
            _ => return None,
        })
    }

    /// Sets the vocabulary size.
    pub fn with_vocab(mut self, vocab: usize) -> Self {
        self.sizes.vocab = vocab;
        self
    }

    /// Sets all dropouts of the body to one probability.
    pub fn with_dropout(self, p: f64) -> Self {
        ModelConfig { body: self.body.with_dropout(p), ..self }
    }

    /// Changes the options of the Transformer; an LSTM is left unchanged.
    pub fn with_transformer(mut self, change: impl FnOnce(&mut TransformerConfig)) -> Self {
        if let BodyConfig::Transformer(config) = &mut self.body {
            change(config);
        }
        self
    }

    /// Returns the prediction target of the first output.
    pub fn predicts(&self) -> Predicts {
        self.outputs.first().map_or(Predicts::Next, |output| output.predicts)
    }

    /// Returns the number of parameters.
    pub fn parameters(&self) -> usize {
        let (d, rows) = (self.sizes.width, self.body.output_rows(self.sizes));
        let outputs: usize = self.outputs.iter().map(|output| output.parameters(rows, d)).sum();
        let of_head = |h: &HeadConfig| h.classes * (d + usize::from(h.bias)) + if h.pooler { d * d + d } else { 0 };
        self.body.parameters(self.sizes) + outputs + self.heads.iter().map(of_head).sum::<usize>()
    }

    /// Checks the sizes and options.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.sizes.check()?;
        self.body.check(self.sizes)?;
        self.outputs.iter().try_for_each(OutputConfig::check)?;
        self.heads.iter().try_for_each(HeadConfig::check)?;
        let Some(c) = self.transformer() else { return Ok(()) };
        let plain = self.outputs.iter().all(|output| *output == OutputConfig::NEXT);
        let joint = c.embedding == Embedding::Joint;
        ensure(!joint || plain, "embedding", "joint", "separate, in a model with further parts", "--embedding")?;
        if let (Some(padding), Predicts::Next) = (c.padding, self.predicts()) {
            return ensure(false, "padding", padding, "no padding token, in a model that predicts the next token", "--view");
        }
        Ok(())
    }

    /// Returns the head; `None` unless there is exactly one.
    pub fn head(&self) -> Option<&HeadConfig> {
        if let [head] = &self.heads[..] { Some(head) } else { None }
    }

    /// Returns the options of the Transformer; `None` for another body.
    pub fn transformer(&self) -> Option<&TransformerConfig> {
        self.body.transformer()
    }
}

impl Model<Param> {
    /// Declares the parameters.
    pub fn declare(config: &ModelConfig) -> Self {
        let (width, std) = (config.sizes.width, config.body.initializer_range());
        let sizes = [config.body.output_rows(config.sizes), width];
        let outputs = config.outputs.iter().enumerate().map(|(number, output)| Output::declare(output, number, sizes, std));
        let heads = config.heads.iter().enumerate().map(|(number, head)| Head::declare(head, number, width, std));
        Model {
            body: Body::declare(config.sizes, &config.body),
            outputs: Outputs::new(outputs.collect()),
            heads: Heads::new(heads.collect()),
            model_type: config.model_type.clone(),
        }
    }
}

impl<V> Model<V> {
    /// Returns the sizes and options.
    pub fn config(&self) -> ModelConfig {
        ModelConfig {
            sizes: self.sizes(),
            body: self.body.config(),
            outputs: self.outputs.0.iter().map(|output| output.config).collect(),
            heads: self.heads.0.iter().map(|head| head.config().clone()).collect(),
            model_type: self.model_type.clone(),
        }
    }

    /// Returns the sizes.
    pub fn sizes(&self) -> Sizes {
        self.body.sizes()
    }

    /// Returns the prediction target of the first output.
    pub fn predicts(&self) -> Predicts {
        self.outputs.0.first().map_or(Predicts::Next, |output| output.config.predicts)
    }

    /// Replaces options such as dropout, but not the sizes.
    pub fn with_config(self, config: &ModelConfig) -> Self {
        Model::declare(config).zip(self).map(|_, (_, v)| v)
    }

    /// Returns the head; `None` unless there is exactly one.
    pub fn head(&self) -> Option<&Head<V>> {
        if let [head] = &self.heads.0[..] { Some(head) } else { None }
    }

    /// Removes the heads.
    #[must_use]
    pub fn without_heads(self) -> Self {
        Model { heads: Heads::new(Vec::new()), ..self }
    }

    /// Returns a mask of the parameters that a batch's loss depends on: the body, and the outputs and heads of its terms.
    pub fn reached(&self, batch: &Batch) -> Model<bool> {
        let mut all = self.as_ref().map(|_, _| true);
        for (number, output) in all.outputs.0.iter_mut().enumerate() {
            let is_reached = batch.tokens().any(|tokens| tokens.output == number);
            output.as_mut().visit(|_, is| *is = is_reached);
        }
        for (number, head) in all.heads.0.iter_mut().enumerate() {
            let is_reached = batch.classes().any(|classes| classes.head == number);
            head.as_mut().visit(|_, is| *is = is_reached);
        }
        all
    }

    /// Returns the head that the model was fine-tuned with, not that of next-sentence prediction, which is pre-trained.
    pub fn task_head(&self) -> Option<&HeadConfig> {
        self.heads.0.iter().map(Head::config).find(|head| !head.predicts_next())
    }

    /// Returns the Transformer; `None` for another body.
    pub fn transformer(&self) -> Option<&Transformer<V>> {
        match &self.body {
            Body::Transformer(transformer) => Some(transformer),
            _ => None,
        }
    }
}

impl<T: Real> Model<Tensor<T>> {
    /// Initializes parameters.
    pub fn init(config: &ModelConfig, seed: u64) -> Self {
        draw(Model::declare(config), seed)
    }

    /// Computes the loss of a batch ([`Model::loss`]), a scalar, and its gradient; `None` for unreached parameters.
    pub fn gradient(
        &self,
        batch: &Batch,
        dropout: Option<DropoutSeed>,
        mode: GradientMode,
    ) -> (Tensor<T>, Model<Option<Tensor<T>>>) {
        self.observed_gradient(None, batch, dropout, mode)
    }

    /// Computes [`Model::gradient`], bit-identical, with an [observer](gradus_autograd::observer). Several tapes: `Recompute`.
    pub fn observed_gradient(
        &self,
        observer: Option<Arc<dyn Observer<T>>>,
        batch: &Batch,
        dropout: Option<DropoutSeed>,
        mode: GradientMode,
    ) -> (Tensor<T>, Model<Option<Tensor<T>>>) {
        let mut parts = HashMap::new();
        let loss = self.gradient_each(observer, batch, dropout, mode, &mut |number, g| drop(parts.insert(number, g)));
        (loss, self.numbers().map(|_, number| parts.remove(&number)))
    }

    /// Returns the index of each parameter.
    fn numbers(&self) -> Model<usize> {
        let mut count = 0..;
        self.as_ref().map(|_, _| count.next().expect("without end"))
    }

    /// Returns the loss. Calls `each` with the index and gradient of each parameter as soon as it is complete, during backward.
    pub fn gradient_each(
        &self,
        observer: Option<Arc<dyn Observer<T>>>,
        batch: &Batch,
        dropout: Option<DropoutSeed>,
        mode: GradientMode,
        each: &mut dyn FnMut(usize, Tensor<T>),
    ) -> Tensor<T> {
        let numbers = self.numbers();
        if let (GradientMode::Recompute, Body::Transformer(transformer), Body::Transformer(of_transformer)) =
            (mode, &self.body, numbers.body)
        {
            return transformer.recomputed_gradient(
                observer,
                &batch.input,
                dropout,
                of_transformer,
                each,
                |tape, states, table| {
                    let (outputs, heads, mut leaves) = (self.outputs.leaves(tape), self.heads.leaves(tape), Vec::new());
                    heads.clone().zip(numbers.heads).visit(|_, leaf| leaves.push(leaf));
                    outputs.clone().zip(numbers.outputs).visit(|_, leaf| leaves.push(leaf));
                    (objective(&heads, &Hidden { states, table, outputs }, batch, dropout), leaves)
                },
            );
        }
        let tape = &Tape::new().observed_by(observer);
        let leaves = match mode {
            GradientMode::Whole | GradientMode::Recompute => self.leaves(tape),
            GradientMode::Head => Model { heads: self.heads.leaves(tape), ..self.constants(tape) },
        };
        let inner = dropout.filter(|_| mode != GradientMode::Head);
        let hidden = leaves.hidden(&batch.input, inner);
        let loss = objective(&leaves.heads, &hidden, batch, dropout);
        let mut of_leaf = HashMap::new();
        leaves.as_ref().zip(self.numbers()).visit(|_, (leaf, number)| of_leaf.extend(leaf.node().map(|node| (node, number))));
        let one = loss.value().full_like(*loss.shape(), T::one());
        tape.backward_each(vec![(&loss, one)], |leaf, gradient| each(of_leaf[&leaf], gradient));
        loss.into_value()
    }

    /// Computes −log P(targetᵢ) of each predicted token, in nats, for evaluation: without gradient or dropout, and with at most
    /// 1,024 rows of logits in memory. Ignores the batch's weights.
    ///
    /// # Panics
    /// Panics if the batch predicts no tokens.
    pub fn token_losses(&self, batch: &Batch) -> Tensor<T> {
        on_pool(|| {
            let tape = Tape::off();
            self.constants(&tape).hidden(&batch.input, None).token_losses(predicted(batch))
        })
    }

    /// Computes the logits (n, rows) at these slots (of B·T), without dropout; in a causal model, those of the next token.
    pub fn logits_at(&self, input: &Input, slots: impl AsRef<[u32]>) -> Tensor<T> {
        let slots = slots.as_ref().into();
        on_pool(|| self.constants(&Tape::off()).hidden(input, None).logits_at(&slots).into_value())
    }

    /// Computes the class logits of a batch, (examples, classes or answers), without dropout. Ignores targets and weights.
    ///
    /// # Panics
    /// Panics on a batch without classes, with classes of several heads, or of a head that the model lacks.
    pub fn class_logits(&self, batch: &Batch) -> Tensor<T> {
        on_pool(|| {
            let tape = Tape::off();
            let model = self.constants(&tape);
            model.logits_of_classes(&model.hidden(&batch.input, None), batch)
        })
    }

    /// Computes [`Model::token_losses`] and [`Model::class_logits`] of a batch in one pass.
    ///
    /// # Panics
    /// Panics if one of these methods does.
    pub fn losses_and_class_logits(&self, batch: &Batch) -> (Tensor<T>, Tensor<T>) {
        on_pool(|| {
            let tape = Tape::off();
            let model = self.constants(&tape);
            let hidden = model.hidden(&batch.input, None);
            (hidden.token_losses(predicted(batch)), model.logits_of_classes(&hidden, batch))
        })
    }
}

impl<'t, T: Real> Model<Var<'t, T>> {
    fn logits_of_classes(&self, hidden: &Hidden<'t, T>, batch: &Batch) -> Tensor<T> {
        let (Some(classes), 1) = (batch.classes().next(), batch.classes().count()) else {
            panic!("class_logits needs a batch with the classes of one head")
        };
        let head = self.heads.0.get(classes.head).expect("class_logits needs a model with a head");
        head.logits(&hidden.states, classes, None).value().dense()
    }

    /// Computes the final hidden states, and returns them with the outputs.
    pub fn hidden(&self, input: &Input, dropout: Option<DropoutSeed>) -> Hidden<'t, T> {
        let (states, table) = self.body.hidden(input, dropout);
        Hidden { states, table, outputs: self.outputs.clone() }
    }

    /// Computes the logits (B, T, rows) at every slot; in a causal model, those of the next token.
    pub fn logits(&self, input: &Input) -> Var<'t, T> {
        self.hidden(input, None).logits()
    }

    /// Computes the sum of the batch's loss terms.
    ///
    /// # Panics
    /// Panics if the batch has none.
    pub fn loss(&self, batch: &Batch, dropout: Option<DropoutSeed>) -> Var<'t, T> {
        let hidden = self.hidden(&batch.input, dropout);
        objective(&self.heads, &hidden, batch, dropout)
    }
}

/// Returns the tokens that a batch predicts.
fn predicted(batch: &Batch) -> &TokenLoss {
    batch.tokens().next().expect("a batch that predicts tokens")
}

/// Computes the sum of the loss terms: L₁, or L₂ + λL₁.
fn objective<'t, T: Real>(
    heads: &Heads<Var<'t, T>>,
    hidden: &Hidden<'t, T>,
    batch: &Batch,
    dropout: Option<DropoutSeed>,
) -> Var<'t, T> {
    let term = |term: &LossTerm| match term {
        LossTerm::Tokens(tokens) => hidden.loss(tokens),
        LossTerm::Classes(classes) => heads.loss(&hidden.states, classes, dropout),
    };
    batch.losses.iter().map(term).reduce(|sum, one| sum + one).expect("a batch has a loss")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{ClassLoss, Input};
    use crate::check::{samples, tiny_bert, tiny_gpt};
    use crate::head::Form;

    /// For both bodies, with and without heads.
    #[test]
    fn the_parameter_count_equals_that_of_the_declaration() {
        let presets = ModelConfig::PRESETS.map(|name| ModelConfig::preset(name).unwrap());
        for config in samples().into_iter().map(|sample| sample.config).chain(presets) {
            let mut declared = 0;
            Model::declare(&config).visit(|_, p| declared += p.shape.numel());
            assert_eq!(config.parameters(), declared, "{config:?}");
        }
    }

    #[test]
    fn visiting_mutably_reaches_every_parameter() {
        for sample in samples() {
            let mut model: Model<Tensor<f64>> = Model::init(&sample.config, 1);
            let (mut all, mut changed) = (0, 0);
            model.as_ref().visit(|_, _| all += 1);
            model.as_mut().visit(|_, p| {
                p.set(0, 7.0);
                changed += 1;
            });
            assert_eq!(changed, all, "{}", sample.name);
            model.visit(|name, p| assert_eq!(p.to_vec()[0], 7.0, "{name}"));
        }
    }

    fn classified(head: usize) -> Batch {
        let (slots, targets) = ([2, 5].into(), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0].into());
        let classes = ClassLoss { head, group: 1, slots, targets, weights: [0.5; 2].into() };
        Batch::of(Input::causal(2, [1, 2, 3, 4, 5, 6])).with_classes(classes)
    }

    #[test]
    fn dropout_of_the_body_is_off_where_only_the_head_is_trained() {
        let head = HeadConfig { dropout: 0.0, ..HeadConfig::new(Form::Classify, 3) };
        let config = ModelConfig { heads: vec![head], ..tiny_gpt() }.with_dropout(0.5);
        assert_eq!(config.transformer().unwrap().embd_dropout, 0.5);
        let (model, seed) = (Model::<Tensor<f64>>::init(&config, 1), Some(DropoutSeed::new(1, 1)));
        let loss = |seed, mode| model.gradient_each(None, &classified(0), seed, mode, &mut |_, _| {}).item();
        assert_eq!(loss(seed, GradientMode::Head), loss(None, GradientMode::Head));
        assert_ne!(loss(seed, GradientMode::Whole), loss(None, GradientMode::Whole));
    }

    #[test]
    fn a_loss_reaches_the_body_and_the_outputs_and_heads_of_its_terms() {
        let untied = OutputConfig { tied: false, ..OutputConfig::NEXT };
        let head = HeadConfig::new(Form::Classify, 3);
        let config = ModelConfig { outputs: vec![untied; 2], heads: vec![head; 2], ..tiny_gpt() };
        let mut batch = classified(1).with_tokens(None, [1; 6], [1.0; 6]);
        let found = |batch: &Batch| {
            let mut names = Vec::new();
            let is_extra = |name: &str| name.contains("lm_head") || name.contains("score");
            Model::declare(&config)
                .reached(batch)
                .visit(|name, is| names.extend((is && is_extra(name)).then(|| name.to_owned())));
            names
        };
        assert_eq!(found(&batch), ["lm_head.weight", "score_1.weight"]);
        batch = classified(0);
        assert_eq!(found(&batch), ["score.weight"]);
    }

    #[test]
    fn the_task_head_is_the_first_that_is_not_pre_trained() {
        let next = HeadConfig { labels: crate::head::NEXT.map(str::to_owned).into(), ..HeadConfig::new(Form::Classify, 2) };
        let classes = |heads: &[HeadConfig]| {
            let model = Model::declare(&ModelConfig { heads: heads.into(), ..tiny_bert() });
            assert_eq!((model.predicts(), model.config().predicts()), (Predicts::Masked, Predicts::Masked));
            model.task_head().map(|head| head.classes)
        };
        assert_eq!((classes(&[]), classes(std::slice::from_ref(&next))), (None, None));
        assert_eq!(classes(&[next, HeadConfig::new(Form::Classify, 3)]), Some(3));
    }

    #[test]
    fn backbone_and_head_are_both_checked() {
        let good = ModelConfig { heads: vec![HeadConfig::new(Form::Classify, 3)], ..ModelConfig::default() };
        assert_eq!(good.check(), Ok(()));
        let bad = ModelConfig { heads: vec![HeadConfig::new(Form::Similar, 1)], ..good.clone() };
        assert_eq!(bad.check().unwrap_err().field, "classes");
        let bad = good.with_transformer(|c| c.heads = 7);
        assert_eq!(bad.check().unwrap_err().field, "width");
    }
}
