//! Exact properties of the world, computed by visiting every course of a story.

use crate::choose::{Choose, Phrase};
use crate::error::WorldError;

/// Exact properties of all stories of a world.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Properties {
    /// The number of words and marks in the longest story.
    pub max_tokens: usize,
    /// The expected number of words and marks in a story.
    pub mean_tokens: f64,
    /// The expected −ln p of a story, in nats: the smallest possible expected loss of a model.
    pub entropy: f64,
    /// The number of courses: stories that differ in more than wording and names.
    pub courses: usize,
}

/// A visitor of the branches, one course after another. Wordings ([`Choose::vary`]), names ([`Choose::pick`]) and asides
/// ([`Choose::aside`]) do not influence later probabilities, so their entropies are added in place. With the courses c
///
/// ```text
/// H = Σ_c p(c) · ( −ln p(c) + Σ entropies of the wordings, names and asides on the way )
/// ```
#[derive(Default)]
pub(crate) struct Explorer {
    /// The branch taken at each decision of this course, and the number of branches of that decision.
    path: Vec<(usize, usize)>,
    depth: usize,
    probability: f64,
    entropy: f64,
    mean_tokens: f64,
    max_tokens: usize,
}

/// Visits every course of `tell`.
pub(crate) fn explore(mut tell: impl FnMut(&mut Explorer) -> Result<(), WorldError>) -> Result<Properties, WorldError> {
    let mut all = Properties { max_tokens: 0, mean_tokens: 0.0, entropy: 0.0, courses: 0 };
    let mut explorer = Explorer::default();
    loop {
        explorer = Explorer { path: explorer.path, probability: 1.0, ..Explorer::default() };
        tell(&mut explorer)?;
        let p = explorer.probability;
        all.max_tokens = all.max_tokens.max(explorer.max_tokens);
        all.mean_tokens += p * explorer.mean_tokens;
        all.entropy += p * (explorer.entropy - p.ln());
        all.courses += 1;
        while explorer.path.last().is_some_and(|&(taken, of)| taken + 1 == of) {
            explorer.path.pop();
        }
        match explorer.path.last_mut() {
            Some((taken, _)) => *taken += 1,
            None => return Ok(all),
        }
    }
}

/// Returns the number of words and marks in a phrase.
pub(crate) fn words(phrase: &str) -> usize {
    phrase.split_ascii_whitespace().count()
}

impl Choose for Explorer {
    fn branch(&mut self, phrases: &[Phrase<'_>]) -> Result<usize, WorldError> {
        let mut taken = 0;
        if phrases.len() > 1 {
            match self.path.get(self.depth) {
                Some(&(again, _)) => taken = again,
                None => self.path.push((0, phrases.len())),
            }
            self.depth += 1;
        }
        let total: u32 = phrases.iter().map(|&(_, weight)| weight).sum();
        let (phrase, weight) = phrases[taken];
        self.probability *= f64::from(weight) / f64::from(total);
        self.max_tokens += words(phrase);
        self.mean_tokens += words(phrase) as f64;
        Ok(taken)
    }

    fn vary(&mut self, phrases: &[Phrase<'_>]) -> Result<(), WorldError> {
        let total: u32 = phrases.iter().map(|&(_, weight)| weight).sum();
        for &(phrase, weight) in phrases {
            let p = f64::from(weight) / f64::from(total);
            self.entropy -= p * p.ln();
            self.mean_tokens += p * words(phrase) as f64;
        }
        self.max_tokens += phrases.iter().map(|&(phrase, _)| words(phrase)).max().unwrap_or(0);
        Ok(())
    }

    fn aside(&mut self, tell: impl FnMut(&mut Self) -> Result<(), WorldError>) -> Result<(), WorldError> {
        let all = explore(tell)?;
        self.entropy += all.entropy;
        self.max_tokens += all.max_tokens;
        self.mean_tokens += all.mean_tokens;
        Ok(())
    }

    fn pick(&mut self, list: &[&'static str]) -> Result<&'static str, WorldError> {
        self.entropy += (list.len() as f64).ln();
        self.max_tokens += 1;
        self.mean_tokens += 1.0;
        Ok(list[0])
    }
}
