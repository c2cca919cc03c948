//! Continuing a sequence, token by token.
//!
//! The logits of the next token are changed in this order, in f64:
//!
//! ```text
//! 1. temperature τ    z ← z/τ
//! 2. top-k            the k largest stay
//! 3. softmax          p = softmax z over those that stay
//! 4. top-p            the fewest most probable tokens with Σ p ≥ top-p stay, and share 1 in proportion
//! 5. draw             the first token, by falling p, whose cumulated share exceeds u, uniform on [0, 1) from Philox
//! ```
//!
//! Among equals the lower id comes first, everywhere; greedy takes the largest logit.

use gradus_model::{Decoder, Model};
use gradus_tensor::rng::Philox;
use gradus_tensor::{Real, Tensor};

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// The most probable token.
    Greedy,
    /// By chance.
    Sample {
        /// τ > 0: below 1 the probable become more so.
        temperature: f64,
        /// How many tokens may be drawn; `None` for all.
        top_k: Option<usize>,
        /// The probability that the tokens which may be drawn have at least, above 0 to 1.
        top_p: f64,
    },
}

/// What happens at the end of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Nothing is generated beyond it.
    Refuse,
    /// The last half context is read afresh, and everything before it is forgotten.
    Slide,
}

/// Why nothing was generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// Nothing to continue.
    #[error("the prompt has no tokens, and a GPT predicts from at least one; give some in --prompt or --ids")]
    Empty,
    /// The sequence would leave the context.
    #[error(
        "{prompt} prompt tokens and {tokens} new ones are {}, but the model's context is {context}; \
         ask for at most {}, or give --slide to go on from the last half context",
        prompt + tokens,
        format_args!("--tokens {}", context.saturating_sub(*prompt))
    )]
    TooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for.
        tokens: usize,
        /// The model's context.
        context: usize,
    },
    /// An option that no distribution has.
    #[error("{option} {found}: expected {expected}")]
    Option {
        /// The flag.
        option: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
}

impl Choice {
    /// Is it a choice that can be made?
    ///
    /// # Errors
    /// [`GenerateError::Option`].
    pub fn check(self) -> Result<(), GenerateError> {
        let Choice::Sample { temperature, top_k, top_p } = self else { return Ok(()) };
        let error = |option, found: String, expected| Err(GenerateError::Option { option, found, expected });
        if !(temperature > 0.0 && temperature.is_finite()) {
            return error("--temperature", temperature.to_string(), "a number above 0 (for the most probable token, --greedy)");
        }
        if top_k == Some(0) {
            return error("--top-k", "0".into(), "a number of tokens from 1 (leave it out to keep all)");
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return error("--top-p", top_p.to_string(), "a probability above 0, at most 1");
        }
        Ok(())
    }

    /// The next token, by these logits, none of them NaN.
    pub fn choose<T: Real>(self, logits: &[T], rng: &mut Philox) -> u32 {
        let Choice::Sample { temperature, top_k, top_p } = self else { return greedy(logits) };
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

/// By falling probability, among equals the lower id first.
fn falling(a: &(f64, u32), b: &(f64, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// Tokens by falling probability, sorted as far as was asked: of a large vocabulary few tokens matter.
struct Ranked<'a> {
    order: &'a mut [(f64, u32)],
    sorted: usize,
}

impl Ranked<'_> {
    /// How many of the first `most` tokens, at least one, it takes until their sum is enough, and the sum.
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

/// The largest logit; among equals the lowest id.
fn greedy<T: Real>(logits: &[T]) -> u32 {
    let mut best = 0;
    for (i, z) in logits.iter().enumerate() {
        if *z > logits[best] {
            best = i;
        }
    }
    best as u32
}

/// Appends `tokens` tokens to `ids`, all below `vocab` (a tokenizer may have fewer ids than the model has rows), calling
/// `each(ids so far)` after every one; it ends early where that returns false.
///
/// # Errors
/// [`GenerateError`], before anything is generated. Panics on an id that the model does not have: callers check user input.
#[allow(clippy::too_many_arguments, reason = "all that a text depends on")]
pub fn generate<T: Real>(
    model: &Model<Tensor<T>>,
    ids: &mut Vec<u32>,
    vocab: usize,
    tokens: usize,
    choice: Choice,
    overflow: Overflow,
    rng: &mut Philox,
    mut each: impl FnMut(&[u32]) -> bool,
) -> Result<(), GenerateError> {
    choice.check()?;
    if ids.is_empty() {
        return Err(GenerateError::Empty);
    }
    let context = model.backbone.config().context();
    if overflow == Overflow::Refuse && ids.len() + tokens > context {
        return Err(GenerateError::TooLong { prompt: ids.len(), tokens, context });
    }
    let mut decoder = Decoder::new(model);
    let mut unread = 0; // index of the first token that the decoder has not read
    for _ in 0..tokens {
        if decoder.position() + ids.len() - unread > context {
            decoder = Decoder::new(model);
            unread = ids.len() - (context / 2).max(1);
        }
        let logits = decoder.read(&ids[unread..]);
        unread = ids.len();
        ids.push(choice.choose(&logits[..vocab.min(logits.len())], rng));
        if !each(ids) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gradus_model::GptConfig;

    use super::*;

    const LOGITS: [f64; 5] = [1.0, 3.0, 2.0, 3.0, -1.0];

    fn shares(choice: Choice) -> [f64; 5] {
        let (mut rng, mut counts) = (Philox::new(7), [0u32; 5]);
        for _ in 0..20_000 {
            counts[choice.choose(&LOGITS, &mut rng) as usize] += 1;
        }
        counts.map(|n| f64::from(n) / 20_000.0)
    }

    fn assert_shares(choice: Choice, expected: [f64; 5]) {
        let total: f64 = expected.iter().sum();
        for (share, expected) in shares(choice).into_iter().zip(expected.map(|p| p / total)) {
            // five standard deviations of a share
            let tolerance = 5.0 * (expected * (1.0 - expected) / 20_000.0).sqrt();
            assert!((share - expected).abs() <= tolerance, "{choice:?}: {share} for {expected}");
        }
    }

    #[test]
    fn filters_in_their_order() {
        let sample = |temperature, top_k, top_p| Choice::Sample { temperature, top_k, top_p };
        assert_shares(sample(1.0, None, 1.0), LOGITS.map(f64::exp));
        assert_shares(sample(0.5, None, 1.0), LOGITS.map(|z| (2.0 * z).exp()));
        let kept = |ids: &[usize]| std::array::from_fn(|i| if ids.contains(&i) { LOGITS[i].exp() } else { 0.0 });
        assert_shares(sample(1.0, Some(3), 1.0), kept(&[1, 2, 3]));
        assert_shares(sample(1.0, Some(1), 1.0), kept(&[1])); // of two equals the lower id
        // p of the three largest is 0.397, 0.397, 0.146: 0.79 needs two of them, 0.83 three.
        assert_shares(sample(1.0, None, 0.79), kept(&[1, 3]));
        assert_shares(sample(1.0, None, 0.83), kept(&[1, 2, 3]));
        // After top-k 3 the two are 0.845 of what is left.
        assert_shares(sample(1.0, Some(3), 0.83), kept(&[1, 3]));
        assert_eq!(greedy(&LOGITS), 1);
    }

    #[test]
    fn sorting_as_far_as_needed_draws_as_sorting_all() {
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
    fn what_cannot_be_chosen_is_refused() {
        for (temperature, top_k, top_p, flag) in [
            (0.0, None, 1.0, "--temperature"),
            (f64::NAN, None, 1.0, "--temperature"),
            (1.0, Some(0), 1.0, "--top-k"),
            (1.0, None, 1.5, "--top-p"),
        ] {
            let error = Choice::Sample { temperature, top_k, top_p }.check().unwrap_err();
            assert!(error.to_string().starts_with(flag), "{error}");
        }
    }

    #[test]
    fn sliding_reads_the_last_half_context() {
        let config =
            GptConfig { vocab: 9, context: 4, width: 8, layers: 1, heads: 2, initializer_range: 0.7, ..Default::default() };
        let model: Model<Tensor<f64>> = Model::init(&config.into(), 1);
        let run = |ids: &mut Vec<u32>, tokens, overflow| {
            generate(&model, ids, 9, tokens, Choice::Greedy, overflow, &mut Philox::new(0), |_| true)
        };
        let mut ids = vec![3, 1];
        let error = run(&mut ids, 3, Overflow::Refuse).unwrap_err();
        assert!(error.to_string().contains("context is 4; ask for at most --tokens 2"), "{error}");
        run(&mut ids, 20, Overflow::Slide).unwrap();
        assert_eq!(ids.len(), 22);
        // The context fills with tokens 0 to 3; token 5 follows a fresh reading of the last two, 3 and 4.
        let next = |seen: &[u32]| greedy(&Decoder::new(&model).read(seen));
        assert_eq!(ids[4], next(&ids[..4]));
        assert_eq!(ids[5], next(&ids[3..5]));
        assert_eq!(ids[6], next(&ids[3..6]));
        let mut long: Vec<u32> = (0..9).collect();
        run(&mut long, 1, Overflow::Slide).unwrap();
        assert_eq!(long[9], next(&[7, 8]));
    }
}
