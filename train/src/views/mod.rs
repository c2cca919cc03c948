//! A *view* of a text: the input of a model, and its targets.
//!
//! ```text
//! next       x₁ … xₙ            each slot sees those before it       each predicts the next token
//! masked     [CLS] x̃ [SEP]      each slot sees all                   some predict their token (Devlin et al. 2018, §3.1)
//! pairs      [CLS] a [SEP] b [SEP], in two segments                  … and [CLS] predicts whether b follows a
//! ```
//!
//! A [`batch`] pads rows to the longest view. `pairs` needs a model with at least two segments (`--segments 2`).

mod draw;
mod plan;

use gradus_model::{Batch, ClassLoss, Input, Model, Objective, Sight};
use gradus_tensor::{Real, Tensor};

pub use draw::{Draw, Redraw};
pub use plan::*;

/// The token that opens every story of the micro-world.
pub const SEPARATOR: &str = "<story>";

/// A text of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The number of the text in the source.
    pub number: u64,
    /// The number of times that the source has been read before.
    pub epoch: u64,
    /// The tokens of the text.
    pub tokens: Vec<u32>,
    /// The end of each sentence, in increasing order; the last is the number of tokens.
    pub sentences: Vec<usize>,
}

/// The special tokens of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialTokens {
    /// The token that opens a row; heads read its slot.
    pub open: u32,
    /// The token that closes a text.
    pub close: u32,
    /// The token that replaces a masked one.
    pub mask: u32,
    /// The exclusive upper bound of the tokens that may replace another.
    pub words: u32,
}

/// The tokens from which a token is predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Given {
    /// The tokens before it.
    Before,
    /// All other tokens.
    #[default]
    All,
}

/// The input of a model, and its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The token in each slot.
    pub tokens: Vec<u32>,
    /// The segment of each slot.
    pub segments: Vec<u32>,
    /// The slots that a slot attends to.
    pub given: Given,
    /// The slots with targets, in increasing order, each with its target token.
    pub targets: Vec<(usize, u32)>,
    /// The class of the row.
    pub class: Option<usize>,
}

/// A way to view texts.
pub trait Scheme: Send + Sync {
    /// Returns a view of a text for training.
    fn train_view(&self, text: &Text, draw: &mut Draw<'_>) -> View;
    /// Returns a view for evaluation, whose targets are the tokens at the positions `at`, in increasing order. A scheme that
    /// predicts from all tokens masks the targets. Returns `None` if the scheme cannot predict from `given`.
    fn eval_view(&self, text: &Text, at: &[usize], given: Given) -> Option<View>;
    /// Returns the number of tokens that an evaluation counts in a text of `tokens` tokens: by default all of them, without
    /// special tokens and second texts.
    fn evaluated(&self, tokens: usize) -> usize {
        tokens
    }
    /// Returns the number of classes of a row; 0 if rows have no class.
    fn classes(&self) -> usize {
        0
    }
}

/// Returns views as one batch, as long as the longest view, with the weights of an objective; the classes of the rows have equal
/// weights. The two losses are added (Devlin et al. 2018, appendix A.2).
pub fn batch(views: &[View], classes: usize, segmented: bool, objective: Objective) -> Batch {
    let mut batch = Batch::of(input(views, segmented));
    let (rows, t) = (views.len(), batch.input.length());
    let one_hot = |class: usize| (0..classes).map(move |c| if c == class { 1.0 } else { 0.0 });
    if classes > 0 {
        batch = batch.with_classes(ClassLoss {
            head: 0,
            slots: (0..rows).map(|row| (row * t) as u32).collect(),
            group: 1,
            targets: views.iter().flat_map(|view| one_hot(view.class.expect("a class of each row"))).collect(),
            weights: vec![1.0 / rows as f64; rows].into(),
        });
    }
    let (mut targets, mut mask) = (vec![0; rows * t], vec![0.0; rows * t]);
    for (row, view) in views.iter().enumerate() {
        view.targets.iter().for_each(|&(slot, token)| (targets[row * t + slot], mask[row * t + slot]) = (token, 1.0));
    }
    let weights = objective.weights(&mask, rows);
    if views.iter().all(|view| view.targets.len() == view.tokens.len()) {
        return batch.with_tokens(None, targets, weights);
    }
    let slots: Vec<u32> = (0..).zip(&mask).filter(|(_, m)| **m > 0.0).map(|(slot, _)| slot).collect();
    let targets: Vec<u32> = slots.iter().map(|&slot| targets[slot as usize]).collect();
    let weights: Vec<f64> = slots.iter().map(|&slot| weights[slot as usize]).collect();
    batch.with_tokens(Some(slots.into()), targets, weights)
}

/// Returns the input of these views, as long as the longest.
pub fn input(views: &[View], segmented: bool) -> Input {
    let t = views.iter().map(|view| view.tokens.len()).max().unwrap_or(0);
    let padded = |of: fn(&View) -> &[u32]| {
        let row = |view| of(view).iter().copied().chain(std::iter::repeat(0)).take(t);
        views.iter().flat_map(row).collect::<Vec<u32>>()
    };
    let is_causal = views.iter().all(|view| view.given == Given::Before);
    Input {
        segments: segmented.then(|| padded(|view| &view.segments).into()),
        sight: if is_causal { Sight::Causal } else { Sight::Full(Some(views.iter().map(|view| view.tokens.len()).collect())) },
        ..Input::causal(views.len(), padded(|view| &view.tokens))
    }
}

/// Computes the logits of all tokens in each of these slots (of B·T).
pub fn logits<T: Real>(model: &Model<Tensor<T>>, input: &Input, slots: Vec<u32>) -> Vec<Vec<f64>> {
    let (logits, vocab) = (model.logits_at(input, slots), model.sizes().vocab);
    // The joint form has logits of positions after those of tokens.
    let row = |row: &[T]| row[..vocab].iter().map(|z| z.to_f64()).collect();
    logits.to_vec().chunks(logits.shape()[1]).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_joined_into_one_batch() {
        let a = View { tokens: vec![1, 2, 3], segments: vec![0, 0, 1], targets: vec![(1, 7)], class: Some(1), ..View::default() };
        let b =
            View { tokens: vec![4, 5], segments: vec![0, 1], targets: vec![(0, 8), (1, 9)], class: Some(0), ..View::default() };
        let batch = batch(&[a, b], 2, true, Objective::TokenMean);
        assert_eq!(batch.input.tokens[..], [1, 2, 3, 4, 5, 0]);
        assert_eq!(batch.input.segments.as_deref(), Some(&[0, 0, 1, 0, 1, 0][..]));
        assert_eq!(batch.input.sight, Sight::Full(Some([3, 2].into())));
        let (tokens, classes) = (batch.tokens().next().unwrap(), batch.classes().next().unwrap());
        assert_eq!((tokens.slots.as_deref(), &tokens.targets[..]), (Some(&[1, 3, 4][..]), &[7, 8, 9][..]));
        assert_eq!(tokens.weights[..], [1.0 / 3.0; 3]);
        assert_eq!(
            (&classes.targets[..], &classes.weights[..], &classes.slots[..]),
            (&[0.0, 1.0, 1.0, 0.0][..], &[0.5; 2][..], &[0, 3][..])
        );
    }
}
