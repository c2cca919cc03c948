//! The loss of one sequence at chosen slots: its parts and its gradient.

use std::sync::Arc;

use gradus_model::{Batch, GradientMode, Input, Model, Sight};
use gradus_tensor::{Real, Tensor, on_pool};

/// One sequence, with targets in some of its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetedSequence {
    /// The token in each slot.
    pub tokens: Vec<u32>,
    /// The segment of each slot, for a model with segments.
    pub segments: Option<Vec<u32>>,
    /// The target of each slot: the token in it, or for a causal model the next token; `None` for no target.
    pub targets: Vec<Option<u32>>,
}

impl TargetedSequence {
    /// Returns a batch whose loss is the mean over the targets. Slots see all others if `sees_all`, else those before them.
    fn batch(&self, sees_all: bool) -> Batch {
        let targeted: Arc<[u32]> =
            (0..).zip(&self.targets).filter(|(_, target)| target.is_some()).map(|(slot, _)| slot).collect();
        let n = targeted.len();
        let input = Input {
            segments: self.segments.clone().map(Into::into),
            sight: if sees_all { Sight::Full(None) } else { Sight::Causal },
            ..Input::causal(1, &self.tokens)
        };
        let targets: Vec<u32> = self.targets.iter().flatten().copied().collect();
        Batch::of(input).with_tokens(Some(targeted), targets, vec![1.0 / n as f64; n])
    }

    /// Computes −ln P of each target, in nats.
    pub fn losses<T: Real>(&self, model: &Model<Tensor<T>>) -> Vec<f64> {
        model.token_losses(&self.batch(super::fills_masks(model))).to_vec().into_iter().map(|loss| loss.to_f64()).collect()
    }

    /// Computes the gradient of the mean loss; `None` for parameters that the loss does not depend on, such as a task's head.
    pub fn gradient<T: Real>(&self, model: &Model<Tensor<T>>) -> Model<Option<Tensor<T>>> {
        on_pool(|| model.gradient(&self.batch(super::fills_masks(model)), None, GradientMode::Whole)).1
    }
}

#[cfg(test)]
mod tests {
    use gradus_model::check::{tiny_bert, tiny_gpt2};
    use gradus_model::{ModelConfig, Sizes, Tree};

    use super::*;

    /// The slope along a direction equals central differences, for a model that sees all slots and for a causal model.
    #[test]
    fn the_gradient_is_that_of_the_mean_loss() {
        let tokens = vec![1, 5, 3, 0, 2];
        let targeted = TargetedSequence { tokens, segments: None, targets: vec![Some(4), None, Some(1), None, Some(1)] };
        for config in [
            ModelConfig { sizes: Sizes { vocab: 7, context: 6, width: 12 }, ..tiny_bert() },
            ModelConfig { sizes: Sizes { vocab: 7, context: 6, width: 12 }, ..tiny_gpt2() },
        ] {
            let model: Model<Tensor<f64>> = Model::init(&config, 3);
            let direction: Model<Tensor<f64>> = Model::init(&model.config(), 9);
            let mut slope = 0.0;
            targeted.gradient(&model).zip(direction.clone()).visit(|_, (g, d)| slope += g.map_or(0.0, |g| g.dot(&d)));
            let mean = |h: f64| {
                let moved = model.clone().zip(direction.clone()).map(|_, (p, d)| p.zip(&d, |p, d| p + h * d));
                targeted.losses(&moved).iter().sum::<f64>() / 3.0
            };
            let difference = (mean(1e-5) - mean(-1e-5)) / 2e-5;
            assert!(slope.abs() > 1e-6 && (slope - difference).abs() < 1e-7 * slope.abs().max(1.0), "{slope} {difference}");
        }
    }
}
