//! A *view* of a text: the input of a model, and its targets.
//!
//! ```text
//! next       x₁ … xₙ            each slot sees those before it       each predicts the next token
//! masked     [CLS] x̃ [SEP]      each slot sees all                   some predict their token (Devlin et al. 2018, §3.1)
//! pairs      [CLS] a [SEP] b [SEP], in two segments                  … and [CLS] predicts whether b follows a
//! ```

mod draw;
mod masked_lm;
mod pairs;
mod plan;

use gradus_model::{Batch, ClassLoss, Input, Model, Sight};
use gradus_tensor::Tensor;

pub use draw::{Draw, Redraw};
pub use masked_lm::{MaskMix, MaskedLm};
pub use pairs::Pairs;
pub use plan::{MaskPlan, ViewPlan};

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
    /// The token that replaces a hidden one.
    pub mask: u32,
    /// The exclusive upper bound of the tokens that may replace another.
    pub words: u32,
}

/// The input of a model in which every slot sees all others, and its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The token in each slot.
    pub tokens: Vec<u32>,
    /// The segment of each slot.
    pub segments: Vec<u32>,
    /// The slots with targets, in increasing order, each with its target token.
    pub asked: Vec<(usize, u32)>,
    /// The class of the row.
    pub class: Option<usize>,
}

/// A way to view texts.
pub trait Scheme: Send + Sync {
    /// Returns a view of a text.
    fn view(&self, text: &Text, draw: &mut Draw<'_>) -> View;
    /// Returns a view of a text without hidden tokens, in which every token of the text is a target: it shows the slot of each.
    fn whole(&self, text: &Text) -> View;
    /// Returns the number of classes of a row; 0 if rows have no class.
    fn classes(&self) -> usize {
        0
    }
}

/// Returns views as one batch, as long as the longest view. All target tokens have equal weights, and so do the classes of the
/// rows. The two losses are added (Devlin et al. 2018, appendix A.2).
pub fn batch(views: &[View], classes: usize, segmented: bool) -> Batch {
    let mut batch = Batch::of(input(views, segmented));
    let t = batch.input.length();
    let slots = views.iter().enumerate().flat_map(|(row, view)| view.asked.iter().map(move |(at, token)| (row * t + at, *token)));
    let (asked, targets): (Vec<u32>, Vec<u32>) = slots.map(|(slot, token)| (slot as u32, token)).unzip();
    let (n, rows) = (asked.len(), views.len());
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
    batch.with_tokens(Some(asked.into()), targets, vec![1.0 / n as f64; n])
}

/// Returns the input of these views, as long as the longest.
pub fn input(views: &[View], segmented: bool) -> Input {
    let t = views.iter().map(|view| view.tokens.len()).max().unwrap_or(0);
    let padded = |of: fn(&View) -> &[u32]| {
        let row = |view| of(view).iter().copied().chain(std::iter::repeat(0)).take(t);
        views.iter().flat_map(row).collect::<Vec<u32>>()
    };
    Input {
        segments: segmented.then(|| padded(|view| &view.segments).into()),
        sight: Sight::Full(Some(views.iter().map(|view| view.tokens.len()).collect())),
        ..Input::causal(views.len(), padded(|view| &view.tokens))
    }
}

/// Computes the logits in each of these slots (of B·T).
pub fn logits(model: &Model<Tensor>, input: &Input, slots: &[usize]) -> Vec<Vec<f64>> {
    let logits = model.logits_at(input, slots.iter().map(|&slot| slot as u32).collect::<Vec<_>>());
    (0..slots.len()).map(|row| logits.slice(0, row..row + 1).to_vec().into_iter().map(f64::from).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_become_one_batch() {
        let a = View { tokens: vec![1, 2, 3], segments: vec![0, 0, 1], asked: vec![(1, 7)], class: Some(1) };
        let b = View { tokens: vec![4, 5], segments: vec![0, 1], asked: vec![(0, 8), (1, 9)], class: Some(0) };
        let batch = batch(&[a, b], 2, true);
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
