//! Windows of a corpus: random for training, sequential for evaluation.

use std::ops::Range;
use std::sync::Arc;

use gradus_tensor::rng::Philox;

use crate::batch::TokenBatch;
use crate::error::{DataError, FEW};
use crate::tokens::Tokens;

/// The constant that separates this generator from others with the same seed ("windows" in ASCII).
const DOMAIN: u64 = 0x0077_696E_646F_7773;

/// The number of tokens that are read at once.
const LOT: usize = 1 << 12;

/// Random contiguous windows of T + 1 tokens. A window is a function of (seed, step, row). A resumed run therefore needs only the
/// step number, and the shards of a batch agree on its windows.
#[derive(Clone)]
pub struct RandomWindows {
    tokens: Arc<dyn Tokens>,
    range: Range<usize>,
    context: usize,
    seed: u64,
}

impl RandomWindows {
    /// Creates windows of `context` inputs over a range of the tokens.
    ///
    /// # Errors
    /// Returns an error if the range is shorter than one window ([`DataError::TooShort`]) or if `context` is 0
    /// ([`DataError::NoContext`]).
    ///
    /// # Panics
    /// Panics if the range is outside the tokens.
    pub fn new(tokens: Arc<dyn Tokens>, range: Range<usize>, context: usize, seed: u64) -> Result<Self, DataError> {
        check(&*tokens, &range, context)?;
        let (found, needed) = (range.len(), context + 1);
        if found < needed {
            let remedy = match found {
                0 | 1 => FEW.to_owned(),
                n => format!("Give more text, hold out less of it, or use a context of at most {}", n - 1),
            };
            return Err(DataError::TooShort { part: "training part", tokens: found, needed, remedy });
        }
        Ok(RandomWindows { tokens, range, context, seed })
    }

    /// Returns the context length T.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Returns the number of tokens in the range that windows are drawn from.
    pub fn tokens(&self) -> usize {
        self.range.len()
    }

    /// Returns the index of the first token of the window of step `t` and batch row `row`.
    pub fn start(&self, t: u64, row: usize) -> usize {
        let mut rng = Philox::with_stream(self.seed ^ DOMAIN, t);
        rng.set_position(4 * row as u64); // one Philox block per row
        let starts = self.range.len() - self.context;
        self.range.start + rng.below(starts as u64) as usize
    }

    /// Returns the T + 1 tokens of the window that starts here.
    pub fn read(&self, start: usize) -> Vec<u32> {
        read(&*self.tokens, start, self.context + 1)
    }

    /// Returns all tokens of the range in order.
    pub fn all(&self) -> impl Iterator<Item = u32> {
        let part = |start| read(&*self.tokens, start, LOT.min(self.range.end - start));
        self.range.clone().step_by(LOT).flat_map(part)
    }

    /// Returns rows `rows` of the batch of step `t`: all rows, or those of a shard.
    pub fn batch(&self, t: u64, rows: Range<usize>) -> TokenBatch {
        TokenBatch::of_windows(&rows.map(|row| self.read(self.start(t, row))).collect::<Vec<_>>())
    }
}

fn check(tokens: &dyn Tokens, range: &Range<usize>, context: usize) -> Result<(), DataError> {
    assert!(range.end <= tokens.len(), "windows over tokens {range:?} of {}", tokens.len());
    if context == 0 { Err(DataError::NoContext) } else { Ok(()) }
}

fn read(tokens: &dyn Tokens, start: usize, length: usize) -> Vec<u32> {
    let mut window = vec![0; length];
    tokens.read(start, &mut window);
    window
}

/// Sequential, adjacent windows that predict every token of a range exactly once, except the first, which has no context. Window
/// k reads tokens kT … kT + T − 1 and predicts tokens kT + 1 … kT + T. The last window may be shorter; it is padded on the right.
#[derive(Clone)]
pub struct Evaluation {
    tokens: Arc<dyn Tokens>,
    range: Range<usize>,
    context: usize,
}

impl Evaluation {
    /// Creates windows of `context` inputs over a range of the tokens.
    ///
    /// # Errors
    /// Returns an error if the range has fewer than two tokens ([`DataError::TooShort`]) or if `context` is 0
    /// ([`DataError::NoContext`]).
    ///
    /// # Panics
    /// Panics if the range is outside the tokens.
    pub fn new(tokens: Arc<dyn Tokens>, range: Range<usize>, context: usize) -> Result<Self, DataError> {
        check(&*tokens, &range, context)?;
        if range.len() < 2 {
            let remedy = "Give more text, or hold out more of it".to_owned();
            return Err(DataError::TooShort { part: "held-out part", tokens: range.len(), needed: 2, remedy });
        }
        Ok(Evaluation { tokens, range, context })
    }

    /// Returns the number of windows.
    pub fn windows(&self) -> usize {
        self.predicted().div_ceil(self.context)
    }

    /// Returns the number of predictions: the number of tokens less one.
    pub fn predicted(&self) -> usize {
        self.range.len() - 1
    }

    /// Returns the number of bytes of text in the predicted tokens.
    pub fn bytes(&self) -> u64 {
        self.tokens.bytes(self.range.start + 1..self.range.end)
    }

    /// Returns the number of predictions T of a window.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Returns the number of tokens of window k: T + 1, or fewer at the end.
    pub fn length(&self, k: usize) -> usize {
        self.context.min(self.predicted() - k * self.context) + 1
    }

    /// Returns the tokens of window k.
    pub fn read(&self, k: usize) -> Vec<u32> {
        read(&*self.tokens, self.range.start + k * self.context, self.length(k))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Memory;

    /// Returns n tokens whose ids are their positions.
    fn count(n: usize) -> Arc<dyn Tokens> {
        Arc::new(Memory::new((0..n as u32).collect(), n as u64, n).unwrap())
    }

    #[test]
    fn windows_are_contiguous_inside_their_range_and_reach_both_ends() {
        let windows = RandomWindows::new(count(100), 20..60, 8, 7).unwrap();
        let mut starts = [0; 100];
        for t in 1..=500 {
            let batch = windows.batch(t, 0..4);
            assert_eq!((batch.rows, batch.length, batch.predicted()), (4, 8, 32));
            for row in 0..4 {
                let inputs = &batch.inputs[row * 8..][..8];
                assert!(inputs.iter().enumerate().all(|(i, &x)| x == inputs[0] + i as u32));
                assert!(batch.targets[row * 8..][..8].iter().zip(inputs).all(|(&y, &x)| y == x + 1));
                starts[inputs[0] as usize] += 1;
            }
        }
        // 2,000 draws over the 32 starts 20 … 51: 62.5 each, σ = 7.8; deviations up to 5σ pass.
        assert!((20..52).all(|i| (24..=101).contains(&starts[i])), "{starts:?}");
        assert_eq!(starts[20..52].iter().sum::<i32>(), 2000);
    }

    #[test]
    fn a_window_depends_on_seed_step_and_row_alone() {
        let windows = |seed| RandomWindows::new(count(10_000), 0..10_000, 16, seed).unwrap();
        let (a, b) = (windows(1), windows(2));
        let whole = a.batch(9, 0..8);
        let (left, right) = (a.batch(9, 0..3), a.batch(9, 3..8));
        assert_eq!(whole.inputs, [left.inputs, right.inputs].concat());
        assert_eq!(whole.targets, [left.targets, right.targets].concat());
        let starts = |w: &RandomWindows, t| (0..8).map(|row| w.start(t, row)).collect::<Vec<_>>();
        assert_eq!(starts(&a, 9), starts(&windows(1), 9));
        assert_ne!(starts(&a, 9), starts(&a, 10));
        assert_ne!(starts(&a, 9), starts(&b, 9));
    }

    /// Each row takes four words of the generator of (seed, step), of which the first two give the start.
    #[test]
    fn a_window_is_drawn_from_the_generator_as_documented() {
        let seed = 0x5eed;
        let windows = RandomWindows::new(count(1000), 100..900, 16, seed).unwrap();
        assert_eq!((windows.context(), windows.tokens()), (16, 800));
        let mut rng = Philox::with_stream(seed ^ u64::from_be_bytes(*b"\0windows"), 9);
        for row in 0..5 {
            assert_eq!(windows.start(9, row), 100 + rng.clone().below(784) as usize);
            let _next = [rng.double_word(), rng.double_word()];
        }
    }

    #[test]
    fn a_window_may_span_the_whole_range() {
        let exact = RandomWindows::new(count(11), 0..11, 10, 0).unwrap();
        assert_eq!((exact.start(1, 0), exact.start(99, 5)), (0, 0), "one window fits");
    }

    #[test]
    fn evaluation_predicts_every_token_once() {
        for (n, context) in [(2, 5), (6, 5), (7, 5), (26, 5), (27, 5), (40, 7), (8, 1)] {
            let what = format!("{n} tokens, context {context}");
            let evaluation = Evaluation::new(count(n + 5), 3..3 + n, context).unwrap();
            assert_eq!((evaluation.predicted(), evaluation.bytes()), (n - 1, n as u64 - 1));
            let mut targets = Vec::new();
            for k in 0..evaluation.windows() {
                let window = evaluation.read(k);
                assert_eq!(window.len(), 1 + context.min(n - 1 - k * context), "{what}: window {k}");
                assert!(window.windows(2).all(|pair| pair[1] == pair[0] + 1), "{what}");
                targets.extend(window[1..].iter().map(|&token| token as usize));
            }
            assert_eq!(targets, (4..3 + n).collect::<Vec<_>>(), "{what}");
        }
    }

    #[test]
    fn errors_for_short_texts_state_the_needed_length() {
        let random = |n, range, context| RandomWindows::new(count(n), range, context, 0).err().unwrap();
        let evaluation = |n, range, context| Evaluation::new(count(n), range, context).err().unwrap();
        for (error, expected) in [
            (random(50, 0..40, 64), ("training part", 40, 65, "of at most 39")),
            (random(50, 0..2, 2), ("training part", 2, 3, "of at most 1")),
            (random(1, 0..0, 4), ("training part", 0, 5, "hold out less of it")),
            (random(9, 3..4, 4), ("training part", 1, 5, "hold out less of it")),
            (evaluation(9, 8..9, 4), ("held-out part", 1, 2, "hold out more of it")),
        ] {
            let DataError::TooShort { part, tokens, needed, remedy } = error else { panic!("{error}") };
            assert_eq!((part, tokens, needed), (expected.0, expected.1, expected.2));
            assert!(remedy.contains(expected.3), "{remedy}");
        }
        for error in [random(9, 0..9, 0), evaluation(9, 0..9, 0)] {
            assert!(matches!(error, DataError::NoContext), "{error}");
        }
    }
}
