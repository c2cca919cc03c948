//! Next-token prediction (Radford et al. 2018, equation 1):
//!
//! ```text
//! a window of a corpus        x₁ x₂ … xₙ₋₁         predicts  x₂ x₃ … xₙ
//! a text with separators s    s  x₁ … xₙ₋₁ xₙ      predicts  x₁ x₂ … xₙ s
//! ```
//!
//! For a batch of two texts, [5, 6] and [7], with separator 9:
//!
//! ```
//! use gradus_model::Objective;
//! use gradus_tensor::rng::Philox;
//! use gradus_train::views::{self, Draw, Next, Scheme, Text};
//!
//! let scheme = Next { separator: Some(9) };
//! let view = |tokens: Vec<u32>| {
//!     let text = Text { number: 0, epoch: 0, sentences: vec![tokens.len()], tokens };
//!     scheme.train_view(&text, &mut Draw { rng: Philox::new(1), other: &|_| unreachable!("one text is enough") })
//! };
//! let batch = views::batch(&[view(vec![5, 6]), view(vec![7])], 0, false, Objective::TokenMean);
//! let tokens = batch.tokens().next().unwrap();
//! assert_eq!(batch.input.tokens[..], [9, 5, 6, 9, 7, 0]); // 0 pads
//! assert_eq!(tokens.targets[..], [5, 6, 9, 7, 9, 0]);
//! assert_eq!(tokens.weights[..], [0.2, 0.2, 0.2, 0.2, 0.2, 0.0]);
//! ```

use crate::views::{Draw, Given, Scheme, Text, View};

/// The scheme in which every slot predicts the next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The token before and after a text; `None`: the first token of a text is not predicted.
    pub separator: Option<u32>,
}

impl Scheme for Next {
    fn train_view(&self, text: &Text, _: &mut Draw<'_>) -> View {
        let mut tokens = [self.separator.as_slice(), &text.tokens, self.separator.as_slice()].concat();
        let targets = tokens.iter().copied().skip(1).enumerate().collect();
        tokens.pop();
        View { segments: vec![0; tokens.len()], tokens, given: Given::Before, targets, class: None }
    }

    /// Returns the number of targets.
    fn evaluated(&self, tokens: usize) -> usize {
        if self.separator.is_some() { tokens + 1 } else { tokens - 1 }
    }

    fn eval_view(&self, text: &Text, at: &[usize], given: Given) -> Option<View> {
        let first = self.separator.map_or(0, |_| 1);
        let fits = given == Given::Before && at.iter().all(|at| at + first > 0);
        let last = *at.last().filter(|_| fits)?;
        let tokens = [self.separator.as_slice(), &text.tokens[..last]].concat();
        let targets = at.iter().map(|&at| (at + first - 1, text.tokens[at])).collect();
        Some(View { segments: vec![0; tokens.len()], tokens, given, targets, class: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_predicted_from_the_tokens_before_it_only() {
        let text = Text { number: 0, epoch: 0, tokens: vec![5, 6, 7], sentences: vec![3] };
        let of =
            |separator, at: &[usize], given| Next { separator }.eval_view(&text, at, given).map(|it| (it.tokens, it.targets));
        assert_eq!(of(Some(9), &[0, 2], Given::Before), Some((vec![9, 5, 6], vec![(0, 5), (2, 7)])));
        assert_eq!(of(None, &[2], Given::Before), Some((vec![5, 6], vec![(1, 7)])));
        assert_eq!(of(None, &[0, 2], Given::Before), None, "nothing is before the first token");
        assert_eq!(of(Some(9), &[1], Given::All), None);
    }
}
