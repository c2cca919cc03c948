//! The source of a run's batches and of its held-out text.

use gradus_data::TokenBatch;
use gradus_model::{Batch, Objective};
use gradus_report::Baseline;
use gradus_report::metrics::{EvaluationRecord, Follows, Moment, VALIDATION};
use gradus_text::Tokenizer;

/// A part of a source's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The training texts.
    Train,
    /// The held-out texts.
    HeldOut,
}

/// Sequences of tokens.
pub type Sequences<'s> = Box<dyn Iterator<Item = Box<dyn Iterator<Item = u32> + 's>> + 's>;

/// A source of texts: a corpus, or the micro-world.
pub trait TextSource {
    /// Returns the tokenizer of the texts.
    fn tokenizer(&self) -> &Tokenizer;
    /// Returns the number of tokens to train on.
    fn tokens(&self) -> u64;
    /// Returns the mean number of tokens predicted in a step of `batch` rows.
    fn tokens_per_step(&self, batch: usize) -> f64;
    /// Returns a digest of the data. A resumed run must have the same digest.
    fn digest(&self) -> String;
    /// Returns the number of texts of a part.
    fn texts(&self, part: Split) -> usize;
    /// Returns the tokens of text `number` of a part.
    fn text(&self, part: Split, number: usize) -> Vec<u32>;
    /// Returns the text of each row 0 .. `rows` of step `t` (from 1) and its epoch: a function of the seed, `t` and `rows`.
    fn drawn(&self, t: u64, rows: usize) -> Vec<(usize, u64)>;
    /// Returns the number of tokens of a held-out text.
    fn held_out_length(&self, number: usize) -> usize;
    /// Returns the numbers of the held-out texts that an evaluation of about `limit` tokens reads; at least one if there are any.
    fn evaluated(&self, limit: usize) -> Vec<usize>;
    /// Returns the bytes of these held-out texts and the smallest loss that any model can have on them, in nats per token, each
    /// if known. `tokens` is the number of predicted tokens, which must be all of their tokens.
    fn known(&self, texts: &[usize], tokens: u64) -> (Option<u64>, Option<f64>);
    /// Returns the token before and after a text, which ends a sample too.
    fn separator(&self) -> Option<u32> {
        None
    }
    /// Returns the training texts as sequences: each text, or a whole corpus.
    fn sequences(&self) -> Sequences<'_> {
        let text = |number| Box::new(self.text(Split::Train, number).into_iter()) as Box<dyn Iterator<Item = u32> + '_>;
        Box::new((0..self.texts(Split::Train)).map(text))
    }
    /// Returns the tokens that open a sample.
    fn prompt(&self) -> Vec<u32>;
    /// Returns the losses of baselines on the held-out text.
    fn baselines(&self) -> Vec<Baseline> {
        Vec::new()
    }
}

/// The loss on held-out text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validation {
    /// The loss of the model, in nats per predicted token.
    pub nll: f64,
    /// The number of predicted tokens.
    pub tokens: u64,
    /// The bytes of the text, if all of it is predicted.
    pub bytes: Option<u64>,
    /// The smallest loss that any model can have on this text, in nats per token, if it is known.
    pub limit: Option<f64>,
    /// The loss and accuracy of the prediction whether the second text of a pair follows, if texts are pairs; `nll` excludes it.
    pub follows: Option<Follows>,
}

impl Validation {
    /// Returns the record of this measurement at a point of the run.
    pub(super) fn record(self, at: Moment) -> EvaluationRecord {
        let Validation { nll, tokens, bytes, limit, follows } = self;
        let mut record = EvaluationRecord { follows, over: Some(tokens), ..EvaluationRecord::new(at, VALIDATION, nll) };
        if let Some(bytes) = bytes {
            record = record.with_bytes(tokens, bytes);
        }
        if let Some(limit) = limit {
            record = record.with_limit(limit);
        }
        record
    }
}

/// Returns a batch with the weights of an objective.
pub fn weighted(batch: TokenBatch, objective: Objective) -> Batch {
    let mask: Vec<f64> = batch.weights.iter().map(|&w| f64::from(w)).collect();
    let weights = objective.weights(&mask, batch.rows);
    Batch::next(batch.rows, batch.inputs, batch.targets, weights)
}
