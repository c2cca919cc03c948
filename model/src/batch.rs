//! What a model is trained on in one step, and which losses that declares.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::input::{Input, Sight};

/// What is read and what is asked: tokens, and of each head that is asked, a label per example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// What the body reads, B sequences of T slots.
    #[serde(flatten)]
    pub input: Input,
    /// The slots (of B·T) in which a token is asked, in increasing order; `None`: in each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Arc<[u32]>>,
    /// The token that belongs in each slot asked: to a causal model, the one that follows.
    pub targets: Arc<[u32]>,
    /// Each answer's weight in the loss; all 0: the language model takes no part.
    pub weights: Arc<[f64]>,
    /// What heads are to predict, one entry for each that is asked, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Labels>,
}

/// Labelled examples, each of one or more consecutive sequences of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Labels {
    /// The number of the head that is asked.
    #[serde(default, skip_serializing_if = "is_first")]
    pub head: usize,
    /// Sequences per example: 1; 2 where both orders are read; K for K answers to choose from.
    pub per_example: usize,
    /// The position of the extract token in each sequence (B); of BERT's rows, the first slot.
    pub extract: Arc<[u32]>,
    /// The probability that each class (or answer) should have, (examples, classes) row-major.
    pub targets: Arc<[f64]>,
    /// Each example's weight in the loss; 1/N each is the mean of N.
    pub weights: Arc<[f64]>,
}

impl Batch {
    /// Tokens (B·T) of which each is to predict the one that follows it, its target, from those before.
    pub fn next(sequences: usize, inputs: impl AsRef<[u32]>, targets: impl AsRef<[u32]>, weights: impl AsRef<[f64]>) -> Self {
        let input = Input::causal(sequences, inputs);
        Batch { input, asked: None, targets: targets.as_ref().into(), weights: weights.as_ref().into(), labels: Vec::new() }
    }

    /// Does any token that is asked count?
    pub fn predicts_tokens(&self) -> bool {
        self.weights.iter().any(|&w| w != 0.0)
    }

    /// Is the loss of the tokens part of the batch's? Where nothing else is asked it is, though it be 0.
    pub fn asks_tokens(&self) -> bool {
        self.labels.is_empty() || self.predicts_tokens()
    }

    /// Is this head asked?
    pub fn asks_head(&self, head: usize) -> bool {
        self.labels.iter().any(|labels| labels.head == head)
    }

    /// Sequences that must stay together: no example of any head is cut.
    pub fn together(&self) -> usize {
        self.labels.iter().map(|labels| labels.per_example.max(1)).fold(1, lcm)
    }

    /// At most `parts` parts, as equal as possible, each with the index of its first sequence; no example is cut. A part with
    /// labels is as long as its own longest sequence: where short examples come first, little is computed on padding.
    pub fn split(&self, parts: usize) -> Vec<(usize, Batch)> {
        let each = self.together();
        let n = self.input.sequences / each;
        let parts = parts.clamp(1, n.max(1));
        let part = |i: usize| {
            let sequences = i * n / parts * each..(i + 1) * n / parts * each;
            let longest = self.longest(sequences.clone());
            let (asked, targets, weights) = self.answers(sequences.clone(), longest);
            let part = Batch {
                input: self.input.part(sequences.clone(), longest),
                asked,
                targets,
                weights,
                labels: self.labels.iter().map(|labels| labels.of(sequences.clone())).collect(),
            };
            (sequences.start, part)
        };
        (0..parts).map(part).collect()
    }

    /// Slots that some of the sequences need.
    fn longest(&self, sequences: Range<usize>) -> usize {
        let ends = match &self.input.sight {
            Sight::Full(Some(lengths)) => lengths[sequences].iter().copied().max(),
            Sight::Full(None) => None,
            Sight::Causal => {
                let read = self.labels.iter().flat_map(|labels| &labels.extract[sequences.clone()]);
                read.map(|&end| end as usize + 1).max()
            }
        };
        ends.unwrap_or(self.input.length())
    }

    /// What is asked in some of the sequences, each cut to its first `length` slots: the slots among those, targets, weights.
    #[allow(clippy::type_complexity, reason = "three fields of a batch")]
    fn answers(&self, sequences: Range<usize>, length: usize) -> (Option<Arc<[u32]>>, Arc<[u32]>, Arc<[f64]>) {
        let t = self.input.length();
        let Some(asked) = &self.asked else {
            let rows = || sequences.clone().map(|s| s * t..s * t + length);
            let targets = rows().flat_map(|row| &self.targets[row]).copied().collect();
            return (None, targets, rows().flat_map(|row| &self.weights[row]).copied().collect());
        };
        let [from, to] = [sequences.start, sequences.end].map(|s| asked.partition_point(|&slot| (slot as usize) < s * t));
        let place = |&slot: &u32| {
            let (s, i) = (slot as usize / t, slot as usize % t);
            ((s - sequences.start) * length + i) as u32
        };
        (Some(asked[from..to].iter().map(place).collect()), self.targets[from..to].into(), self.weights[from..to].into())
    }
}

impl Labels {
    /// Those of some of the sequences, whole examples.
    fn of(&self, sequences: Range<usize>) -> Self {
        let examples = sequences.start / self.per_example..sequences.end / self.per_example;
        let classes = self.targets.len() / self.weights.len().max(1);
        Labels {
            head: self.head,
            per_example: self.per_example,
            extract: self.extract[sequences].into(),
            targets: self.targets[examples.start * classes..examples.end * classes].into(),
            weights: self.weights[examples].into(),
        }
    }
}

/// The least common multiple.
fn lcm(a: usize, b: usize) -> usize {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_first(head: &usize) -> bool {
    *head == 0
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
        let weights = count(sequences * t);
        Batch { labels: vec![labels], ..Batch::next(sequences, (0..n).collect::<Vec<_>>(), (1..=n).collect::<Vec<_>>(), weights) }
    }

    #[test]
    fn no_example_is_cut() {
        let (n, k, t, classes) = (5, 4, 3, 4);
        let b = n * k;
        let extract = vec![t as u32 - 1; b].into();
        let (targets, weights) = (count(n * classes).into(), count(n).into());
        let batch = counted(b, t, Labels { head: 0, per_example: k, extract, targets, weights });
        for parts in 1..8 {
            let all = batch.split(parts);
            assert_eq!(all.len(), parts.min(n));
            let join = |f: &dyn Fn(&Batch) -> Vec<f64>| all.iter().flat_map(|(_, part)| f(part)).collect::<Vec<_>>();
            assert_eq!(join(&|p| p.input.tokens.iter().map(|&i| i.into()).collect()), count(b * t));
            assert_eq!(join(&|p| p.weights.to_vec()), batch.weights[..], "no part has its own mean");
            let labels = |p: &Batch| p.labels[0].clone();
            assert_eq!(join(&|p| labels(p).targets.to_vec()), count(n * classes));
            for (first, part) in &all {
                assert_eq!((first % k, part.input.sequences % k), (0, 0));
                assert_eq!(part.input.tokens[0] as usize, first * t);
                let weights: Vec<f64> = (first / k..(first + part.input.sequences) / k).map(|i| i as f64).collect();
                assert_eq!(labels(part).weights[..], weights[..], "weights are those of the whole batch");
            }
        }
    }

    #[test]
    fn tokens_of_no_weight_are_not_predicted() {
        let labels = Labels { head: 0, per_example: 1, extract: [0].into(), targets: [1.0].into(), weights: [1.0].into() };
        let batch = |weights: [f64; 2]| Batch { weights: weights.into(), ..counted(1, 2, labels.clone()) };
        assert_eq!([[0.0, 0.0], [0.0, 0.5], [0.5, 0.5]].map(|weights| batch(weights).predicts_tokens()), [false, true, true]);
    }

    /// One head reads each sequence, another pairs of them: no pair is cut, and each part has the labels of both.
    #[test]
    fn examples_of_two_heads_stay_together() {
        let one = Labels { head: 0, per_example: 1, extract: [1; 4].into(), targets: count(8).into(), weights: count(4).into() };
        let two = Labels {
            head: 1,
            per_example: 2,
            extract: [0, 2, 1, 2].into(),
            targets: count(4).into(),
            weights: [5.0, 6.0].into(),
        };
        let batch = Batch { labels: vec![one, two], ..Batch::next(4, [0; 12], [0; 12], [1.0; 12]) };
        assert_eq!((batch.together(), batch.asks_head(1), batch.asks_head(2)), (2, true, false));
        let parts = batch.split(4);
        let of = |part: usize| parts[part].1.labels.iter().map(|l| (l.targets.to_vec(), l.weights.to_vec())).collect::<Vec<_>>();
        assert_eq!(parts.iter().map(|(first, part)| (*first, part.input.sequences)).collect::<Vec<_>>(), [(0, 2), (2, 2)]);
        assert_eq!(of(0), [(vec![0.0, 1.0, 2.0, 3.0], vec![0.0, 1.0]), (vec![0.0, 1.0], vec![5.0])]);
        assert_eq!(of(1), [(vec![4.0, 5.0, 6.0, 7.0], vec![2.0, 3.0]), (vec![2.0, 3.0], vec![6.0])]);
        assert_eq!([lcm(4, 6), lcm(1, 3), lcm(2, 2)], [12, 3, 2]);
    }

    #[test]
    fn a_batch_is_read_as_it_was_written() {
        let labels = |head| Labels { head, per_example: 1, extract: [0].into(), targets: [1.0].into(), weights: [1.0].into() };
        for labels in [vec![], vec![labels(0)], vec![labels(0), labels(1)]] {
            let batch = Batch { labels, ..Batch::next(1, [3], [4], [1.0]) };
            assert_eq!(serde_json::from_value::<Batch>(serde_json::to_value(&batch).unwrap()).unwrap(), batch);
        }
    }

    #[test]
    fn a_part_is_as_long_as_its_longest_sequence() {
        let labels =
            Labels { head: 0, per_example: 1, extract: [1, 0, 3, 2].into(), targets: [1.0; 4].into(), weights: [0.25; 4].into() };
        let batch = counted(4, 4, labels);
        let parts = batch.split(2);
        let (short, long) = (&parts[0].1, &parts[1].1);
        assert_eq!((short.input.length(), long.input.length()), (2, 4));
        assert_eq!((&short.input.tokens[..], &short.targets[..]), (&[0, 1, 4, 5][..], &[1, 2, 5, 6][..]));
        assert_eq!(short.weights[..], [0.0, 1.0, 4.0, 5.0]);
        assert_eq!((&long.input.tokens[..], &long.labels[0].extract[..]), (&batch.input.tokens[8..], &[3, 2][..]));
        let unlabelled = Batch { labels: vec![], ..batch };
        assert!(unlabelled.split(2).iter().all(|(_, part)| part.input.length() == 4));
    }
}
