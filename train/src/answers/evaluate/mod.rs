//! The loss of a model on token sequences.
//!
//! ```text
//! a sequence     u₀ u₁ … uₙ₋₁; every token but u₀ is predicted once
//! window k       inputs u_{kS} … u_{kS+T−1}, targets one further; T the context, S ≤ T the stride
//! counted        in window 0 all targets, in the others the last S: each with at least T − S + 1 tokens before it
//! nll            mean of −ln P(uᵢ | the window up to uᵢ₋₁) over all predicted tokens, in nats
//! ```
//!
//! With S = T, the default, no input is read twice, and the first prediction of a window has one token of history.
//!
//! For models that fill masks see [`pseudo_losses`], and for losses at chosen slots [`TargetedSequence`].

mod pseudo;
mod targeted;

use std::ops::Range;

use gradus_data::TokenBatch;
use gradus_model::{Batch, GradientMode, Model, Predicts, Tree};
use gradus_tensor::{Real, Tensor, on_pool};

pub use pseudo::pseudo_losses;
pub use targeted::TargetedSequence;

/// The number of tokens evaluated at once: enough to keep the kernels busy, few enough to fit beside any model.
const BATCH_TOKENS: usize = 4096;

/// The length and the stride of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    /// The number of inputs per window, T.
    pub context: usize,
    /// The number of tokens from the start of a window to the next, S, 1 to T.
    pub stride: usize,
}

impl SlidingWindow {
    /// Returns windows that do not overlap.
    pub fn apart(context: usize) -> Self {
        SlidingWindow { context, stride: context }
    }

    /// Returns the windows of sequence number `sequence` of n tokens; none for n < 2.
    fn of(self, sequence: usize, n: usize) -> impl Iterator<Item = Window> {
        let (mut first, mut done) = (0, 0);
        std::iter::from_fn(move || {
            let last = n.saturating_sub(1);
            if done >= last {
                return None;
            }
            let inputs = first..(first + self.context).min(last);
            let window = Window { sequence, counted: done - first..inputs.len(), inputs };
            done = window.inputs.end;
            first += self.stride;
            Some(window)
        })
    }
}

/// A stretch of one sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    sequence: usize,
    /// Positions of the inputs in the sequence; the targets are one further on.
    inputs: Range<usize>,
    /// The predictions that count, from the window's start.
    counted: Range<usize>,
}

/// Returns the windows of all sequences, in batches of about equal length, longest first. Shorter windows are padded at their
/// end, which a causal model does not see.
fn batches(sequences: &[&[u32]], windows: SlidingWindow) -> Vec<Vec<Window>> {
    assert!((1..=windows.context).contains(&windows.stride), "a stride from 1 to the context, got {windows:?}");
    let all: Vec<Window> = sequences.iter().enumerate().flat_map(|(i, ids)| windows.of(i, ids.len())).collect();
    let lengths: Vec<usize> = all.iter().map(|window| window.inputs.len()).collect();
    by_length(&lengths).into_iter().map(|group| group.into_iter().map(|i| all[i].clone()).collect()).collect()
}

/// Groups sequences with these numbers of tokens by length, longest first, ties in order. A group is one sequence, or has at
/// most [`BATCH_TOKENS`] tokens, padding included.
pub(crate) fn by_length(tokens: &[usize]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..tokens.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(tokens[i])); // stable
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for i in order {
        match groups.last_mut() {
            Some(group) if (group.len() + 1) * tokens[group[0]] <= BATCH_TOKENS => group.push(i),
            _ => groups.push(vec![i]),
        }
    }
    groups
}

/// Returns the batch of these windows. Predictions that count have this weight, the others 0.
fn batch(sequences: &[&[u32]], windows: &[Window], weight: f64) -> Batch {
    let read = |window: &Window| &sequences[window.sequence][window.inputs.start..=window.inputs.end];
    let TokenBatch { rows, length, inputs, targets, .. } = TokenBatch::of_windows(&windows.iter().map(read).collect::<Vec<_>>());
    let mut weights = vec![0.0; inputs.len()];
    for (row, window) in windows.iter().enumerate() {
        weights[row * length..][window.counted.clone()].fill(weight);
    }
    Batch::next(rows, inputs, targets, weights)
}

/// Returns whether a model fills masks, instead of predicting the next token.
pub fn fills_masks<V>(model: &Model<V>) -> bool {
    model.predicts() == Predicts::Masked
}

/// Returns the number of predicted tokens of these sequences: all but the first of each.
pub fn predicted(sequences: &[&[u32]]) -> usize {
    sequences.iter().map(|ids| ids.len().saturating_sub(1)).sum()
}

/// Returns −ln P of every token but the first, for each sequence. `progress` receives the number of tokens predicted so far.
///
/// Panics on an id that the model does not have or a window longer than its context: callers check user input.
pub fn token_losses<T: Real>(
    model: &Model<Tensor<T>>,
    sequences: &[&[u32]],
    windows: SlidingWindow,
    progress: &mut dyn FnMut(usize),
) -> Vec<Vec<f64>> {
    let mut losses: Vec<Vec<f64>> = sequences.iter().map(|ids| vec![0.0; ids.len().saturating_sub(1)]).collect();
    let mut done = 0;
    for group in batches(sequences, windows) {
        let values = model.token_losses(&batch(sequences, &group, 1.0)).to_vec();
        for (row, window) in values.chunks(group[0].inputs.len()).zip(&group) {
            let to = &mut losses[window.sequence][window.inputs.clone()];
            for i in window.counted.clone() {
                to[i] = row[i].to_f64();
            }
            done += window.counted.len();
        }
        progress(done);
    }
    losses
}

/// Computes the gradient of the mean loss over all predicted tokens.
///
/// Panics as [`token_losses`] does.
pub fn gradients<T: Real>(
    model: &Model<Tensor<T>>,
    sequences: &[&[u32]],
    windows: SlidingWindow,
    progress: &mut dyn FnMut(usize),
) -> Model<Tensor<T>> {
    let (mut done, total) = (0, predicted(sequences));
    let mut sums = model.as_ref().map(|_, p| p.zeros_like(*p.shape()));
    for group in batches(sequences, windows) {
        let batch = batch(sequences, &group, 1.0 / total as f64);
        let (_, gradient) = on_pool(|| model.gradient(&batch, None, GradientMode::Whole));
        sums.as_mut().zip(gradient).visit(|_, (sum, g)| {
            if let Some(g) = g {
                sum.add_assign(&g);
            }
        });
        done += group.iter().map(|w| w.counted.len()).sum::<usize>();
        progress(done);
    }
    sums
}

#[cfg(test)]
mod tests {
    use gradus_autograd::Tape;
    use gradus_model::{Input, ModelConfig, Sizes, TransformerConfig};

    use super::*;

    fn tiny() -> Model<Tensor<f64>> {
        let config = ModelConfig::new(
            Sizes { vocab: 7, context: 6, width: 8 },
            TransformerConfig { layers: 2, heads: 2, initializer_range: 0.5, ..Default::default() },
        );
        Model::init(&config, 3)
    }

    #[test]
    fn every_token_but_the_first_is_counted_once() {
        for n in 0..30 {
            for context in 1..8 {
                for stride in 1..=context {
                    let mut seen = vec![0; n];
                    for w in (SlidingWindow { context, stride }).of(0, n) {
                        assert!(!w.inputs.is_empty() && w.inputs.len() <= context && w.inputs.end < n.max(1));
                        for i in w.counted.clone() {
                            seen[w.inputs.start + i + 1] += 1;
                            assert!(w.inputs.start == 0 || i + 1 > context - stride, "history of target {i}");
                        }
                    }
                    assert!(seen.iter().enumerate().all(|(i, &s)| s == usize::from(i > 0)), "{n} {context} {stride}: {seen:?}");
                }
            }
        }
    }

    /// Each expected loss comes from the logits of a separate forward pass.
    #[test]
    fn losses_equal_those_from_the_logits() {
        let model = tiny();
        let sequences: [&[u32]; 4] = [&[1, 2, 3, 4, 5, 6, 0, 1, 3, 3, 2], &[5], &[0, 6, 6], &[]];
        for windows in [SlidingWindow::apart(6), SlidingWindow { context: 4, stride: 3 }] {
            let losses = token_losses(&model, &sequences, windows, &mut |_| {});
            for (s, ids) in sequences.iter().enumerate() {
                assert_eq!(losses[s].len(), ids.len().saturating_sub(1));
                for w in windows.of(s, ids.len()) {
                    for i in w.counted.clone() {
                        let tape = Tape::off();
                        let seen = &ids[w.inputs.start..=w.inputs.start + i];
                        let logits = model.constants(&tape).logits(&Input::causal(1, seen)).value().to_vec();
                        let last = &logits[i * model.sizes().vocab..];
                        let lse = last.iter().map(|z| z.exp()).sum::<f64>().ln();
                        let target = w.inputs.start + i + 1;
                        let expected = lse - last[ids[target] as usize];
                        assert!((losses[s][target - 1] - expected).abs() < 1e-12);
                    }
                }
            }
        }
    }

    #[test]
    fn gradients_are_those_of_the_mean_loss() {
        let model = tiny();
        let sequences: [&[u32]; 2] = [&[1, 2, 3, 4, 5, 6, 0, 1, 3, 3, 2], &[0, 6, 6]];
        let windows = SlidingWindow { context: 5, stride: 2 };
        let mean = |model: &Model<Tensor<f64>>| {
            let losses = token_losses(model, &sequences, windows, &mut |_| {}).concat();
            losses.iter().sum::<f64>() / losses.len() as f64
        };
        let grads = gradients(&model, &sequences, windows, &mut |_| {});
        let direction: Model<Tensor<f64>> = Model::init(&model.config(), 9);
        let mut slope = 0.0;
        grads.zip(direction.clone()).visit(|_, (g, d)| slope += g.dot(&d));
        let moved = |h: f64| mean(&model.clone().zip(direction.clone()).map(|_, (p, d)| p.zip(&d, |p, d| p + h * d)));
        let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        assert!((slope - difference).abs() < 1e-7 * slope.abs().max(1.0), "{slope} {difference}");
    }
}
