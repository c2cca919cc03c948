//! Scores of a model on a task, fine-tuned or zero-shot.

use std::collections::BTreeMap;
use std::path::Path;

use gradus_data::sets::{Split, Task};
use gradus_io::progress::Job;
use gradus_model::Tree;
use gradus_train::finetune::{FinetuneError, TaskModel, labels, left_out, logits, metrics, score};
use gradus_train::hyperparameters::require;
use serde::Serialize;

use super::Args;
use crate::common::{say_notes, warn_of_another_task};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;
use crate::zero_shot::answered;

/// The output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    task: &'static str,
    split: &'static str,
    zero_shot: bool,
    metric: &'static str,
    score: f64,
    metrics: BTreeMap<String, f64>,
    /// The loss; `None` for a model that answers by heuristics.
    loss: Option<f64>,
    examples: usize,
    /// The number of rows in the files.
    rows: usize,
    truncated: usize,
    dropped: BTreeMap<String, usize>,
    labels: Option<&'a Path>,
}

pub fn run(args: &Args, task: &str, folder: &Path) -> Result<(), CliError> {
    let task = Task::named(task).map_err(FinetuneError::from)?;
    require("rows", 0, args.rows != Some(0), "a number from 1")?;
    let split = args.split.unwrap_or(if task.splits.contains(&Split::Dev) { Split::Dev } else { task.splits[0] });
    let report = if args.zero_shot { zero_shot(args, task, folder, split) } else { fine_tuned(args, task, folder, split) }?;
    if args.talk.json { output::json(&report) } else { output::write(&report.text()) }
}

fn fine_tuned<'a>(args: &'a Args, task: &'static Task, folder: &Path, split: Split) -> Result<Report<'a>, CliError> {
    let mut task_model = TaskModel::finetuned(&args.model, task)?;
    task_model.model = task_model.model.to(&args.on.open()?)?;
    warn_of_another_task(&args.model, task);
    say_notes(&args.model);
    let data = match &args.labels {
        Some(labels) => task_model.read_labelled(task, folder, split, labels)?,
        None => task_model.read(task, folder, split)?,
    };
    output::notes(&data.notes);
    let data = data.at_most(args.rows);
    data.check_labels().map_err(FinetuneError::from)?;
    let job = Job::new(task.title, data.rows.len() as u64, "examples");
    let display = Display::choose(args.talk.quiet || data.rows.len() < 1000);
    let z = display.during(job, |reach| Ok(logits(&task_model.model, &data.rows, reach)))?;
    let scored = score(task, &data.rows, &z).map_err(FinetuneError::from)?;
    Ok(Report {
        task: task.name,
        split: split.name(),
        zero_shot: false,
        metric: task.metric.name(),
        score: scored.score,
        metrics: scored.metrics,
        loss: Some(scored.loss),
        examples: scored.examples,
        rows: data.file_rows,
        truncated: data.truncated(),
        dropped: left_out(&data.dropped),
        labels: args.labels.as_deref(),
    })
}

/// Scores a language model that was never trained for the task.
fn zero_shot<'a>(args: &Args, task: &'static Task, folder: &Path, split: Split) -> Result<Report<'a>, CliError> {
    let model = (&*args.model, args.opening.as_deref(), &args.on);
    let answered = answered(model, (task, folder, split), args.rows, |examples| labels(examples).map(drop))?;
    let metrics = metrics(task, &answered.examples, &answered.answers.labels).map_err(FinetuneError::from)?;
    Ok(Report {
        task: task.name,
        split: split.name(),
        zero_shot: true,
        metric: task.metric.name(),
        score: metrics[task.metric.name()],
        metrics,
        loss: None,
        examples: answered.examples.len(),
        rows: answered.file_rows,
        truncated: answered.answers.truncated,
        dropped: left_out(&answered.dropped),
        labels: None,
    })
}

impl Report<'_> {
    /// Returns a line for each number.
    fn text(&self) -> String {
        let zero_shot = if self.zero_shot { ", zero-shot" } else { "" };
        let mut lines = vec![format!(
            "task {}{zero_shot}\nsplit {}\nrows in the files {}\nexamples {}",
            self.task, self.split, self.rows, self.examples
        )];
        lines.extend(self.labels.map(|path| format!("labels {}", path.display())));
        lines.extend(self.metrics.iter().map(|(name, value)| format!("{name} {value}")));
        lines.extend(self.loss.map(|loss| format!("loss {loss}")));
        lines.extend((self.truncated > 0).then(|| format!("truncated {}", self.truncated)));
        lines.extend(self.dropped.iter().map(|(reason, rows)| format!("left out {rows}: {reason}")));
        lines.join("\n") + "\n"
    }
}
