//! Generation of tokens by a model that fills masks, which was not trained to continue texts:
//!
//! ```text
//! [CLS] x₁ … xₙ [MASK] … [MASK] [SEP]        a mask for each token to come; xₙ₊₁ is drawn at the first        (n → n + 1)
//! ```
//!
//! The number of masks gives the model the number of tokens to come. The special tokens are never drawn, nor are tokens added
//! with them at the end of a vocabulary. If the text and its masks do not fit the context, half of the context has masks, and the
//! model reads the last tokens of the text that fit before them. (A survey's G uses the format of a whole story of a fixed length
//! instead, since the number of tokens to come must not give away the continuation.)

use gradus_model::{Input, Model};
use gradus_tensor::Tensor;
use gradus_tensor::rng::Philox;

use super::{Continuation, GenerateError, Overflow, Slide};
use crate::views::{self, Corrupt, SpecialTokens};

/// Returns the number of tokens of the text to read, and the number of masks after them, with `left` tokens to come.
fn window(text: usize, left: usize, context: usize) -> (usize, usize) {
    let room = context - Corrupt::SPECIAL_SLOTS;
    if text + left <= room {
        return (text, left);
    }
    let masks = left.min((room / 2).max(1));
    (text.min(room - masks), masks)
}

/// Returns the first token drawn without the beginning of the text, as [`Slide::first`] does, for a model that fills masks.
pub fn first_unseen(prompt: usize, tokens: usize, context: usize) -> Option<Slide> {
    if context <= Corrupt::SPECIAL_SLOTS {
        return None; // no token fits: an error of `generate_masked`
    }
    let unseen = |drawn: usize| {
        let text = prompt + drawn;
        Slide { at: text, unseen: text - window(text, tokens - drawn, context).0 }
    };
    (0..tokens).map(unseen).find(|slide| slide.unseen > 0)
}

/// Appends tokens to `ids` and calls `each(ids so far)` after every token; generation ends early if that returns false.
///
/// # Errors
/// The errors of [`generate`](super::generate), but the text may be empty. Panics on an id that the model does not have.
pub fn generate_masked(
    model: &Model<Tensor>,
    special: SpecialTokens,
    ids: &mut Vec<u32>,
    how: Continuation,
    rng: &mut Philox,
    each: &mut dyn FnMut(&[u32]) -> bool,
) -> Result<(), GenerateError> {
    let Continuation { vocab, tokens, choice, overflow } = how;
    choice.check()?;
    let context = model.sizes().context;
    let (prompt, room) = (ids.len(), context.saturating_sub(Corrupt::SPECIAL_SLOTS));
    if room == 0 || overflow == Overflow::Refuse && prompt.saturating_add(tokens) > room {
        return Err(GenerateError::NoRoom { prompt, tokens, room });
    }
    for left in (1..=tokens).rev() {
        let (read, masks) = window(ids.len(), left, context);
        let row = special.around(&[&ids[ids.len() - read..], &vec![special.mask; masks]].concat());
        let input = Input::full(1, row);
        let mut logits = views::logits(model, &input, &[1 + read]).remove(0);
        logits.truncate(vocab);
        if let Some(&found) = logits.iter().find(|z| !z.is_finite()) {
            return Err(GenerateError::NotFinite { at: ids.len() + 1, found });
        }
        for (id, z) in (0..).zip(&mut logits) {
            if id >= special.words || [special.open, special.close, special.mask].contains(&id) {
                *z = f64::NEG_INFINITY;
            }
        }
        ids.push(choice.choose(&logits, rng));
        if !each(ids) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gradus_model::check::tiny_bert;

    use super::super::Choice;
    use super::*;
    use crate::tasks::largest;

    /// Special tokens after 14 words; 14 and 15 are other special tokens.
    const SPECIAL: SpecialTokens = SpecialTokens { open: 16, close: 17, mask: 18, words: 14 };

    fn model() -> Model<Tensor> {
        Model::init(&tiny_bert(), 3)
    }

    fn run(ids: &mut Vec<u32>, tokens: usize, overflow: Overflow) -> Result<(), GenerateError> {
        let how = Continuation { vocab: 19, tokens, choice: Choice::Greedy, overflow };
        generate_masked(&model(), SPECIAL, ids, how, &mut Philox::new(1), &mut |_| true)
    }

    /// Returns the most probable word at the first mask of a row.
    fn next(row: &[u32]) -> u32 {
        let input = Input::full(1, row);
        let at = row.iter().position(|&id| id == SPECIAL.mask).unwrap();
        largest(&views::logits(&model(), &input, &[at])[0][..14]) as u32
    }

    #[test]
    fn each_token_is_drawn_at_the_first_of_the_masks_to_come() {
        let mut ids = vec![3, 5];
        run(&mut ids, 3, Overflow::Refuse).unwrap();
        let [m, open, close] = [SPECIAL.mask, SPECIAL.open, SPECIAL.close];
        assert_eq!(ids[2], next(&[open, 3, 5, m, m, m, close]));
        assert_eq!(ids[3], next(&[open, 3, 5, ids[2], m, m, close]));
        assert_eq!(ids[4], next(&[open, 3, 5, ids[2], ids[3], m, close]));
        let mut alone = Vec::new();
        run(&mut alone, 1, Overflow::Refuse).unwrap();
        assert_eq!(alone, [next(&[open, m, close])], "no prompt is needed");
    }

    /// A context of 9 holds seven tokens between the special tokens: three masks, and the last four tokens of the text.
    #[test]
    fn what_does_not_fit_slides() {
        assert_eq!([window(2, 5, 9), window(2, 6, 9), window(9, 1, 9), window(0, 90, 9)], [(2, 5), (2, 3), (6, 1), (0, 3)]);
        assert_eq!(window(3, 2, 3), (0, 1));
        // The text fits beside three masks until it has five tokens.
        assert_eq!(first_unseen(2, 5, 9), None);
        assert_eq!(first_unseen(2, 20, 9), Some(Slide { at: 5, unseen: 1 }));
        assert_eq!(first_unseen(8, 1, 9), Some(Slide { at: 8, unseen: 2 }));
        assert_eq!([first_unseen(8, 1, 1), first_unseen(8, 1, 2)], [None; 2], "no room at all");
        assert_eq!(first_unseen(0, 2, 3), Some(Slide { at: 1, unseen: 1 }), "room for a mask alone");
        let mut ids = vec![1, 2, 3, 4, 5];
        let told = run(&mut ids, 3, Overflow::Refuse).unwrap_err().to_string();
        assert!(
            told.contains(
                "5 prompt tokens and 3 new ones do not fit the 7 places between the model's special tokens; ask for at most --tokens 2"
            ),
            "{told}"
        );
        run(&mut ids, 20, Overflow::Slide).unwrap();
        let [m, open, close] = [SPECIAL.mask, SPECIAL.open, SPECIAL.close];
        assert_eq!((ids.len(), ids[5]), (25, next(&[open, 2, 3, 4, 5, m, m, m, close])));
        assert!(ids.iter().all(|&id| id < SPECIAL.words));
    }
}
