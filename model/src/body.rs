//! The body of a model: from tokens to hidden states.
//!
//! A new body is a variant of [`Body`] and of [`BodyConfig`], an arm of `each` and `declare` in this file, and the state that its
//! [`Decoder`](crate::Decoder) keeps.

use gradus_autograd::Var;
use gradus_tensor::Real;
use serde::{Deserialize, Serialize};

use crate::batch::Input;
use crate::config::{ConfigError, Sizes};
use crate::dropout::DropoutSeed;
use crate::param::Param;
use crate::recurrent::{Lstm, LstmConfig};
use crate::transformer::{Transformer, TransformerConfig};
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
    /// A body with a `V` for every parameter.
    pub enum Body<V> {
        /// The paper's Transformer.
        Transformer(Transformer<V>),
        /// A recurrent layer instead (§5, table 5).
        Lstm(Lstm<V>),
    }
}

/// Options of a [`Body`].
///
/// In JSON, the field `family` is `gpt` or `lstm`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "snake_case")]
pub enum BodyConfig {
    /// The Transformer's.
    #[serde(rename = "gpt")]
    Transformer(TransformerConfig),
    /// The LSTM's.
    Lstm(LstmConfig),
}

impl From<TransformerConfig> for BodyConfig {
    fn from(config: TransformerConfig) -> Self {
        BodyConfig::Transformer(config)
    }
}

impl From<LstmConfig> for BodyConfig {
    fn from(config: LstmConfig) -> Self {
        BodyConfig::Lstm(config)
    }
}

impl BodyConfig {
    /// Number of rows of the token table, over which an output's softmax runs.
    pub fn output_rows(&self, sizes: Sizes) -> usize {
        match self {
            BodyConfig::Transformer(c) => c.output_rows(sizes),
            BodyConfig::Lstm(_) => sizes.vocab,
        }
    }

    /// Sets all dropouts to one probability.
    pub fn with_dropout(self, p: f64) -> Self {
        each!(BodyConfig, self, c => c.with_dropout(p).into())
    }

    /// The options that distinguish one system from another; all others at their defaults.
    pub fn design(self) -> Self {
        match self {
            BodyConfig::Transformer(c) => c.design().into(),
            BodyConfig::Lstm(_) => LstmConfig::PAPER.into(),
        }
    }

    /// The Transformer's options, where it is one.
    pub fn transformer(&self) -> Option<&TransformerConfig> {
        match self {
            BodyConfig::Transformer(c) => Some(c),
            BodyConfig::Lstm(_) => None,
        }
    }

    /// Number of blocks that can be transferred one by one; an LSTM has none.
    pub fn layers(&self) -> usize {
        self.transformer().map_or(0, |c| c.layers)
    }

    /// Number of segments with a vector each; an LSTM has none.
    pub fn segments(&self) -> usize {
        self.transformer().map_or(0, |c| c.segments)
    }

    /// Standard deviation of the initial weights.
    pub fn initializer_range(&self) -> f64 {
        each!(BodyConfig, self, c => c.initializer_range)
    }

    /// Number of parameters.
    pub fn parameters(&self, sizes: Sizes) -> usize {
        each!(BodyConfig, self, c => c.parameters(sizes))
    }

    /// Checks the options in a model of these sizes.
    pub fn check(&self, sizes: Sizes) -> Result<(), ConfigError> {
        each!(BodyConfig, self, c => c.check(sizes))
    }
}

impl Body<Param> {
    /// Declares the parameters.
    pub fn declare(sizes: Sizes, config: &BodyConfig) -> Self {
        match config {
            BodyConfig::Transformer(c) => Body::Transformer(Transformer::declare(sizes, c)),
            BodyConfig::Lstm(c) => Body::Lstm(Lstm::declare(sizes, c)),
        }
    }
}

impl<V> Body<V> {
    /// The embeddings of the tokens, (rows, width).
    pub fn token_embeddings(&self) -> &V {
        each!(Body, self, body => &body.tokens_embed.weight.0)
    }

    /// The sizes.
    pub fn sizes(&self) -> Sizes {
        each!(Body, self, b => b.sizes())
    }

    /// The options.
    pub fn config(&self) -> BodyConfig {
        each!(Body, self, b => (*b.config()).into())
    }
}

impl<'t, T: Real> Body<Var<'t, T>> {
    /// The last hidden states (B, T, d) of these slots, and the matrix (rows, d) of tied outputs; with a seed the dropouts are active.
    ///
    /// Panics where a recurrent body is to see more than what came before: callers check user input.
    pub fn hidden(&self, input: &Input, dropout: Option<DropoutSeed>) -> (Var<'t, T>, Var<'t, T>) {
        each!(Body, self, b => b.hidden(input, dropout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BodyConfig, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_configuration_says_its_family() {
        for config in [BodyConfig::from(TransformerConfig::default()), LstmConfig::default().into()] {
            assert_eq!(read(&serde_json::to_string(&config).unwrap()), Ok(config));
        }
    }

    #[test]
    fn the_families_are_asked_alike() {
        let gpt = TransformerConfig { layers: 3, heads: 4, initializer_range: 0.5, ..TransformerConfig::default() };
        let lstm = LstmConfig { units: 7, initializer_range: 0.5, ..LstmConfig::default() };
        let sizes = Sizes { vocab: 5, context: 6, width: 8 };
        for (config, layers) in [(BodyConfig::from(gpt), 3), (lstm.into(), 0)] {
            assert_eq!((config.layers(), config.initializer_range(), config.check(sizes)), (layers, 0.5, Ok(())));
            assert_eq!((Body::declare(sizes, &config).sizes(), config.output_rows(sizes)), (sizes, 5));
            assert_ne!(config.with_dropout(0.25), config);
        }
    }

    #[test]
    fn a_wrong_configuration_is_named() {
        let error = |text| read(text).unwrap_err();
        assert_eq!(read(r#"{"family": "lstm", "units": 5}"#), Ok(LstmConfig { units: 5, ..LstmConfig::default() }.into()));
        assert!(error(r#"{"units": 5}"#).contains("missing field `family`"));
        assert!(error(r#"{"family": "mamba"}"#).contains("unknown variant `mamba`, expected `gpt` or `lstm`"));
        assert!(error(r#"{"family": "gpt", "units": 3}"#).contains("unknown field `units`"));
        assert!(error(r#"{"family": "lstm", "units": "many"}"#).contains("invalid type: string \"many\""));
    }
}
