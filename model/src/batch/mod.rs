//! The batch of a step: the input of a model and the terms of its loss.

mod input;
mod loss;

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use input::{Input, Sight};
use loss::Cut;
pub use loss::{ClassLoss, LossTerm, TokenLoss};

/// The input of a model, and the terms of its loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The input, B sequences of T slots.
    #[serde(flatten)]
    pub input: Input,
    /// The terms, which are added in this order.
    pub losses: Vec<LossTerm>,
}

impl Batch {
    /// Creates a causal batch in which each token (B·T) predicts its target, the token that follows it.
    pub fn next(sequences: usize, inputs: impl AsRef<[u32]>, targets: impl AsRef<[u32]>, weights: impl AsRef<[f64]>) -> Self {
        Batch::of(Input::causal(sequences, inputs)).with_tokens(None, targets, weights)
    }

    /// Creates a batch without a loss.
    pub fn of(input: Input) -> Self {
        Batch { input, losses: Vec::new() }
    }

    /// Adds a term: tokens predicted in these slots, or in all.
    #[must_use]
    pub fn with_tokens(
        mut self,
        slots: impl Into<Option<Arc<[u32]>>>,
        targets: impl AsRef<[u32]>,
        weights: impl AsRef<[f64]>,
    ) -> Self {
        let (targets, weights) = (targets.as_ref().into(), weights.as_ref().into());
        self.losses.push(LossTerm::Tokens(TokenLoss { output: 0, slots: slots.into(), targets, weights }));
        self
    }

    /// Adds a term: classes predicted by a head.
    #[must_use]
    pub fn with_classes(mut self, classes: ClassLoss) -> Self {
        self.losses.push(LossTerm::Classes(classes));
        self
    }

    /// Returns the terms that predict tokens.
    pub fn tokens(&self) -> impl Iterator<Item = &TokenLoss> {
        self.losses.iter().filter_map(|term| if let LossTerm::Tokens(tokens) = term { Some(tokens) } else { None })
    }

    /// Returns the terms that predict classes.
    pub fn classes(&self) -> impl Iterator<Item = &ClassLoss> {
        self.losses.iter().filter_map(|term| if let LossTerm::Classes(classes) = term { Some(classes) } else { None })
    }

    /// Returns the number of consecutive sequences that must stay together, so that no example is cut.
    pub fn group(&self) -> usize {
        self.losses.iter().map(LossTerm::group).fold(1, lcm)
    }

    /// Returns the batch with all weights multiplied by `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Batch { input: self.input.clone(), losses: self.losses.iter().map(|term| term.scaled(factor)).collect() }
    }

    /// Splits the batch into at most `parts` parts, as equal as possible, each with the index of its first sequence. No example
    /// is cut. In a causal batch with classes, a part is as long as its own longest sequence: if short examples come first,
    /// little is computed on padding. A part omits terms whose weights in it are all 0, unless it has no others.
    pub fn split(&self, parts: usize) -> Vec<(usize, Batch)> {
        let each = self.group();
        let n = self.input.sequences / each;
        let parts = parts.clamp(1, n.max(1));
        let part = |i: usize| {
            let sequences = i * n / parts * each..(i + 1) * n / parts * each;
            let cut = Cut { sequences: sequences.clone(), length: [self.input.length(), self.longest(sequences.clone())] };
            let mut losses: Vec<LossTerm> = self.losses.iter().map(|term| term.part(&cut)).collect();
            if losses.iter().any(LossTerm::counts) {
                losses.retain(LossTerm::counts);
            }
            (sequences.start, Batch { input: self.input.part(sequences.clone(), cut.length[1]), losses })
        };
        (0..parts).map(part).collect()
    }

    /// Returns the number of slots that these sequences need.
    fn longest(&self, sequences: Range<usize>) -> usize {
        let t = self.input.length();
        if self.input.query_only > 0 {
            return t; // query-only slots are the last
        }
        let longest = match &self.input.sight {
            Sight::Full(Some(lengths)) => lengths[sequences].iter().copied().max(),
            Sight::Full(None) | Sight::Allowed(_) => None,
            Sight::Causal | Sight::Prefix(_) => {
                let ends = self.losses.iter().map(LossTerm::ends).filter(|ends| !ends.is_empty());
                ends.flat_map(|ends| &ends[sequences.clone()]).map(|&end| end as usize % t + 1).max()
            }
        };
        longest.unwrap_or(t)
    }
}

/// Returns the least common multiple.
fn lcm(a: usize, b: usize) -> usize {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(n: usize) -> Vec<f64> {
        (0..n).map(|i| i as f64).collect()
    }

    /// Returns sequences of t tokens with the ids 0, 1, 2, …, which are also their weights.
    fn counted(sequences: usize, t: usize, classes: ClassLoss) -> Batch {
        let n = (sequences * t) as u32;
        let input = Input::causal(sequences, (0..n).collect::<Vec<_>>());
        Batch::of(input).with_classes(classes).with_tokens(None, (1..=n).collect::<Vec<_>>(), count(sequences * t))
    }

    fn tokens(batch: &Batch) -> &TokenLoss {
        batch.tokens().next().unwrap()
    }

    fn classes(batch: &Batch) -> &ClassLoss {
        batch.classes().next().unwrap()
    }

    fn one(head: usize) -> ClassLoss {
        ClassLoss { head, group: 1, slots: [0].into(), targets: [1.0].into(), weights: [1.0].into() }
    }

    #[test]
    fn a_batch_survives_serialization_and_omits_defaults() {
        let sights =
            [Sight::Full(None), Sight::Full(Some([1].into())), Sight::Prefix([2].into()), Sight::Allowed([true; 4].into())];
        let causal = Input::causal(1, [3, 4]);
        let others = [causal.clone(), Input { query_only: 1, ..causal.clone() }];
        for input in sights.into_iter().map(|sight| Input { sight, ..causal.clone() }).chain(others) {
            let json = serde_json::to_value(&input).unwrap();
            assert_eq!(json.get("sight").is_none(), input.sight == Sight::Causal, "{json}");
            assert_eq!(json.get("query_only").is_none(), input.query_only == 0, "{json}");
            assert_eq!(serde_json::from_value::<Input>(json).unwrap(), input);
        }
        for head in [0, 1] {
            let json = serde_json::to_value(one(head)).unwrap();
            assert_eq!(json.get("head").is_none(), head == 0, "{json}");
            assert_eq!(serde_json::from_value::<ClassLoss>(json).unwrap(), one(head));
        }
    }

    #[test]
    fn splitting_a_batch_keeps_examples_whole() {
        let (n, k, t, c) = (5, 4, 3, 4);
        let b = n * k;
        let slots = (0..b).map(|s| (s * t + t - 1) as u32).collect();
        let (targets, weights) = (count(n * c).into(), (1..=n).map(|i| i as f64).collect());
        let batch = counted(b, t, ClassLoss { head: 0, group: k, slots, targets, weights });
        for parts in 1..8 {
            let all = batch.split(parts);
            assert_eq!(all.len(), parts.min(n));
            let join = |f: &dyn Fn(&Batch) -> Vec<f64>| all.iter().flat_map(|(_, part)| f(part)).collect::<Vec<_>>();
            assert_eq!(join(&|p| p.input.tokens.iter().map(|&i| i.into()).collect()), count(b * t));
            assert_eq!(join(&|p| tokens(p).weights.to_vec()), tokens(&batch).weights[..], "no part has its own mean");
            assert_eq!(join(&|p| classes(p).targets.to_vec()), count(n * c));
            for (first, part) in &all {
                assert_eq!((first % k, part.input.sequences % k), (0, 0));
                assert_eq!(part.input.tokens[0] as usize, first * t);
                let weights: Vec<f64> = (first / k..(first + part.input.sequences) / k).map(|i| (i + 1) as f64).collect();
                assert_eq!(classes(part).weights[..], weights[..], "weights are those of the whole batch");
                assert!(classes(part).slots.iter().enumerate().all(|(s, &slot)| slot as usize == s * t + t - 1));
            }
        }
    }

    /// The last slot of each sequence is query-only: it is kept, although the slots before it are padding.
    #[test]
    fn query_only_slots_are_not_cut() {
        let sight = Sight::Full(Some([2, 2].into()));
        let batch = Batch::of(Input { query_only: 1, sight, ..Input::causal(2, [1; 8]) });
        let batch = batch.with_tokens(None, [2; 8], [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        assert!(batch.split(2).iter().all(|(_, part)| part.input.length() == 4));
    }

    #[test]
    fn scaling_multiplies_the_weights_of_all_terms() {
        let batch = counted(1, 2, one(0)).scaled(3.0);
        assert_eq!((&tokens(&batch).weights[..], &classes(&batch).weights[..]), (&[0.0, 3.0][..], &[3.0][..]));
    }

    /// Without weights of tokens, a part has only its classes; without any weights, it has all terms.
    #[test]
    fn a_shard_omits_loss_terms_of_zero_weight() {
        let two = ClassLoss { slots: [0, 2].into(), targets: [1.0; 2].into(), weights: [1.0; 2].into(), ..one(0) };
        let batch =
            |weights: [f64; 4]| Batch::of(Input::causal(2, [0; 4])).with_classes(two.clone()).with_tokens(None, [0; 4], weights);
        let terms = |batch: &Batch| batch.split(2).iter().map(|(_, part)| part.losses.len()).collect::<Vec<_>>();
        assert_eq!(terms(&batch([0.0, 0.0, 0.5, 0.0])), [1, 2]);
        assert_eq!(terms(&batch([0.0; 4])), [1, 1]);
        assert_eq!(terms(&batch([0.5; 4]).scaled(0.0)), [2, 2]);
    }

    /// One head reads single sequences, another pairs: no pair is cut, and each part has the classes of both.
    #[test]
    fn examples_shared_by_two_heads_are_not_split() {
        let slots: std::sync::Arc<[u32]> = [1, 4, 7, 10].into();
        let single = ClassLoss { head: 0, group: 1, slots: slots.clone(), targets: count(8).into(), weights: [1.0; 4].into() };
        let pairs = ClassLoss { head: 1, group: 2, slots, targets: count(4).into(), weights: [5.0, 6.0].into() };
        let batch = Batch::of(Input::causal(4, [0; 12])).with_classes(single).with_classes(pairs);
        assert_eq!(batch.group(), 2);
        let parts = batch.split(4);
        let of = |part: usize| parts[part].1.classes().map(|c| (c.targets.to_vec(), c.weights.to_vec())).collect::<Vec<_>>();
        assert_eq!(parts.iter().map(|(first, part)| (*first, part.input.sequences)).collect::<Vec<_>>(), [(0, 2), (2, 2)]);
        assert_eq!(of(0), [(vec![0.0, 1.0, 2.0, 3.0], vec![1.0; 2]), (vec![0.0, 1.0], vec![5.0])]);
        assert_eq!(of(1), [(vec![4.0, 5.0, 6.0, 7.0], vec![1.0; 2]), (vec![2.0, 3.0], vec![6.0])]);
        assert_eq!([lcm(4, 6), lcm(1, 3), lcm(2, 2)], [12, 3, 2]);
    }

    #[test]
    fn a_batch_survives_serialization() {
        let next = Batch::next(1, [3], [4], [1.0]);
        let masked = Batch::of(Input::full(1, [3])).with_classes(one(1)).with_tokens(Some([0].into()), [4], [1.0]);
        for batch in [next.clone().with_classes(one(0)), next, masked] {
            assert_eq!(serde_json::from_value::<Batch>(serde_json::to_value(&batch).unwrap()).unwrap(), batch);
        }
    }

    #[test]
    fn a_shard_is_as_long_as_its_longest_sequence() {
        let (slots, targets, weights) = ([1, 4, 11, 14].into(), [1.0; 4].into(), [0.25; 4].into());
        let batch = counted(4, 4, ClassLoss { head: 0, group: 1, slots, targets, weights });
        let parts = batch.split(2);
        let (short, long) = (&parts[0].1, &parts[1].1);
        assert_eq!((short.input.length(), long.input.length()), (2, 4));
        assert_eq!((&short.input.tokens[..], &tokens(short).targets[..]), (&[0, 1, 4, 5][..], &[1, 2, 5, 6][..]));
        assert_eq!((&tokens(short).weights[..], &classes(short).slots[..]), (&[0.0, 1.0, 4.0, 5.0][..], &[1, 2][..]));
        assert_eq!((&long.input.tokens[..], &classes(long).slots[..]), (&batch.input.tokens[8..], &[3, 6][..]));
        let unlabelled = Batch { losses: batch.losses[1..].into(), ..batch };
        assert!(unlabelled.split(2).iter().all(|(_, part)| part.input.length() == 4));
    }
}
