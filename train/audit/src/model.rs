//! The audit of a whole model's gradient, parameter by parameter, in f64.

use gradus_autograd::check::{self, Case, Comparison, Failure, Outcome};
use gradus_autograd::{Tensor, Want};
use gradus_io::hex;
use gradus_io::numbers::{count, count_of};
use gradus_model::check::{Loss, Verdict, properties, samples};
use gradus_model::{Activation, GradientMode, Model, Tree};
use gradus_report::{Block, Document};
use gradus_tensor::rng::Philox;
use gradus_train::trainer::non_finite;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::pages::table;

/// The tolerance: the error of the best central difference, about ε^⅔ of the loss, with a margin of two and a half digits.
const TOLERANCE: f64 = 1e-8;
/// The largest deviation of the Taylor remainder's slope from 2.
const SLOPE: f64 = 0.05;
/// The largest deviation for models with kinks (relu), where the loss along a line may bend. A wrong gradient has a slope of 1.
const KINKED: f64 = 0.5;
/// The tolerance for models with kinks. The contribution of a unit whose kink is crossed is a further error of the difference.
const KINKED_TOLERANCE: f64 = 1e-5;
/// The relative error that evidence of a derivative must detect.
const PLANTED: f64 = 1e-3;
/// The largest number of parameters for which the naive kernels of dual numbers are fast enough for forward mode.
const DUAL: usize = 300_000;

/// The extent of an audit.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// The number of elements of each parameter that are perturbed one by one.
    pub coordinates: usize,
    /// The seed of tokens, directions and elements.
    pub seed: u64,
}

/// The results of a model's audit.
#[derive(Clone, Debug)]
pub struct AuditedModel {
    name: String,
    /// The number of parameters.
    parameters: usize,
    loss: f64,
    /// The inputs of the audit and of the model: enough to repeat the audit.
    facts: Vec<(&'static str, String)>,
    /// The first parameter that holds a NaN or an infinity; then nothing else is checked.
    broken: Option<String>,
    /// Whether the model has kinks (relu). A difference across a kink has a larger error, so the tolerances are larger.
    kinked: bool,
    /// The results of each parameter tensor.
    each: Vec<AuditedTensor>,
    /// The witnesses of the whole gradient, by name.
    witnesses: Vec<(&'static str, Outcome)>,
    /// The properties, by name.
    properties: Vec<(&'static str, Verdict)>,
}

/// The results of one parameter tensor.
#[derive(Clone, Debug)]
struct AuditedTensor {
    name: String,
    shape: String,
    /// The norm of the tensor's gradient.
    norm: f64,
    /// The fraction of the gradient's elements that are 0.
    zeros: f64,
    /// The derivative along a random direction of this tensor, against differences.
    directional: Outcome,
    /// The order of the Taylor remainder along that direction.
    taylor: Outcome,
    /// The worst of the elements perturbed one by one.
    coordinate: Option<Comparison>,
    /// The smallest relative error of the gradient's largest element that differences detect, since a derivative far below the
    /// loss is lost in rounding. `None` if no element was perturbed; infinite if the gradient is 0.
    sees: Option<f64>,
}

impl AuditedTensor {
    fn directional_error(&self) -> f64 {
        compared(&self.directional).map_or(f64::INFINITY, check::Report::error)
    }
}

/// Returns the slope of a Taylor remainder, even if rejected, or `None` if the loss is linear along the line, up to rounding.
fn slope(taylor: &Outcome) -> Option<f64> {
    Some(compared(taylor)?.worst?.value)
}

/// Returns the comparison of a witness, accepted or rejected, or `None` if there was nothing to compare.
fn compared(outcome: &Outcome) -> Option<&check::Report> {
    match outcome {
        Ok(report) => Some(report),
        Err(failure) => match &**failure {
            Failure::Disagrees(report) => Some(report),
            _ => None,
        },
    }
}

/// Returns the table cell of a witness: the text, marked if the witness rejects the gradient.
fn cell(outcome: &Outcome, said: String) -> String {
    if outcome.is_ok() { said } else { format!("refused: {said}") }
}

/// Formats the smallest detectable error, with the reason if it is larger than [`PLANTED`].
fn sight(error: f64) -> String {
    match error {
        e if e.is_infinite() => "none: the gradient is 0".into(),
        e if e > PLANTED => format!("{e:.0e}: far below the loss"),
        e => format!("{e:.0e}"),
    }
}

/// The verdict if there is no fault.
pub const ALL_HOLDS: &str =
    "Every derivative holds, and every property: causality or blindness, independence of the batch, padding, cache, shards.";

/// Returns the models that are audited by default, by name.
pub fn standard(depth: Depth) -> Vec<(String, Loss)> {
    samples().into_iter().map(|sample| (sample.name.to_owned(), sample.loss(depth.seed))).collect()
}

/// Audits a model under this name; `done` receives the number of parameter tensors audited so far.
pub fn audit(name: &str, of: &Loss, depth: Depth, mut done: impl FnMut(usize)) -> AuditedModel {
    let Loss { model, batch, dropout } = of;
    let config = &model.config();
    let broken = non_finite(model);
    let (loss, gradient) = model.gradient(batch, *dropout, GradientMode::Whole);
    let loss = loss.item();
    let facts = vec![
        ("loss", format!("{loss:?}")),
        (
            "batch",
            format!("{} of {}, random", count_of(batch.input.sequences, "sequence"), count_of(batch.input.length(), "token")),
        ),
        ("dropout", if dropout.is_some() { "the model's" } else { "none" }.into()),
        ("seed", depth.seed.to_string()),
        ("SHA-256 of the parameters, in f64", digest(model)),
        ("model", serde_json::to_string(config).unwrap_or_default()),
    ];
    let kinked = config.transformer().is_some_and(|gpt| gpt.activation == Activation::Relu);
    let (name, parameters) = (name.to_owned(), config.parameters());
    let mut audited =
        AuditedModel { name, parameters, loss, facts, broken, kinked, each: vec![], witnesses: vec![], properties: vec![] };
    if audited.broken.is_some() {
        return audited;
    }
    let mut gradients = Vec::new();
    gradient.visit(|_, g| gradients.push(g));
    for ((name, case), gradient) in of.cases(depth.seed).zip(gradients) {
        audited.each.push(audit_tensor(name, &case, gradient.as_ref(), loss, kinked, depth));
        done(audited.each.len());
    }
    let case = of.case(depth.seed);
    audited.witnesses = vec![("v_curve", check::v_curve_at(&case, &steps())), ("taylor", taylor(&case, kinked))];
    if parameters <= DUAL {
        audited.witnesses.extend([("adjoint", check::adjoint(&case)), ("second_order", check::second_order(&case))]);
    }
    audited.properties = properties(of);
    audited
}

/// Returns the SHA-256 of a model's parameters, each 8 bytes, little-endian, in the order of its tree.
pub fn digest(params: &Model<Tensor<f64>>) -> String {
    let mut hash = Sha256::new();
    params.as_ref().visit(|_, p| p.to_vec().iter().for_each(|x| hash.update(x.to_le_bytes())));
    hex::encode(hash.finalize())
}

/// Returns the tolerance of a single element's difference.
fn tolerance(kinked: bool) -> f64 {
    if kinked { KINKED_TOLERANCE } else { TOLERANCE }
}

/// Computes the Taylor remainder along three lines, or with kinks along eight, since some cross no kink. The best line counts.
fn taylor(case: &Case, kinked: bool) -> Outcome {
    let lines = if kinked { 8 } else { 3 };
    check::taylor_on(case, lines, &small_steps()).or_else(|failure| match *failure {
        Failure::Disagrees(report) if kinked && report.error() <= KINKED => Ok(report),
        _ => Err(failure),
    })
}

/// Returns 10⁻¹·⁵ … 10⁻⁶, four per decade.
fn steps() -> Vec<f64> {
    (0..=18).map(|i| 10f64.powf(-1.5 - 0.25 * f64::from(i))).collect()
}

/// Returns 10⁻² … 10⁻⁵, three per decade.
fn small_steps() -> Vec<f64> {
    (0..=9).map(|i| 10f64.powf(-2.0 - f64::from(i) / 3.0)).collect()
}

fn audit_tensor(
    name: String,
    case: &Case,
    gradient: Option<&Tensor<f64>>,
    loss: f64,
    kinked: bool,
    depth: Depth,
) -> AuditedTensor {
    let x = &case.real.inputs[0];
    let g = gradient.map_or_else(|| vec![0.0; x.len()], Tensor::to_vec);
    let zeros = g.iter().filter(|&&g| g == 0.0).count() as f64 / g.len().max(1) as f64;
    let coordinate = coordinate(case, &g, loss, &name, depth, kinked);
    let largest = g.iter().fold(0.0, |most: f64, g| most.max(g.abs()));
    AuditedTensor {
        shape: x.shape().to_string(),
        norm: g.iter().map(|g| g * g).sum::<f64>().sqrt(),
        zeros,
        directional: check::v_curve_at(case, &steps()),
        taylor: taylor(case, kinked),
        sees: coordinate.map(|_| tolerance(kinked) * (1.0 + loss.abs() / largest)),
        coordinate,
        name,
    }
}

/// Returns the worst of some elements perturbed one by one: the one with the largest derivative, and others at random.
fn coordinate(case: &Case, g: &[f64], loss: f64, name: &str, depth: Depth, kinked: bool) -> Option<Comparison> {
    let x = &case.real.inputs[0];
    let values = x.to_vec();
    let at = |element: usize, step: f64| {
        let mut moved = values.clone();
        moved[element] += step;
        case.real.op.eval(&[&Tensor::new(*x.shape(), moved)], Want::Value).out.item()
    };
    let largest = (0..g.len()).max_by(|&a, &b| g[a].abs().total_cmp(&g[b].abs()))?;
    let stream = name.bytes().fold(0, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let mut rng = Philox::with_stream(depth.seed, stream);
    let others = (1..depth.coordinates).map(|_| rng.below(g.len() as u64) as usize);
    let elements = std::iter::once(largest).chain(others).take(depth.coordinates);
    let compare = |element: usize| {
        let scale = g[element].abs() + loss.abs();
        let quotient = |h: f64| {
            let h = h * values[element].abs().max(1.0);
            let width = (values[element] + h) - (values[element] - h); // the step after rounding
            let expected = (at(element, h) - at(element, -h)) / width;
            Comparison { input: None, element, value: g[element], expected, scale }
        };
        // The best of a few steps counts, as along a line. Models with kinks need shorter ones.
        let steps = if kinked { [1e-4, 1e-5, 1e-6, 1e-7] } else { [1e-3, 1e-4, 1e-5, 1e-6] };
        steps.map(quotient).into_iter().min_by(|a, b| a.error().total_cmp(&b.error())).expect("four")
    };
    elements.map(compare).max_by(|a, b| a.error().total_cmp(&b.error()))
}

impl AuditedModel {
    /// Returns the faults, one line each.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut say = |what: String| faults.push(format!("{}: {what}", self.name));
        if let Some(name) = &self.broken {
            say(format!("parameter {name} holds a NaN or an infinity; the loss is {}; audit another checkpoint", self.loss));
            return faults;
        }
        if !self.loss.is_finite() {
            say(format!("the loss is {}", self.loss));
        }
        for p in &self.each {
            let refused = [&p.directional, &p.taylor].into_iter().filter_map(|outcome| outcome.as_ref().err());
            refused.for_each(|failure| say(format!("{}: {failure}", p.name)));
            if let Some(c) = p.coordinate.filter(|c| c.error() > tolerance(self.kinked)) {
                let (found, expected) = (c.value, c.expected);
                say(format!("{}, element {}: {found:e} where {expected:e} is expected by differences", p.name, c.element));
            }
        }
        let refused = self.witnesses.iter().filter_map(|(_, outcome)| outcome.as_ref().err());
        refused.for_each(|failure| say(failure.to_string()));
        // For a whole loss, a steeper slope is also wrong, since the second derivative does not vanish.
        let within = if self.kinked { KINKED } else { SLOPE };
        if let Some(slope) = self.slope().filter(|slope| (slope - 2.0).abs() > within)
            && self.witness("taylor").is_some_and(Outcome::is_ok)
        {
            say(format!("the Taylor remainder falls with a slope of {slope:.3}, expected 2 ± {within}"));
        }
        let violated = self.properties.iter().filter_map(|(_, verdict)| verdict.as_ref().err());
        violated.for_each(|violation| say(violation.to_string()));
        faults
    }

    fn witness(&self, name: &str) -> Option<&Outcome> {
        self.witnesses.iter().find(|(witness, _)| *witness == name).map(|(_, outcome)| outcome)
    }

    /// Returns the slope of the whole loss's Taylor remainder.
    fn slope(&self) -> Option<f64> {
        slope(self.witness("taylor")?)
    }

    fn error(&self, witness: &str) -> String {
        let of = |outcome: &Outcome| outcome.as_ref().map_or("refused".into(), |r| format!("{:.1e}", r.error()));
        self.witness(witness).map_or("–".into(), of)
    }

    /// Returns a table row: parameters, the witnesses of the whole gradient, the worst of its tensors.
    pub fn line(&self) -> [String; 8] {
        let elements = self.each.iter().filter_map(|p| Some(p.coordinate?.error()));
        [
            self.name.clone(),
            count(self.parameters as u64),
            self.error("adjoint"),
            self.error("second_order"),
            self.error("v_curve"),
            self.slope().map_or("–".into(), |s| format!("{s:.4}")),
            format!("{:.1e}", self.each.iter().map(AuditedTensor::directional_error).fold(0.0, f64::max)),
            elements.max_by(f64::total_cmp).map_or("–".into(), |error| format!("{error:.1e}")),
        ]
    }

    /// The column headings of the rows.
    pub const HEADS: [&'static str; 8] = [
        "model",
        "parameters",
        "forward mode",
        "second order",
        "best difference",
        "Taylor slope",
        "worst tensor",
        "worst element",
    ];

    /// Returns the table of the parameters, one row each.
    fn table(&self) -> Block {
        let heads = [
            "Parameter",
            "Shape",
            "Gradient",
            "Zeros",
            "Along a direction",
            "Taylor slope",
            "Single elements",
            "Detects errors of",
        ];
        let row = |p: &AuditedTensor| {
            [
                p.name.clone(),
                p.shape.clone(),
                format!("{:.2e}", p.norm),
                format!("{:.1} %", 100.0 * p.zeros),
                cell(&p.directional, format!("{:.1e}", p.directional_error())),
                cell(&p.taylor, slope(&p.taylor).map_or("linear".into(), |s| format!("{s:.3}"))),
                p.coordinate.map_or("–".into(), |c| format!("{:.1e}", c.error())),
                p.sees.map_or("–".into(), sight),
            ]
        };
        table(heads, self.each.iter().map(row))
    }

    /// Returns the results as one JSON object.
    pub fn json(&self) -> Value {
        let tensor = |p: &AuditedTensor| {
            json!({
                "name": p.name, "shape": p.shape, "gradient_norm": p.norm, "zeros": p.zeros, "directional_error": p.directional_error(),
                "taylor_slope": slope(&p.taylor), "element_error": p.coordinate.map(|c| c.error()), "sees": p.sees,
            })
        };
        let properties = self.properties.iter().map(|(name, verdict)| ((*name).to_owned(), json!(verdict.is_ok())));
        let witnesses = self.witnesses.iter().map(|(name, o)| ((*name).to_owned(), json!(o.as_ref().ok().map(|r| r.error()))));
        let facts = self.facts.iter().map(|(name, fact)| ((*name).to_owned(), json!(fact)));
        json!({
            "name": self.name, "parameters": self.parameters, "loss": self.loss,
            "facts": facts.collect::<Map<_, _>>(), "taylor_slope": self.slope(),
            "witnesses": witnesses.collect::<Map<_, _>>(), "properties": properties.collect::<Map<_, _>>(),
            "tensors": self.each.iter().map(tensor).collect::<Vec<_>>(), "faults": self.faults(),
        })
    }
}

/// Returns the results of several models as one HTML file.
pub fn report(all: &[AuditedModel], depth: Depth) -> Document {
    let mut report = Document {
        kicker: "Gradus · audit".into(),
        title: "Whole models, parameter by parameter".into(),
        lead: "Each parameter tensor's gradient in f64: its derivative along a random direction against central differences at \
               the best of nineteen steps, the order of the Taylor remainder, and elements perturbed one by one. Above them the \
               whole gradient: of models of up to 300,000 parameters also against forward mode on dual numbers, which shares no \
               code with the ops' derivatives, and its own derivative; and the independence properties of a language model."
            .into(),
        foot: format!(
            "Errors are relative to the loss and the terms of the derivative. The last column is the smallest relative error of \
             a tensor's largest element that the differences would have detected. Seed {}; {} elements per tensor. The slope is \
             2 if the gradient is correct, and 1 if it is wrong.",
            depth.seed, depth.coordinates
        ),
        ..Document::default()
    };
    let faults: Vec<String> = all.iter().flat_map(AuditedModel::faults).collect();
    let verdict = if faults.is_empty() { vec![ALL_HOLDS.to_owned()] } else { faults };
    let mut blocks: Vec<Block> = verdict.into_iter().map(Block::Text).collect();
    blocks.push(table(AuditedModel::HEADS, all.iter().map(AuditedModel::line)));
    report.section("Models", blocks);
    for audited in all {
        let held = |(name, verdict): &(&str, Verdict)| {
            ((*name).to_owned(), verdict.as_ref().map_or_else(|violation| violation.to_string(), |()| "holds".to_owned()))
        };
        let facts = audited.facts.iter().map(|(name, fact)| ((*name).to_owned(), fact.clone()));
        let pairs = facts.chain(audited.properties.iter().map(held)).collect();
        report.section(&audited.name, vec![Block::Pairs(pairs), audited.table()]);
    }
    report
}
