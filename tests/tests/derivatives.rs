//! Derivatives of the loss of a GPT, and the witnesses' reports on wrong functions and models.

use gradus_autograd::check::{self, Case, Function};
use gradus_autograd::derivatives::{grad, hvp, jvp};
use gradus_autograd::{Real, Tensor, Var};
use gradus_model::check::Loss;
use gradus_model::{Batch, DropoutSeed, Input, LossTerm, Model, ModelConfig, Objective, Sizes, Tree, check as properties};

fn gpt() -> (Loss, Vec<Tensor<f64>>) {
    let sizes = Sizes { vocab: 17, context: 6, width: 12 };
    let backbone = ModelConfig::gpt(sizes, 2, 3).with_transformer(|c| c.initializer_range = 0.3);
    let model = Model::init(&backbone, 1);
    let ids = |k: u32| (0..12).map(|i| (5 * i + k) % 17).collect::<Vec<_>>();
    let weights = Objective::TokenMean.weights(&[1.0; 12], 2);
    let batch = Batch::next(2, ids(1), ids(2), weights);
    let loss = Loss { model, batch, dropout: Some(DropoutSeed::new(3, 1)) };
    let parameters = loss.parameters();
    (loss, parameters)
}

fn direction(inputs: &[Tensor<f64>], seed: u64) -> Vec<Tensor<f64>> {
    let draw = |(i, x): (usize, &Tensor<f64>)| {
        Tensor::normal(*x.shape(), 0.01, &mut gradus_tensor::rng::Philox::with_stream(seed, i as u64))
    };
    inputs.iter().enumerate().map(draw).collect()
}

fn dot(a: &[Tensor<f64>], b: &[Tensor<f64>]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.dot(b)).sum()
}

/// Forward mode on dual numbers and reverse mode share no line of the ops' derivatives.
#[test]
fn the_loss_of_a_gpt_has_one_derivative_forward_and_backward() {
    let (loss, at) = gpt();
    let v = direction(&at, 1);
    let ((y, along), (value, gradient)) = (jvp(|ins| loss.call(ins), &at, &v), grad(|ins| loss.call(ins), &at));
    assert!((y.item() - value).abs() < 1e-14);
    assert!((along.item() - dot(&gradient, &v)).abs() < 1e-14, "{} {}", along.item(), dot(&gradient, &v));
}

/// ⟨w, Hv⟩ = ⟨v, Hw⟩, and Hv is the change of the gradient along v.
#[test]
fn the_hessian_of_a_gpt_is_symmetric_and_the_derivative_of_its_gradient() {
    let (loss, at) = gpt();
    let (v, w) = (direction(&at, 1), direction(&at, 2));
    let along = |v| hvp(|ins| loss.call(ins), &at, v);
    let (hv, hw) = (along(&v), along(&w));
    let (left, right) = (dot(&w, &hv), dot(&v, &hw));
    assert!((left - right).abs() <= 1e-12 * left.abs().max(right.abs()), "{left} {right}");
    let moved = |h: f64| at.iter().zip(&v).map(|(x, v)| x.zip(v, |x, v| x + h * v)).collect::<Vec<_>>();
    let gradient = |h: f64| grad(|ins| loss.call(ins), &moved(h)).1;
    let h = 1e-4; // |v| is about 0.5
    let (up, down) = (gradient(h), gradient(-h));
    let largest = hv.iter().flat_map(Tensor::to_vec).fold(0.0, |m: f64, x| m.max(x.abs()));
    for (k, hv) in hv.iter().enumerate() {
        for (i, exact) in hv.to_vec().into_iter().enumerate() {
            let difference = (up[k].to_vec()[i] - down[k].to_vec()[i]) / (2.0 * h);
            assert!((difference - exact).abs() <= 1e-6 * largest, "input {k}, element {i}: {exact:e}, {difference:e}");
        }
    }
}

// ── Functions through the witnesses ─────────────────────────────────────────────────────────────────────────────────

/// The function Σ tanh(xy), with a factor on the gradient of x, or with part of that gradient cut off.
#[derive(Debug)]
struct Bent {
    factor: f64,
    cut: bool,
}

impl Function for Bent {
    fn call<'t, T: Real>(&self, ins: &[Var<'t, T>]) -> Var<'t, T> {
        let x = &ins[0];
        // It is (1 + e)x − e·x, of which the last term is a constant: the value is x, its derivative 1 + e.
        let bent = x * (1.0 + self.factor) - x.detach() * self.factor;
        let x = if self.cut { bent.detach() } else { bent };
        (x * &ins[1]).tanh().sum_all()
    }
}

fn refused(f: Bent) -> Vec<&'static str> {
    let case = Case::of("bent", f, &[Tensor::new([3], vec![0.4, -1.2, 0.7]), Tensor::new([3], vec![1.0, 0.3, -0.8])], 5);
    check::DERIVATIVES.iter().filter(|(_, witness)| witness(&case).is_err()).map(|(name, _)| *name).collect()
}

/// `detach` cuts nothing on dual numbers: it belongs to the tape, which forward mode does not use.
#[test]
fn a_function_with_a_wrong_gradient_is_rejected() {
    assert_eq!(refused(Bent { factor: 0.0, cut: false }), Vec::<&str>::new());
    for (factor, cut) in [(1e-3, false), (-2.0, false), (0.0, true)] {
        let refused = refused(Bent { factor, cut });
        let all: Vec<&str> = check::DERIVATIVES.iter().map(|(name, _)| *name).collect();
        assert_eq!(refused, all, "{factor}, {cut}");
    }
}

/// The loss of a GPT with the gradient of one parameter off by 0.1 %.
#[derive(Debug)]
struct Off {
    loss: Loss,
    parameter: usize,
}

impl Function for Off {
    fn call<'t, T: Real>(&self, ins: &[Var<'t, T>]) -> Var<'t, T> {
        let bent = |(i, x): (usize, &Var<'t, T>)| if i == self.parameter { x * 1.001 - x.detach() * 0.001 } else { x.clone() };
        self.loss.call(&ins.iter().enumerate().map(bent).collect::<Vec<_>>())
    }
}

/// Depth does not make the witnesses less sensitive.
#[test]
fn an_error_of_a_thousandth_in_any_gpt_parameter_is_detected() {
    let (loss, at) = gpt();
    let mut names = Vec::new();
    loss.model.as_ref().visit(|name, _| names.push(name.to_owned()));
    for (parameter, name) in names.iter().enumerate() {
        let case = Case::of("off", Off { loss: loss.clone(), parameter }, &at, 3);
        for (witness, check) in [("adjoint", check::adjoint as check::Witness), ("taylor", check::taylor)] {
            let refused = check(&case).expect_err(name).to_string();
            assert!(refused.starts_with(&format!("{witness} of `off`")), "{name}: {refused}");
        }
    }
}

#[test]
fn a_failure_reports_the_seed_and_the_worst_element() {
    let at = [Tensor::new([2], vec![0.4, -1.2]), Tensor::new([2], vec![1.0, 0.3])];
    let outcomes = check::function("bent", Bent { factor: 0.5, cut: false }, &at, 9);
    let failure = outcomes.into_iter().find_map(Result::err).unwrap().to_string();
    assert!(failure.starts_with("forward_mode of `bent`, seed 9: input 0, element 1: -3.2224"), "{failure}");
    assert!(failure.contains("error 2.2e-1 of 4.8e-1, at most 1e-13 allowed"), "{failure}");
}

// ── Properties of models that violate them ──────────────────────────────────────────────────────────────────────────

fn batch() -> Batch {
    gpt().0.batch
}

/// Returns values (B, T, 1) that are the running sums of ids, or with `ahead` the sums of all ids.
fn sums(ids: &[u32], ahead: bool) -> Tensor<f64> {
    let row = |row: &[u32]| -> Vec<f64> {
        (0..row.len()).map(|i| row[..if ahead { row.len() } else { i + 1 }].iter().map(|&id| f64::from(id)).sum()).collect()
    };
    Tensor::new([2, ids.len() / 2, 1], ids.chunks(ids.len() / 2).flat_map(row).collect())
}

/// Returns Σ idᵢ·wᵢ.
fn weighed(b: &Batch) -> Vec<f64> {
    vec![b.input.tokens.iter().zip(b.losses[0].weights()).map(|(&id, w)| f64::from(id) * w).sum()]
}

#[test]
fn a_model_that_reads_future_or_no_tokens_is_rejected() {
    let batch = batch();
    let verdict = |f: &dyn Fn(&[u32]) -> Tensor<f64>| {
        let of = |input: &Input| f(&input.tokens);
        properties::blindness(&batch.input, 17, of).and_then(|()| properties::sight(&batch.input, 17, of))
    };
    assert_eq!(verdict(&|ids| sums(ids, false)), Ok(()));
    let ahead = verdict(&|ids| sums(ids, true)).unwrap_err().to_string();
    assert_eq!(ahead, "causality: sequence 0: the logits at 0 are different from before when only token 1 changes");
    let blind = verdict(&|ids| sums(&vec![0; ids.len()], false)).unwrap_err().to_string();
    assert_eq!(blind, "sight: sequence 0: the logits at 0 are the same as before when only token 0 changes");
}

#[test]
fn a_model_whose_sequences_are_not_independent_is_rejected() {
    let alone = |order: &[usize]| Tensor::new([order.len()], order.iter().map(|&s| s as f64 + 1.0).collect());
    let beside = |order: &[usize]| Tensor::new([order.len()], order.iter().map(|&s| (s + order[0]) as f64 + 1.0).collect());
    let placed = |order: &[usize]| Tensor::new([order.len()], (0..order.len()).map(|i| i as f64 + 1.0).collect());
    assert_eq!(properties::independence(4, alone), Ok(()));
    let beside = properties::independence(4, beside).unwrap_err().to_string();
    assert_eq!(beside, "independence: sequence 2 in the order [2, 3]: 5e0, in the whole batch 3e0");
    let placed = properties::independence(4, placed).unwrap_err().to_string();
    assert_eq!(placed, "independence: sequence 3 in the order [0, 3, 2, 1]: 2e0, in the whole batch 4e0");
}

#[test]
fn a_loss_that_depends_on_padding_is_rejected() {
    let mut padded = batch();
    let LossTerm::Tokens(tokens) = &mut padded.losses[0] else { panic!("tokens are predicted") };
    tokens.weights = tokens.weights.iter().enumerate().map(|(i, w)| if i % 6 < 4 { *w } else { 0.0 }).collect();
    let everything = |b: &Batch| vec![b.input.tokens.iter().map(|&id| f64::from(id)).sum()];
    let length = |b: &Batch| vec![b.input.length() as f64];
    assert_eq!(properties::padding(&padded, 17, true, weighed), Ok(()));
    let read = properties::padding(&padded, 17, false, everything).unwrap_err().to_string();
    assert_eq!(read, "padding: the loss is 9.1e1 with other tokens for padding, and 8.7e1 before");
    let counted = properties::padding(&padded, 17, true, length).unwrap_err().to_string();
    assert_eq!(counted, "padding: the loss is 7e0 one token longer, and 6e0 before");
}

#[test]
fn a_cache_that_loses_tokens_is_rejected() {
    let ids = [3, 1, 4, 1, 5, 9];
    let full = sums(&[ids, ids].concat(), false).slice(0, 0..1);
    let mut sum = 0.0;
    let kept = |id: u32| {
        sum += f64::from(id);
        vec![sum]
    };
    assert_eq!(properties::cache(&ids, &full, kept), Ok(()));
    let forgot = properties::cache(&ids, &full, |id| vec![f64::from(id)]).unwrap_err().to_string();
    assert_eq!(forgot, "cache: the logit of 0 after token 1 is 1e0, in one pass 4e0");
}

#[test]
fn shards_that_do_not_add_up_are_rejected() {
    let batch = batch();
    let mean =
        |_: usize, b: &Batch| vec![b.input.tokens.iter().map(|&id| f64::from(id)).sum::<f64>() / b.input.tokens.len() as f64];
    let first = |first: usize, _: &Batch| vec![1.0 + first as f64];
    assert_eq!(properties::shards(&batch, |_, b| weighed(b)), Ok(()));
    let mean = properties::shards(&batch, mean).unwrap_err().to_string();
    assert_eq!(mean, "shards: the loss is 1.45e1 in 2 parts, and 7.25e0 in one");
    let first = properties::shards(&batch, first).unwrap_err().to_string();
    assert_eq!(first, "shards: the loss is 3e0 in 2 parts, and 1e0 in one");
}
