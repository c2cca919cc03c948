//! The LSTM of the paper's ablation (§5, table 5: "a single layer 2048 unit LSTM using the same framework").
//!
//! ```text
//! eₜ = Wₑ[uₜ]        (hₜ, cₜ) = lstm_cell(eₜ W_ih + hₜ₋₁ W_hh + b, cₜ₋₁)        sₜ = hₜ W_p + b_p        P(u) = softmax(sₜ Wₑᵀ)
//! ```
//!
//! (Hochreiter and Schmidhuber 1997; forget gates of Gers, Schmidhuber and Cummins 2000.) The paper gives no details. Decided
//! here: the H units are projected to the width d, so that the output is tied to the embedding as in the Transformer, and heads
//! read states of the same width; there are no positions, since order is in the recurrence; dropout applies to the embedded
//! tokens and the projected states, not inside the recurrence; there is one bias where cuDNN and PyTorch add two.

use std::sync::Arc;

use gradus_autograd::Var;
use gradus_tensor::{Real, Tensor};
use serde::{Deserialize, Serialize};

use crate::batch::{Input, Sight};
use crate::config::{ConfigError, Sizes, check_dropout, check_parameters, check_size, check_std};
use crate::dropout::{Dropout, DropoutSeed, Site};
use crate::layers::{Linear, Table, sequence_length};
use crate::param::{Init, Param, Role};
use crate::transformer::TransformerConfig;
use crate::tree;
use crate::tree::P;

/// Options of an LSTM. The context bounds training windows and batches; the recurrence has no such bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LstmConfig {
    /// Number of units H.
    pub units: usize,
    /// Dropout on the embeddings.
    pub embd_dropout: f64,
    /// Dropout on the projected states.
    pub resid_dropout: f64,
    /// Standard deviation of the initial weights.
    pub initializer_range: f64,
}

/// The maximum number of units; there are more than 4H² parameters.
const MOST_UNITS: usize = 1 << 16;

impl Default for LstmConfig {
    fn default() -> Self {
        Self::PAPER
    }
}

impl LstmConfig {
    /// The paper's LSTM: 2,048 units, and all else as in its GPT-1.
    pub const PAPER: LstmConfig = LstmConfig::of_units(2048, &TransformerConfig::GPT1);

    /// Returns an LSTM with this number of units, and all else as in this GPT.
    const fn of_units(units: usize, transformer: &TransformerConfig) -> Self {
        LstmConfig {
            units,
            embd_dropout: transformer.embd_dropout,
            resid_dropout: transformer.resid_dropout,
            initializer_range: transformer.initializer_range,
        }
    }

    /// Returns an LSTM with the dropouts of this GPT, and the number of units whose parameters come closest to the GPT's.
    ///
    /// ```
    /// use gradus_model::{LstmConfig, ModelConfig};
    /// let (gpt, sizes) = (ModelConfig::default(), ModelConfig::default().sizes);
    /// let lstm = LstmConfig::matching(sizes, gpt.transformer().unwrap());
    /// assert_eq!((lstm.units, lstm.parameters(sizes).abs_diff(gpt.parameters())), (4166, 10_584));
    /// ```
    pub fn matching(sizes: Sizes, transformer: &TransformerConfig) -> Self {
        let sized = (1..=MOST_UNITS).map(|units| Self::of_units(units, transformer));
        sized.min_by_key(|lstm| lstm.parameters(sizes).abs_diff(transformer.parameters(sizes))).expect("one at least")
    }

    /// Sets both dropouts to one probability.
    pub fn with_dropout(self, p: f64) -> Self {
        LstmConfig { embd_dropout: p, resid_dropout: p, ..self }
    }

    /// Returns the number of parameters: 4H(d + H + 1) of the cell, d(H + 1) of the projection, V·d of the embedding.
    pub fn parameters(&self, sizes: Sizes) -> usize {
        let (d, h) = (sizes.width, self.units);
        4 * h * (d + h + 1) + d * (h + 1) + sizes.vocab * d
    }

    /// Checks the options in a model of these sizes.
    pub fn check(&self, sizes: Sizes) -> Result<(), ConfigError> {
        check_size("units", self.units, MOST_UNITS, "--units")?;
        check_dropout("embd_dropout", self.embd_dropout)?;
        check_dropout("resid_dropout", self.resid_dropout)?;
        check_std(self.initializer_range)?;
        check_parameters(self.parameters(sizes), "a smaller --width, --units or vocabulary")
    }
}

tree! {
    /// The recurrent layer; columns in the order of the gates i, f, g, o.
    pub struct LstmCell<V> {
        /// W_ih (d, 4H), from the token.
        weight_ih: P<V>,
        /// W_hh (H, 4H), from the output of the step before.
        weight_hh: P<V>,
        /// b (4H).
        bias: P<V>,
    }
}

impl LstmCell<Param> {
    /// Declares a cell from states of width d to H units: weights N(0, std²), biases 0, but 1 for the forget gates (Gers et al.
    /// 2000; Jozefowicz, Zaremba and Sutskever 2015): f = σ(0) = ½ would halve the cell, and its gradient, at every step.
    pub fn declare(d: usize, h: usize, std: f64) -> Self {
        LstmCell {
            weight_ih: P(Param::weight([d, 4 * h], std)),
            weight_hh: P(Param::weight([h, 4 * h], std)),
            bias: P(Param { init: Init::OnesAt(h..2 * h), ..Param::bias(4 * h) }),
        }
    }
}

tree! {
    /// An LSTM language model with a `V` for every parameter.
    pub struct Lstm<V> {
        /// Wₑ (V, d), the output's matrix too.
        tokens_embed: Table<V>,
        /// The recurrent layer.
        cell: LstmCell<V>,
        /// H → d.
        c_proj: Linear<V>,
    } with {
        sizes: Sizes,
        config: Arc<LstmConfig>,
    }
}

impl Lstm<Param> {
    /// Declares the parameters, drawn as in the Transformer, except the forget gates.
    pub fn declare(sizes: Sizes, config: &LstmConfig) -> Self {
        let (d, h, std) = (sizes.width, config.units, config.initializer_range);
        Lstm {
            tokens_embed: Table::declare(sizes.vocab, d, std, Role::TokenEmbedding),
            cell: LstmCell::declare(d, h, std),
            c_proj: Linear::declare(h, d, std),
            sizes,
            config: Arc::new(*config),
        }
    }
}

impl<V> Lstm<V> {
    /// Returns the sizes.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Returns the options.
    pub fn config(&self) -> &LstmConfig {
        &self.config
    }
}

impl<'t, T: Real> Lstm<Var<'t, T>> {
    /// Computes Wₑ[u] (B, T, d) of tokens at positions `first ..`, which must be in the vocabulary and in the context.
    fn embed(&self, input: &Input, first: usize) -> Var<'t, T> {
        let t = sequence_length(input, first, self.sizes.vocab, self.sizes.context);
        self.tokens_embed.weight.0.gather(input.tokens.clone(), [input.sequences, t])
    }

    /// Computes the projected states sₜ, with the output's matrix; with a seed, dropout is active. Panics unless causal.
    pub fn hidden(&self, input: &Input, dropout: Option<DropoutSeed>) -> (Var<'t, T>, Var<'t, T>) {
        let in_order = input.sight == Sight::Causal && input.positions.is_none() && input.query_only == 0;
        assert!(in_order, "a recurrence reads from left to right");
        let table = self.tokens_embed.weight.0.clone();
        let (tape, c) = (table.tape(), &self.config);
        let drop = |x, p, site| Dropout::new(p, site).forward(x, dropout);
        let x = tape.scope("embed", || drop(self.embed(input, 0), c.embd_dropout, Site::Embedding));
        // The recurrence runs over time: (B, T, d) → (T, B, d).
        let h = tape.scope("cell", || self.inputs(&x.permute(&[1, 0, 2])).lstm(&self.cell.weight_hh.0)); // (T, B, H)
        let states = tape.scope("c_proj", || {
            let s = self.c_proj.forward(&h).permute(&[1, 0, 2]); // (B, T, d)
            drop(s, c.resid_dropout, Site::Projection)
        });
        (states, table)
    }

    /// Computes the contribution of embedded tokens (…, d) to the pre-activations (…, 4H).
    fn inputs(&self, x: &Var<'t, T>) -> Var<'t, T> {
        x.linear(&self.cell.weight_ih.0, &self.cell.bias.0)
    }

    /// Computes the projected states (B, T, d) of tokens that follow those read by `state`, step by step, and advances `state`.
    /// For one sequence, the bits are those of [`Lstm::hidden`] over all of it.
    pub fn decode(&self, input: &Input, state: &mut LstmState<T>) -> (Var<'t, T>, Var<'t, T>) {
        let table = self.tokens_embed.weight.0.clone();
        let (tape, b, t, units) = (table.tape(), input.sequences, input.length(), self.config.units);
        let x = self.inputs(&self.embed(input, state.position)); // (B, T, 4H)
        let (mut h, mut c) = (tape.constant(state.h.clone()), tape.constant(state.c.clone()));
        let mut outputs = Vec::with_capacity(t);
        for time in 0..t {
            let (x, w) = (x.slice(1, time..time + 1), &self.cell.weight_hh.0);
            let z = match b {
                // x in place of the bias begins the chain of additions, as in `lstm`.
                1 => h.linear(w, &x.reshape([4 * units])),
                _ => h.matmul(w) + x.reshape([b, 4 * units]),
            };
            (h, c) = z.lstm_cell(&c);
            outputs.push(h.reshape([b, 1, units]));
        }
        (state.h, state.c) = (h.into_value(), c.into_value());
        state.position += t;
        let h = match &outputs[..] {
            [] => table.constant(table.value().zeros_like([b, 0, units])),
            steps => Var::concat(&steps.iter().collect::<Vec<_>>(), 1),
        };
        (self.c_proj.forward(&h), table)
    }
}

/// The state of an LSTM after the tokens read: h and c (B, H), for any number of tokens.
#[derive(Clone, Debug)]
pub struct LstmState<T: Real> {
    h: Tensor<T>,
    c: Tensor<T>,
    position: usize,
}

impl<T: Real> LstmState<T> {
    /// Creates the state before any token: zeros, stored where `like` is.
    pub fn new(config: &LstmConfig, like: &Tensor<T>) -> Self {
        let zeros = || like.zeros_like([1, config.units]);
        LstmState { h: zeros(), c: zeros(), position: 0 }
    }

    /// Returns the number of tokens read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Copies the state for n sequences that continue from here.
    pub(crate) fn fork(&self, n: usize) -> Self {
        let of_each = |seen: &Tensor<T>| seen.expand([n, seen.shape()[1]]);
        LstmState { h: of_each(&self.h), c: of_each(&self.c), position: self.position }
    }
}

#[cfg(test)]
mod tests {
    use gradus_autograd::Tape;

    use super::*;
    use crate::model::ModelConfig;
    use crate::param::draw;
    use crate::tree::Tree;

    const SIZES: Sizes = Sizes { vocab: 7, context: 3, width: 5 };

    #[test]
    fn the_count_of_parameters_is_that_of_the_shapes() {
        let default = ModelConfig::default().sizes;
        for (sizes, units, expected) in [(default, 2048, 55_737_600), (SIZES, 4, 220)] {
            let (mut count, config) = (0, LstmConfig { units, ..LstmConfig::default() });
            Lstm::declare(sizes, &config).visit(|_, p| count += p.shape.numel());
            assert_eq!([count, config.parameters(sizes)], [expected; 2]);
        }
    }

    #[test]
    fn matching_finds_the_nearest_number_of_units() {
        let preset = |name, vocab| ModelConfig::preset(name).unwrap().with_vocab(vocab);
        // 29 parameters; an LSTM of one unit has 17, of two 38.
        let one = TransformerConfig { layers: 1, heads: 1, ..TransformerConfig::default() };
        let least = ModelConfig::new(Sizes { vocab: 3, context: 1, width: 1 }, one);
        for (gpt, units) in
            [(preset("tiny", 1000), 376), (preset("small", 8000), 1416), (least, 2), (ModelConfig::default(), 4166)]
        {
            assert_eq!(LstmConfig::matching(gpt.sizes, gpt.transformer().unwrap()).units, units);
        }
    }

    #[test]
    fn a_new_cell_starts_with_a_forget_bias_of_1() {
        let config = LstmConfig { units: 2, ..LstmConfig::default() };
        let params: Lstm<Tensor<f64>> = draw(Lstm::declare(Sizes { width: 3, ..SIZES }, &config), 1);
        assert_eq!(params.cell.bias.0.to_vec(), [0., 0., 1., 1., 0., 0., 0., 0.]);
        assert_eq!(params.c_proj.bias.0.to_vec(), [0.; 3]);
        assert_ne!(params.cell.weight_ih.0.to_vec()[..6], params.cell.weight_hh.0.to_vec()[..6], "separate streams");
    }

    #[test]
    fn inputs_that_are_not_read_from_left_to_right_panic() {
        let params: Lstm<Tensor<f64>> = draw(Lstm::declare(SIZES, &LstmConfig { units: 2, ..LstmConfig::default() }), 1);
        let causal = || Input::causal(1, [1, 2]);
        let reads = |input: Input| {
            let read = || _ = params.constants(&Tape::new()).hidden(&input, None);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).is_ok()
        };
        assert!(reads(causal()));
        assert!(!reads(Input::full(1, [1, 2])));
        assert!(!reads(Input { positions: Some([1, 0].into()), ..causal() }));
        assert!(!reads(Input { query_only: 1, ..causal() }));
    }

    #[test]
    fn both_dropouts_are_set_at_once() {
        let c = LstmConfig { units: 5, ..LstmConfig::default() }.with_dropout(0.3);
        assert_eq!((c.units, c.embd_dropout, c.resid_dropout), (5, 0.3, 0.3));
    }

    #[test]
    fn invalid_configurations_are_rejected() {
        let refused = |config: LstmConfig| config.check(SIZES).unwrap_err().to_string();
        assert_eq!(LstmConfig::default().check(SIZES), Ok(()));
        let ok = LstmConfig::default;
        assert_eq!(
            refused(LstmConfig { units: 0, ..ok() }),
            "units = 0: expected a number from 1 to 65536; change it with --units, or in the config.json of a model"
        );
        assert!(refused(LstmConfig { resid_dropout: 1.0, ..ok() }).starts_with("resid_dropout = 1: expected a probability"));
        assert!(refused(LstmConfig { embd_dropout: f64::NAN, ..ok() }).starts_with("embd_dropout = NaN"));
        assert!(refused(LstmConfig { initializer_range: -0.1, ..ok() }).starts_with("initializer_range = -0.1"));
        assert!(refused(LstmConfig { units: 1 << 16, ..ok() }).contains("a smaller --width, --units or vocabulary"));
    }
}
