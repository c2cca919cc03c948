//! A whole model's gradient, parameter by parameter, in f64.

use gradus_autograd::check::{self, Case, Comparison, Failure, Outcome};
use gradus_autograd::{Tensor, Want};
use gradus_io::numbers::{count, many};
use gradus_model::check::{self as models, Loss, Verdict};
use gradus_model::{
    Activation, Batch, DropoutSeed, Embedding, Form, GptConfig, GradientMode, HeadConfig, Labels, LstmConfig, Model, ModelConfig,
    Objective, Positions, Tree,
};
use gradus_report::{Block, Report, Row};
use gradus_tensor::rng::Philox;
use serde_json::{Value, json};

use crate::digest::digest;

/// At the best of a few steps a central difference is about ε^⅔ of the loss off, with two digits and a half to spare.
const TOLERANCE: f64 = 1e-8;
/// How far from 2 the slope of the Taylor remainder may be.
const SLOPE: f64 = 0.05;
/// And where the model has kinks, as relu does: a line that crosses one is bent there. A wrong gradient has a slope of 1.
const KINKED: f64 = 0.5;
/// There a difference across a kink is off by that unit's share, too.
const KINKED_TOLERANCE: f64 = 1e-5;
/// The relative error that evidence of a derivative must be able to see.
const PLANTED: f64 = 1e-3;
/// Up to this many parameters the naive kernels of dual numbers are fast enough for forward mode.
const DUAL: usize = 300_000;

/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Elements of each parameter that are moved alone.
    pub coordinates: usize,
    /// What draws tokens, directions and elements.
    pub seed: u64,
}

/// A model on a batch.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Which.
    pub name: String,
    /// Its parameters.
    pub model: Model<Tensor<f64>>,
    /// What it is asked.
    pub batch: Batch,
    /// Its dropouts; none: nothing is dropped.
    pub dropout: Option<DropoutSeed>,
}

/// What was found of a model.
#[derive(Clone, Debug)]
pub struct Audited {
    /// Which.
    pub name: String,
    /// Its number of parameters.
    pub parameters: usize,
    /// Its loss.
    pub loss: f64,
    /// What it was asked, and what it is: enough to make it again.
    pub facts: Vec<(&'static str, String)>,
    /// The first parameter that holds a NaN or an infinity: then nothing else is asked.
    pub broken: Option<String>,
    /// Has it kinks, as relu does? Then a difference across one is off, and less is asked.
    pub kinked: bool,
    /// Each parameter tensor.
    pub each: Vec<Parameter>,
    /// The witnesses of the whole gradient, by name.
    pub witnesses: Vec<(&'static str, Outcome)>,
    /// The properties, by name.
    pub properties: Vec<(&'static str, Verdict)>,
}

/// What was found of one parameter tensor.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: String,
    /// The norm of its gradient.
    pub norm: f64,
    /// The share of its gradient's elements that are 0.
    pub zeros: f64,
    /// The derivative along a direction of this tensor, against differences.
    pub directional: Outcome,
    /// The order of the remainder along it.
    pub taylor: Outcome,
    /// The worst of the elements that were moved alone.
    pub coordinate: Option<Comparison>,
    /// The least relative error of its largest element that differences would refuse: a derivative far below the loss is lost in it.
    /// None where no element was moved, infinite where all are 0.
    pub sees: Option<f64>,
}

impl Parameter {
    /// The slope of the Taylor remainder, also one that is refused; none where the loss is linear along the tensor, up to rounding.
    pub fn slope(&self) -> Option<f64> {
        slope(&self.taylor)
    }
}

fn slope(taylor: &Outcome) -> Option<f64> {
    Some(compared(taylor)?.worst?.value)
}

/// What a witness compared, whether it holds or is refused; `None` where it could not compare.
fn compared(outcome: &Outcome) -> Option<&check::Report> {
    match outcome {
        Ok(report) => Some(report),
        Err(failure) => match &**failure {
            Failure::Disagrees(report) => Some(report),
            _ => None,
        },
    }
}

/// What a cell says of a witness: `said` where it holds, and that it is refused where not.
fn cell(outcome: &Outcome, said: String) -> String {
    if outcome.is_ok() { said } else { format!("refused: {said}") }
}

/// The least error that would have been seen, and whether it is larger than one that matters.
fn sight(error: f64) -> String {
    match error {
        e if e.is_infinite() => "none: it is 0".into(),
        e if e > PLANTED => format!("{e:.0e}: far below the loss"),
        e => format!("{e:.0e}"),
    }
}

/// Where there is no fault.
pub const ALL_HOLDS: &str =
    "Every derivative holds, and every property: causality, independence of the batch, padding, cache, shards.";

/// The models that are audited where none is given: the paper's three forms of embedding, both objectives, every head, the LSTM.
pub fn standard(depth: Depth) -> Vec<Subject> {
    // Weights far wider than 0.02, so that no term of the gradient is negligible.
    let gpt = GptConfig { vocab: 19, context: 9, width: 12, layers: 2, heads: 3, initializer_range: 0.3, ..GptConfig::default() };
    let lstm = LstmConfig { vocab: 19, context: 9, width: 12, units: 11, initializer_range: 0.3, ..LstmConfig::default() };
    let with = |name: &str, config: ModelConfig, objective, lambda| subject(name, config, objective, lambda, (4, 7), depth.seed);
    let lm = |name: &str, config: ModelConfig, objective| with(name, config, objective, 1.0);
    let head = |name: &str, backbone: ModelConfig, form, classes, lambda| {
        let config =
            ModelConfig { head: Some(HeadConfig { bias: form == Form::Classify, ..HeadConfig::new(form, classes) }), ..backbone };
        with(name, config, Objective::SequenceMean, lambda)
    };
    let (mean, per_sequence) = (Objective::TokenMean, Objective::SequenceMean);
    vec![
        lm("GPT, token mean", gpt.clone().into(), mean),
        lm("GPT, sequence mean", gpt.clone().into(), per_sequence),
        lm("GPT, joint embedding", GptConfig { embedding: Embedding::Joint, ..gpt.clone() }.into(), mean),
        lm("GPT, sinusoidal positions", GptConfig { positions: Positions::Sinusoidal, ..gpt.clone() }.into(), mean),
        head("GPT, classification, λ = ½", gpt.clone().into(), Form::Classify, 3, 0.5),
        head("GPT, classification, λ = 0", gpt.clone().into(), Form::Classify, 3, 0.0),
        head("GPT, similarity", gpt.clone().into(), Form::Similar, 6, 0.5),
        head("GPT, multiple choice", gpt.into(), Form::Choose, 1, 0.5),
        lm("LSTM, token mean", lstm.clone().into(), mean),
        head("LSTM, classification", lstm.clone().into(), Form::Classify, 3, 0.5),
        head("LSTM, multiple choice", lstm.into(), Form::Choose, 1, 0.5),
    ]
}

/// A fresh model with a batch of random tokens, its gains and biases moved off 1 and 0, where some gradients vanish.
fn subject(name: &str, config: ModelConfig, objective: Objective, lambda: f64, size: (usize, usize), seed: u64) -> Subject {
    let start: Model<Tensor<f64>> = Model::init(&config, seed);
    let mut stream = 0;
    let model = start.map(|_, p| {
        stream += 1;
        let noise: Tensor<f64> = Tensor::normal(*p.shape(), 0.1, &mut Philox::with_stream(seed, stream));
        p.zip(&noise, |p, n| p + n)
    });
    let batch = batch(&config, objective, lambda, size, seed);
    Subject { name: name.into(), model, batch, dropout: Some(DropoutSeed::new(seed, 1)) }
}

/// Random tokens of (sequences, tokens), the last of some padding, with random labels under a head.
pub fn batch(config: &ModelConfig, objective: Objective, lambda: f64, (b, t): (usize, usize), seed: u64) -> Batch {
    let mut rng = Philox::with_stream(seed, 0x6175_6469);
    let mut ids = |n: usize| (0..n).map(|_| rng.below(config.backbone.vocab() as u64) as u32).collect::<Vec<_>>();
    let (inputs, targets) = (ids(b * t), ids(b * t));
    let end = |s: usize| t - 1 - s % t.min(3); // the first is whole, the others are a token or two shorter
    let mask: Vec<f64> = (0..b * t).map(|i| if i % t < end(i / t) { 1.0 } else { 0.0 }).collect();
    let weights = objective.weights(&mask, b).into_iter().map(|w| lambda * w).collect();
    let labels = config.head.as_ref().map(|head| {
        let per_example = if head.form == Form::Classify { 1 } else { 2 };
        let (n, classes) = (b / per_example, if head.form == Form::Choose { per_example } else { head.classes });
        // Shared by two classes, so that targets are no corner.
        let share = |i: usize| [0.25, 0.75].get(i % classes).copied().unwrap_or(0.0);
        Labels {
            per_example,
            extract: (0..b).map(|s| end(s) as u32).collect(),
            targets: (0..n * classes).map(share).collect(),
            weights: vec![1.0 / n as f64; n].into(),
        }
    });
    Batch { sequences: b, inputs: inputs.into(), targets: targets.into(), weights, labels }
}

/// Audits a model; `done` counts its parameter tensors.
pub fn audit(subject: &Subject, depth: Depth, mut done: impl FnMut(u64)) -> Audited {
    let Subject { name, model, batch, dropout } = subject;
    let config = &model.config();
    let mut broken = None;
    model.as_ref().visit(|name, p| {
        if broken.is_none() && p.to_vec().iter().any(|x| !x.is_finite()) {
            broken = Some(name.to_owned());
        }
    });
    let (loss, gradient) = model.gradient(batch, *dropout, GradientMode::Whole);
    let facts = vec![
        ("loss", format!("{loss:?}")),
        ("batch", format!("{} of {}, random", many(batch.sequences, "sequence"), many(batch.length(), "token"))),
        ("dropout", if dropout.is_some() { "the model's" } else { "none" }.into()),
        ("seed", depth.seed.to_string()),
        ("SHA-256 of the parameters, in f64", digest(model)),
        ("model", serde_json::to_string(config).unwrap_or_default()),
    ];
    let (each, witnesses, properties) = (Vec::new(), Vec::new(), Vec::new());
    let (name, parameters, kinked) = (name.clone(), config.parameters(), kinked(config));
    let mut audited = Audited { name, parameters, loss, facts, broken, kinked, each, witnesses, properties };
    if audited.broken.is_some() {
        return audited;
    }
    let mut gradients = Vec::new();
    gradient.visit(|_, g| gradients.push(g));
    let whole = Loss { config: config.clone(), batch: batch.clone(), dropout: *dropout };
    for ((name, case), gradient) in whole.clone().at_each(model, depth.seed).zip(gradients) {
        audited.each.push(parameter(name, &case, gradient.as_ref(), loss, config, depth));
        done(audited.each.len() as u64);
    }
    let case = whole.at(model, depth.seed);
    audited.witnesses = vec![("v_curve", check::v_curve_at(&case, &steps())), ("taylor", taylor(&case, config))];
    if parameters <= DUAL {
        audited.witnesses.extend([("adjoint", check::adjoint(&case)), ("second_order", check::second_order(&case))]);
    }
    audited.properties = models::properties(model, batch, *dropout);
    audited
}

fn kinked(config: &ModelConfig) -> bool {
    config.gpt().is_some_and(|gpt| gpt.activation == Activation::Relu)
}

/// What a single element's difference may be off by.
fn tolerance(kinked: bool) -> f64 {
    if kinked { KINKED_TOLERANCE } else { TOLERANCE }
}

/// The Taylor remainder along three lines, the best of which counts; with kinks on eight, since on some none is crossed.
fn taylor(case: &Case, config: &ModelConfig) -> Outcome {
    let lines = if kinked(config) { 8 } else { 3 };
    check::taylor_on(case, lines, &small_steps()).or_else(|failure| match *failure {
        Failure::Disagrees(report) if kinked(config) && report.error() <= KINKED => Ok(report),
        _ => Err(failure),
    })
}

/// 10⁻¹·⁵ … 10⁻⁶, four a decade.
fn steps() -> Vec<f64> {
    (0..=18).map(|i| 10f64.powf(-1.5 - 0.25 * f64::from(i))).collect()
}

/// 10⁻² … 10⁻⁵, three a decade.
fn small_steps() -> Vec<f64> {
    (0..=9).map(|i| 10f64.powf(-2.0 - f64::from(i) / 3.0)).collect()
}

fn parameter(
    name: String,
    case: &Case,
    gradient: Option<&Tensor<f64>>,
    loss: f64,
    config: &ModelConfig,
    depth: Depth,
) -> Parameter {
    let x = &case.real.inputs[0];
    let g = gradient.map_or_else(|| vec![0.0; x.len()], Tensor::to_vec);
    let zeros = g.iter().filter(|&&g| g == 0.0).count() as f64 / g.len().max(1) as f64;
    let coordinate = coordinate(case, &g, loss, &name, depth, kinked(config));
    let largest = g.iter().fold(0.0, |most: f64, g| most.max(g.abs()));
    Parameter {
        shape: x.shape().to_string(),
        norm: g.iter().map(|g| g * g).sum::<f64>().sqrt(),
        zeros,
        directional: check::v_curve_at(case, &steps()),
        taylor: taylor(case, config),
        sees: coordinate.map(|_| tolerance(kinked(config)) * (1.0 + loss.abs() / largest)),
        coordinate,
        name,
    }
}

/// The worst of some elements, moved alone: the one with the largest derivative, and others at random.
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
            let width = (values[element] + h) - (values[element] - h); // the step that was really taken
            let expected = (at(element, h) - at(element, -h)) / width;
            Comparison { input: None, element, value: g[element], expected, scale }
        };
        // As along a line, the best of a few steps; the shortest for models that bend sharply, or have kinks.
        let steps = if kinked { [1e-4, 1e-5, 1e-6, 1e-7] } else { [1e-3, 1e-4, 1e-5, 1e-6] };
        steps.map(quotient).into_iter().min_by(|a, b| a.error().total_cmp(&b.error())).expect("four")
    };
    elements.map(compare).max_by(|a, b| a.error().total_cmp(&b.error()))
}

impl Audited {
    /// What is wrong, one line each.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut say = |what: String| faults.push(format!("{}: {what}", self.name));
        if let Some(name) = &self.broken {
            say(format!(
                "parameter {name} holds numbers that are not finite; the loss is {}; audit another checkpoint",
                self.loss
            ));
            return faults;
        }
        if !self.loss.is_finite() {
            say(format!("the loss is {}", self.loss));
        }
        for p in &self.each {
            if let Err(failure) = &p.directional {
                say(format!("{}: {failure}", p.name));
            }
            if let Err(failure) = &p.taylor {
                say(format!("{}: {failure}", p.name));
            }
            if let Some(c) = p.coordinate.filter(|c| c.error() > tolerance(self.kinked)) {
                let (found, expected) = (c.value, c.expected);
                say(format!("{}, element {}: {found:e} where {expected:e} is expected by differences", p.name, c.element));
            }
        }
        for (name, outcome) in &self.witnesses {
            match outcome {
                Err(failure) => say(failure.to_string()),
                // Of a whole loss a steeper slope is wrong too: its second derivative does not vanish.
                Ok(report) if *name == "taylor" && report.worst.is_some_and(|w| (w.value - 2.0).abs() > self.slope_within()) => {
                    let slope = report.worst.map_or(f64::NAN, |w| w.value);
                    say(format!("the Taylor remainder falls with a slope of {slope:.3}, expected 2 ± {}", self.slope_within()));
                }
                Ok(_) => {}
            }
        }
        for (_, verdict) in &self.properties {
            if let Err(violation) = verdict {
                say(violation.to_string());
            }
        }
        faults
    }

    fn slope_within(&self) -> f64 {
        if self.kinked { KINKED } else { SLOPE }
    }

    /// The slope of the whole loss's Taylor remainder.
    fn slope(&self) -> Option<f64> {
        let (_, outcome) = self.witnesses.iter().find(|(name, _)| *name == "taylor")?;
        slope(outcome)
    }

    fn error(&self, witness: &str) -> String {
        let found = self.witnesses.iter().find(|(name, _)| *name == witness);
        found.map_or("–".into(), |(_, outcome)| outcome.as_ref().map_or("refused".into(), |r| format!("{:.1e}", r.error())))
    }

    /// The worst of an error over all parameters.
    fn worst(&self, of: impl Fn(&Parameter) -> f64) -> f64 {
        self.each.iter().map(of).fold(0.0, f64::max)
    }

    /// The worst of the elements that were moved alone, where there were any.
    fn worst_element(&self) -> Option<f64> {
        self.each.iter().filter_map(|p| Some(p.coordinate?.error())).max_by(f64::total_cmp)
    }

    /// A line: parameters, the witnesses of the whole, the worst of its parts.
    pub fn line(&self) -> [String; 8] {
        [
            self.name.clone(),
            count(self.parameters as u64),
            self.error("adjoint"),
            self.error("second_order"),
            self.error("v_curve"),
            self.slope().map_or("–".into(), |s| format!("{s:.4}")),
            format!("{:.1e}", self.worst(Parameter::directional_error)),
            self.worst_element().map_or("–".into(), |error| format!("{error:.1e}")),
        ]
    }

    /// What stands above the lines.
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

    /// The parameters, one row each.
    fn table(&self) -> Block {
        let heads =
            ["Parameter", "Shape", "Gradient", "Zeros", "Along a direction", "Taylor slope", "Single elements", "Sees errors of"]
                .map(str::to_owned)
                .to_vec();
        let row = |p: &Parameter| Row {
            head: p.name.clone(),
            cells: vec![
                p.shape.clone(),
                format!("{:.2e}", p.norm),
                format!("{:.1} %", 100.0 * p.zeros),
                cell(&p.directional, format!("{:.1e}", p.directional_error())),
                cell(&p.taylor, p.slope().map_or("linear".into(), |s| format!("{s:.3}"))),
                p.coordinate.map_or("–".into(), |c| format!("{:.1e}", c.error())),
                p.sees.map_or("–".into(), sight),
            ],
            own: false,
        };
        Block::Table(heads, self.each.iter().map(row).collect())
    }

    /// As one JSON object.
    pub fn json(&self) -> Value {
        let parameter = |p: &Parameter| {
            json!({
                "name": p.name, "shape": p.shape, "gradient_norm": p.norm, "zeros": p.zeros, "directional_error": p.directional_error(),
                "taylor_slope": p.slope(), "element_error": p.coordinate.map(|c| c.error()), "sees": p.sees,
            })
        };
        let properties: Value = self
            .properties
            .iter()
            .map(|(name, verdict)| ((*name).to_owned(), json!(verdict.is_ok())))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let witnesses = self.witnesses.iter().map(|(name, o)| ((*name).to_owned(), json!(o.as_ref().ok().map(|r| r.error()))));
        json!({
            "name": self.name, "parameters": self.parameters, "loss": self.loss,
            "facts": self.facts.iter().map(|(name, fact)| ((*name).to_owned(), json!(fact))).collect::<serde_json::Map<_, _>>(),
            "taylor_slope": self.slope(),
            "witnesses": witnesses.collect::<serde_json::Map<_, _>>(), "properties": properties,
            "tensors": self.each.iter().map(parameter).collect::<Vec<_>>(), "faults": self.faults(),
        })
    }
}

impl Parameter {
    fn directional_error(&self) -> f64 {
        compared(&self.directional).map_or(f64::INFINITY, check::Report::error)
    }
}

/// Several models as one HTML file.
pub fn report(all: &[Audited], depth: Depth) -> Report {
    let mut report = Report {
        kicker: "Gradus · audit".into(),
        title: "Whole models, parameter by parameter".into(),
        lead: "Each parameter tensor's gradient in f64: its derivative along a random direction against central differences at the best of \
               nineteen steps, the order of the Taylor remainder, and single elements moved alone. Above them the whole gradient: of models \
               of up to 300,000 parameters also against forward mode on dual numbers, which shares no line of the ops' derivatives with it, and its own \
               derivative; and what a language model must not mix."
            .into(),
        foot: format!(
            "Errors are relative to the loss and the terms of the derivative. The last column is the least relative error of a tensor's largest \
             element that its differences would have refused. Seed {}; {} elements a tensor. A slope of 2 is right; a wrong gradient has 1.",
            depth.seed, depth.coordinates
        ),
        ..Report::default()
    };
    let line = |audited: &Audited| {
        let [head, rest @ ..] = audited.line();
        Row { head, cells: rest.into(), own: false }
    };
    let heads = Audited::HEADS.map(str::to_owned).to_vec();
    let faults: Vec<String> = all.iter().flat_map(Audited::faults).collect();
    let verdict = if faults.is_empty() { vec![ALL_HOLDS.to_owned()] } else { faults };
    let mut blocks: Vec<Block> = verdict.into_iter().map(Block::Text).collect();
    blocks.push(Block::Table(heads, all.iter().map(line).collect()));
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
