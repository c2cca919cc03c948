//! The sizes that all parts of a model share, and checks of configurations.

use serde::{Deserialize, Serialize};

/// The function between the two layers of the feed-forward network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// GELU in its tanh form: the paper's, named `gelu` in `openai-gpt`.
    #[default]
    Gelu,
    /// x·Φ(x), by the error function.
    GeluErf,
    /// max(0, x).
    Relu,
}

/// The sizes that all parts of a model share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Number of tokens V.
    pub vocab: usize,
    /// Maximum number of tokens in a sequence.
    pub context: usize,
    /// Width d of a hidden state.
    pub width: usize,
}

impl Sizes {
    /// Checks the sizes. The bounds reject an absurd size before it exhausts memory.
    pub fn check(self) -> Result<(), ConfigError> {
        check_size("vocab", self.vocab, 1 << 24, "the tokenizer's vocabulary")?;
        check_size("context", self.context, 1 << 20, "--context")?;
        check_size("width", self.width, 1 << 16, "--width")
    }
}

/// The reason why a configuration does not describe a valid model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field} = {found}: expected {expected}; change it with {remedy}, or in the config.json of a model")]
#[allow(missing_docs, reason = "the message says it")]
pub struct ConfigError {
    pub field: &'static str,
    pub found: String,
    pub expected: String,
    pub remedy: &'static str,
}

/// Checks ε of a layer norm.
pub(crate) fn check_eps(eps: f64) -> Result<(), ConfigError> {
    ensure(eps > 0.0 && eps <= 1.0, "layer_norm_epsilon", eps, "a number above 0, at most 1", "--epsilon")
}

/// Returns the error of a field, unless `holds`.
pub(crate) fn ensure(
    holds: bool,
    field: &'static str,
    found: impl ToString,
    expected: impl Into<String>,
    remedy: &'static str,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError { field, found: found.to_string(), expected: expected.into(), remedy }) }
}

/// Checks that a size is from 1 to `most`.
pub(crate) fn check_size(field: &'static str, found: usize, most: usize, remedy: &'static str) -> Result<(), ConfigError> {
    ensure((1..=most).contains(&found), field, found, format!("a number from 1 to {most}"), remedy)
}

/// Checks that a dropout probability is below 1, so that some elements are left.
pub(crate) fn check_dropout(field: &'static str, p: f64) -> Result<(), ConfigError> {
    ensure((0.0..1.0).contains(&p), field, p, "a probability from 0 to below 1", "--dropout")
}

/// Checks the standard deviation of initial weights.
pub(crate) fn check_std(std: f64) -> Result<(), ConfigError> {
    ensure((0.0..=10.0).contains(&std), "initializer_range", std, "a number from 0 to 10", "--init-std")
}

/// Checks that the parameters may fit in memory.
pub(crate) fn check_parameters(found: usize, remedy: &'static str) -> Result<(), ConfigError> {
    let most = 4_000_000_000;
    ensure(found <= most, "parameters", found, format!("at most {most}"), remedy)
}
