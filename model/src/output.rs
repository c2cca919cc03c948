//! Outputs: from the last hidden states h to probabilities of tokens.
//!
//! ```text
//! GPT-1     P(u) = softmax(h Wₑᵀ)
//! BERT      P(u) = softmax(LN(gelu(h W + b)) Wₑᵀ + b′)
//! untied    P(u) = softmax(h Wᵀ), with a matrix of its own
//! ```

use std::sync::Arc;

use gradus_autograd::Var;
use gradus_tensor::{Real, Tensor};
use serde::{Deserialize, Serialize};

use crate::batch::TokenLoss;
use crate::config::{Activation, ConfigError, check_eps};
use crate::layers::{LayerNorm, Linear, Table};
use crate::param::{Param, Role, Serves};
use crate::tree;
use crate::tree::{List, P, Tree};

/// The prediction target of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicts {
    /// The next token, from the tokens before it.
    #[default]
    Next,
    /// The token of the slot, usually masked, given all slots.
    Masked,
}

/// Options of an [`Output`]; by default GPT-1's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutputConfig {
    /// The prediction target.
    pub predicts: Predicts,
    /// Whether the matrix is tied (to the embedding).
    pub tied: bool,
    /// The layer before the matrix; it implies an output bias.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transform: Option<TransformConfig>,
}

/// Options of a [`Transform`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformConfig {
    /// The activation function.
    pub activation: Activation,
    /// ε of the layer norm, inside the root.
    pub layer_norm_epsilon: f64,
}

impl OutputConfig {
    /// GPT-1's output.
    pub const NEXT: OutputConfig = OutputConfig { predicts: Predicts::Next, tied: true, transform: None };

    /// Returns the number of parameters, given the number of rows of the matrix and the width.
    pub fn parameters(&self, rows: usize, d: usize) -> usize {
        let transform = if self.transform.is_some() { d * d + 3 * d + rows } else { 0 };
        transform + if self.tied { 0 } else { rows * d }
    }

    /// Checks the options.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.transform.map_or(Ok(()), |transform| check_eps(transform.layer_norm_epsilon))
    }
}

impl Default for OutputConfig {
    fn default() -> Self {
        Self::NEXT
    }
}

tree! {
    /// A softmax over the tokens. It has no parameters of its own if tied and without transform (GPT-1).
    pub struct Output<V> {
        /// The matrix (rows, d), unless it is the token embedding.
        lm_head: Option<Table<V>>,
        /// The layer before the matrix.
        transform: Option<Transform<V>>,
    } with {
        /// The options.
        pub config: OutputConfig,
    }
}

tree! {
    /// A layer before an output's matrix, and the output's bias (BERT).
    pub struct Transform<V> {
        /// W (d, d) and b.
        dense: Linear<V>,
        /// The norm.
        ln: LayerNorm<V>,
        /// b′ (rows).
        bias: P<V>,
    } with {
        activation: Activation,
    }
}

/// The outputs of a model. The names of the first have no prefix; those of the following begin with `output_1`, `output_2`, …
pub type Outputs<V> = List<Output<V>>;

impl<V> Outputs<V> {
    /// Creates the list of these outputs.
    pub fn new(outputs: Vec<Output<V>>) -> Self {
        List(outputs, ["", "output"])
    }
}

impl Output<Param> {
    /// Declares the parameters of a model's output `number`: a matrix of `rows` rows of width d, weights from N(0, std²).
    pub fn declare(config: &OutputConfig, number: usize, [rows, d]: [usize; 2], std: f64) -> Self {
        let transform = |of: TransformConfig| Transform {
            dense: Linear::declare(d, d, std),
            ln: LayerNorm::declare(d, of.layer_norm_epsilon),
            bias: P(Param::bias(rows)),
            activation: of.activation,
        };
        let output = Output {
            lm_head: (!config.tied).then(|| Table::declare(rows, d, std, Role::TokenEmbedding)),
            transform: config.transform.map(transform),
            config: *config,
        };
        output.map(|_, p| p.serving(Serves::Output(number)))
    }
}

/// The hidden states of a batch, and the outputs that map them to logits.
#[derive(Debug)]
pub struct Hidden<'t, T: Real> {
    /// h (B, T, d).
    pub states: Var<'t, T>,
    /// Wₑ (rows, d), the matrix of tied outputs; joint: after dropout.
    pub table: Var<'t, T>,
    /// The outputs.
    pub outputs: Outputs<Var<'t, T>>,
}

impl<'t, T: Real> Hidden<'t, T> {
    /// Computes Σᵢ wᵢ·(−log P(targetᵢ)) over predicted tokens.
    pub fn loss(&self, tokens: &TokenLoss) -> Var<'t, T> {
        let rows = self.rows(tokens.slots.as_ref());
        let tape = rows.tape();
        tape.scope("lm", || {
            let (rows, matrix, bias) = self.factors(rows, tokens.output);
            rows.linear_cross_entropy(matrix, bias, tokens.targets.clone(), tokens.weights.clone())
        })
    }

    /// Computes −log P(targetᵢ) of each predicted token: no gradient, at most 1,024 rows of logits in memory.
    pub fn token_losses(&self, tokens: &TokenLoss) -> Tensor<T> {
        let (rows, matrix, bias) = self.factors(self.rows(tokens.slots.as_ref()), tokens.output);
        let h = rows.value();
        let weights = h.full_like([tokens.targets.len()], T::one());
        h.linear_cross_entropy(matrix.value(), bias.map(Var::value), &tokens.targets, &weights)
    }

    /// Computes the logits (B, T, rows) of the first output in every slot.
    pub fn logits(&self) -> Var<'t, T> {
        let (b, t) = (self.states.shape()[0], self.states.shape()[1]);
        self.logits_of(self.rows(None)).reshape([b, t, self.table.shape()[0]])
    }

    /// Computes the logits (n, rows) of the first output in these slots (of B·T).
    pub fn logits_at(&self, slots: &Arc<[u32]>) -> Var<'t, T> {
        self.logits_of(self.rows(Some(slots)))
    }

    fn logits_of(&self, rows: Var<'t, T>) -> Var<'t, T> {
        let (rows, matrix, bias) = self.factors(rows, 0);
        let logits = rows.matmul(&matrix.t());
        match bias {
            Some(bias) => logits + bias,
            None => logits,
        }
    }

    /// Returns the states (n, d) of these slots, gathered before the output matmul.
    fn rows(&self, slots: Option<&Arc<[u32]>>) -> Var<'t, T> {
        let (b, t, d) = (self.states.shape()[0], self.states.shape()[1], self.states.shape()[2]);
        let rows = self.states.reshape([b * t, d]);
        slots.map_or(rows.clone(), |slots| rows.gather(slots.clone(), [slots.len()]))
    }

    /// Returns the operands of an output: rows, matrix, optional bias.
    fn factors(&self, rows: Var<'t, T>, output: usize) -> (Var<'t, T>, &Var<'t, T>, Option<&Var<'t, T>>) {
        let Output { lm_head, transform, .. } = &self.outputs.0[output];
        let matrix = lm_head.as_ref().map_or(&self.table, |own| &own.weight.0);
        match transform {
            Some(Transform { dense, ln, bias, activation }) => {
                (ln.forward(&dense.activated(&rows, *activation)), matrix, Some(&bias.0))
            }
            None => (rows, matrix, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epsilon_of_a_transform_is_checked() {
        let with = |layer_norm_epsilon| {
            let transform = TransformConfig { activation: Activation::Relu, layer_norm_epsilon };
            OutputConfig { transform: Some(transform), ..OutputConfig::NEXT }.check().is_ok()
        };
        assert!(with(1e-5) && !with(-1e-5));
    }
}
