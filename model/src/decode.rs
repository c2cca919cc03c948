//! Generation with a cache of keys and values, or a recurrent state: each new token costs one pass over the weights.

use gradus_autograd::Tape;
use gradus_tensor::{Real, Tensor, on_pool};

use crate::batch::{Batch, Input};
use crate::body::Memory;
use crate::model::Model;
use crate::output::Hidden;
use crate::tree::Tree;

/// A sequence that is read or generated position by position.
#[derive(Debug)]
pub struct Decoder<'m, T: Real> {
    model: &'m Model<Tensor<T>>,
    memory: Memory<'m, T>,
    position: usize,
}

impl<'m, T: Real> Decoder<'m, T> {
    /// Creates a decoder of an empty sequence.
    pub fn new(model: &'m Model<Tensor<T>>) -> Self {
        Decoder { model, memory: model.body.memory(), position: 0 }
    }

    /// Returns the number of tokens read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Reads these tokens (one or more; the sequence must stay within the context), and returns the logits (vocab) of the next.
    pub fn read(&mut self, ids: &[u32]) -> Vec<T> {
        assert!(!ids.is_empty(), "a decoder reads at least one token");
        on_pool(|| {
            let tape = Tape::off();
            let (states, table) = self.memory.read(&tape, &Input::causal(1, ids), self.position);
            self.position += ids.len();
            let states = states.slice(1, ids.len() - 1..ids.len());
            let logits = Hidden { states, table, outputs: self.model.outputs.constants(&tape) }.logits();
            // The joint form's softmax has position rows too; they are never generated.
            let mut logits = logits.value().to_vec();
            logits.truncate(self.model.sizes().vocab);
            logits
        })
    }

    /// Computes [`Model::token_losses`] of a batch whose sequences each continue the tokens read, which are not read again; they
    /// must stay within the context. The decoder does not change.
    pub fn token_losses(&self, batch: &Batch) -> Tensor<T> {
        on_pool(|| {
            let (tape, input) = (Tape::off(), &batch.input);
            let tokens = batch.tokens().next().expect("a batch that predicts tokens");
            let (states, table) = self.memory.fork(input.sequences, input.length()).read(&tape, input, self.position);
            Hidden { states, table, outputs: self.model.outputs.constants(&tape) }.token_losses(tokens)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{tiny_gpt, tiny_lstm};

    #[test]
    fn decoding_one_by_one_or_together_gives_the_same_logits() {
        for config in [tiny_gpt(), tiny_lstm()] {
            let model: Model<Tensor<f64>> = Model::init(&config, 1);
            let [mut one, mut many] = [Decoder::new(&model), Decoder::new(&model)];
            let ids = [3, 1, 4, 1, 5];
            let last = ids.map(|id| one.read(&[id]));
            for (ids, position) in [(&ids[..2], 2), (&ids[2..], 5)] {
                let logits = many.read(ids);
                assert_eq!((many.position(), logits.len()), (position, config.sizes.vocab));
                // Logits of size 1, equal except for the order of sums.
                assert!(logits.iter().zip(&last[position - 1]).all(|(a, b)| (a - b).abs() < 1e-12));
            }
            assert_eq!(one.position(), 5);
        }
    }

    #[test]
    fn losses_after_a_prefix_equal_those_of_the_whole_text() {
        for config in [tiny_gpt(), tiny_lstm()] {
            let model: Model<Tensor<f64>> = Model::init(&config, 1);
            let mut decoder = Decoder::new(&model);
            let after = [[2, 7, 1], [8, 2, 8]];
            let losses = |decoder: &Decoder<'_, f64>, before: &[u32]| {
                let next = Batch::next(2, after.concat(), [7, 1, 4, 2, 8, 5], [1.0; 6]);
                let found = decoder.token_losses(&next).to_vec();
                let whole: Vec<u32> = after.iter().flat_map(|row| [before, row].concat()).collect();
                let slots: Vec<u32> = (0..2).flat_map(|row| (0..3).map(move |at| (row * 3 + at) as u32)).collect();
                let shifted: std::sync::Arc<[u32]> = slots.iter().map(|at| at + (at / 3 + 1) * before.len() as u32).collect();
                let targets = &next.tokens().next().unwrap().targets;
                let whole = Batch::of(Input::causal(2, whole)).with_tokens(Some(shifted), targets, [1.0; 6]);
                let expected = model.token_losses(&whole).to_vec();
                assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {expected:?}");
            };
            losses(&decoder, &[]);
            let logits = decoder.read(&[3, 1]);
            losses(&decoder, &[3, 1]);
            // It has not read more than before.
            let mut other = Decoder::new(&model);
            other.read(&[3, 1]);
            assert_eq!((decoder.position(), decoder.read(&[4])), (2, other.read(&[4])));
            assert_eq!(logits.len(), config.sizes.vocab);
        }
    }

    #[test]
    #[should_panic(expected = "at least one token")]
    fn reading_no_tokens_panics() {
        let model: Model<Tensor<f64>> = Model::init(&tiny_gpt(), 1);
        Decoder::new(&model).read(&[]);
    }
}
