//! The optimizer's update of a parameter: every number from θ̄ to the θ of the next step.

use gradus_autograd::Tensor;
use gradus_model::{Model, Role, Tree};
use gradus_train::optim::OptimizerKind::{AdamL2, AdamW, OpenAi, Paper37, Sgd};
use gradus_train::optim::{Optimizer, OptimizerKind, StepFactors};
use gradus_train::trainer::{Gradient, Trainer};
use serde::Serialize;

use super::view::View;

/// The update's formulas, and the numbers in them that are common to all parameters.
#[derive(Clone, Debug, Serialize)]
pub struct UpdateRule {
    /// The name of the optimizer's form.
    pub name: String,
    /// The formulas, in the order of evaluation.
    pub lines: Vec<&'static str>,
    /// The numbers, each with its letter.
    pub numbers: Vec<(&'static str, f64)>,
}

impl UpdateRule {
    /// Returns the rule of an update; `clip` is the clipping factor.
    pub fn of(optimizer: &Optimizer, at: StepFactors, clip: f64) -> Self {
        let mut numbers =
            vec![("t", at.t as f64), ("c, by clipping", clip), ("lr", optimizer.lr), ("s, the schedule's", at.schedule)];
        let moments = [("β₁", optimizer.beta1), ("β₂", optimizer.beta2), ("ε", optimizer.eps)];
        numbers.extend(moments.into_iter().filter(|_| optimizer.name.has_moments()));
        UpdateRule { name: optimizer.name.to_string(), lines: lines(optimizer.name), numbers }
    }
}

/// Returns the formulas of a form, as in [`optim`](gradus_train::optim).
fn lines(form: OptimizerKind) -> Vec<&'static str> {
    let gradient = if form == AdamL2 { "g = cθ̄ + λθ" } else { "g = cθ̄" };
    let (m, v) = ("m ← β₁m + (1 − β₁)g", "v ← β₂v + (1 − β₂)g²");
    let corrected = "m̂ = m/(1 − β₁ᵗ),  v̂ = v/(1 − β₂ᵗ)";
    match form {
        OpenAi => vec![gradient, m, v, "Δθ = −lr·s·√(1 − β₂ᵗ)/(1 − β₁ᵗ) · (m/(√v + ε) + λθ)"],
        Paper37 => vec![gradient, m, v, corrected, "Δθ = −s·(lr·m̂/(√v̂ + ε) + λθ)"],
        AdamW => vec![gradient, m, v, corrected, "Δθ = −lr·s·(m̂/(√v̂ + ε) + λθ)"],
        AdamL2 => vec![gradient, m, v, corrected, "Δθ = −lr·s·m̂/(√v̂ + ε)"],
        Sgd => vec![gradient, "Δθ = −lr·s·(g + λθ)"],
    }
}

/// A parameter of the step: one of the first leaves of its tape.
#[derive(Clone, Debug)]
pub struct Leaf<'a> {
    pub name: String,
    /// The rows to show first: in a token embedding, those of the input and target tokens.
    pub rows: &'a [usize],
    /// The optimizer's update.
    pub update: ParameterUpdate,
}

/// The update of one parameter.
#[derive(Clone, Debug, Serialize)]
pub struct ParameterUpdate {
    /// The weight decay λ of this parameter: 0 for biases and gains.
    pub decay: f64,
    /// The tensors from the clipped gradient to Δθ and the next θ, each with its letter, in the order of evaluation.
    pub parts: Vec<(&'static str, View)>,
}

/// A parameter and its moments: θ, (m, v).
type State<'a> = (&'a Tensor<f64>, (&'a Tensor<f64>, &'a Tensor<f64>));

fn states(trainer: &Trainer<f64>) -> Model<State<'_>> {
    let (m, v) = trainer.moments();
    trainer.params.as_ref().zip(m.as_ref().zip(v.as_ref()))
}

/// Returns the update of each parameter. `gradient` is θ̄, `clip` the clipping factor; `tokens` are the rows of the token embedding
/// to show first ([`View::with_rows`]).
pub fn leaves<'a>(
    before: &Trainer<f64>,
    after: &Trainer<f64>,
    gradient: &Gradient<f64>,
    clip: f64,
    tokens: &'a [usize],
) -> Vec<Leaf<'a>> {
    let mut leaves = Vec::new();
    let declared = Model::declare(&before.params.config());
    let all = declared.zip(states(before)).zip(states(after)).zip(gradient.as_ref());
    all.visit(|name, (((declared, before_it), after_it), gradient)| {
        let rows = if declared.role == Role::TokenEmbedding { tokens } else { &[] };
        let optimizer = &before.recipe.optimizer;
        let decay = if declared.role.decays() { optimizer.decay } else { 0.0 };
        let update = ParameterUpdate::of(optimizer, decay, clip, [before_it, after_it], gradient.as_ref(), rows);
        leaves.push(Leaf { name: name.to_owned(), rows, update });
    });
    leaves
}

impl ParameterUpdate {
    fn of(
        optimizer: &Optimizer,
        decay: f64,
        c: f64,
        states: [State<'_>; 2],
        gradient: Option<&Tensor<f64>>,
        rows: &[usize],
    ) -> Self {
        let view = |x: &Tensor<f64>| View::with_rows(x, rows);
        let [(theta, (m0, v0)), (after, (m, v))] = states;
        let l2 = if optimizer.name == AdamL2 { decay } else { 0.0 };
        let mut parts = Vec::new();
        if let Some(gradient) = gradient {
            parts.push(("g", view(&gradient.zip(theta, |g, p| c * g + l2 * p))));
            if optimizer.name.has_moments() {
                let begins = |x: &Tensor<f64>| !x.any_nonzero();
                let earlier = [("m before", m0), ("v before", v0)].into_iter().filter(|(_, x)| !begins(x));
                parts.extend(earlier.chain([("m", m), ("v", v)]).map(|(name, x)| (name, view(x))));
            }
        }
        parts.extend([("Δθ", view(&after.zip(theta, |a, b| a - b))), ("θ after", view(after))]);
        ParameterUpdate { decay, parts }
    }

    /// Returns the tensor with this letter.
    pub fn part(&self, letter: &str) -> Option<&View> {
        self.parts.iter().find(|(name, _)| *name == letter).map(|(_, view)| view)
    }
}
