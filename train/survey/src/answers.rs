//! What a model says of a word of a story.

use gradus_model::{Input, Model};
use gradus_tensor::Tensor;
use gradus_train::fill::by_bayes;
use gradus_train::pretrain::Viewer;
use gradus_train::views::{View, logits};

use crate::lexicon::Lexicon;

/// Rows that are read at once.
const ROWS: usize = 32;

/// A model that can be asked for a word of a story.
pub trait Answers {
    /// P(wᵢ | the rest) of each word of the world, in these places of a story.
    fn cloze(&self, story: &[usize], places: &[usize]) -> Vec<Vec<f64>>;
    /// P(w | x₁ … xₙ) of each word of the world, after each of these beginnings.
    fn next(&self, beginnings: &[&[usize]]) -> Vec<Vec<f64>>;
    /// The same after each beginning of a story, from none of its words to all but one.
    fn along(&self, story: &[usize]) -> Vec<Vec<f64>> {
        self.next(&(0..story.len()).map(|at| &story[..at]).collect::<Vec<_>>())
    }
}

/// A model that fills masks.
pub struct Masked<'m> {
    /// The model.
    pub model: &'m Model<Tensor>,
    /// How its run viewed texts.
    pub viewer: &'m Viewer,
    /// Its words.
    pub lexicon: &'m Lexicon,
    /// Words and masks, together, of a text that it is asked to go on with.
    pub length: usize,
}

impl Masked<'_> {
    /// A text in which one token is asked. A mask ends no sentence: where a text is divided does not tell what is hidden.
    fn asked(&self, tokens: Vec<u32>, at: usize) -> View {
        let whole = self.viewer.whole(tokens);
        View { asked: vec![whole.asked[at]], ..whole }
    }

    /// The distribution in the one slot that is asked of each view.
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

    /// In the format of a whole text, masks standing for what is to come.
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
    /// What opens and closes its stories.
    pub separator: u32,
    /// Its words.
    pub lexicon: &'m Lexicon,
}

impl Causal<'_> {
    /// The separator and these words.
    fn opened(&self, words: &[usize]) -> Vec<u32> {
        [&[self.separator], &self.lexicon.encode(words)[..]].concat()
    }
}

impl Answers for Causal<'_> {
    /// From the probability of the whole story, its end included, with each word of the world in that place.
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
