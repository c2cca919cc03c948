//! Generation of tokens after a prompt, one at a time.
//!
//! The logits of the next token are changed in this order, in f64:
//!
//! ```text
//! 1. temperature τ    z ← z/τ
//! 2. top-k            the k largest are kept
//! 3. softmax          p = softmax z over the tokens kept
//! 4. top-p            the fewest most probable tokens with Σ p ≥ top-p are kept, and p is scaled to a sum of 1
//! 5. draw             the first token, by descending p, whose cumulative share exceeds u, uniform on [0, 1) from Philox
//! ```
//!
//! Ties always go to the lower id. Greedy decoding takes the largest logit.

use gradus_io::exit::{self, Exit};
use gradus_tensor::Real;
use gradus_tensor::rng::Philox;

use crate::answers::Answers;
use crate::hyperparameters::{RangeError, require};
use crate::tasks::largest;

/// The rule that chooses the next token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// The most probable token.
    Greedy,
    /// A random token.
    Sample {
        /// τ > 0. Below 1, probable tokens become more probable.
        temperature: f64,
        /// The number of tokens that may be drawn; `None` for all.
        top_k: Option<usize>,
        /// The least total probability of the tokens that may be drawn, above 0 to 1.
        top_p: f64,
    },
}

/// The rule for texts longer than the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The window slides each time the context is full: the model reads its last half again, and sees nothing before it.
    #[default]
    Slide,
    /// A text that would not fit the context is an error.
    Refuse,
}

/// The settings of a generation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Continuation {
    /// The exclusive upper bound of the tokens; a tokenizer may have fewer ids than the model has rows.
    pub vocab: usize,
    /// The number of tokens to append.
    pub tokens: usize,
    /// The rule that chooses each token.
    pub choice: Choice,
    /// The rule for texts longer than the context.
    pub overflow: Overflow,
}

/// The reason why nothing was generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum GenerateError {
    #[error(
        "the prompt has no tokens, and a model that predicts the next token needs at least one; give some with --prompt or --ids"
    )]
    Empty,
    #[error(
        "{prompt} prompt tokens and {tokens} new ones do not fit the {room} tokens of a text that the model reads at once; {}leave out \
         --no-slide to continue from the end of the text",
        room.checked_sub(*prompt).filter(|&left| left > 0).map_or("shorten the prompt, or ".into(), |left| format!("give at most --tokens {left}, or "))
    )]
    TooLong { prompt: usize, tokens: usize, room: usize },
    #[error(
        "logits of token {at} (from 1, prompt included): expected finite numbers, found {found}: the model is damaged or diverged; take another checkpoint"
    )]
    NotFinite { at: usize, found: f64 },
    #[error(transparent)]
    Range(#[from] RangeError),
}

impl Exit for GenerateError {
    fn exit_code(&self) -> u8 {
        match self {
            GenerateError::Range(_) => exit::USAGE,
            _ => exit::FAILED,
        }
    }
}

impl Choice {
    /// Returns an error for a number out of range.
    pub fn check(self) -> Result<(), GenerateError> {
        let Choice::Sample { temperature, top_k, top_p } = self else { return Ok(()) };
        // A logit of f32 divided by less could overflow f64.
        let in_bounds = temperature >= 1e-200 && temperature.is_finite();
        require(
            "temperature",
            temperature,
            in_bounds,
            "a finite number from 1e-200 (for the most probable token, use --greedy)",
        )?;
        require("top-k", 0, top_k != Some(0), "a number of tokens from 1 (leave it out to keep all)")?;
        Ok(require("top-p", top_p, top_p > 0.0 && top_p <= 1.0, "a probability above 0, at most 1")?)
    }

    /// Chooses the next token by these logits, none of which may be NaN.
    pub fn choose<T: Real>(self, logits: &[T], rng: &mut Philox) -> u32 {
        let Choice::Sample { temperature, top_k, top_p } = self else { return largest(logits) as u32 };
        let mut order: Vec<(f64, u32)> = logits.iter().map(|z| z.to_f64() / temperature).zip(0..).collect();
        let kept = top_k.unwrap_or(order.len()).min(order.len());
        if kept < order.len() {
            order.select_nth_unstable_by(kept, falling);
            order.truncate(kept);
        }
        let most = order.iter().map(|&(z, _)| z).fold(f64::NEG_INFINITY, f64::max);
        for (z, _) in &mut order {
            *z = (*z - most).exp();
        }
        let total: f64 = order.iter().map(|(p, _)| p).sum();
        let mut ranked = Ranked { order: &mut order, sorted: 0 };
        let (kept, mass) = match top_p < 1.0 {
            true => ranked.until(ranked.order.len(), |sum| sum >= top_p * total),
            false => (ranked.order.len(), total),
        };
        let target = rng.uniform_f64() * mass;
        let (drawn, _) = ranked.until(kept, |sum| sum > target);
        ranked.order[drawn - 1].1
    }
}

/// Compares by descending probability; ties by ascending id.
fn falling(a: &(f64, u32), b: &(f64, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// Tokens by descending probability, sorted only as far as needed.
struct Ranked<'a> {
    order: &'a mut [(f64, u32)],
    sorted: usize,
}

impl Ranked<'_> {
    /// Returns the smallest number of first tokens, 1 to `most`, whose sum is `enough`, or `most` if there is none; and the sum.
    fn until(&mut self, most: usize, enough: impl Fn(f64) -> bool) -> (usize, f64) {
        let mut sum = 0.0;
        for i in 0..most {
            if i == self.sorted {
                let rest = &mut self.order[i..];
                let more = (3 * i).max(64).min(rest.len());
                if more < rest.len() {
                    rest.select_nth_unstable_by(more, falling);
                }
                rest[..more].sort_unstable_by(falling);
                self.sorted += more;
            }
            sum += self.order[i].0;
            if enough(sum) {
                return (i + 1, sum);
            }
        }
        (most, sum)
    }
}

/// Appends tokens to `ids` and calls `each(ids so far)` after every token; generation ends early if that returns false.
///
/// # Errors
/// Returns [`GenerateError`], before generation or at the first non-finite logit. Panics on an id that the model does not have.
pub fn generate(
    model: &dyn Answers,
    ids: &mut Vec<u32>,
    how: Continuation,
    rng: &mut Philox,
    each: &mut dyn FnMut(&[u32]) -> bool,
) -> Result<(), GenerateError> {
    let Continuation { vocab, tokens, choice, overflow } = how;
    choice.check()?;
    if ids.is_empty() && model.mask().is_none() {
        return Err(GenerateError::Empty);
    }
    let prompt = ids.len();
    let does_not_fit = |room: &usize| *room == 0 || overflow == Overflow::Refuse && prompt.saturating_add(tokens) > *room;
    if let Some(room) = model.room().filter(does_not_fit) {
        return Err(GenerateError::TooLong { prompt, tokens, room });
    }
    for _ in 0..tokens {
        let mut logits = model.next(&[ids]).remove(0);
        logits.truncate(vocab);
        if let Some(&found) = logits.iter().find(|z| !z.is_finite()) {
            return Err(GenerateError::NotFinite { at: ids.len() + 1, found });
        }
        ids.push(choice.choose(&logits, rng));
        if !each(ids) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gradus_model::{Decoder, Model, ModelConfig, Sizes, TransformerConfig, Tree};
    use gradus_tensor::Tensor;

    use super::*;
    use crate::answers::{Causal, Slide};

    const LOGITS: [f64; 5] = [1.0, 3.0, 2.0, 3.0, -1.0];

    fn assert_shares(choice: Choice, expected: [f64; 5]) {
        let (mut rng, mut counts) = (Philox::new(7), [0u32; 5]);
        for _ in 0..20_000 {
            counts[choice.choose(&LOGITS, &mut rng) as usize] += 1;
        }
        let total: f64 = expected.iter().sum();
        for (n, expected) in counts.into_iter().zip(expected.map(|p| p / total)) {
            let share = f64::from(n) / 20_000.0;
            // five standard deviations of a share
            let tolerance = 5.0 * (expected * (1.0 - expected) / 20_000.0).sqrt();
            assert!((share - expected).abs() <= tolerance, "{choice:?}: {share} for {expected}");
        }
    }

    #[test]
    fn temperature_top_k_and_top_p_apply_in_order() {
        let sample = |temperature, top_k, top_p| Choice::Sample { temperature, top_k, top_p };
        assert_shares(sample(1.0, None, 1.0), LOGITS.map(f64::exp));
        assert_shares(sample(0.5, None, 1.0), LOGITS.map(|z| (2.0 * z).exp()));
        let kept = |ids: &[usize]| std::array::from_fn(|i| if ids.contains(&i) { LOGITS[i].exp() } else { 0.0 });
        assert_shares(sample(1.0, Some(3), 1.0), kept(&[1, 2, 3]));
        assert_shares(sample(1.0, Some(1), 1.0), kept(&[1])); // the lower id of two equals
        // p of the three largest is 0.397, 0.397, 0.146: 0.79 needs two of them, 0.83 three.
        assert_shares(sample(1.0, None, 0.79), kept(&[1, 3]));
        assert_shares(sample(1.0, None, 0.83), kept(&[1, 2, 3]));
        // After top-k 3 the two have a total of 0.845.
        assert_shares(sample(1.0, Some(3), 0.83), kept(&[1, 3]));
        assert_eq!(largest(&LOGITS), 1);
    }

    #[test]
    fn only_options_out_of_range_are_errors_of_usage() {
        let range = Choice::Sample { temperature: 0.0, top_k: None, top_p: 1.0 }.check().unwrap_err();
        assert_eq!((range.exit_code(), GenerateError::Empty.exit_code()), (exit::USAGE, exit::FAILED));
    }

    /// Two of four equal tokens reach 0.5: no third is needed.
    #[test]
    fn top_p_keeps_the_fewest_tokens_that_reach_it() {
        let choice = Choice::Sample { temperature: 1.0, top_k: None, top_p: 0.5 };
        let mut rng = Philox::new(3);
        assert!((0..200).all(|_| choice.choose(&[2.0; 4], &mut rng) < 2));
    }

    #[test]
    fn a_partial_sort_draws_the_same_token_as_a_full_sort() {
        let logits: Vec<f64> = (0..1000u32).map(|i| f64::from(i * 7919 % 1009) * 3e-3).collect();
        let mut order: Vec<(f64, u32)> = logits.iter().map(|z| z.exp()).zip(0..).collect();
        order.sort_by(falling);
        let total: f64 = order.iter().map(|(p, _)| p).sum();
        for seed in 0..200 {
            let target = Philox::new(seed).uniform_f64() * total;
            let mut sum = 0.0;
            let at = order.iter().position(|(p, _)| {
                sum += p;
                sum > target
            });
            let choice = Choice::Sample { temperature: 1.0, top_k: None, top_p: 1.0 };
            assert_eq!(choice.choose(&logits, &mut Philox::new(seed)), order[at.unwrap()].1);
        }
    }

    #[test]
    fn sliding_reads_the_last_half_context() {
        let config = ModelConfig::new(
            Sizes { vocab: 9, context: 4, width: 8 },
            TransformerConfig { layers: 1, heads: 2, initializer_range: 1.5, ..Default::default() },
        );
        let model: Model<Tensor<f64>> = Model::init(&config, 2);
        let run = |ids: &mut Vec<u32>, tokens, overflow| {
            let how = Continuation { vocab: 9, tokens, choice: Choice::Greedy, overflow };
            generate(&Causal::new(&model), ids, how, &mut Philox::new(0), &mut |_| true)
        };
        let mut full = vec![3, 1];
        run(&mut full, 2, Overflow::Refuse).unwrap();
        assert_eq!(full.len(), 4, "as many as fit");
        let mut ids = vec![3, 1];
        let error = run(&mut ids, 3, Overflow::Refuse).unwrap_err();
        assert!(
            error.to_string().contains("do not fit the 4 tokens of a text that the model reads at once; give at most --tokens 2"),
            "{error}"
        );
        assert_eq!(ids, [3, 1], "nothing is generated");
        run(&mut ids, 20, Overflow::default()).unwrap();
        assert_eq!(ids.len(), 22);
        let first = |prompt, tokens| Causal::new(&model).slide(prompt, tokens);
        // The context is full with tokens 0 to 3; token 5 is chosen after the last two, 3 and 4, are read again.
        assert_eq!(first(2, 3), None, "tokens 2, 3 and 4 see all before them");
        assert_eq!(first(2, 4), Some(Slide { at: 5, unseen: 3 }));
        let next = |seen: &[u32]| largest(&Decoder::new(&model).read(seen)) as u32;
        assert_eq!(ids[4], next(&ids[..4]));
        assert_eq!(ids[5], next(&ids[3..5]));
        assert_eq!(ids[6], next(&ids[3..6]));
        // Other windows would have given other tokens.
        assert!(ids[4] != next(&ids[2..4]) && ids[6] != next(&ids[4..6]), "{ids:?}");
        let mut long: Vec<u32> = (0..9).collect();
        run(&mut long, 1, Overflow::Slide).unwrap();
        assert_eq!(long[9], next(&[7, 8]));
        assert_eq!(first(9, 1), Some(Slide { at: 9, unseen: 7 }));
    }

    #[test]
    fn numbers_out_of_range_are_rejected() {
        let check = |temperature, top_k, top_p| Choice::Sample { temperature, top_k, top_p }.check();
        for (temperature, top_k, top_p) in [(1.0, None, 1.0), (1e-200, Some(1), 1e-9), (1e300, Some(usize::MAX), 0.5)] {
            assert_eq!(check(temperature, top_k, top_p), Ok(()));
        }
        for (choice, flag) in [
            (check(0.9e-200, None, 1.0), "--temperature"),
            (check(-1.0, None, 1.0), "--temperature"),
            (check(f64::INFINITY, None, 1.0), "--temperature"),
            (check(f64::NAN, None, 1.0), "--temperature"),
            (check(1.0, Some(0), 1.0), "--top-k 0"),
            (check(1.0, None, 0.0), "--top-p 0"),
            (check(1.0, None, 1.5), "--top-p 1.5"),
            (check(1.0, None, f64::NAN), "--top-p NaN"),
        ] {
            let error = choice.unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let choice = Choice::Sample { temperature: 0.01, top_k: None, top_p: 1.0 };
        assert!((0..50).all(|seed| choice.choose(&[30.0, -30.0, 29.0], &mut Philox::new(seed)) == 0));
    }

    #[test]
    fn a_logit_that_is_not_finite_is_named_by_its_token() {
        let config = ModelConfig::gpt(Sizes { vocab: 9, context: 4, width: 8 }, 1, 2);
        let model: Model<Tensor<f64>> = Model::init(&config, 1);
        let model = model.map(|name, p| if name.ends_with("ln_2.bias") { p.map(|_| f64::NAN) } else { p });
        let mut ids = vec![3, 1, 2];
        let how = Continuation { vocab: 9, tokens: 1, choice: Choice::Greedy, overflow: Overflow::Slide };
        let made = generate(&Causal::new(&model), &mut ids, how, &mut Philox::new(0), &mut |_| true);
        assert!(matches!(made, Err(GenerateError::NotFinite { at: 4, .. })), "{made:?}");
        assert_eq!(ids, [3, 1, 2]);
    }
}
