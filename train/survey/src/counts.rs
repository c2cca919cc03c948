//! A baseline from counts of neighbouring words. A model's gain over it measures what the model learnt beyond such counts.
//!
//! ```text
//! P₋₁(w) = 1 / V
//! P_r(w | neighbours) = (c(neighbours, w) + t·P_{r−1}(w | nearer neighbours)) / (c(neighbours) + t)
//! ```
//!
//! for r from 0 on. The neighbours are the words up to r positions away on both sides, c(neighbours) is the number of their
//! occurrences, t the number of different words seen between them, and V the number of the world's words (Witten & Bell 1991).

use std::collections::HashMap;

/// Counts of words between their neighbours.
#[derive(Clone, Debug)]
pub struct Window {
    words: usize,
    /// The counts by reach r from 0: neighbours → the number of occurrences of each word between them.
    counts: Vec<HashMap<Vec<usize>, HashMap<usize, u32>>>,
}

/// The placeholder for a neighbour beyond a story's ends.
const NOTHING: usize = usize::MAX;

impl Window {
    /// Counts words in stories, with neighbours up to `reach` positions away on both sides.
    pub fn count<'s>(stories: impl IntoIterator<Item = &'s [usize]>, words: usize, reach: usize) -> Self {
        let mut counts = vec![HashMap::new(); reach + 1];
        for story in stories {
            for at in 0..story.len() {
                for (r, counts) in counts.iter_mut().enumerate() {
                    let seen: &mut HashMap<usize, u32> = counts.entry(neighbours(story, at, r)).or_default();
                    *seen.entry(story[at]).or_default() += 1;
                }
            }
        }
        Window { words, counts }
    }

    /// Returns the probability of each word at a position.
    pub fn answer(&self, story: &[usize], at: usize) -> Vec<f64> {
        let mut p = vec![1.0 / self.words as f64; self.words];
        for (r, counts) in self.counts.iter().enumerate() {
            let Some(seen) = counts.get(&neighbours(story, at, r)) else { break };
            let (types, total) = (seen.len() as f64, f64::from(seen.values().sum::<u32>()));
            p.iter_mut().for_each(|p| *p *= types / (total + types));
            seen.iter().for_each(|(&word, &n)| p[word] += f64::from(n) / (total + types));
        }
        p
    }
}

fn neighbours(story: &[usize], at: usize, reach: usize) -> Vec<usize> {
    let there = |at: Option<usize>| at.and_then(|at| story.get(at)).copied().unwrap_or(NOTHING);
    (1..=reach).flat_map(|r| [there(at.checked_sub(r)), there(Some(at + r))]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_mixed_with_those_of_nearer_neighbours() {
        let stories: [&[usize]; 3] = [&[0, 1, 2], &[0, 1, 2], &[0, 2, 2]];
        let window = Window::count(stories, 3, 1);
        // Without neighbours: counts 3, 2 and 4 of 9, of three kinds, mixed with 1/3 each.
        let alone = [3.0, 2.0, 4.0].map(|n| (n + 3.0 / 3.0) / 12.0);
        // Between words 0 and 2: word 1 twice, word 2 once, two kinds.
        let between = [0.0, 2.0, 1.0];
        let p = window.answer(&[0, 9, 2], 1);
        for word in 0..3 {
            assert!((p[word] - (between[word] + 2.0 * alone[word]) / 5.0).abs() < 1e-12, "{p:?}");
        }
        assert!((window.answer(&[1, 9, 1], 1).iter().sum::<f64>() - 1.0).abs() < 1e-12, "neighbours never seen");
    }
}
