//! Activation checkpointing: the gradient with the activations of one block at a time (Chen et al. 2016, "Training deep nets
//! with sublinear memory cost").
//!
//! ```text
//! h₀, W = embed(θ₀)        hₗ = blockₗ(hₗ₋₁; θₗ), l = 1 … n        L = loss(hₙ, W)
//!
//! h̄ₙ, W̄     from L                         with hₙ and W as leaves
//! h̄ₗ₋₁, θ̄ₗ   = (∂hₗ/∂(hₗ₋₁, θₗ))ᵀ h̄ₗ         for l = n … 1, the block recomputed from hₗ₋₁
//! θ̄₀        = (∂(h₀, W)/∂θ₀)ᵀ (h̄₀, W̄)
//! ```
//!
//! The operations after the last block belong to the loss. The forward pass keeps only the n + 2 values h₀ … hₙ and W. Each line
//! of the chain rule has its own tape, which is freed before the next begins. This costs a second forward pass of every block:
//! about a third more time. Dropout's masks are functions of keys, and each summand is added where the whole tape would add it,
//! so the gradient has the bits of [`Tape::backward`] on the loss.

use std::sync::Arc;

use gradus_autograd::observer::Observer;
use gradus_autograd::ops::Attention;
use gradus_autograd::{Grads, Tape, Var};
use gradus_tensor::{Real, Tensor};

use super::block::Block;
use super::{Transformer, normed};
use crate::batch::Input;
use crate::dropout::DropoutSeed;
use crate::tree::Tree;

/// L, and the leaves of outputs and heads with the numbers of their parameters.
type Objective<'t, T> = (Var<'t, T>, Vec<(Var<'t, T>, usize)>);

impl<T: Real> Transformer<Tensor<T>> {
    /// Computes L with the activations of one block at a time. `objective` computes L from the last hidden states and the
    /// output's matrix, and creates the leaves of outputs and heads. The gradient of each parameter that L reaches is passed to
    /// `each` with its number in `numbers`, block by block.
    pub(crate) fn recomputed_gradient(
        &self,
        observer: Option<Arc<dyn Observer<T>>>,
        input: &Input,
        dropout: Option<DropoutSeed>,
        numbers: Transformer<usize>,
        each: &mut dyn FnMut(usize, Tensor<T>),
        objective: impl for<'t> FnOnce(&'t Tape<T>, Var<'t, T>, Var<'t, T>) -> Objective<'t, T>,
    ) -> Tensor<T> {
        let tape = || Tape::new().observed_by(observer.clone());
        let (mut inputs, output) = self.inputs_of_blocks(&Tape::off().observed_by(observer.clone()), input, dropout);
        let last = inputs.pop().expect("the last block's output is there");
        let (loss, mut gh, gw) = {
            let tape = tape();
            let (last, output) = (tape.leaf(last), tape.leaf(output));
            let ln_f = tape.scope("ln_f", || self.ln_f.leaves(&tape));
            let (loss, leaves) = objective(&tape, normed(ln_f.as_ref(), last.clone()), output.clone());
            let mut grads = tape.backward(&loss);
            let gh = grads.take(&last).expect("the loss depends on the last hidden states");
            let gw = grads.take(&output); // `None` where no token is predicted
            leaves.into_iter().for_each(|leaf| hand_over(&mut grads, leaf, each));
            Tree::zip(ln_f, numbers.ln_f.clone()).visit(|_, leaf| hand_over(&mut grads, leaf, each));
            (loss.into_value(), gh, gw)
        };

        let attention = input.attention();
        for ((layer, block), numbers) in self.h.0.iter().enumerate().rev().zip(numbers.h.0.iter().rev()) {
            let x = inputs.pop().expect("an input for each block");
            gh = block.pull_back(&tape(), layer, (&attention, dropout), x, gh, |leaves, grads| {
                leaves.zip(numbers.clone()).visit(|_, leaf| hand_over(grads, leaf, each));
            });
        }

        let tape = tape();
        let leaves = self.leaves(&tape);
        let (states, output) = tape.scope("embed", || leaves.embed(input, 0, dropout));
        let results = gw.map(|gw| (&output, gw)).into_iter().chain([(&states, gh)]).collect();
        let mut grads = tape.backward_from_all(results);
        leaves.zip(numbers).visit(|_, leaf| hand_over(&mut grads, leaf, each));
        loss
    }

    /// Computes h₀ … hₙ and W, and keeps no other value of the forward pass, on a tape that records nothing.
    pub fn inputs_of_blocks(&self, tape: &Tape<T>, input: &Input, dropout: Option<DropoutSeed>) -> (Vec<Tensor<T>>, Tensor<T>) {
        let model = self.constants(tape);
        let (mut states, output) = tape.scope("embed", || model.embed(input, 0, dropout));
        let (attention, mut inputs) = (input.attention(), vec![states.value().clone()]);
        for (layer, block) in model.h.0.iter().enumerate() {
            states = tape.scope(&format!("h{layer}"), || block.forward(&states, &attention, dropout));
            inputs.push(states.value().clone());
        }
        (inputs, output.into_value())
    }
}

impl<T: Real> Block<Tensor<T>> {
    /// Computes h̄ₗ₋₁ from hₗ₋₁ and h̄ₗ; `each` receives θ̄ₗ. `layer` names the block in scopes.
    fn pull_back(
        &self,
        tape: &Tape<T>,
        layer: usize,
        (attention, dropout): (&Attention, Option<DropoutSeed>),
        x: Tensor<T>,
        gradient: Tensor<T>,
        each: impl for<'t> FnOnce(Block<Var<'t, T>>, &mut Grads<T>),
    ) -> Tensor<T> {
        let x = tape.leaf(x);
        let leaves = tape.scope(&format!("h.{layer}"), || self.leaves(tape));
        let y = tape.scope(&format!("h{layer}"), || leaves.forward(&x, attention, dropout));
        let mut grads = tape.backward_from_all(vec![(&y, gradient)]);
        let gx = grads.take(&x).expect("a block's output depends on its input");
        each(leaves, &mut grads);
        gx
    }
}

fn hand_over<T: Real>(grads: &mut Grads<T>, (leaf, number): (Var<'_, T>, usize), each: &mut dyn FnMut(usize, Tensor<T>)) {
    grads.take(&leaf).into_iter().for_each(|gradient| each(number, gradient));
}

#[cfg(test)]
mod tests {
    use gradus_tensor::rng::Philox;

    use super::*;
    use crate::batch::{Batch, ClassLoss};
    use crate::body::Body;
    use crate::check::random_batch;
    use crate::config::Sizes;
    use crate::head::{Form, HeadConfig};
    use crate::layers::Table;
    use crate::model::{GradientMode, Model, ModelConfig};
    use crate::objectives::Objective;
    use crate::transformer::{Embedding, Positions, TransformerConfig};
    use crate::tree::P;

    /// Compares bits, at sizes where kernels share their work between threads; with a head, with and without predicted tokens.
    fn agrees<T: Real>(config: &ModelConfig) {
        let (b, t) = (4, config.sizes.context - 1);
        let weights = Objective::TokenMean.weights(&vec![1.0; b * t], b);
        let slots = [3, 5, 7, 2].iter().enumerate().map(|(s, at)| (s * t + at) as u32).collect();
        let (targets, weights_of_classes) = ([0.25, 0.75, 1.0, 0.0].into(), [0.5; 2].into());
        let plain = random_batch(&mut Philox::new(5), config.sizes.vocab, b, weights);
        let classes = ClassLoss { head: 0, slots, group: 2, targets, weights: weights_of_classes };
        let silent = Batch::of(plain.input.clone()).with_classes(classes);
        let labelled = Batch { losses: [silent.losses.clone(), plain.losses.clone()].concat(), ..plain.clone() };
        for batch in [plain, labelled, silent] {
            let heads = batch.classes().map(|_| HeadConfig::new(Form::Choose, 2)).collect();
            let config = ModelConfig { heads, ..config.clone() };
            let params: Model<Tensor<T>> = Model::init(&config, 3);
            for dropout in [None, Some(DropoutSeed::new(11, 1).from_sequence(4))] {
                let (loss, expected) = params.gradient(&batch, dropout, GradientMode::Whole);
                let (same_loss, found) = params.gradient(&batch, dropout, GradientMode::Recompute);
                assert_eq!(bits(&[same_loss.item()]), bits(&[loss.item()]));
                found.zip(expected).visit(|name, (found, expected)| {
                    let [found, expected] = [found, expected].map(|g| g.expect("every parameter has a gradient").to_vec());
                    assert!(expected.iter().any(|g| *g != T::zero()), "{name}: the gradient is 0 everywhere");
                    assert!(bits(&found) == bits(&expected), "{name}: different bits when recomputed");
                });
            }
        }
    }

    /// Returns the bits as f64: the conversion of f32 is exact, and keeps 0 and −0 distinct.
    fn bits<T: Real>(values: &[T]) -> Vec<u64> {
        values.iter().map(|v| v.to_f64().to_bits()).collect()
    }

    #[test]
    fn the_recomputed_gradient_has_the_same_bits() {
        let config = ModelConfig::new(
            Sizes { vocab: 301, context: 32, width: 48 },
            TransformerConfig { layers: 3, heads: 4, initializer_range: 0.1, ..Default::default() },
        );
        for config in [
            config.clone(),
            config.clone().with_transformer(|c| c.embedding = Embedding::Joint),
            config.with_transformer(|c| (c.positions, c.layers) = (Positions::Sinusoidal, 1)),
        ] {
            agrees::<f32>(&config);
            agrees::<f64>(&config);
        }
    }

    #[test]
    fn a_parameter_that_the_model_does_not_use_has_no_gradient() {
        let body = TransformerConfig { layers: 1, heads: 2, embedding: Embedding::Joint, ..Default::default() };
        let joint = ModelConfig::new(Sizes { vocab: 5, context: 4, width: 4 }, body);
        let mut params: Model<Tensor<f64>> = Model::init(&joint, 1);
        let Body::Transformer(transformer) = &mut params.body else { panic!("a Transformer") };
        transformer.positions_embed = Some(Table { weight: P(Tensor::zeros([4, 4])) }); // the joint matrix has rows for positions
        let batch = random_batch(&mut Philox::new(1), joint.sizes.vocab, 1, vec![1.0; 3]);
        let (_, gradient) = params.gradient(&batch, None, GradientMode::Recompute);
        let gradient = gradient.transformer().unwrap();
        assert!(gradient.tokens_embed.weight.0.is_some() && gradient.positions_embed.as_ref().unwrap().weight.0.is_none());
    }
}
