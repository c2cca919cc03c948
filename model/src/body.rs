//! The body of a model: from tokens to hidden states.
//!
//! To add a body, write a file for it, and add a variant with its arms to [`Body`], [`BodyConfig`] and [`Memory`] here.

use gradus_autograd::{Tape, Var};
use gradus_tensor::{Real, Tensor};
use serde::{Deserialize, Serialize};

use crate::batch::Input;
use crate::config::{ConfigError, Sizes};
use crate::dropout::DropoutSeed;
use crate::param::Param;
use crate::recurrent::{Lstm, LstmConfig, LstmState};
use crate::transformer::{LayerCache, Transformer, TransformerConfig, normed};
use crate::tree;
use crate::tree::Tree;

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
        /// The LSTM of the ablation: one recurrent layer (§5, table 5).
        Lstm(Lstm<V>),
    }
}

/// Options of a [`Body`].
///
/// In JSON, the field `family` is `gpt` or `lstm`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "snake_case")]
pub enum BodyConfig {
    /// The options of a Transformer.
    #[serde(rename = "gpt")]
    Transformer(TransformerConfig),
    /// The options of an LSTM.
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
    /// The bodies by name, with their default options.
    pub const ALL: [(&str, BodyConfig); 2] =
        [("transformer", BodyConfig::Transformer(TransformerConfig::GPT1)), ("lstm", BodyConfig::Lstm(LstmConfig::PAPER))];

    /// Returns the name of the body.
    pub fn name(&self) -> &'static str {
        let kind = std::mem::discriminant(self);
        Self::ALL.into_iter().find(|(_, body)| std::mem::discriminant(body) == kind).expect("each body has a name").0
    }

    /// Returns a description of the body.
    pub fn words(&self) -> &'static str {
        match self {
            BodyConfig::Transformer(_) => "a Transformer",
            BodyConfig::Lstm(_) => "an LSTM of one layer",
        }
    }

    /// Returns the body with `n` units: of a Transformer's feed-forward layers at model width `width`, or of a recurrent layer.
    pub fn with_units(self, n: usize, width: usize) -> Self {
        match self {
            BodyConfig::Transformer(c) => c.with_inner(n, width).into(),
            BodyConfig::Lstm(c) => LstmConfig { units: n, ..c }.into(),
        }
    }

    /// Returns the number of rows of the token table, over which an output's softmax runs.
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

    /// Returns the body with only the options that distinguish one system from another; all others have their defaults.
    pub fn design(self) -> Self {
        match self {
            BodyConfig::Transformer(c) => c.design().into(),
            BodyConfig::Lstm(_) => LstmConfig::PAPER.into(),
        }
    }

    /// Returns the options of a Transformer; `None` for another body.
    pub fn transformer(&self) -> Option<&TransformerConfig> {
        match self {
            BodyConfig::Transformer(c) => Some(c),
            BodyConfig::Lstm(_) => None,
        }
    }

    /// Returns the number of blocks that can be transferred one by one; an LSTM has none.
    pub fn layers(&self) -> usize {
        self.transformer().map_or(0, |c| c.layers)
    }

    /// Returns the number of segments with a vector each; an LSTM has none.
    pub fn segments(&self) -> usize {
        self.transformer().map_or(0, |c| c.segments)
    }

    /// Returns the standard deviation of the initial weights.
    pub fn initializer_range(&self) -> f64 {
        each!(BodyConfig, self, c => c.initializer_range)
    }

    /// Returns the number of parameters.
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
    /// Returns the embeddings of the tokens, (rows, width).
    pub fn token_embeddings(&self) -> &V {
        each!(Body, self, body => &body.tokens_embed.weight.0)
    }

    /// Returns the sizes.
    pub fn sizes(&self) -> Sizes {
        each!(Body, self, b => b.sizes())
    }

    /// Returns the options.
    pub fn config(&self) -> BodyConfig {
        each!(Body, self, b => (*b.config()).into())
    }
}

impl<'t, T: Real> Body<Var<'t, T>> {
    /// Computes the last hidden states (B, T, d), with the matrix (rows, d) of tied outputs; with a seed, dropout is active.
    ///
    /// Panics if a recurrent body gets an input that is not causal: callers check user input.
    pub fn hidden(&self, input: &Input, dropout: Option<DropoutSeed>) -> (Var<'t, T>, Var<'t, T>) {
        each!(Body, self, b => b.hidden(input, dropout))
    }
}

/// The state of a body after the tokens read.
#[derive(Debug)]
pub(crate) enum Memory<'m, T: Real> {
    Transformer { transformer: &'m Transformer<Tensor<T>>, layers: Vec<LayerCache<T>> },
    Lstm { lstm: &'m Lstm<Tensor<T>>, state: Box<LstmState<T>> },
}

impl<T: Real> Memory<'_, T> {
    /// Copies the state for n sequences that continue from here, by at most `t` tokens each.
    pub(crate) fn fork(&self, n: usize, t: usize) -> Self {
        match self {
            Memory::Transformer { transformer, layers } => {
                Memory::Transformer { transformer, layers: layers.iter().map(|cache| cache.fork(n, t)).collect() }
            }
            Memory::Lstm { lstm, state } => Memory::Lstm { lstm, state: Box::new(state.fork(n)) },
        }
    }

    /// Reads these tokens, from position `first` on. Returns their last hidden states, and the output's matrix.
    pub(crate) fn read<'t>(&mut self, tape: &'t Tape<T>, input: &Input, first: usize) -> (Var<'t, T>, Var<'t, T>) {
        match self {
            Memory::Transformer { transformer, layers } => {
                let transformer = transformer.constants(tape);
                let (mut states, table) = transformer.embed(input, first, None);
                for (block, cache) in transformer.h.0.iter().zip(layers) {
                    states = block.decode(&states, cache);
                }
                (normed(transformer.ln_f.as_ref(), states), table)
            }
            Memory::Lstm { lstm, state } => lstm.constants(tape).decode(input, state),
        }
    }
}

impl<T: Real> Body<Tensor<T>> {
    /// Returns the state before any token.
    pub(crate) fn memory(&self) -> Memory<'_, T> {
        match self {
            Body::Transformer(transformer) => {
                let (sizes, c, like) = (transformer.sizes(), transformer.config(), &transformer.tokens_embed.weight.0);
                let cache = |_| LayerCache::new(like, c.heads, sizes.context, sizes.width / c.heads);
                Memory::Transformer { transformer, layers: (0..c.layers).map(cache).collect() }
            }
            Body::Lstm(lstm) => {
                let c = lstm.config();
                Memory::Lstm { lstm, state: Box::new(LstmState::new(c, &lstm.tokens_embed.weight.0)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BodyConfig, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_body_configuration_survives_serialization() {
        for config in [BodyConfig::from(TransformerConfig::default()), LstmConfig::default().into()] {
            assert_eq!(read(&serde_json::to_string(&config).unwrap()), Ok(config));
        }
    }

    #[test]
    fn both_families_implement_the_common_interface() {
        let gpt = TransformerConfig { layers: 3, heads: 4, segments: 2, initializer_range: 0.5, ..TransformerConfig::default() };
        let lstm = LstmConfig { units: 7, initializer_range: 0.5, ..LstmConfig::default() };
        let sizes = Sizes { vocab: 5, context: 6, width: 8 };
        let wide = [gpt.with_inner(9, 8).into(), LstmConfig { units: 9, ..lstm }.into()];
        let all = [(BodyConfig::from(gpt), "a Transformer", 3, 2), (lstm.into(), "an LSTM of one layer", 0, 0)];
        assert_eq!(all.map(|(config, ..)| config.with_units(9, 8)), wide);
        for (config, words, layers, segments) in all {
            assert_eq!((config.words(), config.layers(), config.segments()), (words, layers, segments));
            assert_eq!((config.initializer_range(), config.check(sizes)), (0.5, Ok(())));
            assert_eq!((Body::declare(sizes, &config).sizes(), config.output_rows(sizes)), (sizes, 5));
            assert_ne!(config.with_dropout(0.25), config);
        }
    }

    #[test]
    fn an_invalid_configuration_is_rejected_with_its_cause() {
        let error = |text| read(text).unwrap_err();
        assert_eq!(read(r#"{"family": "lstm", "units": 5}"#), Ok(LstmConfig { units: 5, ..LstmConfig::default() }.into()));
        assert!(error(r#"{"units": 5}"#).contains("missing field `family`"));
        assert!(error(r#"{"family": "mamba"}"#).contains("unknown variant `mamba`, expected `gpt` or `lstm`"));
        assert!(error(r#"{"family": "gpt", "units": 3}"#).contains("unknown field `units`"));
        assert!(error(r#"{"family": "lstm", "units": "many"}"#).contains("invalid type: string \"many\""));
    }
}
