//! Generation with a cache of keys and values, or a recurrent state: each new token costs one pass over the weights.

use gradus_autograd::Tape;
use gradus_tensor::{Real, Tensor, on_pool};

use crate::backbone::{Backbone, BackboneConfig};
use crate::config::GptConfig;
use crate::gpt::{Gpt, Hidden};
use crate::lstm::{Lstm, LstmConfig, LstmState};
use crate::model::{Model, ModelConfig};

/// The keys and values of the positions seen so far, in one block.
#[derive(Debug)]
pub struct LayerCache<T: Real> {
    keys: Tensor<T>,
    values: Tensor<T>,
    len: usize,
}

impl<T: Real> LayerCache<T> {
    fn new(config: &GptConfig) -> Self {
        let shape = [1, config.heads, config.context, config.head_width()];
        LayerCache { keys: Tensor::zeros(shape), values: Tensor::zeros(shape), len: 0 }
    }

    /// Adds keys and values (1, H, T, D); gives those of all positions so far.
    pub(crate) fn extend(&mut self, k: &Tensor<T>, v: &Tensor<T>) -> (Tensor<T>, Tensor<T>) {
        let (heads, t, d) = (k.shape()[1], k.shape()[2], k.shape()[3]);
        let context = self.keys.shape()[2];
        for (store, new) in [(&mut self.keys, k), (&mut self.values, v)] {
            let new = new.dense();
            let store = store.to_mut();
            for (h, rows) in new.as_slice().chunks((t * d).max(1)).enumerate().take(heads) {
                store[(h * context + self.len) * d..][..t * d].copy_from_slice(rows);
            }
        }
        self.len += t;
        (self.keys.slice(2, 0..self.len), self.values.slice(2, 0..self.len))
    }
}

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
    Gpt { params: &'m Gpt<Tensor<T>>, config: &'m GptConfig, layers: Vec<LayerCache<T>> },
    Lstm { params: &'m Lstm<Tensor<T>>, config: &'m LstmConfig, state: Box<LstmState<T>> },
}

impl<'m, T: Real> Decoder<'m, T> {
    /// An empty sequence.
    pub fn new(params: &'m Model<Tensor<T>>, config: &'m ModelConfig) -> Self {
        let memory = match (&params.backbone, &config.backbone) {
            (Backbone::Gpt(params), BackboneConfig::Gpt(config)) => {
                Memory::Gpt { params, config, layers: (0..config.layers).map(|_| LayerCache::new(config)).collect() }
            }
            (Backbone::Lstm(params), BackboneConfig::Lstm(config)) => {
                Memory::Lstm { params, config, state: Box::new(LstmState::new(config)) }
            }
            _ => panic!("parameters of one kind of backbone with the configuration of another"),
        };
        Decoder { memory, vocab: config.backbone.vocab(), position: 0 }
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
            let Hidden { states, output } = match &mut self.memory {
                Memory::Gpt { params, config, layers } => {
                    let gpt = params.constants(&tape);
                    let Hidden { mut states, output } = gpt.embed(config, ids, 1, self.position, None);
                    for (block, cache) in gpt.h.0.iter().zip(layers) {
                        states = block.decode(&states, config, cache);
                    }
                    Hidden { states, output }
                }
                Memory::Lstm { params, config, state } => params.constants(&tape).decode(config, ids, state),
            };
            self.position += ids.len();
            let last = states.slice(1, ids.len() - 1..ids.len());
            let logits = Hidden { states: last, output }.logits();
            // The joint form's softmax has position rows too; they are never generated.
            logits.value().dense().as_slice()[..self.vocab].to_vec()
        })
    }
}
