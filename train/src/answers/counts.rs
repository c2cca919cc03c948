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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_the_probabilities_of_the_counts() {
        let counts = KneserNey::between(Some(2), 2, [[0, 1], [1, 1]], 3);
        let answers = Counts(&counts);
        let log = |text: &[u32]| counts.probabilities(text).into_iter().map(f64::ln).collect::<Vec<_>>();
        assert_eq!(answers.next(&[&[2], &[2, 0]]), [log(&[2]), log(&[2, 0])]);
        let mut reached = Vec::new();
        let losses = answers.losses(&[&[2, 0, 1], &[2, 1]], &mut |n| reached.push(n));
        assert_eq!(losses, [counts.losses(&[2, 0, 1]), counts.losses(&[2, 1])]);
        assert_eq!((reached, answers.room()), (vec![2, 3], None));
    }
}
