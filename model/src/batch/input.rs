//! What a body reads: slots that hold tokens, and which of them sees which.

use std::sync::Arc;

use gradus_autograd::ops::Attention;
use gradus_tensor::Mask;
use serde::{Deserialize, Serialize};

/// Which slots of its sequence a slot sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    /// Itself and those before it: what a language model that predicts the next token may see. Padding, at the end of a sequence, is
    /// seen by padding alone.
    #[default]
    Causal,
    /// All of them. Sequence b has this many slots; those after them are padding, which none sees. `None`: there is no padding.
    Full(Option<Arc<[usize]>>),
}

impl Sight {
    /// As attention takes it.
    pub(crate) fn attention(&self) -> Attention {
        match self {
            Sight::Causal => Attention::new(Mask::Causal),
            Sight::Full(lengths) => Attention { lengths: lengths.clone(), ..Attention::new(Mask::Full) },
        }
    }

    /// Does slot i of sequence b see its slot j?
    pub fn allows(&self, b: usize, i: usize, j: usize) -> bool {
        match self {
            Sight::Causal => j <= i,
            Sight::Full(lengths) => lengths.as_ref().is_none_or(|lengths| j < lengths[b]),
        }
    }

    /// That of these sequences, each cut to at most this length.
    fn of(&self, sequences: impl Iterator<Item = usize>, length: usize) -> Self {
        match self {
            Sight::Full(Some(lengths)) => Sight::Full(Some(sequences.map(|s| lengths[s].min(length)).collect())),
            same => same.clone(),
        }
    }

    fn is_causal(&self) -> bool {
        *self == Sight::Causal
    }
}

/// B sequences of T slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Number of sequences B.
    pub sequences: usize,
    /// The token in each slot (B·T).
    pub tokens: Arc<[u32]>,
    /// The segment of each slot (B·T), for a body that tells segments apart; `None`: all are in segment 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<Arc<[u32]>>,
    /// Which slot sees which.
    #[serde(default, skip_serializing_if = "Sight::is_causal")]
    pub sight: Sight,
}

impl Input {
    /// Tokens (B·T) of which each sees those before it.
    pub fn causal(sequences: usize, tokens: impl AsRef<[u32]>) -> Self {
        Input { sequences, tokens: tokens.as_ref().into(), segments: None, sight: Sight::Causal }
    }

    /// Tokens (B·T) of which each sees all of its sequence.
    pub fn full(sequences: usize, tokens: impl AsRef<[u32]>) -> Self {
        Input { sequences, tokens: tokens.as_ref().into(), segments: None, sight: Sight::Full(None) }
    }

    /// Slots per sequence T.
    pub fn length(&self) -> usize {
        self.tokens.len().checked_div(self.sequences).unwrap_or(0)
    }

    /// These sequences in this order, each cut to its first `length` slots.
    pub(crate) fn part(&self, sequences: impl ExactSizeIterator<Item = usize> + Clone, length: usize) -> Self {
        let t = self.length();
        let cut = |all: &[u32]| sequences.clone().flat_map(|s| &all[s * t..][..length]).copied().collect();
        Input {
            sequences: sequences.len(),
            tokens: cut(&self.tokens),
            segments: self.segments.as_deref().map(cut),
            sight: self.sight.of(sequences.clone(), length),
        }
    }
}
