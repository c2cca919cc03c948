//! How well a model predicts held-out text.
//!
//! ```text
//! nll = mean of −ln P(token | those before it), in nats per predicted token        perplexity = e^nll
//! bits per byte = total −ln P / (ln 2 · bytes of the text predicted)
//! ```

use gradus_autograd::Tape;
use gradus_model::{Gpt, GptConfig};
use gradus_tensor::{Real, Tensor};

use crate::data::Batch;

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
    /// Bits per byte, where the predicted tokens stand for so many bytes.
    pub fn bits_per_byte(&self, bytes: u64) -> f64 {
        self.total / (bytes as f64 * std::f64::consts::LN_2)
    }
}

/// The total of these batches, dropout off; `tick` sees the tokens so far after each.
pub fn nll<T: Real>(
    params: &Gpt<Tensor<T>>,
    config: &GptConfig,
    batches: impl IntoIterator<Item = Batch>,
    mut tick: impl FnMut(u64),
) -> Nll {
    let mut sum = Nll::default();
    for batch in batches {
        let tape = Tape::off();
        let losses = params.constants(&tape).token_losses(config, &batch.inputs, &batch.targets, batch.rows);
        for (loss, &weight) in losses.iter().zip(&batch.weights) {
            if weight > 0.0 {
                sum.total += loss.to_f64();
                sum.tokens += 1;
            }
        }
        tick(sum.tokens);
    }
    sum
}
