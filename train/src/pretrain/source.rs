//! Where a run's batches come from, and what its model is measured on.

use gradus_data::TokenBatch;
use gradus_model::{Batch, Model, Objective};
use gradus_report::Baseline;
use gradus_report::metrics::Follows;
use gradus_tensor::Tensor;
use gradus_text::Tokenizer;

/// A part of a source's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// To train on.
    Train,
    /// To measure on.
    HeldOut,
}

/// A corpus, or a world.
pub trait TextSource {
    /// The tokenizer of its text.
    fn tokenizer(&self) -> &Tokenizer;
    /// Number of tokens to train on.
    fn tokens(&self) -> u64;
    /// Tokens predicted in a step of `batch` rows, on average.
    fn tokens_per_step(&self, batch: usize) -> f64;
    /// What distinguishes its data from others': a resumed run must find the same.
    fn digest(&self) -> String;
    /// Rows 0 .. `batch` of step `t` (from 1): a function of the seed and these.
    fn batch(&self, t: u64, batch: usize) -> TokenBatch;
    /// The loss on at most `limit` held-out tokens; `None` where nothing is held out.
    fn validate(&self, model: &Model<Tensor>, limit: usize) -> Option<Validation>;
    /// The number of held-out tokens that [`TextSource::validate`] reads with this limit.
    fn validated(&self, limit: usize) -> u64;
    /// Number of texts of a part, each of which a scheme views.
    fn texts(&self, part: Split) -> usize;
    /// The tokens of one.
    fn text(&self, part: Split, number: usize) -> Vec<u32>;
    /// The texts of rows 0 .. `rows` of step `t` (from 1), and how often all have been read before: a function of the seed and these.
    fn drawn(&self, t: u64, rows: usize) -> Vec<(usize, u64)>;
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

/// The mean of −ln P over the predicted tokens of these batches, in nats, and their number; dropout off.
pub(super) fn nll(model: &Model<Tensor>, batches: impl IntoIterator<Item = TokenBatch>) -> (f64, u64) {
    let (mut total, mut tokens) = (0.0, 0);
    for batch in batches {
        let counted = batch.weights.clone();
        let losses = model.token_losses(&weighted(batch, Objective::TokenMean)).to_vec();
        for (loss, _) in losses.iter().zip(counted).filter(|(_, w)| *w > 0.0) {
            total += f64::from(*loss);
            tokens += 1;
        }
    }
    (total / tokens as f64, tokens)
}

/// A loss on held-out text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validation {
    /// The model's, in nats per predicted token.
    pub nll: f64,
    /// Number of predicted tokens.
    pub tokens: u64,
    /// Bytes of the text predicted, where all of it is.
    pub bytes: Option<u64>,
    /// The smallest loss that any model can have on it, in nats per token, where it is known.
    pub limit: Option<f64>,
    /// Where texts are read in pairs: what is said of whether the second follows, which is no part of the loss above.
    pub follows: Option<Follows>,
}

/// A batch with the weights of an objective.
pub fn weighted(batch: TokenBatch, objective: Objective) -> Batch {
    let mask: Vec<f64> = batch.weights.iter().map(|&w| f64::from(w)).collect();
    let weights = objective.weights(&mask, batch.rows);
    Batch::next(batch.rows, batch.inputs, batch.targets, weights)
}
