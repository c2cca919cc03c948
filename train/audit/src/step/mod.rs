//! One training step, opened: every op with its numbers, what flowed back through it and from where, and the evidence that it
//! is right, as one HTML file.

mod graph;
mod scene;
mod update;
mod view;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use gradus_autograd::check;
use gradus_autograd::trace::Recorder;
use gradus_model::{DropoutSeed, GradientMode};
use gradus_report::markup::escape;
use gradus_train::trainer::TrainError;
use serde::Serialize;
use serde_json::Value;

use crate::catalogue;
use crate::ops::unfenced;

pub use graph::{Node, Proof};
pub use scene::{Scene, SceneError, Size};
pub use update::{Moved, Rule};
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
    /// What makes it again, and what came out.
    pub facts: Vec<(String, String)>,
    /// What was read.
    pub tokens: Tokens,
    /// Its loss.
    pub loss: f64,
    /// How the optimizer makes an update of a gradient.
    pub rule: Rule,
    /// Draws of samples behind the evidence of the ops.
    pub draws: u64,
    /// The ops that it uses, by name.
    pub ops: serde_json::Map<String, Value>,
    /// Its nodes, in the order of the tape; the parameters first.
    pub nodes: Vec<Node>,
}

/// The batch in words.
#[derive(Clone, Debug, Serialize)]
pub struct Tokens {
    /// Number of sequences.
    pub sequences: usize,
    /// What is read (B·T).
    pub inputs: Vec<String>,
    /// What is to be predicted (B·T).
    pub targets: Vec<String>,
    /// Both in words by their row of the embedding, in the order of the text.
    pub rows: Vec<(usize, String)>,
}

impl Tokens {
    /// What a scene reads.
    fn of(scene: &Scene) -> Self {
        let batch = &scene.batch;
        let named = |ids: &[u32], words: &[String]| -> Vec<(usize, String)> {
            ids.iter().zip(words).map(|(&id, word)| (id as usize, word.clone())).filter(|(_, word)| !word.is_empty()).collect()
        };
        let mut seen = HashSet::new();
        let all = [named(&batch.inputs, &scene.inputs), named(&batch.targets, &scene.targets)].concat();
        let rows = all.into_iter().filter(|(id, _)| seen.insert(*id)).collect();
        Tokens { sequences: batch.sequences, inputs: scene.inputs.clone(), targets: scene.targets.clone(), rows }
    }

    /// A line a sequence: what is read, and what is to be predicted where that is not what is read next.
    fn html(&self) -> String {
        let length = self.inputs.len() / self.sequences.max(1);
        let word = |i: usize| {
            let (input, target) = (&self.inputs[i], &self.targets[i]);
            let goes_on = !(i + 1).is_multiple_of(length) && self.inputs[i + 1] == *target;
            let next = if goes_on || target.is_empty() { String::new() } else { format!(" <em>→ {}</em>", escape(target)) };
            format!("<span>{}{next}</span>", escape(input))
        };
        let line = |s: usize| format!("<p class=\"words\">{}</p>", (s * length..(s + 1) * length).map(word).collect::<String>());
        (0..self.sequences).map(line).collect()
    }
}

impl Opened {
    /// Makes the step and keeps everything. `command` is what makes it again.
    ///
    /// # Errors
    /// Where the update cannot be made.
    pub fn of(scene: Scene, command: &str) -> Result<Self, TrainError> {
        let (trainer, seed) = (&scene.trainer, scene.trainer.recipe.seed);
        let recorder = Arc::new(Recorder::default());
        let dropout = Some(DropoutSeed::new(seed, trainer.done() + 1));
        let (loss, gradient) =
            trainer.params.observed_gradient(Some(recorder.clone()), &scene.batch, dropout, GradientMode::Whole);
        let mut after = trainer.clone();
        let step = after.update(&scene.batch)?;
        let tokens = Tokens::of(&scene);
        let read: Vec<usize> = tokens.rows.iter().map(|(row, _)| *row).collect();
        let at = trainer.recipe.update(trainer.done() + 1, step.gradient_norm);
        let (names, updates) = update::shares(trainer, &after, &gradient, at, &read);
        let trace = recorder.trace();
        let nodes = graph::nodes(&trace, graph::Subject { names: &names, updates: &updates, tokens: &read, seed });
        let config = serde_json::to_string(&trainer.params.config()).unwrap_or_default();
        let recipe = serde_json::to_string(&trainer.recipe).unwrap_or_default();
        let facts = [
            (
                "loss",
                format!(
                    "{loss:?} nats{}",
                    if scene.batch.labels.is_some() { ": L₂ an example, and λ·L₁ a token" } else { " a token" }
                ),
            ),
            ("norm of the gradient", format!("{:?}, times {:?} by clipping", step.gradient_norm, at.clip)),
            ("update", format!("{}, at a rate of {:?}", at.t, step.rate)),
            ("seed", format!("{seed}: {}", scene.drawn)),
            ("data", scene.data.clone()),
            ("SHA-256 of the batch", scene.data_digest()),
            ("SHA-256 of the parameters", scene.parameters_digest()),
            ("SHA-256 of the moments", scene.moments_digest()),
            ("model", config),
            ("recipe", recipe),
            ("arithmetic", format!("f64, {} threads; the bits do not depend on them", rayon::current_num_threads())),
            ("made by", format!("Gradus {}: {command}", env!("CARGO_PKG_VERSION"))),
        ];
        Ok(Opened {
            title: scene.title,
            lead: scene.lead,
            facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
            tokens,
            loss,
            rule: Rule::of(&trainer.recipe.optimizer, at),
            draws: DRAWS,
            ops: ops(&nodes),
            nodes,
        })
    }

    /// Where the evidence does not hold, one line each: a derivative at the step's own numbers that differences contradict.
    pub fn faults(&self) -> Vec<String> {
        fn of(nodes: &[Node], within: &str, faults: &mut Vec<String>) {
            for node in nodes {
                let path =
                    [within, &node.scope, node.op].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
                if let Some(p) = node.proof.filter(|p| p.error > TOLERANCE) {
                    faults.push(format!(
                        "{path}: {:e} by its VJP, {:e} by differences; error {:.1e}, at most {TOLERANCE:.0e} allowed",
                        p.value, p.expected, p.error
                    ));
                }
                of(node.inside.as_deref().unwrap_or_default(), &path, faults);
            }
        }
        let mut faults = Vec::new();
        of(&self.nodes, "", &mut faults);
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
        // In the order in which they stand in the page, so that nothing is looked for in what has been put in.
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

/// At the best of seven steps, whatever the lengths of the inputs.
const TOLERANCE: f64 = 1e-7;

/// What the page says of each op that is used.
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
