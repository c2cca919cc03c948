//! What a model is trained on in one step.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Sequences of one length with what is to be predicted: the next tokens, and in fine-tuning a label per example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Number of sequences B.
    pub sequences: usize,
    /// Tokens (B·T).
    pub inputs: Arc<[u32]>,
    /// The token that follows each (B·T).
    pub targets: Arc<[u32]>,
    /// Each prediction's weight in the loss (B·T); all 0: the language model takes no part.
    pub weights: Arc<[f64]>,
    /// What fine-tuning is to predict; `None` in pre-training.
    pub labels: Option<Labels>,
}

/// Labelled examples, each of one or more consecutive sequences of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Labels {
    /// Sequences per example: 1; 2 where both orders are read; K for K answers to choose from.
    pub per_example: usize,
    /// The position of the extract token in each sequence (B).
    pub extract: Arc<[u32]>,
    /// The probability that each class (or answer) should have, (examples, classes) row-major.
    pub targets: Arc<[f64]>,
    /// Each example's weight in the loss; 1/N each is the mean of N.
    pub weights: Arc<[f64]>,
}

impl Batch {
    /// Tokens per sequence T.
    pub fn length(&self) -> usize {
        self.inputs.len().checked_div(self.sequences).unwrap_or(0)
    }

    /// Does any next token count?
    pub fn predicts_tokens(&self) -> bool {
        self.weights.iter().any(|&w| w != 0.0)
    }

    /// At most `parts` parts, as equal as possible, each with the index of its first sequence; no example is cut. A part with
    /// labels is as long as its own longest sequence: where short examples come first, little is computed on padding.
    pub fn split(&self, parts: usize) -> Vec<(usize, Batch)> {
        let (t, each) = (self.length(), self.labels.as_ref().map_or(1, |l| l.per_example));
        let n = self.sequences / each.max(1);
        let parts = parts.clamp(1, n.max(1));
        let part = |i: usize| {
            let examples = i * n / parts..(i + 1) * n / parts;
            let sequences = examples.start * each..examples.end * each;
            let ends = self.labels.as_ref().map(|labels| &labels.extract[sequences.clone()]);
            let longest = ends.and_then(|ends| ends.iter().max()).map_or(t, |&end| end as usize + 1);
            let rows = || sequences.clone().map(|s| s * t..s * t + longest);
            let part = Batch {
                sequences: sequences.len(),
                inputs: rows().flat_map(|row| &self.inputs[row]).copied().collect(),
                targets: rows().flat_map(|row| &self.targets[row]).copied().collect(),
                weights: rows().flat_map(|row| &self.weights[row]).copied().collect(),
                labels: self.labels.as_ref().map(|labels| {
                    let classes = labels.targets.len() / n.max(1);
                    Labels {
                        per_example: each,
                        extract: labels.extract[sequences.clone()].into(),
                        targets: labels.targets[examples.start * classes..examples.end * classes].into(),
                        weights: labels.weights[examples].into(),
                    }
                }),
            };
            (sequences.start, part)
        };
        (0..parts).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(n: usize) -> Vec<f64> {
        (0..n).map(|i| i as f64).collect()
    }

    /// Sequences of t tokens; inputs and weights are 0, 1, 2, …
    fn counted(sequences: usize, t: usize, labels: Labels) -> Batch {
        let n = (sequences * t) as u32;
        let weights = count(sequences * t).into();
        Batch { sequences, inputs: (0..n).collect(), targets: (1..=n).collect(), weights, labels: Some(labels) }
    }

    #[test]
    fn no_example_is_cut() {
        let (n, k, t, classes) = (5, 4, 3, 4);
        let b = n * k;
        let extract = vec![t as u32 - 1; b].into();
        let (targets, weights) = (count(n * classes).into(), count(n).into());
        let batch = counted(b, t, Labels { per_example: k, extract, targets, weights });
        for parts in 1..8 {
            let all = batch.split(parts);
            assert_eq!(all.len(), parts.min(n));
            let join = |f: &dyn Fn(&Batch) -> Vec<f64>| all.iter().flat_map(|(_, part)| f(part)).collect::<Vec<_>>();
            assert_eq!(join(&|p| p.inputs.iter().map(|&i| i.into()).collect()), count(b * t));
            assert_eq!(join(&|p| p.weights.to_vec()), batch.weights[..], "no part has its own mean");
            let labels = |p: &Batch| p.labels.clone().unwrap();
            assert_eq!(join(&|p| labels(p).targets.to_vec()), count(n * classes));
            for (first, part) in &all {
                assert_eq!((first % k, part.sequences % k), (0, 0));
                assert_eq!(part.inputs[0] as usize, first * t);
                let weights: Vec<f64> = (first / k..(first + part.sequences) / k).map(|i| i as f64).collect();
                assert_eq!(labels(part).weights[..], weights[..], "weights are those of the whole batch");
            }
        }
    }

    #[test]
    fn tokens_of_no_weight_are_not_predicted() {
        let labels = Labels { per_example: 1, extract: [0].into(), targets: [1.0].into(), weights: [1.0].into() };
        let batch = |weights: [f64; 2]| Batch { weights: weights.into(), ..counted(1, 2, labels.clone()) };
        assert_eq!([[0.0, 0.0], [0.0, 0.5], [0.5, 0.5]].map(|weights| batch(weights).predicts_tokens()), [false, true, true]);
    }

    #[test]
    fn a_part_is_as_long_as_its_longest_sequence() {
        let labels = Labels { per_example: 1, extract: [1, 0, 3, 2].into(), targets: [1.0; 4].into(), weights: [0.25; 4].into() };
        let batch = counted(4, 4, labels);
        let parts = batch.split(2);
        let (short, long) = (&parts[0].1, &parts[1].1);
        assert_eq!((short.length(), long.length()), (2, 4));
        assert_eq!((&short.inputs[..], &short.targets[..]), (&[0, 1, 4, 5][..], &[1, 2, 5, 6][..]));
        assert_eq!(short.weights[..], [0.0, 1.0, 4.0, 5.0]);
        assert_eq!((&long.inputs[..], &long.labels.as_ref().unwrap().extract[..]), (&batch.inputs[8..], &[3, 2][..]));
        let unlabelled = Batch { labels: None, ..batch };
        assert!(unlabelled.split(2).iter().all(|(_, part)| part.length() == 4));
    }
}
