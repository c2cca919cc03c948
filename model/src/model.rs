//! A backbone with or without a head, and everything that is asked of the two together.
//!
//! ```text
//! pre-training     L₁(U)                                      (equation 1)
//! fine-tuning      L₃(C) = L₂(C) + λ·L₁(C)                    (equation 5)
//! ```
//!
//! λ stands in the batch's weights of the next tokens; with λ = 0 the output's softmax is not computed at all.

use std::sync::Arc;

use gradus_autograd::observer::Observer;
use gradus_autograd::{Tape, Var};
use gradus_tensor::{Real, Shape, Tensor, on_pool};
use serde::{Deserialize, Serialize};

use crate::backbone::{Backbone, BackboneConfig};
use crate::batch::Batch;
use crate::config::{ConfigError, GptConfig};
use crate::gpt::{Gpt, Hidden};
use crate::head::{Head, HeadConfig};
use crate::lstm::Lstm;
use crate::noise::Noise;
use crate::tree::{Path, Tree};

/// A backbone and its head, with a `V` for every parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Model<V> {
    /// The language model.
    pub backbone: Backbone<V>,
    /// W_y, once there is a task.
    pub score: Option<Head<V>>,
}

/// Sizes and options of a [`Model`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Of the language model.
    pub backbone: BackboneConfig,
    /// Of the head.
    #[serde(default)]
    pub head: Option<HeadConfig>,
}

/// How a gradient is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backward {
    /// On one tape.
    #[default]
    Whole,
    /// With the activations of one block at a time, computed again: less memory, the same bits. (An LSTM has no blocks.)
    Recompute,
    /// Of the head alone: the backbone's hidden states are features, computed without dropout.
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
        let head = self.head.as_ref().map_or(0, |h| h.classes * (self.backbone.width() + usize::from(h.bias)));
        self.backbone.parameters() + head
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

impl Model<Shape> {
    /// The shape of every parameter.
    pub fn shapes(config: &ModelConfig) -> Self {
        let score = config.head.as_ref().map(|h| Head::shapes(h, config.backbone.width()));
        Model { backbone: Backbone::shapes(&config.backbone), score }
    }
}

impl<T: Real> Model<Tensor<T>> {
    /// Fresh parameters.
    pub fn init(config: &ModelConfig, seed: u64) -> Self {
        let (d, std) = (config.backbone.width(), config.backbone.initializer_range());
        let score = config.head.as_ref().map(|h| Head::init(h, d, std, seed));
        Model { backbone: Backbone::init(&config.backbone, seed), score }
    }

    /// The parameters as leaves of a tape, to be differentiated with respect to, each in a scope of its name.
    pub fn leaves<'t>(&self, tape: &'t Tape<T>) -> Model<Var<'t, T>> {
        self.as_ref().map(|name, p| tape.scope(name, || tape.leaf(p.clone())))
    }

    /// The parameters as constants of a tape.
    pub fn constants<'t>(&self, tape: &'t Tape<T>) -> Model<Var<'t, T>> {
        self.as_ref().map(|_, p| tape.constant(p.clone()))
    }

    /// The parameters as another scalar.
    pub fn cast<U: Real>(&self) -> Model<Tensor<U>> {
        self.as_ref().map(|_, p| p.cast())
    }

    /// The Transformer, where it is one.
    pub fn gpt(&self) -> Option<&Gpt<Tensor<T>>> {
        match &self.backbone {
            Backbone::Gpt(gpt) => Some(gpt),
            Backbone::Lstm(_) => None,
        }
    }

    /// The loss of a batch ([`Model::loss`]) and its gradient, where it reaches a parameter.
    pub fn gradient(
        &self,
        config: &ModelConfig,
        batch: &Batch,
        noise: Option<&Noise>,
        how: Backward,
    ) -> (T, Model<Option<Tensor<T>>>) {
        self.observed_gradient(None, config, batch, noise, how)
    }

    /// The same to the same bits, with an [observer](gradus_autograd::observer), or none. Recomputing takes several tapes.
    pub fn observed_gradient(
        &self,
        observer: Option<Arc<dyn Observer<T>>>,
        config: &ModelConfig,
        batch: &Batch,
        noise: Option<&Noise>,
        how: Backward,
    ) -> (T, Model<Option<Tensor<T>>>) {
        if let (Backward::Recompute, Backbone::Gpt(gpt), BackboneConfig::Gpt(c)) = (how, &self.backbone, &config.backbone) {
            return gpt.recomputed_gradient(observer, c, batch, noise, |tape, hidden| {
                let score = leaves_of_head(&self.score, tape);
                let loss = objective(&score, config, hidden, batch, noise);
                (loss, score)
            });
        }
        let tape = &Tape::new().observed_by(observer);
        let leaves = match how {
            Backward::Whole | Backward::Recompute => self.leaves(tape),
            Backward::Head => Model {
                backbone: self.backbone.as_ref().map(|_, p| tape.constant(p.clone())),
                score: leaves_of_head(&self.score, tape),
            },
        };
        let inner = noise.filter(|_| how != Backward::Head);
        let hidden = leaves.hidden(config, &batch.inputs, batch.sequences, inner);
        let loss = objective(&leaves.score, config, &hidden, batch, noise);
        let mut grads = tape.backward(&loss);
        (loss.value().item(), leaves.as_ref().map(|_, leaf| grads.take(leaf)))
    }

    /// −log P(targetᵢ) of each of the (B·T) predictions, in nats, for evaluation: no gradient, no dropout, and at most
    /// 1,024 rows of logits are held. The batch's weights play no part.
    pub fn token_losses(&self, config: &ModelConfig, batch: &Batch) -> Tensor<T> {
        on_pool(|| {
            let tape = Tape::off();
            let hidden = self.constants(&tape).hidden(config, &batch.inputs, batch.sequences, None);
            hidden.token_losses(&batch.targets)
        })
    }

    /// Logits of a batch's examples, (examples, classes or answers), without dropout; what is right plays no part.
    ///
    /// Panics on a model without a head or a batch without labels.
    pub fn class_logits(&self, config: &ModelConfig, batch: &Batch) -> Tensor<T> {
        on_pool(|| {
            let tape = Tape::off();
            let model = self.constants(&tape);
            let hidden = model.hidden(config, &batch.inputs, batch.sequences, None);
            let (Some(score), Some(head), Some(labels)) = (&model.score, &config.head, &batch.labels) else {
                panic!("class_logits: a model with a head and a batch with labels");
            };
            score.logits(head, &hidden.states, labels, None).value().dense()
        })
    }
}

impl<'t, T: Real> Model<Var<'t, T>> {
    /// The last hidden states of tokens (B·T).
    pub fn hidden(&self, config: &ModelConfig, ids: &[u32], batch: usize, noise: Option<&Noise>) -> Hidden<'t, T> {
        self.backbone.hidden(&config.backbone, ids, batch, noise)
    }

    /// Logits (B, T, rows) of the tokens that follow each of these (B·T).
    pub fn logits(&self, config: &ModelConfig, ids: &[u32], batch: usize) -> Var<'t, T> {
        self.hidden(config, ids, batch, None).logits()
    }

    /// Σᵢ wᵢ·(−log P(targetᵢ)) over tokens, and where there are labels −Σₙ wₙ log P(yₙ) over examples.
    pub fn loss(&self, config: &ModelConfig, batch: &Batch, noise: Option<&Noise>) -> Var<'t, T> {
        let hidden = self.hidden(config, &batch.inputs, batch.sequences, noise);
        objective(&self.score, config, &hidden, batch, noise)
    }
}

/// A head's parameters as leaves, in scopes of the names that they have in the whole model.
fn leaves_of_head<'t, T: Real>(score: &Option<Head<Tensor<T>>>, tape: &'t Tape<T>) -> Option<Head<Var<'t, T>>> {
    let leaf = |name: &str, p: &Tensor<T>| tape.scope(&format!("score.{name}"), || tape.leaf(p.clone()));
    score.as_ref().map(|s| s.as_ref().map(leaf))
}

/// L₁, or L₂ + λL₁, from the hidden states on.
fn objective<'t, T: Real>(
    score: &Option<Head<Var<'t, T>>>,
    config: &ModelConfig,
    hidden: &Hidden<'t, T>,
    batch: &Batch,
    noise: Option<&Noise>,
) -> Var<'t, T> {
    let Some(labels) = &batch.labels else { return hidden.loss(batch) };
    let (Some(score), Some(head)) = (score, &config.head) else { panic!("a batch with labels wants a model with a head") };
    let task = hidden.states.tape().scope("score", || score.loss(head, &hidden.states, labels, noise));
    if batch.predicts_tokens() { task + hidden.loss(batch) } else { task }
}

impl<V> Tree for Model<V> {
    type Leaf = V;
    type With<U> = Model<U>;
    /// The backbone's names stand for themselves; the head's begin with `score`.
    fn map_at<U>(self, path: &mut Path, f: &mut impl FnMut(&str, V) -> U) -> Model<U> {
        Model { backbone: self.backbone.map_at(path, f), score: path.within("score", |path| self.score.map_at(path, f)) }
    }
    fn as_ref(&self) -> Model<&V> {
        Model { backbone: self.backbone.as_ref(), score: Tree::as_ref(&self.score) }
    }
    fn as_mut(&mut self) -> Model<&mut V> {
        Model { backbone: self.backbone.as_mut(), score: Tree::as_mut(&mut self.score) }
    }
    fn zip<B>(self, other: Model<B>) -> Model<(V, B)> {
        Model { backbone: self.backbone.zip(other.backbone), score: Tree::zip(self.score, other.score) }
    }
}
