//! What is asked of one sequence by numbers: the loss, its parts, and its gradient.

use std::sync::Arc;

use gradus_model::{Batch, GradientMode, Model, Side, Sight};
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
        Batch {
            side: Side {
                sequences: 1,
                tokens: self.tokens.clone().into(),
                segments: self.segments.clone().map(Into::into),
                sight: if sees_all { Sight::Full(None) } else { Sight::Causal },
            },
            asked: Some(asked),
            targets: self.targets.iter().flatten().copied().collect(),
            weights: vec![1.0 / n as f64; n].into(),
            labels: None,
        }
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
