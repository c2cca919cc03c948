//! Declarations of parameters, before they have values. Each layer declares its parameters in one place; initialisation, weight
//! decay, transfer and checkpoints read the declaration, never a name.

use std::ops::Range;

use gradus_tensor::rng::Philox;
use gradus_tensor::{Real, Shape, Tensor};

use crate::tree::Tree;

/// A parameter's declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// The axes.
    pub shape: Shape,
    /// The values before training.
    pub init: Init,
    /// The role in its layer.
    pub role: Role,
    /// The part of the model that it serves.
    pub serves: Serves,
}

/// The part of a model that a parameter serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// The embeddings, their norm included.
    Embedding,
    /// A block, counted from the input.
    Block(usize),
    /// The body outside embeddings and blocks.
    Body,
    /// Only the output with this number.
    Output(usize),
    /// Only the head with this number.
    Head(usize),
}

/// The role of a parameter in its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A matrix that hidden states are multiplied by.
    Weight,
    /// A vector that is added.
    Bias,
    /// A vector of factors.
    Gain,
    /// A vector per token; the first rows are those of the tokens.
    TokenEmbedding,
    /// A vector per position.
    PositionEmbedding,
    /// A vector per segment.
    SegmentEmbedding,
}

impl Role {
    /// Returns whether weight decay applies (§4.1: "all non bias or gain weights").
    pub fn decays(self) -> bool {
        !matches!(self, Role::Bias | Role::Gain)
    }
}

/// The initial values of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// Drawn from N(0, σ²), given σ.
    Normal(f64),
    /// One value everywhere.
    Constant(f64),
    /// 1 at these indices of a vector, 0 at the others.
    OnesAt(Range<usize>),
}

impl Param {
    /// Declares a matrix drawn from N(0, std²).
    pub fn weight(shape: [usize; 2], std: f64) -> Self {
        Param { shape: shape.into(), init: Init::Normal(std), role: Role::Weight, serves: Serves::Body }
    }

    /// Declares a bias of n zeros.
    pub fn bias(n: usize) -> Self {
        Param { shape: [n].into(), init: Init::Constant(0.0), role: Role::Bias, serves: Serves::Body }
    }

    /// Declares a gain of n ones.
    pub fn gain(n: usize) -> Self {
        Param { shape: [n].into(), init: Init::Constant(1.0), role: Role::Gain, serves: Serves::Body }
    }

    /// Returns the declaration with another part that it serves.
    pub(crate) fn serving(self, serves: Serves) -> Self {
        Param { serves, ..self }
    }

    /// Returns the initial value, drawn from this stream of random numbers.
    pub fn draw<T: Real>(&self, seed: u64, stream: u64) -> Tensor<T> {
        match &self.init {
            Init::Normal(std) => Tensor::normal(self.shape, *std, &mut Philox::with_stream(seed, stream)),
            Init::Constant(c) => Tensor::full(self.shape, T::lit(*c)),
            Init::OnesAt(places) => {
                Tensor::new(self.shape, (0..self.shape.numel()).map(|i| T::lit(f64::from(places.contains(&i)))).collect())
            }
        }
    }
}

/// The first random stream of heads, far from those of the body and the outputs.
const HEADS: u64 = 0x6865_6164;

/// Draws the initial values of a declared tree. Each parameter has its own random stream: those of body and outputs from 1 on, in
/// the order of the tree, and those of heads from [`HEADS`] on.
pub(crate) fn draw<T: Real, X: Tree<Leaf = Param>>(declared: X, seed: u64) -> X::With<Tensor<T>> {
    let mut streams = [1.., HEADS..];
    let mut next = |p: &Param| streams[usize::from(matches!(p.serves, Serves::Head(_)))].next();
    declared.map(|_, p| p.draw(seed, next(&p).expect("no model has 2⁶⁴ parameters")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::BodyConfig;
    use crate::check::{samples, tiny_lstm};
    use crate::model::Model;
    use crate::recurrent::LstmConfig;

    /// Returns a name and a declaration for every parameter of models with every form of embedding and every head.
    fn all() -> Vec<(String, Param)> {
        let mut all = Vec::new();
        for sample in samples() {
            Model::declare(&sample.config).visit(|name, p| all.push((name.to_owned(), p)));
        }
        all
    }

    #[test]
    fn weight_decay_applies_to_parameters_of_several_axes() {
        for (name, p) in all() {
            assert_eq!(p.role.decays(), p.shape.len() > 1, "{name}");
        }
    }

    #[test]
    fn roles_and_parts_follow_from_parameter_names() {
        for (name, p) in all() {
            let role = match &*name {
                "tokens_embed.weight" => Role::TokenEmbedding,
                "positions_embed.weight" => Role::PositionEmbedding,
                "segments_embed.weight" => Role::SegmentEmbedding,
                name if name.ends_with("lm_head.weight") => Role::TokenEmbedding,
                name if name.ends_with("bias") => Role::Bias,
                name if name.contains("ln_") || name.contains(".ln.") => Role::Gain,
                _ => Role::Weight,
            };
            let serves = match (name.strip_prefix("h."), name.split('.').next().unwrap()) {
                (Some(rest), _) => Serves::Block(rest[..1].parse().unwrap()),
                (_, "transform" | "lm_head") => Serves::Output(0),
                (_, "output_1") => Serves::Output(1),
                (_, "score") => Serves::Head(0),
                (_, "score_1") => Serves::Head(1),
                (_, first) if first.ends_with("embed") => Serves::Embedding,
                _ => Serves::Body,
            };
            assert_eq!((p.role, p.serves), (role, serves), "{name}");
        }
    }

    #[test]
    fn parameters_begin_as_declared() {
        for (name, p) in all() {
            let values = p.draw::<f64>(1, 2).to_vec();
            match p.init {
                Init::Normal(std) => {
                    assert!(values.iter().all(|x| x.abs() < 6.0 * std) && values[0] != values[1], "{name}: {values:?}");
                }
                Init::Constant(c) => {
                    let expected = if p.role == Role::Gain { 1.0 } else { 0.0 };
                    assert!(c == expected && values.iter().all(|x| *x == c), "{name}: {values:?}");
                }
                Init::OnesAt(_) => {
                    let BodyConfig::Lstm(LstmConfig { units: h, .. }) = tiny_lstm().body else { panic!("an LSTM") };
                    assert_eq!((&*name, values), ("cell.bias", [vec![0.0; h], vec![1.0; h], vec![0.0; 2 * h]].concat()));
                }
            }
        }
    }
}
