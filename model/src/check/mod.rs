//! Properties of every model of a given [`Sight`], for checks of your own models.
//!
//! | property | claim | error allowed |
//! |-|-|-|
//! | [`blindness`] | no bit of a slot depends on tokens it does not attend to; causality: ∂logitsᵢ/∂xⱼ = 0 for j > i | none |
//! | [`sight`] | … and changes all slots that attend to it, unless the parameters hide the change | – |
//! | [`independence`] | a sequence's values depend neither on its place in the batch nor on its neighbours | 1e-13 |
//! | [`padding`] | other tokens as padding change no bit of the loss; more padding changes only its rounding | none; 1e-12 |
//! | [`cache`] | reading token by token with a cache gives the logits of one pass | 1e-12 |
//! | [`shards`] | the losses and gradients of a batch's parts add up to those of the whole | 1e-12 |
//!
//! Each function takes a closure, so that a model of another crate can be tested too; [`properties`] tests a model of this crate
//! for all. The witnesses of [`gradus_autograd::check`] check its derivatives; to them, [`Loss`] is a function like any other.
//!
//! ```
//! use gradus_autograd::Tensor;
//! use gradus_model::{Model, ModelConfig, Objective, Sizes, check};
//! use gradus_tensor::rng::Philox;
//!
//! let sizes = Sizes { vocab: 11, context: 6, width: 8 };
//! let config = ModelConfig::gpt(sizes, 2, 2);
//! let model: Model<Tensor<f64>> = Model::init(&config, 1);
//! let batch = check::random_batch(&mut Philox::new(2), 11, 2, Objective::TokenMean.weights(&[1.0; 8], 2));
//! let loss = check::Loss { model, batch, dropout: None };
//! for (name, verdict) in check::properties(&loss) {
//!     assert_eq!(verdict, Ok(()), "{name}");
//! }
//! println!("{}", gradus_autograd::check::adjoint(&loss.case(17))?); // ⟨∇L, v⟩ against an exact directional derivative
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod samples;

use std::any::Any;
use std::sync::Arc;

use gradus_autograd::check::{Case, Function};
use gradus_autograd::{Real, Tape, Tensor, Var};

use crate::batch::{Batch, ClassLoss, Input, LossTerm, Sight, TokenLoss};
use crate::decode::Decoder;
use crate::dropout::DropoutSeed;
use crate::model::{GradientMode, Model};
use crate::tree::Tree;

pub use samples::{
    Reads, Sample, labelled_batch, masked_batch, random_batch, samples, shaken, tiny_bert, tiny_gpt, tiny_gpt2, tiny_lstm,
};

/// A violation of a property, with its place.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{property}: {what}")]
pub struct Violation {
    /// The name of the property, which is that of the function in this module.
    pub property: &'static str,
    /// The value found, its place, and the value expected.
    pub what: String,
}

/// The result of the test of a property.
pub type Verdict = Result<(), Violation>;

/// The loss of a model on a batch. As a function, it takes the parameters in their order, in place of the model's own.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The model.
    pub model: Model<Tensor<f64>>,
    /// The batch of the loss.
    pub batch: Batch,
    /// The seed of dropout; `None`: nothing is dropped.
    pub dropout: Option<DropoutSeed>,
}

impl Function for Loss {
    fn call<'t, T: Real>(&self, ins: &[Var<'t, T>]) -> Var<'t, T> {
        let mut ins = ins.iter().cloned();
        let value = |name: &str, _: &Tensor<f64>| ins.next().unwrap_or_else(|| panic!("no value for {name}"));
        self.model.as_ref().map(value).loss(&self.batch, self.dropout)
    }
}

impl Loss {
    /// Returns the model's parameters, in their order.
    pub fn parameters(&self) -> Vec<Tensor<f64>> {
        let mut all = Vec::new();
        self.model.as_ref().visit(|_, p| all.push(p.clone()));
        all
    }

    /// Returns the loss at the model's parameters, as a case for the witnesses; `seed` draws directions.
    pub fn case(&self, seed: u64) -> Case {
        Case::of("loss", self.clone(), &self.parameters(), seed)
    }

    /// Returns the loss as a function of each parameter tensor alone, by the tensor's name.
    pub fn cases(&self, seed: u64) -> impl Iterator<Item = (String, Case)> {
        let (loss, params): (_, Arc<[Tensor<f64>]>) = (Arc::new(self.clone()), self.parameters().into());
        let mut names = Vec::new();
        self.model.as_ref().visit(|name, _| names.push(name.to_owned()));
        names.into_iter().enumerate().map(move |(which, name)| {
            let part = ParamSubset { loss: loss.clone(), params: params.clone(), which };
            (name, Case::of("loss", part, &params[which..=which], seed + which as u64))
        })
    }
}

/// The loss as a function of one parameter tensor; the others are constants.
#[derive(Clone, Debug)]
struct ParamSubset {
    loss: Arc<Loss>,
    params: Arc<[Tensor<f64>]>,
    which: usize,
}

impl Function for ParamSubset {
    fn call<'t, T: Real>(&self, ins: &[Var<'t, T>]) -> Var<'t, T> {
        let tape = ins[0].tape();
        // In f64 a tensor is shared, not copied.
        let constant = |p: &Tensor<f64>| match (p as &dyn Any).downcast_ref::<Tensor<T>>() {
            Some(p) => tape.constant(p.clone()),
            None => tape.constant(p.cast()),
        };
        let at = |(i, p): (usize, &Tensor<f64>)| if i == self.which { ins[0].clone() } else { constant(p) };
        self.loss.call(&self.params.iter().enumerate().map(at).collect::<Vec<_>>())
    }
}

/// Tests every property that a model should have on such a batch; returns the verdicts by name. Only causal inputs have a cache.
///
/// # Panics
/// Panics if the batch does not fit this model: no sequences, tokens outside its vocabulary, or more slots than its context.
pub fn properties(Loss { model, batch, dropout }: &Loss) -> Vec<(&'static str, Verdict)> {
    let (dropout, sizes, input) = (*dropout, model.sizes(), &batch.input);
    let vocab = sizes.vocab as u32;
    let logits = |input: &Input| {
        let tape = Tape::off();
        model.constants(&tape).hidden(input, dropout).logits().into_value()
    };
    let losses = |order: &[usize]| {
        let input = input.part(order.iter().copied(), input.length());
        let (targets, weights) = (input.tokens.clone(), vec![1.0; input.tokens.len()]);
        model.token_losses(&Batch::of(input).with_tokens(None, targets, weights))
    };
    let gradient = |batch: &Batch, dropout: Option<DropoutSeed>| {
        let (loss, gradient) = model.gradient(batch, dropout, GradientMode::Whole);
        let mut all = vec![loss.item()];
        gradient.zip(model.as_ref()).visit(|_, (g, p)| all.extend(g.map_or_else(|| vec![0.0; p.len()], |g| g.to_vec())));
        all
    };
    let plain = input.positions.is_none() && input.query_only == 0;
    let room = dropout.is_none() && plain && !matches!(input.sight, Sight::Allowed(_)) && input.length() < sizes.context;
    let causal = input.sight == Sight::Causal && plain;
    let mut verdicts = vec![
        (if causal { "causality" } else { "blindness" }, blindness(input, vocab, logits)),
        ("independence", independence(input.sequences, losses)),
        ("padding", padding(batch, vocab, room, |batch| gradient(batch, dropout))),
    ];
    if causal {
        let ids = &input.tokens[..input.length()];
        let full = model.constants(&Tape::off()).logits(&Input::causal(1, ids)).into_value();
        let mut decoder = Decoder::new(model);
        verdicts.push(("cache", cache(ids, &full.slice(2, 0..vocab as usize), |id| decoder.read(&[id]))));
    }
    // A part may be shorter than the batch, and dropout masks depend on the length.
    let dropout = dropout.filter(|_| causal && batch.classes().next().is_none());
    let part = |first: usize, part: &Batch| gradient(part, dropout.map(|seed| seed.from_sequence(first as u64)));
    verdicts.push(("shards", shards(batch, part)));
    verdicts
}

/// Tests that no bit of a slot's logits depends on tokens outside its mask. `logits` maps tokens below `vocab` to (B, T, …).
pub fn blindness(input: &Input, vocab: u32, logits: impl Fn(&Input) -> Tensor<f64>) -> Verdict {
    let property = if input.sight == Sight::Causal { "causality" } else { "blindness" };
    changes(property, input, vocab, logits, |same, sees| same || sees)
}

/// Tests that the logits of a slot depend on every slot that its mask allows. A dependence shows only if the parameters make a
/// difference, not if an embedding is constant or a probability rounds to 1, so [`properties`] leaves this test out.
pub fn sight(input: &Input, vocab: u32, logits: impl Fn(&Input) -> Tensor<f64>) -> Verdict {
    changes("sight", input, vocab, logits, |same, sees| !same || !sees)
}

/// Replaces the token in each slot j in turn. `holds(same, sees)` returns whether the outcome is allowed: `same` states whether
/// the logits of slot i are unchanged, `sees` whether it attends to j. A slot reads its own token even if it is padding.
fn changes(
    property: &'static str,
    input: &Input,
    vocab: u32,
    logits: impl Fn(&Input) -> Tensor<f64>,
    holds: impl Fn(bool, bool) -> bool,
) -> Verdict {
    let (ids, sequences) = (&input.tokens, input.sequences);
    let whole = sequences > 0 && !ids.is_empty() && ids.len().is_multiple_of(sequences);
    assert!(whole, "{property}: tokens (B·T) of B sequences of one length, got {} of {sequences} sequences", ids.len());
    let t = input.length();
    let before = logits(input).to_vec();
    let row = before.len() / ids.len();
    for j in 0..t {
        let mut other = ids.to_vec();
        (0..sequences).for_each(|s| other[s * t + j] = (other[s * t + j] + 1) % vocab);
        let after = logits(&Input { tokens: other.into(), ..input.clone() }).to_vec();
        for (at, (old, new)) in before.chunks(row).zip(after.chunks(row)).enumerate() {
            let same = old.iter().zip(new).all(|(a, b)| a.to_bits() == b.to_bits());
            let (s, i) = (at / t, at % t);
            if !holds(same, i == j || input.attends(s, i, j)) {
                let how = if same { "the same as" } else { "different from" };
                let what = format!("sequence {s}: the logits at {i} are {how} before when only token {j} changes");
                return Err(Violation { property, what });
            }
        }
    }
    Ok(())
}

/// Tests that sequences have the same values in another order, or without some of the others, as in the whole batch. `values`
/// returns (n, …) for the indices of n sequences.
pub fn independence(sequences: usize, values: impl Fn(&[usize]) -> Tensor<f64>) -> Verdict {
    let all: Vec<usize> = (0..sequences).collect();
    let whole = values(&all).to_vec();
    let row = whole.len() / sequences.max(1);
    let turned: Vec<usize> = all.iter().map(|s| (s + 1) % sequences).rev().collect();
    for order in [turned, all[sequences / 2..].to_vec()] {
        for (found, &s) in values(&order).to_vec().chunks(row).zip(&order) {
            for (a, b) in found.iter().zip(&whole[s * row..]) {
                if !near(*a, *b, 1e-13, b.abs()) {
                    let what = format!("sequence {s} in the order {order:?}: {a:e}, in the whole batch {b:e}");
                    return Err(Violation { property: "independence", what });
                }
            }
        }
    }
    Ok(())
}

/// Tests that the loss and its gradient are independent of the tokens after the last one that counts, and with `room` of the
/// number of these. `gradient` returns both for a batch, in one order.
pub fn padding(batch: &Batch, vocab: u32, room: bool, gradient: impl Fn(&Batch) -> Vec<f64>) -> Verdict {
    let (input, t) = (&batch.input, batch.input.length());
    let end = |s: usize| match &input.sight {
        _ if input.query_only > 0 => t,
        Sight::Full(lengths) => lengths.as_ref().map_or(t, |lengths| lengths[s]),
        Sight::Allowed(_) => t,
        Sight::Causal | Sight::Prefix(_) => {
            let predicted = batch.tokens().filter_map(|tokens| tokens.weights[s * t..][..t].iter().rposition(|&w| w != 0.0));
            let read = batch.classes().map(|classes| classes.slots[s] as usize % t);
            predicted.chain(read).max().map_or(0, |last| last + 1)
        }
    };
    let behind = |i: usize| i % t >= end(i / t);
    let before = gradient(batch);
    let unchanged = |how, other: &Batch, tolerance| same("padding", &gradient(other), how, &before, "before", tolerance);
    if (0..input.tokens.len()).any(behind) {
        let other = |(i, &id): (usize, &u32)| if behind(i) { (id + 1) % vocab } else { id };
        let input = Input { tokens: input.tokens.iter().enumerate().map(other).collect(), ..input.clone() };
        unchanged("with other tokens for padding", &Batch { input, ..batch.clone() }, 0.0)?;
    }
    if room { unchanged("one token longer", &longer(batch), 1e-12) } else { Ok(()) }
}

/// Returns the batch with one more slot of padding in each sequence.
fn longer(batch: &Batch) -> Batch {
    fn with<X: Copy>(row: usize, all: &[X], pad: X) -> Arc<[X]> {
        all.chunks(row).flat_map(|row| row.iter().copied().chain([pad])).collect()
    }
    let (input, t) = (&batch.input, batch.input.length());
    let lengths = |lengths: &Option<Arc<[usize]>>| lengths.clone().unwrap_or_else(|| vec![t; input.sequences].into());
    let input = Input {
        tokens: with(t, &input.tokens, 0),
        segments: input.segments.as_ref().map(|segments| with(t, segments, 0)),
        sight: match &input.sight {
            Sight::Full(all) => Sight::Full(Some(lengths(all))),
            same => same.clone(),
        },
        ..input.clone()
    };
    let moved = |slots: &[u32]| slots.iter().map(|&slot| slot + slot / t as u32).collect();
    let term = |term: &LossTerm| match term {
        LossTerm::Classes(classes) => LossTerm::Classes(ClassLoss { slots: moved(&classes.slots), ..classes.clone() }),
        LossTerm::Tokens(tokens) => LossTerm::Tokens(match &tokens.slots {
            None => TokenLoss { targets: with(t, &tokens.targets, 0), weights: with(t, &tokens.weights, 0.0), ..tokens.clone() },
            Some(slots) => TokenLoss { slots: Some(moved(slots)), ..tokens.clone() },
        }),
    };
    Batch { input, losses: batch.losses.iter().map(term).collect() }
}

/// Tests that reading token by token gives the logits of one pass: `full` is (1, T, V), `next` reads a token and returns (V).
pub fn cache(ids: &[u32], full: &Tensor<f64>, mut next: impl FnMut(u32) -> Vec<f64>) -> Verdict {
    let full = full.to_vec();
    let row = full.len() / ids.len();
    for (t, (&id, expected)) in ids.iter().zip(full.chunks(row)).enumerate() {
        let largest = expected.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        for (v, (found, expected)) in next(id).into_iter().zip(expected).enumerate() {
            if !near(found, *expected, 1e-12, largest) {
                let what = format!("the logit of {v} after token {t} is {found:e}, in one pass {expected:e}");
                return Err(Violation { property: "cache", what });
            }
        }
    }
    Ok(())
}

/// Tests that the losses and gradients of a batch's parts ([`Batch::split`]) add up to its own, for any number of parts.
/// `gradient` returns those of a part, whose first sequence has this index, in one order.
pub fn shards(batch: &Batch, gradient: impl Fn(usize, &Batch) -> Vec<f64>) -> Verdict {
    let whole = gradient(0, batch);
    for parts in 2..=batch.input.sequences / batch.group() {
        let mut sum = vec![0.0; whole.len()];
        for (first, part) in batch.split(parts) {
            sum.iter_mut().zip(gradient(first, &part)).for_each(|(sum, g)| *sum += g);
        }
        same("shards", &sum, &format!("in {parts} parts"), &whole, "in one", 1e-12)?;
    }
    Ok(())
}

/// Compares a loss and the elements of its gradient with those expected; the allowed error is relative to the largest of these.
fn same(property: &'static str, found: &[f64], how: &str, expected: &[f64], other: &str, tolerance: f64) -> Verdict {
    let largest = expected.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    let Some(i) = (0..expected.len()).find(|&i| !near(found[i], expected[i], tolerance, largest)) else { return Ok(()) };
    let which = if i == 0 { "the loss".into() } else { format!("element {} of the gradient", i - 1) };
    let what = format!("{which} is {:e} {how}, and {:e} {other}", found[i], expected[i]);
    Err(Violation { property, what })
}

/// Returns whether |a − b| ≤ tolerance · scale.
fn near(a: f64, b: f64, tolerance: f64, scale: f64) -> bool {
    a == b || (a - b).abs() <= tolerance * scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sizes;
    use crate::model::ModelConfig;
    use crate::transformer::TransformerConfig;

    /// A model with full attention is tested for the properties of full attention, not for causality.
    #[test]
    fn a_model_is_checked_for_the_properties_of_its_attention_mask() {
        let body = TransformerConfig { layers: 2, heads: 2, initializer_range: 0.5, ..Default::default() };
        let config = ModelConfig::new(Sizes { vocab: 11, context: 6, width: 8 }, body);
        let ids: Arc<[u32]> = [1, 2, 3, 4, 5, 6, 7, 8].into();
        let batch = Batch::next(2, ids.clone(), ids.clone(), [0.125; 8]);
        let model: Model<Tensor<f64>> = Model::init(&config, 1);
        let (all, masked) =
            (["causality", "independence", "padding", "cache", "shards"], ["blindness", "independence", "padding", "shards"]);
        let padded = Sight::Full(Some([4, 2].into()));
        for (seen, expected) in [(Sight::Causal, &all[..]), (Sight::Full(None), &masked), (padded, &masked)] {
            let input = Input { sight: seen.clone(), ..batch.input.clone() };
            let predicted = Batch::of(input.clone()).with_tokens(Some([1, 3, 4].into()), [7, 8, 9], [0.25; 3]);
            let batch = if seen == Sight::Causal { batch.clone() } else { predicted };
            let verdicts = properties(&Loss { model: model.clone(), batch, dropout: None });
            assert_eq!(verdicts.iter().map(|(name, _)| *name).collect::<Vec<_>>(), expected);
            assert!(verdicts.iter().all(|(_, verdict)| verdict.is_ok()), "{verdicts:?}");
            let logits = |input: &Input| model.constants(&Tape::off()).logits(input).into_value();
            assert_eq!(sight(&input, 11, logits), Ok(()));
            let other = |sight| Input { sight, ..input.clone() };
            let claimed =
                |sight: Sight| blindness(&other(sight), 11, |found| logits(&Input { sight: seen.clone(), ..found.clone() }));
            assert_eq!(claimed(Sight::Causal).is_ok(), seen == Sight::Causal, "what sees ahead is found out");
        }
    }
}
