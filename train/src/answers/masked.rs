//! The answers of a network that fills masks:
//!
//! ```text
//! cloze    [CLS] x₁ … [MASK] … xₙ [SEP]                 one row per position
//! next     [CLS] x₁ … xₙ [MASK] … [MASK] [SEP]          a mask for each remaining token; the prediction at the first of them
//! ```
//!
//! The model reads the number of remaining tokens from the number of masks. If the text and its masks do not fit the context,
//! half of the context has masks, and the model reads the last tokens of the text that fit before them. The next token is never a
//! special token, nor one added with them at the end of a vocabulary.

use gradus_model::Model;
use gradus_tensor::{Real, Tensor};

use super::{Answers, ROWS, Slide, vectors};
use crate::answers::evaluate::pseudo_losses;
use crate::views::{self, Corrupt, Given, MaskedLm, Scheme, SpecialTokens, Text, View};

/// A function that returns the view of a text in which the tokens at these positions are masked, and are the targets.
type Hide<'m> = Box<dyn Fn(&[u32], &[usize]) -> Option<View> + 'm>;

/// A network that fills masks.
pub struct Masked<'m, T: Real = f32> {
    model: &'m Model<Tensor<T>>,
    special: SpecialTokens,
    hide: Hide<'m>,
    segmented: bool,
    /// The maximum number of slots of a row.
    context: usize,
    /// The number of tokens of a whole text, which determines how many masks follow its beginning.
    length: usize,
}

impl<'m, T: Real> Masked<'m, T> {
    /// Returns the answers of a model that reads a text as one segment.
    pub fn new(model: &'m Model<Tensor<T>>, special: SpecialTokens) -> Self {
        let context = model.sizes().context;
        let scheme = MaskedLm { special, corrupt: Corrupt::BERT, room: context.saturating_sub(Corrupt::SPECIAL_SLOTS) };
        let hide = move |tokens: &[u32], at: &[usize]| {
            let text = Text { number: 0, epoch: 0, tokens: tokens.to_vec(), sentences: vec![tokens.len()] };
            scheme.eval_view(&text, at, Given::All)
        };
        Masked { model, special, hide: Box::new(hide), segmented: false, context, length: 0 }
    }

    /// Views texts by this function, perhaps in two segments.
    pub fn viewed_by(self, segmented: bool, hide: impl Fn(&[u32], &[usize]) -> Option<View> + 'm) -> Self {
        Masked { hide: Box::new(hide), segmented, ..self }
    }

    /// Sets the number of tokens of a whole text.
    pub fn with_length(self, length: usize) -> Self {
        Masked { length, ..self }
    }

    /// Limits the losses to rows of this many slots.
    pub fn with_context(self, context: usize) -> Self {
        Masked { context, ..self }
    }

    /// Returns the maximum number of tokens of a text in a row.
    fn tokens(&self) -> usize {
        self.model.sizes().context.saturating_sub(Corrupt::SPECIAL_SLOTS)
    }

    /// Computes the logits in the first target of each view.
    fn answers(&self, views: &[View]) -> Vec<Vec<f64>> {
        let of_rows = |views: &[View]| {
            let input = views::input(views, self.segmented);
            let t = input.length();
            let slots: Vec<u32> = views.iter().enumerate().map(|(row, view)| (row * t + view.targets[0].0) as u32).collect();
            views::logits(self.model, &input, slots)
        };
        views.chunks(ROWS).flat_map(of_rows).collect()
    }

    fn hidden(&self, tokens: &[u32], at: &[usize]) -> View {
        (self.hide)(tokens, at).expect("a text that fits the context")
    }
}

impl<T: Real> Answers for Masked<'_, T> {
    /// A beginning may be longer than the context, and may be empty.
    fn next(&self, beginnings: &[&[u32]]) -> Vec<Vec<f64>> {
        let masked = |text: &&[u32]| {
            let left = self.length.saturating_sub(text.len()).max(1);
            let (read, masks) = window(text.len(), left, self.tokens());
            let tokens = [&text[text.len() - read..], &vec![self.special.mask; masks]].concat();
            self.hidden(&tokens, &(read..read + masks).collect::<Vec<_>>())
        };
        let mut all = self.answers(&beginnings.iter().map(masked).collect::<Vec<_>>());
        let SpecialTokens { open, close, mask, words } = self.special;
        for (id, z) in all.iter_mut().flat_map(|logits| (0..).zip(logits)) {
            // A non-finite logit is kept, so that callers detect it.
            if z.is_finite() && (id >= words || [open, close, mask].contains(&id)) {
                *z = f64::MIN; // its probability is 0
            }
        }
        all
    }

    /// A text is read as one segment.
    fn losses(&self, texts: &[&[u32]], reach: &mut dyn FnMut(usize)) -> Vec<Vec<f64>> {
        pseudo_losses(self.model, texts, self.special, self.context, reach)
    }

    fn cloze(&self, text: &[u32], at: &[usize], among: &[u32], _: &mut dyn FnMut(usize)) -> Vec<Vec<f64>> {
        let views: Vec<View> = at.iter().map(|&at| self.hidden(text, &[at])).collect();
        let of_tokens = |z: Vec<f64>| among.iter().map(|&token| z[token as usize]).collect();
        self.answers(&views).into_iter().map(of_tokens).collect()
    }

    fn mask(&self) -> Option<u32> {
        Some(self.special.mask)
    }

    fn room(&self) -> Option<usize> {
        Some(self.tokens())
    }

    fn slide(&self, prompt: usize, tokens: usize) -> Option<Slide> {
        let unseen = |drawn: usize| {
            let text = prompt + drawn;
            Slide { at: text, unseen: text - window(text, tokens - drawn, self.tokens()).0 }
        };
        (0..tokens).map(unseen).find(|slide| slide.unseen > 0)
    }

    fn vectors(&self) -> Option<Tensor> {
        Some(vectors(self.model))
    }
}

/// Returns the number of tokens of the text to read, and the number of masks after them, with `left` tokens to come.
fn window(text: usize, left: usize, room: usize) -> (usize, usize) {
    if text + left <= room {
        return (text, left);
    }
    let masks = left.min((room / 2).max(1));
    (text.min(room - masks), masks)
}

#[cfg(test)]
mod tests {
    use gradus_model::Input;
    use gradus_model::check::tiny_bert;
    use gradus_tensor::rng::Philox;

    use super::*;
    use crate::answers::generate::{Choice, Continuation, GenerateError, Overflow, generate};
    use crate::tasks::largest;

    /// Special tokens after 14 words; 14 and 15 are other special tokens.
    const SPECIAL: SpecialTokens = SpecialTokens { open: 16, close: 17, mask: 18, words: 14 };

    fn model() -> Model<Tensor> {
        Model::init(&tiny_bert(), 3)
    }

    fn run(ids: &mut Vec<u32>, tokens: usize, overflow: Overflow) -> Result<(), GenerateError> {
        let how = Continuation { vocab: 19, tokens, choice: Choice::Greedy, overflow };
        let model = model();
        let masked = Masked::new(&model, SPECIAL).with_length(ids.len() + tokens);
        generate(&masked, ids, how, &mut Philox::new(1), &mut |_| true)
    }

    /// Returns the most probable word at the first mask of a row.
    fn next(row: &[u32]) -> u32 {
        let input = Input::full(1, row);
        let at = row.iter().position(|&id| id == SPECIAL.mask).unwrap();
        largest(&model().logits_at(&input, [at as u32]).to_vec()[..14]) as u32
    }

    #[test]
    fn each_token_is_drawn_at_the_first_of_the_remaining_masks() {
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

    #[test]
    fn special_and_added_tokens_are_never_next() {
        let logits = Masked::new(&model(), SPECIAL).next(&[&[1, 2]]).remove(0);
        assert!(logits[..14].iter().all(|&z| z > -1e9) && logits[14..].iter().all(|&z| z == f64::MIN), "{logits:?}");
    }

    #[test]
    fn a_shorter_context_cuts_the_windows_of_losses() {
        let (network, text) = (model(), [1, 2, 3, 4, 5, 6]);
        let losses = |context| Masked::new(&network, SPECIAL).with_context(context).losses(&[&text], &mut |_| {}).remove(0);
        assert_eq!((losses(9).len(), losses(5).len()), (6, 6));
        assert_ne!(losses(9), losses(5));
    }

    #[test]
    fn a_view_of_its_own_decides_tokens_and_segments() {
        let (network, all) = (model(), (0..19).collect::<Vec<u32>>());
        let hide = |tokens: &[u32], at: &[usize]| {
            let (input, slot) = SPECIAL.hide(tokens, at[0]);
            let (segments, targets) = (vec![1; input.tokens.len()], vec![(slot, 0)]);
            Some(View { tokens: input.tokens.to_vec(), segments, targets, ..View::default() })
        };
        let of = |masked: Masked<'_>| masked.cloze(&[1, 2, 3], &[1], &all, &mut |_| {});
        let [plain, second] = [false, true].map(|segmented| of(Masked::new(&network, SPECIAL).viewed_by(segmented, hide)));
        assert_eq!(plain, of(Masked::new(&network, SPECIAL)));
        let (input, slot) = SPECIAL.hide(&[1, 2, 3], 1);
        let expected = views::logits(&network, &Input { segments: Some([1; 5].into()), ..input }, vec![slot as u32]);
        assert!(second == expected && second != plain);
        let other = |tokens: &[u32], at: &[usize]| hide(&[tokens, &[7]].concat(), at);
        assert_ne!(of(Masked::new(&network, SPECIAL).viewed_by(false, other)), plain);
    }

    /// A context of 9 holds seven tokens between the special tokens: three masks, and the last four tokens of the text.
    #[test]
    fn a_text_beyond_the_context_slides() {
        assert_eq!([window(2, 5, 7), window(2, 6, 7), window(9, 1, 7), window(0, 90, 7)], [(2, 5), (2, 3), (6, 1), (0, 3)]);
        assert_eq!(window(3, 2, 1), (0, 1));
        // The text fits beside three masks until it has five tokens.
        let network = model();
        let slide = |prompt, tokens| Masked::new(&network, SPECIAL).slide(prompt, tokens);
        assert_eq!(slide(2, 5), None);
        assert_eq!(slide(2, 20), Some(Slide { at: 5, unseen: 1 }));
        assert_eq!(slide(8, 1), Some(Slide { at: 8, unseen: 2 }));
        let mut ids = vec![1, 2, 3, 4, 5];
        let error = run(&mut ids, 3, Overflow::Refuse).unwrap_err().to_string();
        assert!(
            error.contains(
                "5 prompt tokens and 3 new ones do not fit the 7 tokens of a text that the model reads at once; give at most --tokens 2"
            ),
            "{error}"
        );
        run(&mut ids, 20, Overflow::Slide).unwrap();
        let [m, open, close] = [SPECIAL.mask, SPECIAL.open, SPECIAL.close];
        assert_eq!((ids.len(), ids[5]), (25, next(&[open, 2, 3, 4, 5, m, m, m, close])));
        assert!(ids.iter().all(|&id| id < SPECIAL.words));
    }
}
