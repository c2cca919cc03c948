//! Generation with a cache of keys and values, or a recurrent state: each new token costs one pass over the weights.

use gradus_autograd::Tape;
use gradus_tensor::{Real, Tensor, on_pool};

use crate::backbone::Backbone;
use crate::cache::LayerCache;
use crate::gpt::Gpt;
use crate::lstm::{Lstm, LstmState};
use crate::model::Model;
use crate::side::Side;
use crate::tree::Tree;

/// One sequence being read or written, position by position.
#[derive(Debug)]
pub struct Decoder<'m, T: Real> {
    memory: Memory<'m, T>,
    vocab: usize,
    position: usize,
}

/// What is kept of the tokens read.
#[derive(Debug)]
enum Memory<'m, T: Real> {
    Gpt { gpt: &'m Gpt<Tensor<T>>, layers: Vec<LayerCache<T>> },
    Lstm { lstm: &'m Lstm<Tensor<T>>, state: Box<LstmState<T>> },
}

impl<'m, T: Real> Decoder<'m, T> {
    /// An empty sequence.
    pub fn new(model: &'m Model<Tensor<T>>) -> Self {
        let (memory, vocab) = match &model.backbone {
            Backbone::Gpt(gpt) => {
                let (c, like) = (gpt.config(), &gpt.tokens_embed.weight.0);
                let cache = |_| LayerCache::new(like, c.heads, c.context, c.head_width());
                (Memory::Gpt { gpt, layers: (0..c.layers).map(cache).collect() }, c.vocab)
            }
            Backbone::Lstm(lstm) => {
                let c = lstm.config();
                (Memory::Lstm { lstm, state: Box::new(LstmState::new(c, &lstm.tokens_embed.weight.0)) }, c.vocab)
            }
        };
        Decoder { memory, vocab, position: 0 }
    }

    /// Number of tokens read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Reads these tokens (one or more; the sequence must stay within the context) and gives the logits (vocab) of the next.
    pub fn read(&mut self, ids: &[u32]) -> Vec<T> {
        assert!(!ids.is_empty(), "a decoder reads at least one token");
        on_pool(|| {
            let tape = Tape::off();
            let mut hidden = match &mut self.memory {
                Memory::Gpt { gpt, layers } => {
                    let gpt = gpt.constants(&tape);
                    let (mut states, output) = gpt.embed(&Side::causal(1, ids), self.position, None);
                    for (block, cache) in gpt.h.0.iter().zip(layers) {
                        states = block.decode(&states, cache);
                    }
                    gpt.end.hidden(states, output)
                }
                Memory::Lstm { lstm, state } => lstm.constants(&tape).decode(ids, state),
            };
            self.position += ids.len();
            hidden.states = hidden.states.slice(1, ids.len() - 1..ids.len());
            let logits = hidden.logits();
            // The joint form's softmax has position rows too; they are never generated.
            let mut logits = logits.value().to_vec();
            logits.truncate(self.vocab);
            logits
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{tiny_gpt, tiny_lstm};

    #[test]
    fn tokens_are_read_one_by_one_or_together() {
        for config in [tiny_gpt().into(), tiny_lstm().into()] {
            let model: Model<Tensor<f64>> = Model::init(&config, 1);
            let [mut one, mut many] = [Decoder::new(&model), Decoder::new(&model)];
            let ids = [3, 1, 4, 1, 5];
            let last = ids.map(|id| one.read(&[id]));
            for (ids, position) in [(&ids[..2], 2), (&ids[2..], 5)] {
                let logits = many.read(ids);
                assert_eq!((many.position(), logits.len()), (position, config.backbone.vocab()));
                // Logits of size 1, but for the order of sums.
                assert!(logits.iter().zip(&last[position - 1]).all(|(a, b)| (a - b).abs() < 1e-12));
            }
            assert_eq!(one.position(), 5);
        }
    }

    #[test]
    #[should_panic(expected = "at least one token")]
    fn nothing_is_not_read() {
        let model: Model<Tensor<f64>> = Model::init(&tiny_gpt().into(), 1);
        Decoder::new(&model).read(&[]);
    }
}
