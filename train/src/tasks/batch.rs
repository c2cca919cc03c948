//! The conversion of examples to one batch.

use gradus_model::{Batch, ClassLoss, Input, Objective};

use super::{Encoded, Reading, Sequence};
use crate::views::{self, View};

/// Returns a batch of examples, as long as their longest row. Each label has the weight 1/N, all next tokens together λ.
///
/// Every token after the first is a target, also the delimiter and the extract token; nothing is predicted from the extract token
/// or on padding. Examples without a label get a target of zeros, for predictions.
///
/// If each slot sees all others, no token is predicted, whatever λ is, and the batch has the lengths of its rows.
///
/// Panics on no examples, or on examples with unequal numbers of rows.
pub fn batch(examples: &[&Encoded], classes: usize, lambda: f64, objective: Objective) -> Batch {
    let group = examples[0].rows.len();
    let rows: Vec<&Sequence> = examples.iter().flat_map(|e| &e.rows).collect();
    assert_eq!(rows.len(), group * examples.len(), "each example has as many rows as the first");
    let t = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let share = 1.0 / examples.len() as f64;
    let right = examples.iter().flat_map(|e| e.target.clone().unwrap_or_else(|| vec![0.0; classes]));
    let reads = |row: &Sequence| if examples[0].reading == Reading::Forward { row.len() - 1 } else { 0 };
    let classes = ClassLoss {
        head: 0,
        slots: rows.iter().enumerate().map(|(i, row)| (i * t + reads(row)) as u32).collect(),
        group,
        targets: right.collect(),
        weights: vec![share; examples.len()].into(),
    };
    match examples[0].reading {
        Reading::Forward => forward(&rows, t, classes, lambda, objective),
        Reading::Whole { segmented } => whole(&rows, segmented).with_classes(classes),
    }
}

/// Returns a batch of rows in which each slot sees all others; no token is predicted.
fn whole(rows: &[&Sequence], segmented: bool) -> Batch {
    let view = |row: &&Sequence| View { tokens: row.to_vec(), segments: row.segments(), ..View::default() };
    Batch::of(views::input(&rows.iter().map(view).collect::<Vec<_>>(), segmented))
}

/// Returns a batch of rows that are read from left to right. If λ > 0, each token predicts the next.
fn forward(rows: &[&Sequence], t: usize, classes: ClassLoss, lambda: f64, objective: Objective) -> Batch {
    let rows: Vec<Vec<u32>> = rows.iter().map(|row| row.to_vec()).collect();
    let n = rows.len() * t;
    let (mut inputs, mut targets, mut mask) = (vec![0; n], vec![0; n], vec![0.0; n]);
    for (i, row) in rows.iter().enumerate() {
        let (at, next) = (i * t, row.len() - 1);
        inputs[at..at + row.len()].copy_from_slice(row);
        targets[at..at + next].copy_from_slice(&row[1..]);
        mask[at..at + next].fill(1.0);
    }
    let batch = Batch::of(Input::causal(rows.len(), inputs)).with_classes(classes);
    if lambda == 0.0 {
        return batch;
    }
    let weights: Vec<f64> = objective.weights(&mask, rows.len()).into_iter().map(|w| lambda * w).collect();
    batch.with_tokens(None, targets, weights)
}

#[cfg(test)]
mod tests {
    use gradus_model::Sight;

    use super::*;

    fn encoded(rows: &[&[u32]], class: usize) -> Encoded {
        let mut target = vec![0.0; 2];
        target[class] = 1.0;
        let rows = rows.iter().map(|r| r.to_vec().into()).collect();
        Encoded { rows, target: Some(target), truncated: false, reading: Reading::Forward }
    }

    /// Detects visible padding, a class read from another slot, and a token as a target.
    #[test]
    fn whole_texts_have_lengths_segments_and_classes() {
        let [mut a, mut b] = [encoded(&[&[7, 1, 9, 2, 9]], 1), encoded(&[&[7, 3, 9]], 0)];
        a.rows = a.rows.into_iter().map(|row| row.in_two(3)).collect();
        for segmented in [true, false] {
            [&mut a, &mut b].into_iter().for_each(|e| e.reading = Reading::Whole { segmented });
            let batch = batch(&[&a, &b], 2, 0.5, Objective::SequenceMean);
            assert_eq!(batch.input.tokens[..], [7, 1, 9, 2, 9, 7, 3, 9, 0, 0]);
            let segments = [0, 0, 0, 1, 1, 0, 0, 0, 0, 0];
            assert_eq!(batch.input.segments.as_deref(), segmented.then_some(&segments[..]));
            assert_eq!(batch.input.sight, Sight::Full(Some([5, 3].into())));
            assert!(batch.tokens().next().is_none());
            let classes = batch.classes().next().unwrap();
            assert_eq!((classes.group, &classes.slots[..]), (1, &[0, 5][..]));
            assert_eq!((&classes.targets[..], &classes.weights[..]), (&[0.0, 1.0, 1.0, 0.0][..], &[0.5, 0.5][..]));
        }
    }

    /// Detects labels that are not shifted, an extract position off by one, and losses that are summed instead of averaged.
    #[test]
    fn rows_are_padded_shifted_and_weighted() {
        let (a, b) = (encoded(&[&[7, 1, 2, 9]], 1), encoded(&[&[7, 3, 9]], 0));
        let batch = batch(&[&a, &b], 2, 0.5, Objective::SequenceMean);
        assert_eq!((batch.input.sequences, batch.input.length()), (2, 4));
        assert_eq!(batch.input.tokens[..], [7, 1, 2, 9, 7, 3, 9, 0]);
        let (tokens, classes) = (batch.tokens().next().unwrap(), batch.classes().next().unwrap());
        assert_eq!(tokens.targets[..], [1, 2, 9, 0, 3, 9, 0, 0]);
        let (x, y) = (0.5 / 2.0 / 3.0, 0.5 / 2.0 / 2.0);
        assert_eq!(tokens.weights[..], [x, x, x, 0.0, y, y, 0.0, 0.0]);
        assert_eq!((classes.group, &classes.slots[..]), (1, &[3, 6][..]));
        assert_eq!((&classes.targets[..], &classes.weights[..]), (&[0.0, 1.0, 1.0, 0.0][..], &[0.5, 0.5][..]));
    }

    /// Padding has the id of a real token: the number of tokens other than 0 is too small for a text with that token.
    #[test]
    fn the_extract_token_is_found_by_position() {
        let example = encoded(&[&[7, 9, 0, 9], &[7, 0, 0, 0, 9]], 0);
        let batch = batch(&[&example], 2, 0.0, Objective::SequenceMean);
        let classes = batch.classes().next().unwrap();
        assert_eq!((classes.group, &classes.slots[..]), (2, &[3, 9][..]));
    }

    #[test]
    fn a_batch_is_no_longer_than_its_longest_row() {
        let (short, long) = (encoded(&[&[7, 9]], 0), encoded(&[&[7, 1, 2, 3, 9]], 0));
        assert_eq!(batch(&[&short], 2, 0.5, Objective::TokenMean).input.length(), 2);
        assert_eq!(batch(&[&short, &long], 2, 0.5, Objective::TokenMean).input.length(), 5);
        let quiet = batch(&[&short, &long], 2, 0.0, Objective::TokenMean);
        assert!(quiet.tokens().next().is_none());
    }
}
