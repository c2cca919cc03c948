//! Where dropout's randomness comes from.

use gradus_tensor::rng::{DropoutKey, philox};

/// The noise of one update: a seed and a number of the update name every mask of every layer, and rows are counted by the
/// sequence's index in the whole batch. So a shard of the same length draws what the whole batch would, and a resumed run what it
/// would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    key: [u32; 2],
    first_sequence: u64,
}

/// The places in a model that drop; a place is a number, its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// After the embeddings (or on the joint matrix).
    Embedding,
    /// On block l's attention probabilities.
    Attention(usize),
    /// On block l's attention branch.
    AttentionBranch(usize),
    /// On block l's feed-forward branch.
    MlpBranch(usize),
    /// On the hidden state that the head reads.
    Classifier,
    /// On an LSTM's projected states; it has no blocks.
    Projection,
}

impl Noise {
    /// The noise of update `update` of the run seeded `seed`, for the whole batch.
    pub fn new(seed: u64, update: u64) -> Self {
        // Philox mixes seed and update to a key; dropout's own counters start from there.
        let [a, b, ..] = philox([update as u32, (update >> 32) as u32, 0x6472_6f70, 0], [seed as u32, (seed >> 32) as u32]);
        Noise { key: [a, b], first_sequence: 0 }
    }

    /// The same noise for a shard whose first sequence has this index in the whole batch. Shards draw different numbers as long
    /// as none is shorter than the one before.
    pub fn from_sequence(self, first_sequence: u64) -> Self {
        Noise { first_sequence, ..self }
    }

    /// The key of one site with `rows` rows a sequence; `None` where nothing is dropped.
    pub(crate) fn key(&self, site: Site, p: f64, rows: usize) -> Option<DropoutKey> {
        let number = match site {
            Site::Embedding => 0,
            Site::Projection => 1,
            Site::Attention(l) => 3 * l + 1,
            Site::AttentionBranch(l) => 3 * l + 2,
            Site::MlpBranch(l) => 3 * l + 3,
            Site::Classifier => u32::MAX as usize,
        };
        (p > 0.0).then(|| DropoutKey::new(p, self.key, number as u32, self.first_sequence * rows as u64))
    }

    /// The classifier's key, with one row an example of so many sequences.
    pub(crate) fn key_of_examples(&self, p: f64, sequences: usize) -> Option<DropoutKey> {
        Noise { first_sequence: self.first_sequence / sequences as u64, ..*self }.key(Site::Classifier, p, 1)
    }
}
