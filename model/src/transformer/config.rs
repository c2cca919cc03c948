//! Options of a Transformer.

use serde::{Deserialize, Serialize};

use crate::config::{Activation, ConfigError, Sizes, check_dropout, check_eps, check_parameters, check_size, check_std, ensure};

/// The kind of position embedding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Positions {
    /// A learned vector per position (§4.1).
    #[default]
    Learned,
    /// Sines and cosines (Vaswani et al. 2017, §3.5).
    Sinusoidal,
}

/// The sharing of embedding matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Embedding {
    /// Two matrices; dropout after their sum; softmax over tokens. The paper's equation 2, and Hugging Face's form.
    #[default]
    Separate,
    /// One matrix [tokens; positions], as in OpenAI's code; dropout on the matrix, before both uses; softmax over all rows,
    /// including positions.
    Joint,
}

/// The place of the norms of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormPlace {
    /// After each branch is added, LN(x + f(x)): post-norm (Vaswani et al. 2017; GPT-1; BERT).
    #[default]
    After,
    /// At the beginning of each branch, x + f(LN(x)): pre-norm (GPT-2, §2.3).
    Before,
}

/// Options of a Transformer; by default GPT-1's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerConfig {
    /// Number of blocks.
    pub layers: usize,
    /// Attention heads per block.
    pub heads: usize,
    /// Feed-forward width f, if not 4d; see [`TransformerConfig::with_inner`].
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
    /// Dropout on both branches.
    pub resid_dropout: f64,
    /// ε of layer norm, inside the root.
    pub layer_norm_epsilon: f64,
    /// Standard deviation of the initial weights.
    pub initializer_range: f64,
    /// Number of segments (BERT's token types); 0: no embedding.
    #[serde(skip_serializing_if = "is_default")]
    pub segments: usize,
    /// Whether the embeddings are normed (BERT).
    #[serde(skip_serializing_if = "is_default")]
    pub embedding_norm: bool,
    /// The place of the norms of a block.
    #[serde(skip_serializing_if = "is_default")]
    pub norm: NormPlace,
    /// A norm after the last block (GPT-2).
    #[serde(skip_serializing_if = "is_default")]
    pub final_norm: bool,
    /// Whether output projections of the 2L residual branches are drawn from N(0, σ²/2L) (GPT-2).
    #[serde(skip_serializing_if = "is_default")]
    pub scaled_init: bool,
    /// The id of a padding token without a position (RoBERTa in `transformers`): it uses row 0 of the position table, and is
    /// skipped in counting positions. `None`: every token has a position.
    #[serde(skip_serializing_if = "is_default")]
    pub padding: Option<u32>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for TransformerConfig {
    fn default() -> Self {
        Self::GPT1
    }
}

impl TransformerConfig {
    /// The paper's GPT-1.
    pub const GPT1: TransformerConfig = TransformerConfig {
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
        segments: 0,
        embedding_norm: false,
        norm: NormPlace::After,
        final_norm: false,
        scaled_init: false,
        padding: None,
    };

    /// Returns the options that distinguish one system from another; all others are GPT-1's.
    pub fn design(self) -> Self {
        let TransformerConfig { layers, heads, inner, positions, embedding, initializer_range, .. } = Self::GPT1;
        TransformerConfig { layers, heads, inner, positions, embedding, initializer_range, ..self }
            .with_dropout(Self::GPT1.embd_dropout)
    }

    /// Returns the options of extra layers, place of norms, scaled initial weights and padding; all others are GPT-1's.
    pub fn parts(self) -> Self {
        let TransformerConfig { activation, layer_norm_epsilon, .. } = Self::GPT1;
        TransformerConfig { activation, layer_norm_epsilon, ..self.design() }
    }

    /// Sets all three dropouts.
    pub fn with_dropout(self, p: f64) -> Self {
        TransformerConfig { embd_dropout: p, attn_dropout: p, resid_dropout: p, ..self }
    }

    /// Returns the number of rows of the embedding matrix, over which the output's softmax runs.
    pub fn output_rows(&self, sizes: Sizes) -> usize {
        match self.embedding {
            Embedding::Separate => sizes.vocab,
            Embedding::Joint => sizes.vocab + sizes.context,
        }
    }

    /// Returns the number of rows of the position table: the context, plus one for padding if it has no position.
    pub(crate) fn position_rows(&self, context: usize) -> usize {
        context + usize::from(self.padding.is_some())
    }

    /// Sets the width f between the two layers of the feed-forward networks, in a model of width d.
    pub fn with_inner(self, inner: usize, width: usize) -> Self {
        TransformerConfig { inner: Some(inner).filter(|&inner| inner != width.saturating_mul(4)), ..self }
    }

    /// Returns the width f between the two layers of a feed-forward network, in a model of width d: 4d by default.
    pub fn inner(&self, width: usize) -> usize {
        self.inner.unwrap_or(4 * width)
    }

    /// Returns the initial standard deviation of the output projections of residual branches.
    pub(crate) fn residual_std(&self) -> f64 {
        let sums = if self.scaled_init { 2 * self.layers } else { 1 };
        self.initializer_range / (sums as f64).sqrt()
    }

    /// Returns the number of parameters: 4d² + 2df + 9d + f per block, 12d² + 13d if f = 4d, plus embeddings and optional layers;
    /// the tied output has none.
    pub fn parameters(&self, sizes: Sizes) -> usize {
        let (d, f) = (sizes.width, self.inner(sizes.width));
        let learned = self.embedding == Embedding::Separate && self.positions == Positions::Learned;
        let positions = if learned { self.position_rows(sizes.context) * d } else { 0 };
        let norms = 2 * d * (usize::from(self.embedding_norm) + usize::from(self.final_norm));
        self.layers * (4 * d * d + 2 * d * f + 9 * d + f) + self.output_rows(sizes) * d + positions + self.segments * d + norms
    }

    /// Returns the FLOPs of a training step per token: 6·L·(4d² + 2df) + 6·d·V + 12·L·T·d, including masked scores.
    pub fn training_flops(&self, sizes: Sizes) -> u64 {
        let Sizes { vocab, context, width } = sizes;
        let [l, d, f, v, t] = [self.layers, width, self.inner(width), vocab, context].map(|x| x as u64);
        6 * l * (4 * d * d + 2 * d * f) + 6 * d * v + 12 * l * t * d
    }

    /// Checks the options in a model of these sizes.
    pub fn check(&self, sizes: Sizes) -> Result<(), ConfigError> {
        check_size("layers", self.layers, 1 << 10, "--layers")?;
        check_size("heads", self.heads, 1 << 12, "--heads")?;
        check_size("inner", self.inner(sizes.width), 1 << 18, "--inner")?;
        let divides = sizes.width.is_multiple_of(self.heads);
        ensure(divides, "width", sizes.width, format!("a multiple of the {} heads", self.heads), "--width or --heads")?;
        let both = self.positions == Positions::Sinusoidal && self.embedding == Embedding::Joint;
        ensure(!both, "positions", "sinusoidal", "learned, since the joint embedding holds position rows", "--positions")?;
        check_dropout("embd_dropout", self.embd_dropout)?;
        check_dropout("attn_dropout", self.attn_dropout)?;
        check_dropout("resid_dropout", self.resid_dropout)?;
        check_eps(self.layer_norm_epsilon)?;
        check_std(self.initializer_range)?;
        ensure(self.segments <= 1 << 10, "segments", self.segments, "a number from 0 to 1024", "--segments")?;
        if let Some(padding) = self.padding {
            let is_token = (padding as usize) < sizes.vocab;
            ensure(is_token, "padding", padding, format!("a token of the {}", sizes.vocab), "a vocabulary that has it")?;
            let learned = self.positions == Positions::Learned;
            ensure(learned, "padding", padding, "learned positions", "--positions")?;
        }
        let joint = self.embedding == Embedding::Joint;
        ensure(
            !joint || self.parts() == Self::GPT1,
            "embedding",
            "joint",
            "separate, in a model with further parts",
            "--embedding",
        )?;
        check_parameters(self.parameters(sizes), "a smaller --width, --layers or vocabulary")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelConfig;

    /// GPT-1's context is 512; 1,024 is GPT-2's.
    #[test]
    fn presets_have_the_papers_sizes() {
        let model = ModelConfig::preset("gpt1").unwrap();
        let (sizes, gpt1) = (model.sizes, model.transformer().unwrap());
        assert_eq!((gpt1.layers, gpt1.heads, sizes), (12, 12, Sizes { vocab: 40_478, context: 512, width: 768 }));
        assert_eq!((model.parameters(), gpt1.layer_norm_epsilon, gpt1.initializer_range), (116_534_784, 1e-5, 0.02));
        assert_eq!([gpt1.embd_dropout, gpt1.attn_dropout, gpt1.resid_dropout], [0.1; 3]);
        assert_eq!(crate::transformer::Transformer::declare(sizes, gpt1).h.0[0].mlp.c_fc.bias.0.shape[..], [3072]);
        assert_eq!(ModelConfig::preset("gpt2"), None);
        let sizes = |name| {
            let model = ModelConfig::preset(name).unwrap();
            let gpt = model.transformer().unwrap();
            [gpt.layers, model.sizes.width, gpt.heads, model.sizes.context]
        };
        assert_eq!((sizes("tiny"), sizes("small")), ([4, 128, 4, 128], [6, 384, 6, 256]));
    }

    #[test]
    fn all_dropouts_are_set_at_once() {
        let c = TransformerConfig { layers: 6, ..TransformerConfig::default() }.with_dropout(0.3);
        assert_eq!((c.layers, [c.embd_dropout, c.attn_dropout, c.resid_dropout]), (6, [0.3; 3]));
    }

    #[test]
    fn a_design_has_no_sizes_and_defaults_are_omitted() {
        let wide = TransformerConfig { inner: Some(9), layers: 3, ..Default::default() };
        assert_eq!(wide.design(), TransformerConfig::GPT1);
        let json = serde_json::to_value(wide).unwrap();
        assert!(json.get("segments").is_none() && json["inner"] == 9, "{json}");
        assert_eq!(serde_json::from_value::<TransformerConfig>(json).unwrap(), wide);
    }

    #[test]
    fn scaled_weights_are_divided_by_the_root_of_the_number_of_branches() {
        let plain = TransformerConfig { layers: 8, ..Default::default() };
        assert_eq!(plain.residual_std(), 0.02);
        assert_eq!(TransformerConfig { scaled_init: true, ..plain }.residual_std(), 0.02 / 4.0);
    }

    #[test]
    fn padding_has_a_row_of_its_own_and_needs_a_token_and_learned_positions() {
        let sizes = Sizes { vocab: 5, context: 7, width: 12 };
        let with = |padding| TransformerConfig { padding: Some(padding), ..Default::default() };
        assert_eq!((TransformerConfig::GPT1.position_rows(7), with(4).position_rows(7)), (7, 8));
        assert_eq!(with(4).check(sizes), Ok(()));
        assert_eq!(with(5).check(sizes).unwrap_err().expected, "a token of the 5");
        let sinusoidal = TransformerConfig { positions: Positions::Sinusoidal, ..with(4) };
        assert_eq!(sinusoidal.check(sizes).unwrap_err().expected, "learned positions");
    }

    /// Per token and block: 6·12d² for its matrices, forward and twice as much back, and 12·T·d for scores and values; 6·d·V for
    /// the output.
    #[test]
    fn operations_are_counted_by_hand() {
        let (sizes, c) = (Sizes { vocab: 5, context: 7, width: 3 }, TransformerConfig { layers: 2, ..Default::default() });
        assert_eq!(c.training_flops(sizes), 6 * 12 * 9 * 2 + 6 * 3 * 5 + 12 * 7 * 3 * 2);
        let narrow = TransformerConfig { inner: Some(10), ..c };
        let fewer = c.training_flops(sizes) - narrow.training_flops(sizes);
        assert_eq!(fewer, 6 * 2 * 2 * 3 * 2, "two inner units less in each of two blocks");
        assert_eq!(c.parameters(sizes) - narrow.parameters(sizes), 2 * 2 * (2 * 3 + 1));
    }

    #[test]
    fn invalid_configurations_are_rejected() {
        let with = |change: &dyn Fn(&mut TransformerConfig)| ModelConfig::default().with_transformer(change);
        let sized = |change: &dyn Fn(&mut Sizes)| {
            let mut model = with(&|c| c.heads = 1);
            change(&mut model.sizes);
            model
        };
        for fine in [
            with(&|_| ()),
            with(&|c| c.embedding = Embedding::Joint),
            with(&|c| c.layer_norm_epsilon = 1.0),
            ModelConfig::default().with_dropout(0.0),
        ] {
            assert_eq!(fine.check(), Ok(()));
        }
        for (wrong, expected) in [
            (sized(&|s| s.vocab = 0), "vocab = 0: expected a number from 1 to 16777216"),
            (sized(&|s| s.context = (1 << 20) + 1), "context = 1048577: expected a number from 1 to 1048576"),
            (sized(&|s| s.width = (1 << 16) + 1), "width = 65537: expected a number from 1 to 65536"),
            (with(&|c| c.layers = (1 << 10) + 1), "layers = 1025: expected a number from 1 to 1024"),
            (with(&|c| c.heads = (1 << 12) + 1), "heads = 4097: expected a number from 1 to 4096"),
            (with(&|c| c.inner = Some(0)), "inner = 0: expected a number from 1 to 262144"),
            (with(&|c| c.heads = 7), "width = 768: expected a multiple of the 7 heads"),
            (
                with(&|c| (c.positions, c.embedding) = (Positions::Sinusoidal, Embedding::Joint)),
                "positions = sinusoidal: expected learned",
            ),
            (with(&|c| c.embd_dropout = 1.0), "embd_dropout = 1: expected a probability"),
            (with(&|c| c.attn_dropout = -0.1), "attn_dropout = -0.1: expected a probability"),
            (with(&|c| c.resid_dropout = f64::NAN), "resid_dropout = NaN: expected a probability"),
            (with(&|c| c.layer_norm_epsilon = 0.0), "layer_norm_epsilon = 0: expected a number above 0"),
            (with(&|c| c.layer_norm_epsilon = 1.5), "layer_norm_epsilon = 1.5: expected a number above 0"),
            (with(&|c| c.initializer_range = 10.5), "initializer_range = 10.5: expected a number from 0 to 10"),
            (sized(&|s| s.width = 1 << 16), "parameters = "),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(check_parameters(4_000_000_000, "less"), Ok(()));
        assert!(check_parameters(4_000_000_001, "less").is_err());
    }
}
