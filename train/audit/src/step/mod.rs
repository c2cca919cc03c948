//! One training step, opened: every op with its numbers, its cotangents and their sources, and the evidence that it is correct,
//! as one HTML file.

mod graph;
mod inputs;
mod made;
mod tokens;
mod update;
mod view;

#[cfg(test)]
mod tests;

use gradus_autograd::check;
use gradus_report::markup::escape;
use gradus_tensor::Device;
use gradus_train::optim::clip;
use gradus_train::trainer::TrainError;
use serde::Serialize;
use serde_json::Value;

use crate::catalogue;
use crate::ops::unfenced;
use made::Made;

pub use graph::{Node, Proof};
pub use inputs::{Size, StepInputs, StepInputsError};
pub use tokens::Tokens;
pub use update::{ParameterUpdate, UpdateRule};
pub use view::View;

/// The number of draws of its samples on which every op of the step is checked.
const DRAWS: u64 = 8;

/// A step with all its numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Opened {
    /// The title of the page.
    pub title: String,
    /// The introduction of the page.
    pub lead: String,
    /// The inputs needed to repeat the step, and its results.
    pub facts: Vec<(String, String)>,
    /// The batch as text.
    pub tokens: Tokens,
    /// The loss.
    pub loss: f64,
    /// The formulas of the optimizer.
    pub rule: UpdateRule,
    /// The number of draws of samples behind the evidence of the ops.
    pub draws: u64,
    /// The ops of the step, by name.
    pub ops: serde_json::Map<String, Value>,
    /// The nodes, in the order of the tape; the parameters first.
    pub nodes: Vec<Node>,
    /// The error up to which differences confirm a derivative.
    #[serde(skip)]
    pub tolerance: f64,
}

impl Opened {
    /// Computes the step and keeps all its numbers. `command` is the command that repeats it.
    ///
    /// # Errors
    /// Returns an error if the step cannot be made.
    pub fn of(step: StepInputs, command: &str) -> Result<Self, TrainError> {
        Opened::on(&Device::CPU, step, command)
    }

    /// Computes the step on a device: on a GPU in f32, with differences in f64 at the GPU's numbers.
    ///
    /// # Errors
    /// Returns an error if the step cannot be made, or if the device fails.
    pub fn on(device: &Device, step: StepInputs, command: &str) -> Result<Self, TrainError> {
        let made = Made::on(device, &step)?;
        let step = StepInputs { trainer: made.before, ..step };
        let (trainer, seed) = (&step.trainer, step.trainer.recipe.seed);
        let read: Vec<usize> = step.tokens.rows.iter().map(|(row, _)| *row).collect();
        let at = trainer.recipe.factors(trainer.done() + 1);
        let clip = trainer.recipe.clip.map_or(1.0, |max| clip::factor(made.summary.gradient_norm, max));
        let leaves = update::leaves(trainer, &made.after, &made.gradient, clip, &read);
        let nodes = graph::nodes(&made.trace, &leaves, seed);
        let config = serde_json::to_string(&trainer.params.config()).unwrap_or_default();
        let recipe = serde_json::to_string(&trainer.recipe).unwrap_or_default();
        let unit =
            if step.batch.classes().next().is_none() { " per token" } else { ": L₂ per example, and λ·L₁ per token" };
        let facts = [
            ("loss", format!("{:?} nats{unit}", made.loss)),
            ("norm of the gradient", format!("{:?}, times {:?} by clipping", made.summary.gradient_norm, clip)),
            ("step", format!("{}, at a rate of {:?}", at.t, made.summary.rate)),
            ("seed", format!("{seed}: {}", step.drawn)),
            ("data", step.data.clone()),
            ("SHA-256 of the batch", step.data_digest()),
            ("SHA-256 of the parameters", step.parameters_digest()),
            ("SHA-256 of the moments", step.moments_digest()),
            ("model", config),
            ("recipe", recipe),
            ("arithmetic", made.arithmetic),
            ("made by", format!("Gradus {}: {command}", env!("CARGO_PKG_VERSION"))),
        ];
        Ok(Opened {
            title: step.title,
            lead: step.lead,
            facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
            tokens: step.tokens,
            loss: made.loss,
            rule: UpdateRule::of(&trainer.recipe.optimizer, at, clip),
            draws: DRAWS,
            ops: ops(&nodes),
            nodes,
            tolerance: made.tolerance,
        })
    }

    /// Returns the faults, one line each: derivatives at the step's numbers that differences contradict.
    pub fn faults(&self) -> Vec<String> {
        fn of(nodes: &[Node], within: &str, tolerance: f64, faults: &mut Vec<String>) {
            for node in nodes {
                let path =
                    [within, &node.scope, node.op].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
                if let Some(p) = node.proof.filter(|p| p.error > tolerance) {
                    faults.push(format!(
                        "{path}: {:e} by its VJP, {:e} by differences; error {:.1e}, at most {tolerance:.0e} allowed",
                        p.value, p.expected, p.error
                    ));
                }
                of(node.inside.as_deref().unwrap_or_default(), &path, tolerance, faults);
            }
        }
        let mut faults = Vec::new();
        of(&self.nodes, "", self.tolerance, &mut faults);
        faults
    }

    /// Returns the number of applications that differences confirmed.
    pub fn proved(&self) -> usize {
        fn of(nodes: &[Node]) -> usize {
            nodes.iter().map(|n| usize::from(n.proof.is_some()) + n.inside.as_deref().map_or(0, of)).sum()
        }
        of(&self.nodes)
    }

    /// Returns the step as one HTML file that loads nothing.
    pub fn html(&self) -> String {
        // `<` could end the script element, so it is written as an escape.
        let data = serde_json::to_string(self).unwrap_or_default().replace('<', "\\u003c");
        let facts: String = self
            .facts
            .iter()
            .map(|(name, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value)))
            .collect();
        let style = [gradus_report::html::STYLE, include_str!("page.css")].concat();
        // The places are in the order of the page, so that inserted text is never searched.
        let places = [
            ("{title}", escape(&self.title)),
            ("{style}", style),
            ("{title}", escape(&self.title)),
            ("{lead}", escape(&self.lead)),
            ("{tokens}", self.tokens.html()),
            ("{facts}", facts),
            ("{data}", data),
            ("{script}", include_str!("page.js").to_owned()),
        ];
        let (mut page, mut rest) = (String::new(), include_str!("page.html"));
        for (place, text) in places {
            let (before, after) = rest.split_once(place).expect("page.html has its places");
            page.extend([before, &text]);
            rest = after;
        }
        page + rest
    }
}

/// Returns the page's information about each op that is used.
fn ops(nodes: &[Node]) -> serde_json::Map<String, Value> {
    let used = |name: &str| nodes.iter().any(|n| n.op == name || n.inside.iter().flatten().any(|n| n.op == name));
    let both = catalogue::pages().into_iter().zip(check::subjects()).filter(|(page, _)| used(page.name));
    let op = |(page, subject): (catalogue::Page, check::Subject)| {
        let evidence = check::evidence(&subject, DRAWS);
        let evidence: Vec<_> = evidence.iter().map(|e| (e.witness, e.worst.as_ref().map(check::Report::error))).collect();
        let vjp = page.part("vjp").cloned();
        let json = serde_json::json!({
            "math": page.math, "file": page.file, "derivation": unfenced(&page.derivation), "evidence": evidence,
            "line": vjp.as_ref().map(|part| part.line), "vjp": vjp.map(|part| part.code),
        });
        (page.name.to_owned(), json)
    };
    both.map(op).collect()
}
