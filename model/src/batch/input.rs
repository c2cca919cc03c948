//! The input of a body: tokens, and an attention mask.

use std::sync::Arc;

use gradus_autograd::ops::Attention;
use gradus_tensor::Mask;
use serde::{Deserialize, Serialize};

/// The attention mask: the slots of its sequence that a slot attends to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    /// Slot i attends to j ≤ i (next-token prediction). Padding at the end is attended to only by padding.
    #[default]
    Causal,
    /// Each slot attends to all slots below the length of its sequence; later slots are padding. `None`: no padding.
    Full(Option<Arc<[usize]>>),
    /// Slot i attends to the prefix of its sequence, of this length, and to all j ≤ i (prefix LM; UniLM, Dong et al. 2019, §2.3).
    /// Padding, at the end, is as in a causal sequence.
    Prefix(Arc<[usize]>),
    /// An explicit mask (B, T, T): element (b, i, j) states whether slot i of sequence b attends to its slot j.
    Allowed(Arc<[bool]>),
}

impl Sight {
    fn is_causal(&self) -> bool {
        *self == Sight::Causal
    }

    /// Returns the mask of these sequences of `t` slots, each cut to its first `length` slots.
    fn part(&self, sequences: impl Iterator<Item = usize> + Clone, t: usize, length: usize) -> Self {
        let cut = |lengths: &[usize]| sequences.clone().map(|s| lengths[s].min(length)).collect();
        match self {
            Sight::Causal | Sight::Full(None) => self.clone(),
            Sight::Full(Some(lengths)) => Sight::Full(Some(cut(lengths))),
            Sight::Prefix(lengths) => Sight::Prefix(cut(lengths)),
            Sight::Allowed(mask) => {
                let rows = sequences.clone().flat_map(|s| (0..length).map(move |i| (s * t + i) * t));
                Sight::Allowed(rows.flat_map(|row| &mask[row..][..length]).copied().collect())
            }
        }
    }
}

/// B sequences of T slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Number of sequences B.
    pub sequences: usize,
    /// The token in each slot (B·T).
    pub tokens: Arc<[u32]>,
    /// The position of each slot (B·T), from 0; `None`: 0 to T − 1 in each sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<Arc<[u32]>>,
    /// The segment of each slot (B·T), for a body with segments; `None`: all are in segment 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<Arc<[u32]>>,
    /// The slots that each slot attends to.
    #[serde(default, skip_serializing_if = "Sight::is_causal")]
    pub sight: Sight,
    /// Number of query-only slots, the last of each sequence. No slot attends to them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub query_only: usize,
}

impl Input {
    /// Creates an input of tokens (B·T) with a causal mask.
    pub fn causal(sequences: usize, tokens: impl AsRef<[u32]>) -> Self {
        let tokens = tokens.as_ref().into();
        Input { sequences, tokens, positions: None, segments: None, sight: Sight::Causal, query_only: 0 }
    }

    /// Creates an input of tokens (B·T) with full attention.
    pub fn full(sequences: usize, tokens: impl AsRef<[u32]>) -> Self {
        Input { sight: Sight::Full(None), ..Input::causal(sequences, tokens) }
    }

    /// Returns the number of slots per sequence, T.
    pub fn length(&self) -> usize {
        self.tokens.len().checked_div(self.sequences).unwrap_or(0)
    }

    /// Returns the number of slots per sequence that others may attend to: T, without query-only slots.
    fn keys(&self) -> usize {
        self.length().saturating_sub(self.query_only)
    }

    /// Returns whether slot i of sequence b attends to its slot j.
    pub fn attends(&self, b: usize, i: usize, j: usize) -> bool {
        let t = self.length();
        j < self.keys()
            && match &self.sight {
                Sight::Causal => j <= i,
                Sight::Full(lengths) => lengths.as_ref().is_none_or(|lengths| j < lengths[b]),
                Sight::Prefix(lengths) => j <= i || j < lengths[b],
                Sight::Allowed(mask) => mask[(b * t + i) * t + j],
            }
    }

    /// Returns the options for the op `attention`.
    pub fn attention(&self) -> Attention {
        let (b, t, keys) = (self.sequences, self.length(), self.keys());
        let queries_hidden = (self.query_only > 0).then(|| vec![keys; b].into());
        let (mask, lengths) = match &self.sight {
            Sight::Causal => (Mask::Causal, queries_hidden),
            Sight::Full(Some(lengths)) => (Mask::Full, Some(lengths.iter().map(|&length| length.min(keys)).collect())),
            Sight::Full(None) => (Mask::Full, queries_hidden),
            Sight::Prefix(_) => {
                let slots = (0..b * t).flat_map(|row| (0..t).map(move |j| (row / t, row % t, j)));
                (Mask::Allowed(slots.map(|(b, i, j)| self.attends(b, i, j)).collect()), None)
            }
            Sight::Allowed(mask) => (Mask::Allowed(Arc::clone(mask)), queries_hidden),
        };
        Attention { lengths, ..Attention::new(mask) }
    }

    /// Returns these sequences in this order, each cut to its first `length` slots.
    pub(crate) fn part(&self, sequences: impl ExactSizeIterator<Item = usize> + Clone, length: usize) -> Self {
        let t = self.length();
        let cut = |all: &[u32]| sequences.clone().flat_map(|s| &all[s * t..][..length]).copied().collect();
        Input {
            sequences: sequences.len(),
            tokens: cut(&self.tokens),
            positions: self.positions.as_deref().map(cut),
            segments: self.segments.as_deref().map(cut),
            sight: self.sight.part(sequences.clone(), t, length),
            query_only: self.query_only,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}
