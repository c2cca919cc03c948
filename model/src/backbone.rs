//! What stands under every objective: a GPT, or the LSTM of the paper's ablation.

use gradus_autograd::Var;
use gradus_tensor::{Real, Shape, Tensor};
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, GptConfig};
use crate::gpt::{Gpt, Hidden};
use crate::lstm::{Lstm, LstmConfig};
use crate::noise::Noise;
use crate::tree::{Path, Tree};

/// A language model with a `V` for every parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Backbone<V> {
    /// The paper's Transformer.
    Gpt(Gpt<V>),
    /// A recurrent layer instead (§5, table 5).
    Lstm(Lstm<V>),
}

/// Sizes and options of a [`Backbone`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BackboneConfig {
    /// Of the Transformer.
    Gpt(GptConfig),
    /// Of the LSTM.
    Lstm(LstmConfig),
}

impl From<GptConfig> for BackboneConfig {
    fn from(config: GptConfig) -> Self {
        BackboneConfig::Gpt(config)
    }
}

impl From<LstmConfig> for BackboneConfig {
    fn from(config: LstmConfig) -> Self {
        BackboneConfig::Lstm(config)
    }
}

impl BackboneConfig {
    /// Number of tokens V.
    pub fn vocab(&self) -> usize {
        match self {
            BackboneConfig::Gpt(c) => c.vocab,
            BackboneConfig::Lstm(c) => c.vocab,
        }
    }

    /// The same for another number of tokens.
    pub fn with_vocab(mut self, vocab: usize) -> Self {
        match &mut self {
            BackboneConfig::Gpt(c) => c.vocab = vocab,
            BackboneConfig::Lstm(c) => c.vocab = vocab,
        }
        self
    }

    /// The same with all dropouts at this probability.
    pub fn with_dropout(self, p: f64) -> Self {
        match self {
            BackboneConfig::Gpt(c) => BackboneConfig::Gpt(c.with_dropout(p)),
            BackboneConfig::Lstm(c) => BackboneConfig::Lstm(LstmConfig { embd_dropout: p, resid_dropout: p, ..c }),
        }
    }

    /// Most tokens in a sequence.
    pub fn context(&self) -> usize {
        match self {
            BackboneConfig::Gpt(c) => c.context,
            BackboneConfig::Lstm(c) => c.context,
        }
    }

    /// Width d of a hidden state.
    pub fn width(&self) -> usize {
        match self {
            BackboneConfig::Gpt(c) => c.width,
            BackboneConfig::Lstm(c) => c.width,
        }
    }

    /// Number of blocks that can be transferred one by one; an LSTM has none.
    pub fn layers(&self) -> usize {
        match self {
            BackboneConfig::Gpt(c) => c.layers,
            BackboneConfig::Lstm(_) => 0,
        }
    }

    /// Standard deviation of the initial weights.
    pub fn initializer_range(&self) -> f64 {
        match self {
            BackboneConfig::Gpt(c) => c.initializer_range,
            BackboneConfig::Lstm(c) => c.initializer_range,
        }
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        match self {
            BackboneConfig::Gpt(c) => c.parameters(),
            BackboneConfig::Lstm(c) => c.parameters(),
        }
    }

    /// Is this a model?
    pub fn check(&self) -> Result<(), ConfigError> {
        match self {
            BackboneConfig::Gpt(c) => c.check(),
            BackboneConfig::Lstm(c) => c.check(),
        }
    }
}

impl Backbone<Shape> {
    /// The shape of every parameter.
    pub fn shapes(config: &BackboneConfig) -> Self {
        match config {
            BackboneConfig::Gpt(c) => Backbone::Gpt(Gpt::shapes(c)),
            BackboneConfig::Lstm(c) => Backbone::Lstm(Lstm::shapes(c)),
        }
    }
}

impl<T: Real> Backbone<Tensor<T>> {
    /// Fresh parameters.
    pub fn init(config: &BackboneConfig, seed: u64) -> Self {
        match config {
            BackboneConfig::Gpt(c) => Backbone::Gpt(Gpt::init(c, seed)),
            BackboneConfig::Lstm(c) => Backbone::Lstm(Lstm::init(c, seed)),
        }
    }
}

impl<'t, T: Real> Backbone<Var<'t, T>> {
    /// The last hidden states of tokens (B·T), B sequences of one length; with `noise` the dropouts are active.
    pub fn hidden(&self, config: &BackboneConfig, ids: &[u32], batch: usize, noise: Option<&Noise>) -> Hidden<'t, T> {
        match (self, config) {
            (Backbone::Gpt(gpt), BackboneConfig::Gpt(c)) => gpt.hidden(c, ids, batch, noise),
            (Backbone::Lstm(lstm), BackboneConfig::Lstm(c)) => lstm.hidden(c, ids, batch, noise),
            _ => panic!("parameters of one kind of backbone with the configuration of another"),
        }
    }
}

impl<V> Tree for Backbone<V> {
    type Leaf = V;
    type With<U> = Backbone<U>;
    fn map_at<U>(self, path: &mut Path, f: &mut impl FnMut(&str, V) -> U) -> Backbone<U> {
        match self {
            Backbone::Gpt(gpt) => Backbone::Gpt(gpt.map_at(path, f)),
            Backbone::Lstm(lstm) => Backbone::Lstm(lstm.map_at(path, f)),
        }
    }
    fn as_ref(&self) -> Backbone<&V> {
        match self {
            Backbone::Gpt(gpt) => Backbone::Gpt(gpt.as_ref()),
            Backbone::Lstm(lstm) => Backbone::Lstm(lstm.as_ref()),
        }
    }
    fn as_mut(&mut self) -> Backbone<&mut V> {
        match self {
            Backbone::Gpt(gpt) => Backbone::Gpt(gpt.as_mut()),
            Backbone::Lstm(lstm) => Backbone::Lstm(lstm.as_mut()),
        }
    }
    fn zip<B>(self, other: Backbone<B>) -> Backbone<(V, B)> {
        match (self, other) {
            (Backbone::Gpt(a), Backbone::Gpt(b)) => Backbone::Gpt(a.zip(b)),
            (Backbone::Lstm(a), Backbone::Lstm(b)) => Backbone::Lstm(a.zip(b)),
            _ => panic!("zip: a Transformer and an LSTM"),
        }
    }
}
