//! The distributions of a model over the words of a story.

use gradus_model::{Input, Model};
use gradus_tensor::Tensor;
use gradus_train::fill::by_bayes;
use gradus_train::pretrain::Viewer;
use gradus_train::views::{View, logits};

use crate::lexicon::Lexicon;

/// The number of rows in a batch.
const ROWS: usize = 32;

/// A model that predicts words of a story.
pub trait Answers {
    /// Returns P(wᵢ | the rest) of each word of the world, in these places of a story.
    fn cloze(&self, story: &[usize], places: &[usize]) -> Vec<Vec<f64>>;
    /// Returns P(w | x₁ … xₙ) of each word of the world, after each of these beginnings.
    fn next(&self, beginnings: &[&[usize]]) -> Vec<Vec<f64>>;
    /// Returns P(w | x₁ … xₙ) after each beginning of a story, from no words to all but the last.
    fn along(&self, story: &[usize]) -> Vec<Vec<f64>> {
        self.next(&(0..story.len()).map(|at| &story[..at]).collect::<Vec<_>>())
    }
}

/// A model that fills masks.
pub struct Masked<'m> {
    /// The model.
    pub model: &'m Model<Tensor>,
    /// The viewer of its run, which prepares texts.
    pub viewer: &'m Viewer,
    /// The words of the world.
    pub lexicon: &'m Lexicon,
    /// The number of words and masks of a text to be continued.
    pub length: usize,
}

impl Masked<'_> {
    /// Returns the view of a text with one predicted slot. A mask ends no sentence, so the division of a text does not reveal a
    /// hidden word.
    fn asked(&self, tokens: Vec<u32>, at: usize) -> View {
        let whole = self.viewer.whole(tokens);
        View { asked: vec![whole.asked[at]], ..whole }
    }

    /// Returns the distribution in the one predicted slot of each view.
    fn answers(&self, views: &[View]) -> Vec<Vec<f64>> {
        let mut all = Vec::with_capacity(views.len());
        for views in views.chunks(ROWS) {
            let batch = self.viewer.gathered(views);
            let slots: Vec<usize> =
                batch.tokens().filter_map(|tokens| tokens.slots.as_deref()).flatten().map(|&slot| slot as usize).collect();
            all.extend(logits(self.model, &batch.input, &slots).iter().map(|z| self.lexicon.distribution(z)));
        }
        all
    }
}

impl Answers for Masked<'_> {
    fn cloze(&self, story: &[usize], places: &[usize]) -> Vec<Vec<f64>> {
        let hidden = |&at: &usize| {
            let mut tokens = self.lexicon.encode(story);
            tokens[at] = self.viewer.special.mask;
            self.asked(tokens, at)
        };
        self.answers(&places.iter().map(hidden).collect::<Vec<_>>())
    }

    /// Uses the format of a whole text, with masks in place of the words to come.
    fn next(&self, beginnings: &[&[usize]]) -> Vec<Vec<f64>> {
        let masked = |words: &&[usize]| {
            let masks = vec![self.viewer.special.mask; self.length.saturating_sub(words.len()).max(1)];
            self.asked([&self.lexicon.encode(words)[..], &masks].concat(), words.len())
        };
        self.answers(&beginnings.iter().map(masked).collect::<Vec<_>>())
    }
}

/// A model that predicts the next token.
pub struct Causal<'m> {
    /// The model.
    pub model: &'m Model<Tensor>,
    /// The token that opens and closes a story.
    pub separator: u32,
    /// The words of the world.
    pub lexicon: &'m Lexicon,
}

impl Causal<'_> {
    /// Returns the separator and the tokens of these words.
    fn opened(&self, words: &[usize]) -> Vec<u32> {
        [&[self.separator], &self.lexicon.encode(words)[..]].concat()
    }
}

impl Answers for Causal<'_> {
    /// Computes the distribution from the probability of the whole story, its end included, with each word of the world in that
    /// place.
    fn cloze(&self, story: &[usize], places: &[usize]) -> Vec<Vec<f64>> {
        let whole = [&self.opened(story)[..], &[self.separator]].concat();
        let words = self.lexicon.tokens();
        places.iter().map(|at| by_bayes(self.model, &whole[..1 + at], words, &whole[2 + at..], &mut |_| {})).collect()
    }

    fn next(&self, beginnings: &[&[usize]]) -> Vec<Vec<f64>> {
        let mut all = Vec::with_capacity(beginnings.len());
        for rows in beginnings.chunks(ROWS) {
            let t = 1 + rows.iter().map(|words| words.len()).max().unwrap_or(0);
            let padded = |words: &&[usize]| {
                let mut row = self.opened(words);
                row.resize(t, self.separator);
                row
            };
            let tokens: Vec<u32> = rows.iter().flat_map(padded).collect();
            let slots: Vec<usize> = rows.iter().enumerate().map(|(row, words)| row * t + words.len()).collect();
            let input = Input::causal(rows.len(), tokens);
            all.extend(logits(self.model, &input, &slots).iter().map(|z| self.lexicon.distribution(z)));
        }
        all
    }

    fn along(&self, story: &[usize]) -> Vec<Vec<f64>> {
        let Some((_, before)) = story.split_last() else { return Vec::new() };
        let input = Input::causal(1, self.opened(before));
        let slots: Vec<usize> = (0..story.len()).collect();
        logits(self.model, &input, &slots).iter().map(|z| self.lexicon.distribution(z)).collect()
    }
}
