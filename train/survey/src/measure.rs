//! The measures U and G of a model.

use std::collections::BTreeSet;

use gradus_tensor::rng::Philox;
use gradus_world::{World, WorldError};
use serde::{Deserialize, Deserializer, Serialize};

use crate::lexicon::Lexicon;
use crate::story::{DISTANCES, Story, StoryPosition};

/// A mean over positions. The positions of one story are correlated, so the standard error is that of a mean over stories.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean over positions, in nats; NaN without positions.
    #[serde(deserialize_with = "number")]
    pub mean: f64,
    /// The standard error; NaN for fewer than two stories.
    #[serde(deserialize_with = "number")]
    pub error: f64,
    /// The number of positions.
    pub places: usize,
}

/// Reads a number, with `null` as NaN, because JSON has no NaN.
pub fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

impl Estimate {
    /// Computes the ratio of sums Σs / Σn from the values of each story's positions. Its error is that of the mean of s − mean·n.
    fn of(stories: &[Vec<f64>]) -> Self {
        let places: usize = stories.iter().map(Vec::len).sum();
        let mean = stories.iter().flatten().sum::<f64>() / places as f64;
        let k = stories.iter().filter(|values| !values.is_empty()).count() as f64;
        let rest = |values: &Vec<f64>| (values.iter().sum::<f64>() - mean * values.len() as f64).powi(2);
        let error = (k / (k - 1.0) * stories.iter().map(rest).sum::<f64>()).sqrt() / places as f64;
        Estimate { mean, error, places }
    }
}

/// The measures of a model's predictions of a word given all other words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Understanding {
    /// U: mean KL(world ‖ model) given all other words.
    pub given_all: Estimate,
    /// U by the number of words since the last mention: one class below each of [`DISTANCES`], one from the last of these on, and
    /// one for no mention.
    pub by_distance: Vec<Estimate>,
}

impl Understanding {
    /// Returns the measures without values, for a model that was not evaluated.
    pub(crate) fn none() -> Self {
        Understanding { given_all: Estimate::of(&[]), by_distance: vec![Estimate::of(&[]); DISTANCES.len() + 2] }
    }

    /// Returns whether there is a figure for each distance.
    pub(crate) fn is_whole(&self) -> bool {
        self.by_distance.len() == DISTANCES.len() + 2
    }
}

/// The measures of a model's predictions of a word given the preceding words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// G: mean KL(world ‖ model) given the preceding words.
    pub before: Estimate,
    /// The mean KL(world given all other words ‖ model given the preceding words), at the common positions of all models.
    pub left_only: Estimate,
    /// The mean KL(world given all other words ‖ world given the preceding words): the information in the following words.
    pub least_left_only: Estimate,
}

impl Generation {
    /// Returns the measures without values, for a model that was not evaluated.
    pub(crate) fn none() -> Self {
        let none = Estimate::of(&[]);
        Generation { before: none, left_only: none, least_left_only: none }
    }
}

/// Computes KL(p ‖ q) in nats; finite if q underflows, NaN if q is NaN.
fn kl(p: &[(usize, f64)], q: impl Fn(usize) -> f64) -> f64 {
    p.iter().map(|&(word, p)| p * (p / q(word).clamp(f64::MIN_POSITIVE, f64::INFINITY)).ln()).sum()
}

/// Computes KL(world ‖ model) given all other words, at these positions of each story; `answer` returns P(wᵢ | the rest) in these
/// positions of a story.
///
/// # Errors
/// Returns the first error of `answer`.
pub fn divergences<E>(
    stories: &[Story],
    places: &[Vec<usize>],
    mut answer: impl FnMut(&[usize], &[usize]) -> Result<Vec<Vec<f64>>, E>,
) -> Result<Vec<Vec<f64>>, E> {
    let of_story = |(story, at): (&Story, &Vec<usize>)| {
        let found = answer(&story.words, at)?;
        Ok(at.iter().zip(&found).map(|(&at, q)| kl(&story.places[at].given_all, |word| q[word])).collect())
    };
    stories.iter().zip(places).map(of_story).collect()
}

/// Computes U from the [`divergences`] at these positions.
pub fn understanding(stories: &[Story], places: &[Vec<usize>], found: &[Vec<f64>]) -> Understanding {
    let of_class = |class| Estimate::of(&among(stories, places, found, |story, at| distance(&story.places[at]) == class));
    Understanding { given_all: Estimate::of(found), by_distance: (0..DISTANCES.len() + 2).map(of_class).collect() }
}

/// Groups the [`divergences`] by the word at each position. The words are numbers, sorted by their total divergence, the largest
/// first.
pub fn by_word(stories: &[Story], places: &[Vec<usize>], found: &[Vec<f64>]) -> Vec<(usize, Estimate)> {
    let words: BTreeSet<usize> =
        stories.iter().zip(places).flat_map(|(story, at)| at.iter().map(|&at| story.words[at])).collect();
    let of_word = |word| (word, Estimate::of(&among(stories, places, found, |story, at| story.words[at] == word)));
    let mut all: Vec<(usize, Estimate)> = words.into_iter().map(of_word).collect();
    all.sort_by(|(_, a), (_, b)| (b.mean * b.places as f64).total_cmp(&(a.mean * a.places as f64)));
    all
}

/// Selects the values of some of these positions.
fn among(stories: &[Story], places: &[Vec<usize>], found: &[Vec<f64>], is_one: impl Fn(&Story, usize) -> bool) -> Vec<Vec<f64>> {
    let of_story = |((story, at), values): ((&Story, &Vec<usize>), &Vec<f64>)| {
        at.iter().zip(values).filter(|(at, _)| is_one(story, **at)).map(|(_, &value)| value).collect()
    };
    stories.iter().zip(places).zip(found).map(of_story).collect()
}

/// Returns the distance class of the last mention of a word.
fn distance(place: &StoryPosition) -> usize {
    match place.last_mention {
        Some(ago) => DISTANCES.iter().take_while(|&&limit| ago >= limit).count(),
        None => DISTANCES.len() + 1,
    }
}

/// Computes G at all positions, and the other two measures at these positions of each story. `along` returns P(wᵢ | the words
/// before) at each position of a story.
///
/// # Errors
/// Returns the first error of `along`.
pub fn generation<E>(
    stories: &[Story],
    places: &[Vec<usize>],
    mut along: impl FnMut(&[usize]) -> Result<Vec<Vec<f64>>, E>,
) -> Result<Generation, E> {
    let (mut before, mut left_only, mut least) = (Vec::new(), Vec::new(), Vec::new());
    for (story, asked) in stories.iter().zip(places) {
        let found = along(&story.words)?;
        before.push(story.places.iter().zip(&found).map(|(place, q)| kl(&place.before, |word| q[word])).collect());
        let given_all = |at: &usize| kl(&story.places[*at].given_all, |word| found[*at][word]);
        left_only.push(asked.iter().map(given_all).collect());
        let exact = |at: &usize| {
            let StoryPosition { given_all, before, .. } = &story.places[*at];
            kl(given_all, |word| before.iter().find(|it| it.0 == word).map_or(0.0, |it| it.1))
        };
        least.push(asked.iter().map(exact).collect());
    }
    Ok(Generation { before: Estimate::of(&before), left_only: Estimate::of(&left_only), least_left_only: Estimate::of(&least) })
}

/// Generates `n` stories word by word, and returns the number that are stories of the world. `next` returns P(w | the words
/// before) after each of these beginnings.
///
/// # Errors
/// Returns the first error of `next`.
pub fn told<E>(
    world: &World,
    lexicon: &Lexicon,
    (n, seed): (usize, u64),
    mut next: impl FnMut(&[&[usize]]) -> Result<Vec<Vec<f64>>, E>,
) -> Result<usize, E> {
    let mut rng = Philox::new(seed);
    let (mut open, mut whole) = (vec![Vec::new(); n], 0);
    while !open.is_empty() {
        let beginnings: Vec<&[usize]> = open.iter().map(Vec::as_slice).collect();
        let answers = next(&beginnings)?;
        for (words, q) in open.iter_mut().zip(answers) {
            words.push(drawn(&q, rng.uniform_f64()));
        }
        // An unfinished story continues; a story with a wrong word never becomes valid.
        open.retain(|words| match world.read(&lexicon.text(words)) {
            Ok(_) => {
                whole += 1;
                false
            }
            Err(error) => matches!(error, WorldError::Unfinished { .. }),
        });
    }
    Ok(whole)
}

/// Returns the word at which the cumulative probability exceeds u.
fn drawn(q: &[f64], u: f64) -> usize {
    let mut left = u * q.iter().sum::<f64>();
    let found = q.iter().position(|&p| {
        left -= p;
        left < 0.0
    });
    found.unwrap_or(q.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_clustered_by_story() {
        let one = Estimate::of(&[vec![1.0, 3.0], vec![2.0, 4.0], vec![6.0]]);
        // Sums 4, 6, 6 of 2, 2, 1 positions, mean 16/5; rests −2.4, −0.4, 2.8; √(3/2 · 13.76)/5.
        assert_eq!((one.mean, one.places), (3.2, 5));
        assert!((one.error - (1.5_f64 * 13.76).sqrt() / 5.0).abs() < 1e-12);
        assert!(Estimate::of(&[vec![1.0]]).error.is_nan());
    }

    #[test]
    fn losses_are_grouped_by_distance_and_by_word() {
        let place = |&last_mention: &_| StoryPosition { given_all: Vec::new(), before: Vec::new(), last_mention };
        let story =
            |words: &[usize], ago: &[Option<usize>]| Story { words: words.into(), places: ago.iter().map(place).collect() };
        let stories = [story(&[7, 8, 7, 9], &[None, None, Some(2), None]), story(&[8, 7], &[Some(20), Some(19)])];
        let (places, found) = ([vec![0, 1, 2], vec![0, 1]], [vec![0.5, 2.0, 1.5], vec![4.0, 0.25]]);
        let numbers = |e: &Estimate| (e.mean, e.places);
        let Understanding { given_all, by_distance } = understanding(&stories, &places, &found);
        assert_eq!(numbers(&given_all), (1.65, 5));
        let [near, middle, further, far, never] = &by_distance[..] else { panic!("{by_distance:?}") };
        assert_eq!([near, further, far, never].map(numbers), [(1.5, 1), (0.25, 1), (4.0, 1), (1.25, 2)]);
        assert_eq!(middle.places, 0);
        let by_word = by_word(&stories, &places, &found);
        let by_word: Vec<(usize, (f64, usize))> = by_word.iter().map(|(word, e)| (*word, numbers(e))).collect();
        assert_eq!(by_word, [(8, (3.0, 2)), (7, (0.75, 3))], "the last word of the first story was not asked");
    }

    #[test]
    fn the_distance_of_distributions_is_the_kl_divergence() {
        assert_eq!(kl(&[(1, 1.0)], |_| 0.5), 2.0_f64.ln());
        assert_eq!(kl(&[(0, 0.5), (1, 0.5)], |_| 0.5), 0.0);
        assert!(kl(&[(1, 1.0)], |_| 0.0).is_finite(), "far, but not without end");
        assert!(kl(&[(1, 1.0)], |_| f64::NAN).is_nan(), "no answer");
    }

    #[test]
    fn words_are_drawn_by_their_probability() {
        assert_eq!([0.0, 0.24, 0.25, 0.99].map(|u| drawn(&[0.25, 0.0, 0.75], u)), [0, 0, 2, 2]);
    }
}
