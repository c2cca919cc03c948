//! The body of a model: one of the families of language models.
//!
//! A new family is a variant of [`Backbone`] and of [`BackboneConfig`], an arm of `each`, `declare` and the reader in this file,
//! and what its [`Decoder`](crate::Decoder) keeps.

use gradus_autograd::Var;
use gradus_tensor::Real;
use serde::{Deserialize, Serialize};

use crate::batch::Input;
use crate::config::{ConfigError, Parts, TransformerConfig};
use crate::dropout::DropoutSeed;
use crate::output::Hidden;
use crate::param::Param;
use crate::recurrent::{Lstm, LstmConfig};
use crate::transformer::Transformer;
use crate::tree;

/// Evaluates one expression for each family.
macro_rules! each {
    ($of:ident, $any:expr, $one:pat => $result:expr) => {
        match $any {
            $of::Transformer($one) => $result,
            $of::Lstm($one) => $result,
        }
    };
}

tree! {
    /// A language model with a `V` for every parameter.
    pub enum Backbone<V> {
        /// The paper's Transformer.
        Transformer(Transformer<V>),
        /// A recurrent layer instead (§5, table 5).
        Lstm(Lstm<V>),
    }
}

/// Sizes and options of a [`Backbone`].
///
/// In JSON, the field `family` is `gpt` or `lstm`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "snake_case")]
pub enum BackboneConfig {
    /// The Transformer's.
    #[serde(rename = "gpt")]
    Transformer(TransformerConfig),
    /// The LSTM's.
    Lstm(LstmConfig),
}

impl From<TransformerConfig> for BackboneConfig {
    fn from(config: TransformerConfig) -> Self {
        BackboneConfig::Transformer(config)
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
        each!(BackboneConfig, self, c => c.vocab)
    }

    /// Replaces the number of tokens.
    pub fn with_vocab(mut self, vocab: usize) -> Self {
        each!(BackboneConfig, &mut self, c => c.vocab = vocab);
        self
    }

    /// Sets all dropouts to one probability.
    pub fn with_dropout(self, p: f64) -> Self {
        each!(BackboneConfig, self, c => c.with_dropout(p).into())
    }

    /// Maximum number of tokens in a sequence.
    pub fn context(&self) -> usize {
        each!(BackboneConfig, self, c => c.context)
    }

    /// Width d of a hidden state.
    pub fn width(&self) -> usize {
        each!(BackboneConfig, self, c => c.width)
    }

    /// Number of blocks that can be transferred one by one; an LSTM has none.
    pub fn layers(&self) -> usize {
        match self {
            BackboneConfig::Transformer(c) => c.layers,
            BackboneConfig::Lstm(_) => 0,
        }
    }

    /// The parts that GPT-1 lacks; an LSTM has none of them.
    pub fn parts(&self) -> Parts {
        match self {
            BackboneConfig::Transformer(c) => c.parts,
            BackboneConfig::Lstm(_) => Parts::NONE,
        }
    }

    /// Standard deviation of the initial weights.
    pub fn initializer_range(&self) -> f64 {
        each!(BackboneConfig, self, c => c.initializer_range)
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        each!(BackboneConfig, self, c => c.parameters())
    }

    /// Checks the sizes and options.
    pub fn check(&self) -> Result<(), ConfigError> {
        each!(BackboneConfig, self, c => c.check())
    }
}

impl Backbone<Param> {
    /// Declares the parameters.
    pub fn declare(config: &BackboneConfig) -> Self {
        match config {
            BackboneConfig::Transformer(c) => Backbone::Transformer(Transformer::declare(c)),
            BackboneConfig::Lstm(c) => Backbone::Lstm(Lstm::declare(c)),
        }
    }
}

impl<V> Backbone<V> {
    /// The sizes and options.
    pub fn config(&self) -> BackboneConfig {
        each!(Backbone, self, b => b.config().clone().into())
    }
}

impl<'t, T: Real> Backbone<Var<'t, T>> {
    /// The last hidden states of these slots; with a seed the dropouts are active.
    ///
    /// Panics where a recurrent body is to see more than what came before: callers check user input.
    pub fn hidden(&self, input: &Input, dropout: Option<DropoutSeed>) -> Hidden<'t, T> {
        each!(Backbone, self, b => b.hidden(input, dropout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BackboneConfig, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_configuration_says_its_family() {
        for config in [BackboneConfig::from(TransformerConfig::default()), LstmConfig::default().into()] {
            assert_eq!(read(&serde_json::to_string(&config).unwrap()), Ok(config));
        }
    }

    #[test]
    fn the_families_are_asked_alike() {
        let gpt = TransformerConfig {
            vocab: 5,
            context: 6,
            width: 8,
            layers: 3,
            heads: 4,
            initializer_range: 0.5,
            ..TransformerConfig::default()
        };
        let lstm = LstmConfig { vocab: 5, context: 6, width: 8, units: 7, initializer_range: 0.5, ..LstmConfig::default() };
        for (config, layers) in [(BackboneConfig::from(gpt), 3), (lstm.into(), 0)] {
            assert_eq!([config.vocab(), config.context(), config.width(), config.layers()], [5, 6, 8, layers]);
            assert_eq!((config.initializer_range(), config.check()), (0.5, Ok(())));
            let other = config.clone().with_vocab(9);
            assert_eq!((other.vocab(), other.clone().with_vocab(5)), (9, config.clone()));
            assert_ne!(config.clone().with_dropout(0.25), config);
            assert!(config.with_vocab(0).check().is_err());
        }
    }

    #[test]
    fn a_wrong_configuration_is_named() {
        let error = |text| read(text).unwrap_err();
        assert_eq!(read(r#"{"family": "lstm", "vocab": 5}"#), Ok(LstmConfig { vocab: 5, ..LstmConfig::default() }.into()));
        assert!(error(r#"{"vocab": 5}"#).contains("missing field `family`"));
        assert!(error(r#"{"family": "mamba"}"#).contains("unknown variant `mamba`, expected `gpt` or `lstm`"));
        assert!(error(r#"{"family": "gpt", "units": 3}"#).contains("unknown field `units`"));
        assert!(error(r#"{"family": "lstm", "vocab": "many"}"#).contains("invalid type: string \"many\""));
    }
}
