//! What is asked of one sequence by numbers: the loss, its parts, and its gradient.

use std::sync::Arc;

use gradus_model::{Batch, GradientMode, Input, Model, Sight};
use gradus_tensor::{Real, Tensor, on_pool};

/// One sequence, and what is asked in some of its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The token in each slot.
    pub tokens: Vec<u32>,
    /// The segment of each slot, for a model that tells segments apart.
    pub segments: Option<Vec<u32>>,
    /// The token that belongs in each slot, to a causal model the one that follows; `None`: not asked.
    pub targets: Vec<Option<u32>>,
}

impl Asked {
    /// As a batch whose loss is the mean over what is asked. Slots see all, or in a model that predicts the next token those before.
    fn batch(&self, sees_all: bool) -> Batch {
        let asked: Arc<[u32]> = (0..).zip(&self.targets).filter(|(_, target)| target.is_some()).map(|(slot, _)| slot).collect();
        let n = asked.len();
        let input = Input {
            segments: self.segments.clone().map(Into::into),
            sight: if sees_all { Sight::Full(None) } else { Sight::Causal },
            ..Input::causal(1, &self.tokens)
        };
        let targets: Vec<u32> = self.targets.iter().flatten().copied().collect();
        Batch::of(input).with_tokens(Some(asked), targets, vec![1.0 / n as f64; n])
    }

    /// −ln P of each token that is asked, in nats.
    pub fn losses<T: Real>(&self, model: &Model<Tensor<T>>) -> Vec<f64> {
        model.token_losses(&self.batch(super::fills_masks(model))).to_vec().into_iter().map(|loss| loss.to_f64()).collect()
    }

    /// The gradient of their mean, where it reaches a parameter: a head that is not asked has none.
    pub fn gradient<T: Real>(&self, model: &Model<Tensor<T>>) -> Model<Option<Tensor<T>>> {
        on_pool(|| model.gradient(&self.batch(super::fills_masks(model)), None, GradientMode::Whole)).1
    }
}

#[cfg(test)]
mod tests {
    use gradus_model::check::{tiny_bert, tiny_gpt2};
    use gradus_model::{TransformerConfig, Tree};

    use super::*;

    /// Along a direction, against central differences; of a model that sees all, and of one that sees what was before.
    #[test]
    fn the_gradient_is_that_of_the_mean() {
        let tokens = vec![1, 5, 3, 0, 2];
        let asked = Asked { tokens, segments: None, targets: vec![Some(4), None, Some(1), None, Some(1)] };
        for config in [tiny_bert(), tiny_gpt2()].map(|config| TransformerConfig { vocab: 7, context: 6, ..config }) {
            let model: Model<Tensor<f64>> = Model::init(&config.into(), 3);
            let direction: Model<Tensor<f64>> = Model::init(&model.config(), 9);
            let mut slope = 0.0;
            asked.gradient(&model).zip(direction.clone()).visit(|_, (g, d)| slope += g.map_or(0.0, |g| g.dot(&d)));
            let mean = |h: f64| {
                let moved = model.clone().zip(direction.clone()).map(|_, (p, d)| p.zip(&d, |p, d| p + h * d));
                asked.losses(&moved).iter().sum::<f64>() / 3.0
            };
            let difference = (mean(1e-5) - mean(-1e-5)) / 2e-5;
            assert!(slope.abs() > 1e-6 && (slope - difference).abs() < 1e-7 * slope.abs().max(1.0), "{slope} {difference}");
        }
    }
}
