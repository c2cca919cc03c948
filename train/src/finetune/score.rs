//! The answers of a fine-tuned model, and their scores.

use std::collections::BTreeMap;

use gradus_data::sets::{Example, Label, Task};
use gradus_model::{Model, Objective};
use gradus_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::EncodedRow;
use crate::answers::evaluate::by_length;
use crate::tasks::{self, Encoded, TaskError};

/// The scores of a model's answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The task's metric.
    pub metric: String,
    /// The value of the task's metric, 1 at best.
    pub score: f64,
    /// All metrics of the task by name; those of a group (RACE's `middle`, `high`) are named `metric-group`.
    pub metrics: BTreeMap<String, f64>,
    /// The mean cross-entropy L₂, in nats per example; for a head with one output, the mean squared error.
    pub loss: f64,
    /// The number of examples.
    pub examples: usize,
}

/// Computes the logits of every row, in order, without dropout. Rows of about equal length are read together, to save padding.
/// `progress` receives the number of rows done so far.
pub fn logits(model: &Model<Tensor>, rows: &[EncodedRow], progress: &mut dyn FnMut(usize)) -> Vec<Vec<f64>> {
    let tokens: Vec<usize> = rows.iter().map(|row| row.encoded.length() * row.encoded.rows.len()).collect();
    let mut all = vec![Vec::new(); rows.len()];
    let mut done = 0;
    for now in by_length(&tokens) {
        let chosen: Vec<&Encoded> = now.iter().map(|&i| &rows[i].encoded).collect();
        let classes = model.head().map_or(1, |head| head.config().classes).max(chosen[0].rows.len());
        let z = model.class_logits(&tasks::batch(&chosen, classes, 0.0, Objective::SequenceMean));
        for (row, &i) in z.to_vec().chunks(z.shape()[1]).zip(&now) {
            all[i] = row.iter().map(|&z| f64::from(z)).collect();
        }
        done += now.len();
        progress(done);
    }
    all
}

/// Returns the answer to each row.
pub fn answers(task: &Task, rows: &[EncodedRow], logits: &[Vec<f64>]) -> Result<Vec<Label>, TaskError> {
    let each = rows.iter().zip(logits).map(|(row, z)| match z.iter().find(|z| !z.is_finite()) {
        Some(&found) => Err(TaskError::NotFinite { id: row.example.id.clone(), found }),
        None => Ok(tasks::answer(task, z)),
    });
    each.collect()
}

/// Scores logits against labels.
pub fn score(task: &Task, rows: &[EncodedRow], logits: &[Vec<f64>]) -> Result<Scored, TaskError> {
    let examples = || rows.iter().map(|row| &row.example);
    let answers = answers(task, rows, logits)?;
    let metrics = metrics(task, examples(), &answers)?;
    let labels = labels(examples())?;
    let loss = |(z, &label): (&Vec<f64>, &Label)| {
        if let (&[z], Label::Score(y)) = (&z[..], label) {
            return (z - y).powi(2);
        }
        let log_p = tasks::log_probabilities(z);
        tasks::target(task, label).iter().zip(log_p).map(|(y, log_p)| -y * log_p).sum::<f64>()
    };
    let loss = logits.iter().zip(&labels).map(loss).sum::<f64>() / rows.len() as f64;
    let name = task.metric.name().to_owned();
    Ok(Scored { score: metrics[&name], metric: name, metrics, loss, examples: rows.len() })
}

/// Computes all metrics of a task by name; those of a group (RACE's `middle`, `high`) are named `metric-group`.
pub fn metrics<'e>(
    task: &Task,
    examples: impl IntoIterator<Item = &'e Example>,
    answers: &[Label],
) -> Result<BTreeMap<String, f64>, TaskError> {
    let examples: Vec<&Example> = examples.into_iter().collect();
    let labels = labels(examples.iter().copied())?;
    let mut groups: Vec<_> = examples.iter().filter_map(|e| e.group).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut metrics = BTreeMap::new();
    for metric in [task.metric].iter().chain(task.also) {
        metrics.insert(metric.name().to_owned(), metric.score(answers, &labels));
        for group in &groups {
            let of = |all: &[Label]| {
                let members = examples.iter().zip(all).filter(|(e, _)| e.group == Some(group));
                members.map(|(_, &label)| label).collect::<Vec<_>>()
            };
            metrics.insert(format!("{}-{group}", metric.name()), metric.score(&of(answers), &of(&labels)));
        }
    }
    Ok(metrics)
}

/// Returns the labels of examples, each of which must have one.
pub fn labels<'e>(examples: impl IntoIterator<Item = &'e Example>) -> Result<Vec<Label>, TaskError> {
    let remedy = "this split is published without labels; score another split, give `gradus evaluate` its labels with --labels, or write the \
         answers with `gradus predict`";
    let examples = examples.into_iter();
    examples.map(|e| e.label.ok_or_else(|| TaskError::NoLabel { id: e.id.clone(), remedy })).collect()
}
