//! Activation checkpointing: the gradient with the activations of one block at a time (Chen et al. 2016, "Training deep nets
//! with sublinear memory cost").
//!
//! ```text
//! h₀, W = embed(θ₀)        hₗ = blockₗ(hₗ₋₁; θₗ), l = 1 … n        L = loss(hₙ, W)
//!
//! h̄ₙ, W̄     from L                         with hₙ and W as leaves
//! h̄ₗ₋₁, θ̄ₗ   = (∂hₗ/∂(hₗ₋₁, θₗ))ᵀ h̄ₗ         for l = n … 1, the block computed again from hₗ₋₁
//! θ̄₀        = (∂(h₀, W)/∂θ₀)ᵀ (h̄₀, W̄)
//! ```
//!
//! Forward, only the n + 2 values on the left are kept; each line of the chain rule below then has a tape of its own, which is
//! gone before the next begins. It costs a second forward pass of every block: about a third more time. Dropout's masks are
//! functions of keys and each summand is added where the whole tape would add it, so the gradient has the bits of
//! [`Tape::backward`] on [`Gpt::loss`].

use gradus_autograd::{Tape, Var};
use gradus_tensor::{Real, Tensor};

use crate::block::Block;
use crate::config::GptConfig;
use crate::gpt::{Batch, Gpt, Hidden};
use crate::noise::Noise;
use crate::tree::Tree;

impl<T: Real> Gpt<Tensor<T>> {
    /// L and its gradient, where it reaches a parameter, with the activations of one block at a time.
    pub fn recomputed_gradient(&self, config: &GptConfig, batch: &Batch, noise: Option<&Noise>) -> (T, Gpt<Option<Tensor<T>>>) {
        let (mut inputs, output) = self.inputs_of_blocks(config, batch, noise);
        let last = inputs.pop().expect("the last block's output is there");
        let (loss, mut gh, gw) = head(config, batch, last, output);

        let mut blocks = Vec::with_capacity(inputs.len());
        for (layer, block) in self.h.0.iter().enumerate().rev() {
            let input = inputs.pop().expect("an input for each block");
            let (gradient, g) = block.pull_back(config, layer, noise, input, gh);
            blocks.push(gradient);
            gh = g;
        }
        blocks.reverse();

        let tape = Tape::new();
        let leaves = self.leaves(&tape);
        let Hidden { states, output } = tape.scope("embed", || leaves.embed(config, &batch.inputs, batch.sequences, 0, noise));
        let mut grads = tape.backward_from_all(vec![(&output, gw), (&states, gh)]);
        let mut gradient = leaves.as_ref().map(|_, leaf| grads.take(leaf));
        gradient.h.0 = blocks;
        (loss, gradient)
    }

    /// h₀ … hₙ and W, and nothing else that the forward pass makes.
    fn inputs_of_blocks(&self, config: &GptConfig, batch: &Batch, noise: Option<&Noise>) -> (Vec<Tensor<T>>, Tensor<T>) {
        let tape = Tape::off();
        let model = self.constants(&tape);
        let Hidden { mut states, output } = model.embed(config, &batch.inputs, batch.sequences, 0, noise);
        let mut inputs = vec![states.value().clone()];
        for (layer, block) in model.h.0.iter().enumerate() {
            states = block.forward(&states, config, layer, noise);
            inputs.push(states.value().clone());
        }
        (inputs, output.into_value())
    }
}

/// L, h̄ₙ and W̄.
fn head<T: Real>(config: &GptConfig, batch: &Batch, states: Tensor<T>, output: Tensor<T>) -> (T, Tensor<T>, Tensor<T>) {
    let tape = Tape::new();
    let hidden = Hidden { states: tape.leaf(states), output: tape.leaf(output) };
    let loss = hidden.loss(config, batch);
    let mut grads = tape.backward(&loss);
    let mut of = |x: &Var<'_, T>| grads.take(x).expect("the loss depends on it");
    (loss.value().item(), of(&hidden.states), of(&hidden.output))
}

impl<T: Real> Block<Tensor<T>> {
    /// θ̄ₗ and h̄ₗ₋₁ from hₗ₋₁ and h̄ₗ.
    fn pull_back(
        &self,
        config: &GptConfig,
        layer: usize,
        noise: Option<&Noise>,
        input: Tensor<T>,
        gradient: Tensor<T>,
    ) -> (Block<Option<Tensor<T>>>, Tensor<T>) {
        let tape = Tape::new();
        let x = tape.leaf(input);
        let leaves = self.as_ref().map(|_, p| tape.leaf(p.clone()));
        let y = tape.scope(&format!("h{layer}"), || leaves.forward(&x, config, layer, noise));
        let mut grads = tape.backward_from_all(vec![(&y, gradient)]);
        let gx = grads.take(&x).expect("a block's output depends on its input");
        (leaves.as_ref().map(|_, leaf| grads.take(leaf)), gx)
    }
}

#[cfg(test)]
mod tests {
    use gradus_tensor::rng::Philox;

    use super::*;
    use crate::config::{Embedding, Positions};
    use crate::objectives::Objective;

    /// Large enough that its kernels share their work between threads.
    fn agrees<T: Real>(config: &GptConfig) {
        let (b, t) = (3, config.context - 1);
        let mut rng = Philox::new(5);
        let mut ids = || (0..b * t).map(|_| rng.below(config.vocab as u64) as u32).collect::<Vec<_>>();
        let (inputs, targets) = (ids(), ids());
        let weights = Objective::TokenMean.weights(&vec![1.0; b * t], b);
        let batch = Batch { sequences: b, inputs: inputs.into(), targets: targets.into(), weights: weights.into() };
        let params: Gpt<Tensor<T>> = Gpt::init(config, 3);
        for noise in [None, Some(Noise::new(11, 1).from_sequence(4))] {
            let (loss, expected) = params.gradient(config, &batch, noise.as_ref());
            let (same_loss, found) = params.recomputed_gradient(config, &batch, noise.as_ref());
            assert_eq!(bits(&[same_loss]), bits(&[loss]));
            found.zip(expected).visit(|name, (found, expected)| {
                let [found, expected] = [found, expected].map(|g| g.expect("every parameter has a gradient").to_vec());
                assert!(expected.iter().any(|g| *g != T::zero()), "{name}: a gradient that is not 0 everywhere");
                assert!(bits(&found) == bits(&expected), "{name}: other bits when recomputed");
            });
        }
    }

    /// f32 to f64 is exact, and 0 and −0 stay two.
    fn bits<T: Real>(values: &[T]) -> Vec<u64> {
        values.iter().map(|v| v.to_f64().to_bits()).collect()
    }

    #[test]
    fn the_recomputed_gradient_has_the_same_bits() {
        let config =
            GptConfig { vocab: 301, context: 32, width: 48, layers: 3, heads: 4, initializer_range: 0.1, ..GptConfig::default() };
        for config in [
            config.clone(),
            GptConfig { embedding: Embedding::Joint, ..config.clone() },
            GptConfig { positions: Positions::Sinusoidal, layers: 1, ..config },
        ] {
            agrees::<f32>(&config);
            agrees::<f64>(&config);
        }
    }

    #[test]
    fn a_parameter_that_the_model_does_not_use_has_no_gradient() {
        let joint = GptConfig {
            embedding: Embedding::Joint,
            vocab: 5,
            context: 4,
            width: 4,
            layers: 1,
            heads: 2,
            ..GptConfig::default()
        };
        let separate = GptConfig { embedding: Embedding::Separate, vocab: joint.output_rows(), ..joint.clone() };
        let params: Gpt<Tensor<f64>> = Gpt::init(&separate, 1);
        let ids: std::sync::Arc<[u32]> = [1, 2, 3].into();
        let batch = Batch { sequences: 1, inputs: ids.clone(), targets: ids, weights: [1.0; 3].into() };
        let (_, gradient) = params.recomputed_gradient(&joint, &batch, None);
        assert!(gradient.tokens_embed.weight.0.is_some() && gradient.positions_embed.unwrap().weight.0.is_none());
    }
}
