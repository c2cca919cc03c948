//! The distributions of a model over the words of a story.

use gradus_model::{Input, Model};
use gradus_tensor::Tensor;
use gradus_train::fill::by_bayes;
use gradus_train::pretrain::Viewer;
use gradus_train::views::{Given, View, logits};

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
    /// Returns the distribution in the first target of each view.
    fn answers(&self, views: &[View]) -> Vec<Vec<f64>> {
        let of_rows = |views| self.viewer.logits(self.model, views);
        views.chunks(ROWS).flat_map(of_rows).map(|z| self.lexicon.distribution(&z)).collect()
    }

    /// Returns a view in which the tokens at these places are hidden; only the first is a target.
    fn hidden(&self, tokens: Vec<u32>, at: &[usize]) -> View {
        let mut view = self.viewer.eval_view(tokens, at, Given::All).expect("a scheme that hides tokens of a text");
        view.targets.truncate(1);
        view
    }
}

impl Answers for Masked<'_> {
    fn cloze(&self, story: &[usize], places: &[usize]) -> Vec<Vec<f64>> {
        let hidden = |&at: &usize| self.hidden(self.lexicon.encode(story), &[at]);
        self.answers(&places.iter().map(hidden).collect::<Vec<_>>())
    }

    /// Uses the format of a whole text, with masks in place of the words to come.
    fn next(&self, beginnings: &[&[usize]]) -> Vec<Vec<f64>> {
        let masked = |words: &&[usize]| {
            let mut tokens = self.lexicon.encode(words);
            tokens.resize(self.length.max(words.len() + 1), 0);
            self.hidden(tokens, &(words.len()..self.length.max(words.len() + 1)).collect::<Vec<_>>())
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
