//! The layers of a Transformer: linear, layer norm, embedding, the feed-forward network.
//!
//! `declare` declares a layer's parameters and settings; `forward` computes the layer.

use gradus_autograd::Var;
use gradus_tensor::Real;

use crate::batch::Input;
use crate::config::Activation;
use crate::param::{Init, Param, Role, Serves};
use crate::tree;
use crate::tree::P;

tree! {
    /// y = x·W + b, W stored [in, out].
    pub struct Linear<V> {
        /// W (in, out).
        weight: P<V>,
        /// b (out).
        bias: P<V>,
    }
}

impl Linear<Param> {
    /// Declares W from N(0, std²), and b = 0.
    pub fn declare(from: usize, to: usize, std: f64) -> Self {
        Linear { weight: P(Param::weight([from, to], std)), bias: P(Param::bias(to)) }
    }
}

impl<'t, T: Real> Linear<Var<'t, T>> {
    /// Maps (…, in) to (…, out).
    pub fn forward(&self, x: &Var<'t, T>) -> Var<'t, T> {
        x.linear(&self.weight.0, &self.bias.0)
    }

    /// Computes the layer, followed by an activation.
    pub fn activated(&self, x: &Var<'t, T>, activation: Activation) -> Var<'t, T> {
        match activation {
            Activation::Gelu => x.linear_gelu(&self.weight.0, &self.bias.0),
            Activation::GeluErf => {
                let u = self.forward(x);
                0.5 * &u * (1.0 + (&u * std::f64::consts::FRAC_1_SQRT_2).erf())
            }
            Activation::Relu => self.forward(x).relu(),
        }
    }
}

tree! {
    /// Layer normalisation: gain ∘ (x − μ)/√(σ² + ε) + bias over the last axis.
    pub struct LayerNorm<V> {
        /// The gain (d).
        weight: P<V>,
        /// The bias (d).
        bias: P<V>,
    } with {
        eps: f64,
    }
}

impl LayerNorm<Param> {
    /// Declares gain 1 and bias 0.
    pub fn declare(d: usize, eps: f64) -> Self {
        LayerNorm { weight: P(Param::gain(d)), bias: P(Param::bias(d)), eps }
    }
}

impl<'t, T: Real> LayerNorm<Var<'t, T>> {
    /// Maps (…, d) to (…, d).
    pub fn forward(&self, x: &Var<'t, T>) -> Var<'t, T> {
        x.layer_norm(&self.weight.0, &self.bias.0, self.eps)
    }
}

tree! {
    /// A matrix of one vector per row.
    pub struct Table<V> {
        /// (rows, d).
        weight: P<V>,
    }
}

impl Table<Param> {
    /// Declares a row per token, position or segment, from N(0, std²).
    pub fn declare(rows: usize, d: usize, std: f64, role: Role) -> Self {
        Table { weight: P(Param { shape: [rows, d].into(), init: Init::Normal(std), role, serves: Serves::Embedding }) }
    }
}

/// Checks an input's tokens, and its own positions or `first ..`; returns the number of slots T of each sequence.
///
/// Panics if a token is not in the vocabulary or a position not in the context: callers check user input.
pub(crate) fn sequence_length(input: &Input, first: usize, vocab: usize, context: usize) -> usize {
    let (ids, t) = (&input.tokens, input.length());
    match &input.positions {
        None => assert!(first + t <= context, "positions {first}..{} in a context of {context}", first + t),
        Some(positions) => {
            assert_eq!(positions.len(), ids.len(), "a position for each slot");
            assert!(positions.iter().all(|&p| (p as usize) < context), "a position lies beyond the context of {context}");
        }
    }
    assert!(ids.iter().all(|&id| (id as usize) < vocab), "a token lies beyond the vocabulary of {vocab}");
    t
}

tree! {
    /// The position-wise feed-forward network.
    pub struct Mlp<V> {
        /// d → f; in GPT-1, f = 4d.
        c_fc: Linear<V>,
        /// f → d.
        c_proj: Linear<V>,
    } with {
        activation: Activation,
    }
}

impl Mlp<Param> {
    /// Declares the network of inner width `inner`: weights into it from N(0, std²), out of it from N(0, out²).
    pub fn declare(d: usize, inner: usize, activation: Activation, [std, out]: [f64; 2]) -> Self {
        Mlp { c_fc: Linear::declare(d, inner, std), c_proj: Linear::declare(inner, d, out), activation }
    }
}

impl<'t, T: Real> Mlp<Var<'t, T>> {
    /// Maps (…, d) to (…, d).
    pub fn forward(&self, x: &Var<'t, T>) -> Var<'t, T> {
        self.c_proj.forward(&self.c_fc.activated(x, self.activation))
    }
}
