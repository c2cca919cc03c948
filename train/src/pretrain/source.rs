//! Where a run's batches come from, and what its model is measured on.

use gradus_model::{Batch, Model, Objective};
use gradus_report::Baseline;
use gradus_tensor::Tensor;
use gradus_text::Tokenizer;

/// A corpus, or a world.
pub trait Source {
    /// The tokenizer of its text.
    fn tokenizer(&self) -> &Tokenizer;
    /// Number of tokens to train on.
    fn tokens(&self) -> u64;
    /// Tokens predicted in an update of `batch` rows, on average.
    fn tokens_an_update(&self, batch: usize) -> f64;
    /// What distinguishes its data from others': a resumed run must find the same.
    fn digest(&self) -> String;
    /// Rows 0 .. `batch` of update `t` (from 1): a function of the seed and these.
    fn batch(&self, t: u64, batch: usize) -> gradus_data::Batch;
    /// The loss on at most `limit` held-out tokens; `None` where nothing is held out.
    fn validate(&self, model: &Model<Tensor>, limit: usize) -> Option<Validation>;
    /// Tokens that open a sample.
    fn prompt(&self) -> Vec<u32>;
    /// The token that ends a sample.
    fn end(&self) -> Option<u32> {
        None
    }
    /// What other models reach on the held-out text.
    fn baselines(&self) -> Vec<Baseline> {
        Vec::new()
    }
}

/// A total over predicted tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nll {
    /// Σ −ln P, in nats.
    pub total: f64,
    /// Number of predicted tokens.
    pub tokens: u64,
}

impl Nll {
    /// Nats per predicted token.
    pub fn mean(&self) -> f64 {
        self.total / self.tokens as f64
    }
}

/// The total of these batches, dropout off.
pub(super) fn nll(model: &Model<Tensor>, batches: impl IntoIterator<Item = gradus_data::Batch>) -> Nll {
    let mut sum = Nll::default();
    for batch in batches {
        let counted = batch.weights.clone();
        let losses = model.token_losses(&weighted(batch, Objective::TokenMean)).to_vec();
        for (loss, _) in losses.iter().zip(counted).filter(|(_, w)| *w > 0.0) {
            sum.total += f64::from(*loss);
            sum.tokens += 1;
        }
    }
    sum
}

/// A loss on held-out text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validation {
    /// The model's.
    pub nll: Nll,
    /// Bytes of the text predicted.
    pub bytes: u64,
    /// The smallest loss that any model can have on it, in nats per token, where it is known.
    pub limit: Option<f64>,
}

/// A batch with the weights of an objective.
pub fn weighted(batch: gradus_data::Batch, objective: Objective) -> Batch {
    let mask: Vec<f64> = batch.weights.iter().map(|&w| f64::from(w)).collect();
    let weights = objective.weights(&mask, batch.rows);
    Batch {
        sequences: batch.rows,
        inputs: batch.inputs.into(),
        targets: batch.targets.into(),
        weights: weights.into(),
        labels: None,
    }
}
