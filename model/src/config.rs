//! What a GPT is, without its parameters.

use serde::{Deserialize, Serialize};

/// The function between the two layers of the feed-forward network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// GELU in its tanh form: the paper's, and what `openai-gpt` calls `gelu`.
    #[default]
    Gelu,
    /// x·Φ(x), by the error function.
    GeluErf,
    /// max(0, x).
    Relu,
}

/// What tells the model where a token is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Positions {
    /// A learned vector per position (§4.1).
    #[default]
    Learned,
    /// Sines and cosines (Vaswani et al. 2017, §3.5).
    Sinusoidal,
}

/// How tokens, positions and the output share matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Embedding {
    /// Two matrices; dropout after their sum; softmax over tokens. The paper's equation 2, and Hugging Face's form.
    #[default]
    Separate,
    /// OpenAI's code: one matrix [tokens; positions]; dropout on the matrix, before gather and output alike; softmax over
    /// all its rows, positions too.
    Joint,
}

/// Where the norms of a block stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormPlace {
    /// After each branch is added, LN(x + f(x)): post-norm (Vaswani et al. 2017; GPT-1; BERT).
    #[default]
    After,
    /// At the beginning of each branch, x + f(LN(x)): pre-norm (GPT-2, §2.3).
    Before,
}

/// What a Transformer has that GPT-1's lacks; by default nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parts {
    /// Segments that are told apart, by a learned vector each (BERT); 0: none are.
    pub segments: usize,
    /// A norm of the sum of the embeddings (BERT).
    pub embedding_norm: bool,
    /// Where the norms of a block stand.
    pub norm: NormPlace,
    /// A norm after the last block (GPT-2).
    pub final_norm: bool,
    /// Initial weights of what is added to the residual stream are drawn from N(0, σ²/2L): there are 2L such sums (GPT-2).
    pub scaled_init: bool,
    /// The id of a padding token without a position (RoBERTa in `transformers`): it reads row 0 of the position table, and the
    /// positions of other tokens do not count it. `None`: every token has a position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding: Option<u32>,
}

impl Parts {
    /// GPT-1's: none.
    pub const NONE: Parts = Parts {
        segments: 0,
        embedding_norm: false,
        norm: NormPlace::After,
        final_norm: false,
        scaled_init: false,
        padding: None,
    };

    fn are_none(&self) -> bool {
        *self == Self::NONE
    }
}

/// Sizes and options of a Transformer; by default a GPT's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerConfig {
    /// Number of tokens V.
    pub vocab: usize,
    /// Maximum number of tokens in a sequence.
    pub context: usize,
    /// Width of a hidden state d.
    pub width: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Attention heads per block.
    pub heads: usize,
    /// Width f between the two layers of a feed-forward network, where it is not 4d: see [`TransformerConfig::with_inner`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner: Option<usize>,
    /// Activation of the feed-forward network.
    pub activation: Activation,
    /// Learned or fixed positions.
    pub positions: Positions,
    /// Separate matrices or OpenAI's joint one.
    pub embedding: Embedding,
    /// Dropout on the embeddings.
    pub embd_dropout: f64,
    /// Dropout on attention probabilities.
    pub attn_dropout: f64,
    /// Dropout on both residual branches.
    pub resid_dropout: f64,
    /// ε of layer norm, inside the root.
    pub layer_norm_epsilon: f64,
    /// Standard deviation of the initial weights.
    pub initializer_range: f64,
    /// What it has beside GPT-1's parts.
    #[serde(skip_serializing_if = "Parts::are_none")]
    pub parts: Parts,
}

impl Default for Parts {
    fn default() -> Self {
        Self::NONE
    }
}

impl Default for TransformerConfig {
    /// The paper's GPT-1.
    fn default() -> Self {
        TransformerConfig {
            vocab: 40_478,
            context: 512,
            width: 768,
            layers: 12,
            heads: 12,
            inner: None,
            activation: Activation::Gelu,
            positions: Positions::Learned,
            embedding: Embedding::Separate,
            embd_dropout: 0.1,
            attn_dropout: 0.1,
            resid_dropout: 0.1,
            layer_norm_epsilon: 1e-5,
            initializer_range: 0.02,
            parts: Parts::default(),
        }
    }
}

/// The sizes that all parts of a model share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Number of tokens V.
    pub vocab: usize,
    /// Maximum number of tokens in a sequence.
    pub context: usize,
    /// Width d of a hidden state.
    pub width: usize,
}

/// A configuration that cannot be a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field} = {found}: expected {expected}; change it with {remedy}, or in the config.json of a model")]
#[allow(missing_docs, reason = "the message says it")]
pub struct ConfigError {
    pub field: &'static str,
    pub found: String,
    pub expected: String,
    pub remedy: &'static str,
}

impl TransformerConfig {
    /// The names of [`TransformerConfig::preset`], smallest first.
    pub const PRESETS: [&str; 3] = ["tiny", "small", "gpt1"];

    /// A named preset: `tiny`, `small` or `gpt1`.
    pub fn preset(name: &str) -> Option<Self> {
        let sized = |layers, width, heads, context| TransformerConfig { layers, width, heads, context, ..Self::default() };
        Some(match name {
            "tiny" => sized(4, 128, 4, 128),
            "small" => sized(6, 384, 6, 256),
            "gpt1" => Self::default(),
            _ => return None,
        })
    }

    /// The sizes.
    pub fn sizes(&self) -> Sizes {
        Sizes { vocab: self.vocab, context: self.context, width: self.width }
    }

    /// All three dropouts at once.
    pub fn with_dropout(self, p: f64) -> Self {
        TransformerConfig { embd_dropout: p, attn_dropout: p, resid_dropout: p, ..self }
    }

    /// Rows of the embedding matrix, over which the output's softmax runs.
    pub fn output_rows(&self) -> usize {
        match self.embedding {
            Embedding::Separate => self.vocab,
            Embedding::Joint => self.vocab + self.context,
        }
    }

    /// Rows of the position table: the context, plus one for padding if it has no position.
    pub(crate) fn position_rows(&self) -> usize {
        self.context + usize::from(self.parts.padding.is_some())
    }

    /// Width of a head.
    pub fn head_width(&self) -> usize {
        self.width / self.heads
    }

    /// The same with this width f between the two layers of its feed-forward networks.
    pub fn with_inner(self, inner: usize) -> Self {
        TransformerConfig { inner: Some(inner).filter(|&inner| inner != self.width.saturating_mul(4)), ..self }
    }

    /// Width f between the two layers of a feed-forward network: 4d where nothing else is said.
    pub fn inner(&self) -> usize {
        self.inner.unwrap_or(4 * self.width)
    }

    /// Standard deviation of the initial weights of what is added to the residual stream.
    pub(crate) fn residual_std(&self) -> f64 {
        let sums = if self.parts.scaled_init { 2 * self.layers } else { 1 };
        self.initializer_range / (sums as f64).sqrt()
    }

    /// Number of parameters: 4d² + 2df + 9d + f per block, 12d² + 13d where f = 4d; the embeddings, nothing for the tied output; and those
    /// of the further parts.
    ///
    /// ```
    /// assert_eq!(gradus_model::TransformerConfig::default().parameters(), 116_534_784);
    /// ```
    pub fn parameters(&self) -> usize {
        let (d, f) = (self.width, self.inner());
        let learned = self.embedding == Embedding::Separate && self.positions == Positions::Learned;
        let positions = if learned { self.position_rows() * d } else { 0 };
        let parts = &self.parts;
        let norms = [parts.embedding_norm, parts.final_norm].map(|there| if there { 2 * d } else { 0 });
        let further = parts.segments * d + norms[0] + norms[1];
        self.layers * (4 * d * d + 2 * d * f + 9 * d + f) + self.output_rows() * d + positions + further
    }

    /// Floating-point operations of a training step per token: 6·L·(4d² + 2df) + 6·d·V + 12·L·T·d, masked scores counted too.
    pub fn training_flops(&self) -> u64 {
        let [l, d, f, v, t] = [self.layers, self.width, self.inner(), self.vocab, self.context].map(|x| x as u64);
        6 * l * (4 * d * d + 2 * d * f) + 6 * d * v + 12 * l * t * d
    }

    /// Is this a model? The bounds keep an absurd size from exhausting memory before anything is said.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_size("vocab", self.vocab, 1 << 24, "the tokenizer's vocabulary")?;
        check_size("context", self.context, 1 << 20, "--context")?;
        check_size("width", self.width, 1 << 16, "--width")?;
        check_size("layers", self.layers, 1 << 10, "--layers")?;
        check_size("heads", self.heads, 1 << 12, "--heads")?;
        check_size("inner", self.inner(), 1 << 18, "--inner")?;
        let divides = self.width.is_multiple_of(self.heads);
        ensure(divides, "width", self.width, format!("a multiple of the {} heads", self.heads), "--width or --heads")?;
        let both = self.positions == Positions::Sinusoidal && self.embedding == Embedding::Joint;
        ensure(!both, "positions", "sinusoidal", "learned, since the joint embedding holds position rows", "--positions")?;
        check_dropout("embd_dropout", self.embd_dropout)?;
        check_dropout("attn_dropout", self.attn_dropout)?;
        check_dropout("resid_dropout", self.resid_dropout)?;
        check_eps(self.layer_norm_epsilon)?;
        check_std(self.initializer_range)?;
        let segments = self.parts.segments;
        ensure(segments <= 1 << 10, "segments", segments, "a number from 0 to 1024", "--segments")?;
        if let Some(padding) = self.parts.padding {
            let is_token = (padding as usize) < self.vocab;
            ensure(is_token, "padding", padding, format!("a token of the {}", self.vocab), "a vocabulary that has it")?;
            let learned = self.positions == Positions::Learned;
            ensure(learned, "padding", padding, "learned positions", "--positions")?;
        }
        let joint = self.embedding == Embedding::Joint;
        ensure(!joint || self.parts.are_none(), "embedding", "joint", "separate, in a model with further parts", "--embedding")?;
        check_parameters(self.parameters(), "a smaller --width, --layers or vocabulary")
    }
}

/// Checks ε of a layer norm.
pub(crate) fn check_eps(eps: f64) -> Result<(), ConfigError> {
    ensure(eps > 0.0 && eps <= 1.0, "layer_norm_epsilon", eps, "a number above 0, at most 1", "--epsilon")
}

/// The error of a field, unless it is as it should be.
pub(crate) fn ensure(
    holds: bool,
    field: &'static str,
    found: impl ToString,
    expected: impl Into<String>,
    remedy: &'static str,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError { field, found: found.to_string(), expected: expected.into(), remedy }) }
}

/// A size from 1 to `most`.
pub(crate) fn check_size(field: &'static str, found: usize, most: usize, remedy: &'static str) -> Result<(), ConfigError> {
    ensure((1..=most).contains(&found), field, found, format!("a number from 1 to {most}"), remedy)
}

/// A probability of dropout, below 1 so that something is left.
pub(crate) fn check_dropout(field: &'static str, p: f64) -> Result<(), ConfigError> {
    ensure((0.0..1.0).contains(&p), field, p, "a probability from 0 to below 1", "--dropout")
}

/// The standard deviation of initial weights.
pub(crate) fn check_std(std: f64) -> Result<(), ConfigError> {
    ensure((0.0..=10.0).contains(&std), "initializer_range", std, "a number from 0 to 10", "--init-std")
}

/// As many as memory may hold.
pub(crate) fn check_parameters(found: usize, remedy: &'static str) -> Result<(), ConfigError> {
    let most = 4_000_000_000;
    ensure(found <= most, "parameters", found, format!("at most {most}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GPT-1's context is 512; 1,024 is GPT-2's.
    #[test]
    fn presets_have_the_papers_sizes() {
        let gpt1 = TransformerConfig::preset("gpt1").unwrap();
        assert_eq!((gpt1.layers, gpt1.width, gpt1.heads, gpt1.context, gpt1.vocab), (12, 768, 12, 512, 40_478));
        assert_eq!((gpt1.parameters(), gpt1.layer_norm_epsilon, gpt1.initializer_range), (116_534_784, 1e-5, 0.02));
        assert_eq!([gpt1.embd_dropout, gpt1.attn_dropout, gpt1.resid_dropout], [0.1; 3]);
        assert_eq!(crate::transformer::Transformer::declare(&gpt1).h.0[0].mlp.c_fc.bias.0.shape[..], [3072]);
        assert_eq!(TransformerConfig::preset("gpt2"), None);
        let sizes = |name| TransformerConfig::preset(name).map(|c| [c.layers, c.width, c.heads, c.context]);
        assert_eq!((sizes("tiny"), sizes("small")), (Some([4, 128, 4, 128]), Some([6, 384, 6, 256])));
    }

    #[test]
    fn all_dropouts_are_set_at_once() {
        let c = TransformerConfig { width: 6, ..TransformerConfig::default() }.with_dropout(0.3);
        assert_eq!((c.width, [c.embd_dropout, c.attn_dropout, c.resid_dropout]), (6, [0.3; 3]));
    }

    /// Per token and block: 6·12d² for its matrices, forward and twice as much back, and 12·T·d for scores and values; 6·d·V for
    /// the output.
    #[test]
    fn operations_are_counted_by_hand() {
        let c = TransformerConfig { layers: 2, width: 3, vocab: 5, context: 7, ..TransformerConfig::default() };
        assert_eq!(c.training_flops(), 6 * 12 * 9 * 2 + 6 * 3 * 5 + 12 * 7 * 3 * 2);
        let narrow = TransformerConfig { inner: Some(10), ..c.clone() };
        assert_eq!(c.training_flops() - narrow.training_flops(), 6 * 2 * 2 * 3 * 2, "two inner units less in each of two blocks");
        assert_eq!(c.parameters() - narrow.parameters(), 2 * 2 * (2 * 3 + 1));
    }

    #[test]
    fn what_cannot_be_a_model_is_refused() {
        let ok = TransformerConfig::default;
        let joint = TransformerConfig { embedding: Embedding::Joint, ..ok() };
        for fine in [ok(), joint.clone(), TransformerConfig { layer_norm_epsilon: 1.0, ..ok() }, ok().with_dropout(0.0)] {
            assert_eq!(fine.check(), Ok(()));
        }
        for (wrong, told) in [
            (TransformerConfig { vocab: 0, ..ok() }, "vocab = 0: expected a number from 1 to 16777216"),
            (TransformerConfig { context: (1 << 20) + 1, ..ok() }, "context = 1048577: expected a number from 1 to 1048576"),
            (TransformerConfig { width: (1 << 16) + 1, ..ok() }, "width = 65537: expected a number from 1 to 65536"),
            (TransformerConfig { layers: (1 << 10) + 1, ..ok() }, "layers = 1025: expected a number from 1 to 1024"),
            (TransformerConfig { heads: (1 << 12) + 1, ..ok() }, "heads = 4097: expected a number from 1 to 4096"),
            (TransformerConfig { inner: Some(0), ..ok() }, "inner = 0: expected a number from 1 to 262144"),
            (TransformerConfig { heads: 7, ..ok() }, "width = 768: expected a multiple of the 7 heads"),
            (TransformerConfig { positions: Positions::Sinusoidal, ..joint }, "positions = sinusoidal: expected learned"),
            (TransformerConfig { embd_dropout: 1.0, ..ok() }, "embd_dropout = 1: expected a probability"),
            (TransformerConfig { attn_dropout: -0.1, ..ok() }, "attn_dropout = -0.1: expected a probability"),
            (TransformerConfig { resid_dropout: f64::NAN, ..ok() }, "resid_dropout = NaN: expected a probability"),
            (TransformerConfig { layer_norm_epsilon: 0.0, ..ok() }, "layer_norm_epsilon = 0: expected a number above 0"),
            (TransformerConfig { layer_norm_epsilon: 1.5, ..ok() }, "layer_norm_epsilon = 1.5: expected a number above 0"),
            (TransformerConfig { initializer_range: 10.5, ..ok() }, "initializer_range = 10.5: expected a number from 0 to 10"),
            (TransformerConfig { width: 1 << 16, heads: 1, ..ok() }, "parameters = "),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
        assert_eq!(check_parameters(4_000_000_000, "less"), Ok(()));
        assert!(check_parameters(4_000_000_001, "less").is_err());
    }
}
