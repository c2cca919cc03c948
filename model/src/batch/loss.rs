//! The terms of a batch's loss: the slots, the targets and the weights of predictions.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A term of the loss. Slots are numbered over the whole batch, from 0 to B·T.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossTerm {
    /// Tokens that an output predicts.
    Tokens(TokenLoss),
    /// Classes that a head predicts.
    Classes(ClassLoss),
}

/// Σᵢ wᵢ·(−log P(targetᵢ)) over slots (equation 1, or BERT's masked tokens).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenLoss {
    /// The index of the output.
    #[serde(default, skip_serializing_if = "is_first")]
    pub output: usize,
    /// The slots in which a token is predicted, in increasing order; `None`: every slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Arc<[u32]>>,
    /// The token to predict in each of these slots: in a causal model, the one that follows.
    pub targets: Arc<[u32]>,
    /// The weight of each prediction.
    pub weights: Arc<[f64]>,
}

/// −Σₙ wₙ Σ_c yₙ_c log Pₙ(c) over examples (equation 4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassLoss {
    /// The index of the head.
    #[serde(default, skip_serializing_if = "is_first")]
    pub head: usize,
    /// The slot of each sequence that the head reads (B): GPT-1's extract token, BERT's first slot.
    pub slots: Arc<[u32]>,
    /// The number of sequences per example: 1; 2 where both orders of a pair are read; K for K answers to choose from.
    pub group: usize,
    /// The target probability of each class (or answer), (examples, classes) row-major.
    pub targets: Arc<[f64]>,
    /// The weight of each example; 1/N each is the mean of N.
    pub weights: Arc<[f64]>,
}

/// Consecutive sequences of a batch, each cut to its first slots.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// The sequences.
    pub sequences: Range<usize>,
    /// The number of slots per sequence in the batch, and of those that are kept.
    pub length: [usize; 2],
}

impl Cut {
    /// Returns the number of a slot in the part.
    fn slot(&self, slot: u32) -> u32 {
        let [from, to] = self.length;
        let (s, i) = (slot as usize / from, slot as usize % from);
        ((s - self.sequences.start) * to + i) as u32
    }

    /// Returns the elements of the part, given one element per slot of the batch.
    pub fn of<X: Copy, C: FromIterator<X>>(&self, all: &[X]) -> C {
        let [from, to] = self.length;
        self.sequences.clone().flat_map(|s| &all[s * from..][..to]).copied().collect()
    }
}

impl LossTerm {
    /// Returns the weight of each prediction.
    pub fn weights(&self) -> &[f64] {
        match self {
            LossTerm::Tokens(TokenLoss { weights, .. }) | LossTerm::Classes(ClassLoss { weights, .. }) => weights,
        }
    }

    /// Returns the term with all weights multiplied by `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let mut scaled = self.clone();
        let (LossTerm::Tokens(TokenLoss { weights, .. }) | LossTerm::Classes(ClassLoss { weights, .. })) = &mut scaled;
        *weights = weights.iter().map(|w| factor * w).collect();
        scaled
    }

    /// Returns whether any prediction has a weight other than 0.
    pub fn counts(&self) -> bool {
        self.weights().iter().any(|&w| w != 0.0)
    }

    /// Returns the number of consecutive sequences that must stay together, so that no example is cut.
    pub(crate) fn group(&self) -> usize {
        match self {
            LossTerm::Tokens(_) => 1,
            LossTerm::Classes(classes) => classes.group.max(1),
        }
    }

    /// Returns the slot of each sequence that the head reads; empty for tokens.
    pub(crate) fn ends(&self) -> &[u32] {
        match self {
            LossTerm::Tokens(_) => &[],
            LossTerm::Classes(classes) => &classes.slots,
        }
    }

    /// Returns the predictions in some of the sequences, which hold whole examples.
    pub(crate) fn part(&self, cut: &Cut) -> Self {
        match self {
            LossTerm::Tokens(tokens) => LossTerm::Tokens(tokens.part(cut)),
            LossTerm::Classes(classes) => LossTerm::Classes(classes.part(cut)),
        }
    }
}

impl TokenLoss {
    fn part(&self, cut: &Cut) -> Self {
        let Some(slots) = &self.slots else {
            return TokenLoss { targets: cut.of(&self.targets), weights: cut.of(&self.weights), ..self.clone() };
        };
        let before = |sequence: usize| slots.partition_point(|&slot| (slot as usize) < sequence * cut.length[0]);
        let range = before(cut.sequences.start)..before(cut.sequences.end);
        TokenLoss {
            output: self.output,
            slots: Some(slots[range.clone()].iter().map(|&slot| cut.slot(slot)).collect()),
            targets: self.targets[range.clone()].into(),
            weights: self.weights[range].into(),
        }
    }
}

impl ClassLoss {
    /// Returns the number of examples.
    pub fn examples(&self) -> usize {
        self.weights.len()
    }

    fn part(&self, cut: &Cut) -> Self {
        let examples = cut.sequences.start / self.group..cut.sequences.end / self.group;
        let classes = self.targets.len() / self.examples().max(1);
        ClassLoss {
            head: self.head,
            slots: self.slots[cut.sequences.clone()].iter().map(|&slot| cut.slot(slot)).collect(),
            group: self.group,
            targets: self.targets[examples.start * classes..examples.end * classes].into(),
            weights: self.weights[examples].into(),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(head: &usize) -> bool {
    *head == 0
}
