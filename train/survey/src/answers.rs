//! The distributions of a model over the words of a story.

use gradus_train::answers::Answers;
use gradus_train::tasks::probabilities;

use crate::lexicon::Lexicon;

/// A model that predicts words of a story.
pub struct WordAnswers<'m> {
    /// The model.
    pub model: Box<dyn Answers + 'm>,
    /// The token that opens and closes a story; `None` if the model reads stories without it.
    pub separator: Option<u32>,
    /// The words of the world.
    pub lexicon: &'m Lexicon,
}

impl WordAnswers<'_> {
    /// Returns the tokens of the beginning of a story.
    fn opened(&self, words: &[usize]) -> Vec<u32> {
        [self.separator.as_slice(), &self.lexicon.encode(words)].concat()
    }

    fn distributions(&self, logits: &[Vec<f64>]) -> Vec<Vec<f64>> {
        logits.iter().map(|z| self.lexicon.distribution(z)).collect()
    }

    /// Returns P(wᵢ | the rest) of each word of the world, at these positions of a story.
    pub fn cloze(&self, story: &[usize], places: &[usize]) -> Vec<Vec<f64>> {
        let whole = [&self.opened(story), self.separator.as_slice()].concat();
        let at: Vec<usize> = places.iter().map(|at| at + self.separator.iter().len()).collect();
        let logits = self.model.cloze(&whole, &at, self.lexicon.tokens(), &mut |_| {});
        logits.iter().map(|z| probabilities(z)).collect()
    }

    /// Returns P(w | x₁ … xₙ) of each word of the world, after each of these beginnings.
    pub fn next(&self, beginnings: &[&[usize]]) -> Vec<Vec<f64>> {
        let opened: Vec<Vec<u32>> = beginnings.iter().map(|words| self.opened(words)).collect();
        self.distributions(&self.model.next(&opened.iter().map(Vec::as_slice).collect::<Vec<_>>()))
    }

    /// Returns P(w | x₁ … xₙ) after each beginning of a story, from no words to all but the last.
    pub fn along(&self, story: &[usize]) -> Vec<Vec<f64>> {
        if self.separator.is_none() {
            return self.next(&(0..story.len()).map(|at| &story[..at]).collect::<Vec<_>>());
        }
        let Some((_, before)) = story.split_last() else { return Vec::new() };
        self.distributions(&self.model.along(&self.opened(before)))
    }
}
