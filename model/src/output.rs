//! The last hidden states, and what a language model makes of them.
//!
//! ```text
//! GPT-1     P(u) = softmax(h Wₑᵀ)
//! GPT-2     h = LN(hₙ) first
//! BERT      P(u) = softmax(LN(gelu(h W + b)) Wₑᵀ + b′)
//! ```

use std::sync::Arc;

use gradus_autograd::Var;
use gradus_tensor::{Real, Tensor};

use crate::batch::TokenLoss;
use crate::config::{Activation, TransformerConfig};
use crate::layers::{LayerNorm, Linear};
use crate::param::{Param, Serves};
use crate::tree;
use crate::tree::{P, Tree};

tree! {
    /// The layers after a Transformer's last block; none in GPT-1.
    pub struct OutputLayer<V> {
        /// Norm of the last hidden states.
        ln_f: Option<LayerNorm<V>>,
        /// The layer before the output's matrix.
        transform: Option<Transform<V>>,
    }
}

tree! {
    /// A layer before the output's matrix, and the output's bias.
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

impl OutputLayer<Param> {
    /// Declares the parameters.
    pub fn declare(c: &TransformerConfig) -> Self {
        let norm = || LayerNorm::declare(c.width, c.layer_norm_epsilon);
        let transform = || Transform {
            dense: Linear::declare(c.width, c.width, c.initializer_range),
            ln: norm(),
            bias: P(Param::bias(c.output_rows())),
            activation: c.activation,
        };
        let transform = c.parts.transform.then(|| transform().map(|_, p| p.serving(Serves::Output)));
        OutputLayer { ln_f: c.parts.final_norm.then(norm), transform }
    }
}

impl<'t, T: Real> OutputLayer<Var<'t, T>> {
    /// From the states (B, T, d) after the last block, and the output's matrix.
    pub fn hidden(&self, states: Var<'t, T>, output: Var<'t, T>) -> Hidden<'t, T> {
        let states = match &self.ln_f {
            Some(norm) => states.tape().scope("ln_f", || norm.forward(&states)),
            None => states,
        };
        Hidden { states, output, transform: self.transform.clone() }
    }
}

/// The hidden states of a batch, and what turns them into logits.
#[derive(Debug)]
pub struct Hidden<'t, T: Real> {
    /// h (B, T, d).
    pub states: Var<'t, T>,
    /// Wₑ (rows, d), after its dropout in the joint form.
    pub output: Var<'t, T>,
    /// The layer before that matrix.
    pub transform: Option<Transform<Var<'t, T>>>,
}

impl<'t, T: Real> Hidden<'t, T> {
    /// Σᵢ wᵢ·(−log P(targetᵢ)) over predicted tokens.
    pub fn loss(&self, tokens: &TokenLoss) -> Var<'t, T> {
        let rows = self.rows(tokens.slots.as_ref());
        let tape = rows.tape();
        tape.scope("lm", || {
            let (rows, bias) = self.before_output(rows);
            rows.linear_cross_entropy(&self.output, bias, tokens.targets.clone(), tokens.weights.clone())
        })
    }

    /// −log P(targetᵢ) of each predicted token: no gradient, and at most 1,024 rows of logits are held.
    pub fn token_losses(&self, tokens: &TokenLoss) -> Tensor<T> {
        let (rows, bias) = self.before_output(self.rows(tokens.slots.as_ref()));
        let h = rows.value();
        let weights = h.full_like([tokens.targets.len()], T::one());
        h.linear_cross_entropy(self.output.value(), bias.map(Var::value), &tokens.targets, &weights)
    }

    /// The logits (B, T, rows) in every slot.
    pub fn logits(&self) -> Var<'t, T> {
        let (b, t) = (self.states.shape()[0], self.states.shape()[1]);
        self.logits_of(self.rows(None)).reshape([b, t, self.output.shape()[0]])
    }

    /// The logits (n, rows) in these slots (of B·T).
    pub fn logits_at(&self, slots: &Arc<[u32]>) -> Var<'t, T> {
        self.logits_of(self.rows(Some(slots)))
    }

    fn logits_of(&self, rows: Var<'t, T>) -> Var<'t, T> {
        let (rows, bias) = self.before_output(rows);
        let logits = rows.matmul(&self.output.t());
        match bias {
            Some(bias) => logits + bias,
            None => logits,
        }
    }

    /// The states (n, d) of these slots: only they are multiplied by the output's matrix.
    fn rows(&self, slots: Option<&Arc<[u32]>>) -> Var<'t, T> {
        let (b, t, d) = (self.states.shape()[0], self.states.shape()[1], self.states.shape()[2]);
        let rows = self.states.reshape([b * t, d]);
        slots.map_or(rows.clone(), |slots| rows.gather(slots.clone(), [slots.len()]))
    }

    /// The rows that are multiplied by the output's matrix, and the bias that is added.
    fn before_output(&self, rows: Var<'t, T>) -> (Var<'t, T>, Option<&Var<'t, T>>) {
        match &self.transform {
            Some(Transform { dense, ln, bias, activation }) => (ln.forward(&dense.activated(&rows, *activation)), Some(&bias.0)),
            None => (rows, None),
        }
    }
}
