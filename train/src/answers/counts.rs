//! The answers of counts of n-grams.

use gradus_model::KneserNey;

use super::Answers;

/// Counts of n-grams, which predict the next token.
pub struct Counts<'m>(pub &'m KneserNey);

impl Answers for Counts<'_> {
    fn next(&self, beginnings: &[&[u32]]) -> Vec<Vec<f64>> {
        beginnings.iter().map(|text| self.0.probabilities(text).into_iter().map(f64::ln).collect()).collect()
    }

    fn losses(&self, texts: &[&[u32]], reach: &mut dyn FnMut(usize)) -> Vec<Vec<f64>> {
        let mut done = 0;
        let of_text = |text: &&[u32]| {
            done += text.len().saturating_sub(1);
            reach(done);
            self.0.losses(text)
        };
        texts.iter().map(of_text).collect()
    }

    fn room(&self) -> Option<usize> {
        None
    }
}
