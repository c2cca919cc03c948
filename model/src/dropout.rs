//! Dropout (§4.1), and the source of its random numbers.

use gradus_autograd::Var;
use gradus_tensor::Real;
use gradus_tensor::rng::{DropoutKey, philox};

/// The seed of the masks of one training step. A mask is a function of the seed, the site in the model, the row and the column.
/// Rows are numbered by the sequence's index in the whole batch, so a shard of the same length draws the masks of the whole
/// batch, and a resumed run the masks of an uninterrupted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropoutSeed {
    key: [u32; 2],
    first_sequence: u64,
}

/// The sites of dropout in a model; each has a number.
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
    /// On the hidden state that head k reads.
    Classifier(usize),
    /// On an LSTM's projected states; it has no blocks.
    Projection,
}

impl Site {
    fn number(self) -> u32 {
        let number = match self {
            Site::Embedding => 0,
            Site::Projection => 1,
            Site::Attention(l) => 3 * l + 1,
            Site::AttentionBranch(l) => 3 * l + 2,
            Site::MlpBranch(l) => 3 * l + 3,
            Site::Classifier(k) => u32::MAX as usize - k,
        };
        number as u32
    }
}

impl DropoutSeed {
    /// Returns the seed of step `step`, counted from 1, in the run seeded `seed`, for the whole batch.
    pub fn new(seed: u64, step: u64) -> Self {
        // Philox mixes seed and step into a key, from which the counters of dropout start.
        let [a, b, ..] = philox([step as u32, (step >> 32) as u32, 0x6472_6f70, 0], [seed as u32, (seed >> 32) as u32]);
        DropoutSeed { key: [a, b], first_sequence: 0 }
    }

    /// Returns the seed for a shard whose first sequence has this index in the whole batch. Shards draw different numbers as long
    /// as none is shorter than the one before.
    pub fn from_sequence(self, first_sequence: u64) -> Self {
        DropoutSeed { first_sequence, ..self }
    }

    /// Returns the seed for one row per example of this many sequences.
    pub(crate) fn per_example(self, sequences: usize) -> Self {
        DropoutSeed { first_sequence: self.first_sequence / sequences as u64, ..self }
    }
}

/// Dropout as a layer: a probability and a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    p: f64,
    site: Site,
}

impl Dropout {
    /// Creates a layer that sets each element to 0 with probability p.
    pub fn new(p: f64, site: Site) -> Self {
        Dropout { p, site }
    }

    /// Maps (B, T, …) to the same shape; without a seed nothing is dropped.
    pub fn forward<'t, T: Real>(&self, x: Var<'t, T>, seed: Option<DropoutSeed>) -> Var<'t, T> {
        let rows = x.shape()[1];
        self.by_rows(x, rows, seed)
    }

    /// Drops elements of an x of any shape with this many rows per sequence.
    pub(crate) fn by_rows<'t, T: Real>(&self, x: Var<'t, T>, rows: usize, seed: Option<DropoutSeed>) -> Var<'t, T> {
        match self.key(rows, seed) {
            Some(key) => x.dropout(key),
            None => x,
        }
    }

    /// Returns whether any element is dropped.
    pub(crate) fn drops(&self, seed: Option<DropoutSeed>) -> bool {
        seed.is_some() && self.p > 0.0
    }

    /// Returns the key for an op that applies dropout itself; `None` if nothing is dropped.
    pub(crate) fn key(&self, rows: usize, seed: Option<DropoutSeed>) -> Option<DropoutKey> {
        let seed = seed.filter(|_| self.drops(seed))?;
        Some(DropoutKey::new(self.p, seed.key, self.site.number(), seed.first_sequence * rows as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With other numbers, a resumed run would draw other masks.
    #[test]
    fn each_dropout_site_keeps_its_number() {
        let of_block = |l| [Site::Attention(l), Site::AttentionBranch(l), Site::MlpBranch(l)].map(Site::number);
        assert_eq!([0, 1, 11].map(of_block), [[1, 2, 3], [4, 5, 6], [34, 35, 36]]);
        assert_eq!(
            [Site::Embedding, Site::Projection, Site::Classifier(0), Site::Classifier(1)].map(Site::number),
            [0, 1, u32::MAX, u32::MAX - 1]
        );
    }

    #[test]
    fn masks_are_drawn_only_where_something_drops() {
        let seed = Some(DropoutSeed::new(3, 1));
        let drops =
            |p, seed| (Dropout::new(p, Site::Embedding).drops(seed), Dropout::new(p, Site::Embedding).key(2, seed).is_some());
        assert_eq!([drops(0.5, seed), drops(0.0, seed), drops(0.5, None)], [(true, true), (false, false), (false, false)]);
    }

    /// Each of these changes the key; the row counts from the batch's first sequence.
    #[test]
    fn a_mask_is_a_function_of_seed_step_place_and_row() {
        let key = |seed: DropoutSeed, site, rows| Dropout::new(0.5, site).key(rows, Some(seed)).unwrap();
        let seed = DropoutSeed::new(3, 1);
        let one = key(seed, Site::Embedding, 2);
        assert_eq!(one, key(seed.from_sequence(0), Site::Embedding, 7));
        let others = [
            key(DropoutSeed::new(4, 1), Site::Embedding, 2),
            key(DropoutSeed::new(3 + (1 << 32), 1), Site::Embedding, 2),
            key(DropoutSeed::new(3, 2), Site::Embedding, 2),
            key(DropoutSeed::new(3, 1 + (1 << 32)), Site::Embedding, 2),
            key(seed, Site::Projection, 2),
            key(seed.from_sequence(6), Site::Embedding, 2),
        ];
        assert!(others.iter().all(|other| *other != one), "{others:?}");
        assert_eq!(key(seed.from_sequence(6), Site::Embedding, 2), key(seed.from_sequence(4), Site::Embedding, 3));
        assert_eq!(seed.from_sequence(6).per_example(2), seed.from_sequence(3));
    }
}
