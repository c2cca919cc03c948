//! One training step, opened: every op with its numbers, what flowed back through it and from where, and the evidence that it
//! is right, as one HTML file.

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

/// Draws of its samples on which every op of the step is checked.
const DRAWS: u64 = 8;

/// A step with everything in it.
#[derive(Clone, Debug, Serialize)]
pub struct Opened {
    /// Which step.
    pub title: String,
    /// What there is to see.
    pub lead: String,
    /// How to repeat it, and what came out.
    pub facts: Vec<(String, String)>,
    /// What was read.
    pub tokens: Tokens,
    /// Its loss.
    pub loss: f64,
    /// How the optimizer turns a gradient into an update.
    pub rule: UpdateRule,
    /// Draws of samples behind the evidence of the ops.
    pub draws: u64,
    /// The ops that it uses, by name.
    pub ops: serde_json::Map<String, Value>,
    /// Its nodes, in the order of the tape; the parameters first.
    pub nodes: Vec<Node>,
    /// Up to which error differences confirm a derivative.
    #[serde(skip)]
    pub tolerance: f64,
}

impl Opened {
    /// Makes the step and keeps everything. `command` repeats it.
    ///
    /// # Errors
    /// Where the update cannot be made.
    pub fn of(step: StepInputs, command: &str) -> Result<Self, TrainError> {
        Opened::on(&Device::Cpu, step, command)
    }

    /// The same on a device: on a GPU in f32, and differences in f64 at the numbers that it gave.
    ///
    /// # Errors
    /// Where the update cannot be made, or the device fails.
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
        let unit = if step.batch.labels.is_empty() { " per token" } else { ": L₂ per example, and λ·L₁ per token" };
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

    /// Where the evidence fails, one line each: a derivative at the step's own numbers that differences contradict.
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

    /// Applications that differences confirmed.
    pub fn proved(&self) -> usize {
        fn of(nodes: &[Node]) -> usize {
            nodes.iter().map(|n| usize::from(n.proof.is_some()) + n.inside.as_deref().map_or(0, of)).sum()
        }
        of(&self.nodes)
    }

    /// The step as one HTML file that loads nothing.
    pub fn html(&self) -> String {
        // `<` could end the script's element; JSON has another way to write it.
        let data = serde_json::to_string(self).unwrap_or_default().replace('<', "\\u003c");
        let facts: String = self
            .facts
            .iter()
            .map(|(name, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value)))
            .collect();
        let style = [gradus_report::html::STYLE, include_str!("page.css")].concat();
        // In the order of the page, so that nothing is looked for in what has been put in.
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

/// What the page says about each op that is used.
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
