//! A backbone and an optional head: loss, gradient, evaluation.
//!
//! ```text
//! pre-training     L₁(U)                                      (equation 1)
//! fine-tuning      L₃(C) = L₂(C) + λ·L₁(C)                    (equation 5)
//! ```
//!
//! λ is part of the batch's weights of the next tokens; with λ = 0 the output's softmax is not computed at all.

use std::collections::HashMap;
use std::sync::Arc;

use gradus_autograd::observer::Observer;
use gradus_autograd::{Tape, Var};
use gradus_tensor::{Real, Tensor, on_pool};
use serde::{Deserialize, Serialize};

use crate::backbone::{Backbone, BackboneConfig};
use crate::batch::Batch;
use crate::config::{ConfigError, GptConfig, Parts};
use crate::dropout::DropoutSeed;
use crate::gpt::Gpt;
use crate::head::{self, Head, HeadConfig};
use crate::hidden::Hidden;
use crate::lstm::Lstm;
use crate::param::{Param, draw};
use crate::side::Side;
use crate::tree;
use crate::tree::Tree;

tree! {
    /// A backbone and its head, with a `V` for every parameter.
    pub struct Model<V> {
        /// The language model, whose names get no prefix.
        backbone as "": Backbone<V>,
        /// W_y, once there is a task.
        score: Option<Head<V>>,
    }
}

/// Sizes and options of a [`Model`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// The language model's.
    pub backbone: BackboneConfig,
    /// The head's, where there is one.
    #[serde(default)]
    pub head: Option<HeadConfig>,
}

/// How a gradient is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GradientMode {
    /// On one tape.
    #[default]
    Whole,
    /// With the activations of one block at a time, recomputed: less memory, the same bits. (An LSTM has no blocks.)
    Recompute,
    /// For the head alone: the backbone's hidden states are features, computed without dropout.
    Head,
}

impl<C: Into<BackboneConfig>> From<C> for ModelConfig {
    fn from(backbone: C) -> Self {
        ModelConfig { backbone: backbone.into(), head: None }
    }
}

impl<V> From<Lstm<V>> for Model<V> {
    fn from(lstm: Lstm<V>) -> Self {
        Model { backbone: Backbone::Lstm(lstm), score: None }
    }
}

impl<V> From<Gpt<V>> for Model<V> {
    fn from(gpt: Gpt<V>) -> Self {
        Model { backbone: Backbone::Gpt(gpt), score: None }
    }
}

impl ModelConfig {
    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        let d = self.backbone.width();
        let of_head = |h: &HeadConfig| h.classes * (d + usize::from(h.bias)) + if h.pooler { d * d + d } else { 0 };
        let head = self.head.as_ref().map_or(0, of_head);
        self.backbone.parameters() + head
    }

    /// A text form that never changes, for the hash that identifies a fine-tuning run; for that of a pre-training run see
    /// [`BackboneConfig::frozen`].
    pub fn frozen(&self) -> String {
        // What came later is not written where it is absent.
        let parts = format!(", parts: {:?}", Parts::default());
        [&parts, ", pooler: false", ", inner: None"]
            .into_iter()
            .fold(format!("{self:?}"), |text, absent| text.replace(absent, ""))
    }

    /// Is this a model?
    pub fn check(&self) -> Result<(), ConfigError> {
        self.backbone.check()?;
        self.head.as_ref().map_or(Ok(()), HeadConfig::check)
    }

    /// The Transformer's sizes, where it is one.
    pub fn gpt(&self) -> Option<&GptConfig> {
        match &self.backbone {
            BackboneConfig::Gpt(c) => Some(c),
            BackboneConfig::Lstm(_) => None,
        }
    }
}

impl Model<Param> {
    /// What its parameters are.
    pub fn declare(config: &ModelConfig) -> Self {
        let (d, std) = (config.backbone.width(), config.backbone.initializer_range());
        let score = config.head.as_ref().map(|h| Head::declare(h, d, std));
        Model { backbone: Backbone::declare(&config.backbone), score }
    }
}

impl<V> Model<V> {
    /// Its sizes and options.
    pub fn config(&self) -> ModelConfig {
        ModelConfig { backbone: self.backbone.config(), head: self.score.as_ref().map(|s| s.config().clone()) }
    }

    /// The same parameters with other options: another dropout, say. Sizes must be the same.
    pub fn with_config(self, config: &ModelConfig) -> Self {
        Model::declare(config).zip(self).map(|_, (_, v)| v)
    }

    /// The Transformer, where it is one.
    pub fn gpt(&self) -> Option<&Gpt<V>> {
        match &self.backbone {
            Backbone::Gpt(gpt) => Some(gpt),
            Backbone::Lstm(_) => None,
        }
    }
}

impl<T: Real> Model<Tensor<T>> {
    /// Fresh parameters.
    pub fn init(config: &ModelConfig, seed: u64) -> Self {
        let Model { backbone, score } = Model::declare(config);
        Model { backbone: draw(backbone, seed, 1), score: draw(score, seed, head::STREAM) }
    }

    /// The loss of a batch ([`Model::loss`]), a tensor without axes, and its gradient, where it reaches a parameter.
    pub fn gradient(
        &self,
        batch: &Batch,
        dropout: Option<DropoutSeed>,
        mode: GradientMode,
    ) -> (Tensor<T>, Model<Option<Tensor<T>>>) {
        self.observed_gradient(None, batch, dropout, mode)
    }

    /// The same bit for bit, with an optional [observer](gradus_autograd::observer). Recomputing takes several tapes.
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

    /// The number of each parameter, in their order.
    fn numbers(&self) -> Model<usize> {
        let mut count = 0..;
        self.as_ref().map(|_, _| count.next().expect("without end"))
    }

    /// The loss alone. Each parameter's gradient is handed to `each`, with the parameter's number, as soon as it is complete, while
    /// backward goes on.
    pub fn gradient_each(
        &self,
        observer: Option<Arc<dyn Observer<T>>>,
        batch: &Batch,
        dropout: Option<DropoutSeed>,
        mode: GradientMode,
        each: &mut dyn FnMut(usize, Tensor<T>),
    ) -> Tensor<T> {
        let numbers = self.numbers();
        if let (GradientMode::Recompute, Backbone::Gpt(gpt), Backbone::Gpt(of_gpt)) = (mode, &self.backbone, numbers.backbone) {
            let of_head = numbers.score;
            return gpt.recomputed_gradient(observer, &batch.side, dropout, of_gpt, each, |tape, hidden| {
                let score = leaves_of_head(&self.score, tape);
                let loss = objective(&score, hidden, batch, dropout);
                (loss, Tree::zip(score, of_head))
            });
        }
        let tape = &Tape::new().observed_by(observer);
        let leaves = match mode {
            GradientMode::Whole | GradientMode::Recompute => self.leaves(tape),
            GradientMode::Head => Model { backbone: self.backbone.constants(tape), score: leaves_of_head(&self.score, tape) },
        };
        let inner = dropout.filter(|_| mode != GradientMode::Head);
        let hidden = leaves.hidden(&batch.side, inner);
        let loss = objective(&leaves.score, &hidden, batch, dropout);
        let mut of_leaf = HashMap::new();
        leaves.as_ref().zip(self.numbers()).visit(|_, (leaf, number)| of_leaf.extend(leaf.node().map(|node| (node, number))));
        let one = loss.value().full_like(*loss.shape(), T::one());
        tape.backward_each(vec![(&loss, one)], |leaf, gradient| each(of_leaf[&leaf], gradient));
        loss.into_value()
    }

    /// −log P(targetᵢ) of each token that is asked, in nats, for evaluation: no gradient, no dropout, and at most
    /// 1,024 rows of logits are held. The batch's weights play no part.
    pub fn token_losses(&self, batch: &Batch) -> Tensor<T> {
        on_pool(|| {
            let tape = Tape::off();
            self.constants(&tape).hidden(&batch.side, None).token_losses(batch)
        })
    }

    /// The logits (n, rows) in these slots (of B·T), without dropout: to a causal model, of the token that follows.
    pub fn logits_at(&self, side: &Side, slots: impl Into<Arc<[u32]>>) -> Tensor<T> {
        let slots = slots.into();
        on_pool(|| self.constants(&Tape::off()).hidden(side, None).logits_at(&slots).into_value())
    }

    /// Logits of a batch's examples, (examples, classes or answers), without dropout; the right answers play no part.
    ///
    /// Panics on a model without a head or a batch without labels.
    pub fn class_logits(&self, batch: &Batch) -> Tensor<T> {
        on_pool(|| {
            let tape = Tape::off();
            let model = self.constants(&tape);
            let hidden = model.hidden(&batch.side, None);
            let (Some(score), Some(labels)) = (&model.score, &batch.labels) else {
                panic!("class_logits needs a model with a head and a batch with labels");
            };
            score.logits(&hidden.states, labels, None).value().dense()
        })
    }
}

impl<'t, T: Real> Model<Var<'t, T>> {
    /// The last hidden states of these slots.
    pub fn hidden(&self, side: &Side, dropout: Option<DropoutSeed>) -> Hidden<'t, T> {
        self.backbone.hidden(side, dropout)
    }

    /// Logits (B, T, rows) in each of these slots: to a causal model, of the token that follows.
    pub fn logits(&self, side: &Side) -> Var<'t, T> {
        self.hidden(side, None).logits()
    }

    /// Σᵢ wᵢ·(−log P(targetᵢ)) over tokens, and where there are labels −Σₙ wₙ log P(yₙ) over examples.
    pub fn loss(&self, batch: &Batch, dropout: Option<DropoutSeed>) -> Var<'t, T> {
        let hidden = self.hidden(&batch.side, dropout);
        objective(&self.score, &hidden, batch, dropout)
    }
}

/// A head's parameters as leaves, in scopes named as in the whole model.
fn leaves_of_head<'t, T: Real>(score: &Option<Head<Tensor<T>>>, tape: &'t Tape<T>) -> Option<Head<Var<'t, T>>> {
    tape.scope("score", || score.leaves(tape))
}

/// L₁, or L₂ + λL₁, from the hidden states on.
fn objective<'t, T: Real>(
    score: &Option<Head<Var<'t, T>>>,
    hidden: &Hidden<'t, T>,
    batch: &Batch,
    dropout: Option<DropoutSeed>,
) -> Var<'t, T> {
    let Some(labels) = &batch.labels else { return hidden.loss(batch) };
    let score = score.as_ref().expect("a batch with labels needs a model with a head");
    let task = hidden.states.tape().scope("score", || score.loss(&hidden.states, labels, dropout));
    if batch.predicts_tokens() { task + hidden.loss(batch) } else { task }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples;
    use crate::config::Embedding;
    use crate::head::Form;
    use crate::lstm::LstmConfig;

    /// The formulas of counts, of both backbones and of heads.
    #[test]
    fn the_count_of_parameters_is_that_of_what_is_declared() {
        let presets = GptConfig::PRESETS.map(|name| GptConfig::preset(name).unwrap().into());
        for config in samples().into_iter().map(|sample| sample.config).chain(presets) {
            let mut declared = 0;
            Model::declare(&config).visit(|_, p| declared += p.shape.numel());
            assert_eq!(config.parameters(), declared, "{config:?}");
        }
    }

    #[test]
    fn every_parameter_can_be_changed() {
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

    #[test]
    fn backbone_and_head_are_both_checked() {
        let good = ModelConfig { head: Some(HeadConfig::new(Form::Classify, 3)), ..GptConfig::default().into() };
        assert_eq!(good.check(), Ok(()));
        let bad = ModelConfig { head: Some(HeadConfig::new(Form::Classify, 1)), ..good.clone() };
        assert_eq!(bad.check().unwrap_err().field, "classes");
        let bad = ModelConfig { backbone: GptConfig { heads: 7, ..GptConfig::default() }.into(), ..good };
        assert_eq!(bad.check().unwrap_err().field, "width");
    }

    /// A change here orphans every fine-tuning that was stopped midway.
    #[test]
    fn what_identifies_a_fine_tuning_is_frozen() {
        let gpt = ModelConfig::from(GptConfig { embedding: Embedding::Joint, ..GptConfig::default() });
        assert_eq!(
            gpt.frozen(),
            "ModelConfig { backbone: Gpt(GptConfig { vocab: 40478, context: 512, width: 768, layers: 12, heads: 12, activation: \
             Gelu, positions: Learned, embedding: Joint, embd_dropout: 0.1, attn_dropout: 0.1, resid_dropout: 0.1, \
             layer_norm_epsilon: 1e-5, initializer_range: 0.02 }), head: None }"
        );
        let lstm = ModelConfig { head: Some(HeadConfig::new(Form::Choose, 1)), ..LstmConfig::default().into() };
        assert_eq!(
            lstm.frozen(),
            "ModelConfig { backbone: Lstm(LstmConfig { vocab: 40478, context: 512, width: 768, units: 2048, embd_dropout: 0.1, \
             resid_dropout: 0.1, initializer_range: 0.02 }), head: Some(HeadConfig { form: Choose, classes: 1, bias: false, \
             dropout: 0.1, labels: [] }) }"
        );
    }
}
