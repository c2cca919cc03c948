//! The pseudo-log-likelihood of a text under a model that fills masks: each token is predicted from all others.
//!
//! ```text
//! PLL(x) = Σᵢ ln P(xᵢ | x with xᵢ masked)             (Wang & Cho 2019; Salazar et al. 2020, equation 1)
//! ```
//!
//! The pseudo-log-likelihood is not the log-probability of the text: its exponentials over all texts do not sum to 1. It can
//! only compare models that fill masks and share a tokenizer.
//!
//! A text longer than the context is cut into windows that do not overlap; a token is predicted from its window.

use gradus_model::{Batch, Input, Model};
use gradus_tensor::{Real, Tensor};

use super::BATCH_TOKENS;
use crate::views::SpecialTokens;

/// Computes −ln P of every token given all others of its window, for each sequence, in nats. A window has at most `context`
/// slots, including those of the two special tokens. `progress` receives the number of tokens predicted so far.
///
/// Panics on an id that the model does not have, or a context below 3 or above the model's: callers check user input.
pub fn pseudo_losses<T: Real>(
    model: &Model<Tensor<T>>,
    sequences: &[&[u32]],
    special: SpecialTokens,
    context: usize,
    progress: &mut dyn FnMut(usize),
) -> Vec<Vec<f64>> {
    let mut done = 0;
    let mut of_window = |window: &[u32]| {
        let each = (BATCH_TOKENS / (window.len() + 2)).max(1);
        let mut losses = Vec::with_capacity(window.len());
        for first in (0..window.len()).step_by(each) {
            let hidden: Vec<usize> = (first..window.len().min(first + each)).collect();
            losses.extend(
                model.token_losses(&with_each_hidden(window, &hidden, special)).to_vec().into_iter().map(|loss| loss.to_f64()),
            );
            done += hidden.len();
            progress(done);
        }
        losses
    };
    sequences.iter().map(|ids| ids.chunks(context - 2).flat_map(&mut of_window).collect()).collect()
}

/// Returns one row per masked token: the window with that token replaced by the mask, and the token as the target.
fn with_each_hidden(window: &[u32], hidden: &[usize], special: SpecialTokens) -> Batch {
    let row = special.around(window);
    let mut tokens = row.repeat(hidden.len());
    let slots: Vec<u32> = hidden.iter().enumerate().map(|(number, &at)| (number * row.len() + 1 + at) as u32).collect();
    slots.iter().for_each(|&slot| tokens[slot as usize] = special.mask);
    let (targets, weights): (Vec<u32>, _) = (hidden.iter().map(|&at| window[at]).collect(), vec![1.0; slots.len()]);
    Batch::of(Input::full(hidden.len(), tokens)).with_tokens(Some(slots.into()), targets, weights)
}

#[cfg(test)]
mod tests {
    use gradus_autograd::Tape;
    use gradus_model::check::tiny_bert;
    use gradus_model::{ModelConfig, Sizes, Tree};

    use super::*;

    /// Each expected loss comes from the logits of a separate forward pass; windows end anywhere.
    #[test]
    fn each_token_is_predicted_from_all_others_of_its_window() {
        let model: Model<Tensor<f64>> =
            Model::init(&ModelConfig { sizes: Sizes { vocab: 9, context: 8, width: 12 }, ..tiny_bert() }, 3);
        let special = SpecialTokens { open: 6, close: 7, mask: 8, words: 6 };
        let texts: [&[u32]; 3] = [&[1, 2, 3, 4, 5, 0, 1, 1, 3, 2, 2, 4, 5], &[], &[4]];
        for context in [3, 5, 8] {
            let mut reached = 0;
            let found = pseudo_losses(&model, &texts, special, context, &mut |done| reached = done);
            assert_eq!((found[0].len(), found[1].len(), found[2].len(), reached), (13, 0, 1, 14));
            for (at, loss) in found[0].iter().enumerate() {
                let window = texts[0].chunks(context - 2).nth(at / (context - 2)).unwrap();
                let (input, slot) = special.hide(window, at % (context - 2));
                let logits = model.constants(&Tape::off()).logits(&input).value().to_vec();
                let row = &logits[slot * 9..][..9];
                let expected = row.iter().map(|z| z.exp()).sum::<f64>().ln() - row[texts[0][at] as usize];
                assert!((loss - expected).abs() < 1e-12, "{at} of {context}: {loss} {expected}");
            }
        }
    }
}
