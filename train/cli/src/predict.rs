//! `gradus predict`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gradus_data::sets::{Answer, Example, Label, Split, Task, submission};
use gradus_io::disk;
use gradus_io::files::FileError;
use gradus_io::numbers::{count, count_of};
use gradus_io::progress::Job;
use gradus_model::Tree;
use gradus_train::finetune::{FinetuneError, Scored, TaskModel, answers, labels, left_out, logits, metrics, score};
use gradus_train::hyperparameters::require;
use gradus_train::tasks::{self, Sequence};
use serde_json::{Value, json};

use crate::common::{On, Talk, say_notes, warn_of_another_task};
use crate::error::CliError;
use crate::output;
use crate::page::vacant;
use crate::progress::Display;
use crate::zero_shot::answered;

/// Predict the answers of a split, labelled or not, with a fine-tuned model, or zero-shot
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus predict --model runs/rte --task rte --data glue/RTE --split test
  gradus predict --model runs/mnli --task mnli --data glue/MNLI --split test-mismatched --glue submission/
  gradus predict --model openai-gpt --task wsc273 --data wsc --zero-shot

Prints a line of column names, then a line per row, in the file's order, without the rows that the data set's rules leave out: \
id, answer, and the probability of each class or choice (for STS-B, of each whole-number score), separated by tabs. With \
--zero-shot, the numbers are the mean log-probability of each choice's tokens, or of the sentence for CoLA. Choices are numbered \
from 0, in the data set's order. With --glue, the submission file of the GLUE benchmark is written under the expected name, and \
no lines are printed; its diagnostic set (AX) is not read. --json also gives each row's `logits` and `ids`, the token ids of its \
sequences (one, both orders, or one per choice); with --zero-shot its `scores`, and CoLA's `threshold`; and `score` and \
`metrics`, null unless every row has a label. Rows of a test split need no label: a column, key or line of labels may be \
missing, and a label empty or -1.")]
pub struct Args {
    /// Directory made by `gradus finetune`, or with --zero-shot that of a pre-trained model
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Name of the task
    #[arg(long, value_name = "NAME")]
    task: String,
    /// Folder of the task's files
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Split of the task: train, dev, test; MultiNLI also dev-mismatched and test-mismatched
    #[arg(long, default_value = "test")]
    split: Split,
    /// Use the language model without a head, by the paper's heuristics (§5): cola, sst-2, race, story-cloze, dprd, wsc273
    #[arg(long)]
    zero_shot: bool,
    /// Token to put before every text, if the model was trained with one (with --zero-shot): <story> in the micro-world
    #[arg(long, value_name = "TOKEN", requires = "zero_shot")]
    opening: Option<String>,
    /// Folder for GLUE's submission file, created if needed; an existing file is kept unless --overwrite is given
    #[arg(long, value_name = "DIR")]
    glue: Option<PathBuf>,
    /// Replace an existing submission file in --glue
    #[arg(long, requires = "glue")]
    overwrite: bool,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
}

/// The predictions of a model on a split.
struct Predicted {
    examples: Vec<Example>,
    answers: Vec<Label>,
    /// The numbers by which each answer was chosen: probabilities, or mean log-probabilities.
    numbers: Vec<Vec<f64>>,
    /// The fields of each row in `--json`, besides its id and answer.
    details: Vec<Value>,
    /// The threshold in `--json`, for all rows.
    threshold: Option<f64>,
    /// The score and all metrics, if every row has a label.
    scored: Option<(f64, BTreeMap<String, f64>)>,
    truncated: usize,
    file_rows: usize,
    dropped: BTreeMap<String, usize>,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.start()?;
    let task = Task::named(&args.task).map_err(FinetuneError::from)?;
    if let Some(dir) = &args.glue {
        // Check before the long work that GLUE has this split and that the path of the submission is free.
        let path = dir.join(submission(task, args.split, &[], &[]).map_err(FinetuneError::from)?.file);
        require("glue", dir.display(), dir.is_dir() || !dir.exists(), "a folder, or a name for a new one")?;
        vacant(&path, args.overwrite)?;
        disk::make_folders(dir).map_err(|cause| FileError::new("make the directory", dir, cause))?;
    }
    let predicted = if args.zero_shot { zero_shot(args, task) } else { fine_tuned(args, task) }?;
    let Predicted { examples, answers, truncated, .. } = &predicted;
    let cut = (*truncated > 0).then(|| format!("{} had a text cut to the model's context", count_of(*truncated, "example")));
    if let Some(dir) = &args.glue {
        let submission = submission(task, args.split, examples, answers);
        let path = submission.and_then(|file| file.write(dir)).map_err(FinetuneError::from)?;
        let cut = cut.as_ref().map_or(String::new(), |cut| format!("; {cut}"));
        output::aside(&format!("{}: {}{cut}", path.display(), count_of(answers.len(), "answer")));
    }
    if args.talk.json {
        return output::json(&report(args, task, predicted));
    }
    if args.glue.is_none() {
        output::line(&header(task, &predicted.numbers))?;
        for ((example, &answer), numbers) in examples.iter().zip(answers).zip(&predicted.numbers) {
            let numbers: String = numbers.iter().map(|p| format!("\t{p:.6}")).collect();
            output::line(&format!("{}\t{}{numbers}", example.id, word(task, answer)))?;
        }
        cut.iter().for_each(|cut| output::aside(cut));
        predicted
            .dropped
            .iter()
            .for_each(|(reason, rows)| output::aside(&format!("{} left out: {reason}", count_of(*rows, "row"))));
        if predicted.file_rows > examples.len() {
            let (file, used) = (count(predicted.file_rows as u64), count(examples.len() as u64));
            output::aside(&format!("{used} of the {file} rows in the files make this split"));
        }
    }
    Ok(())
}

/// Predicts the answers by a fine-tuned model.
fn fine_tuned(args: &Args, task: &'static Task) -> Result<Predicted, CliError> {
    let mut task_model = TaskModel::finetuned(&args.model, task)?;
    task_model.model = task_model.model.to(&args.on.open()?)?;
    warn_of_another_task(&args.model, task);
    say_notes(&args.model);
    let data = task_model.read(task, &args.data, args.split)?;
    output::notes(&data.notes);
    let job = Job::new(task.title, data.rows.len() as u64, "examples");
    let z = Display::choose(args.talk.quiet).during(job, |reach| Ok(logits(&task_model.model, &data.rows, reach)))?;
    let answers = answers(task, &data.rows, &z).map_err(FinetuneError::from)?;
    let scored = data.check_labels().is_ok().then(|| score(task, &data.rows, &z)).transpose().map_err(FinetuneError::from)?;
    // A single output is a score, not the logit of a class.
    let numbers: Vec<_> = z.iter().map(|z| if z.len() == 1 { z.clone() } else { tasks::probabilities(z) }).collect();
    let details = data.rows.iter().zip(&z).zip(&numbers).map(|((row, z), p)| {
        let ids: Vec<_> = row.encoded.rows.iter().map(Sequence::to_vec).collect();
        json!({ "probabilities": p, "logits": z, "ids": ids })
    });
    Ok(Predicted {
        details: details.collect(),
        answers,
        numbers,
        threshold: None,
        scored: scored.map(|Scored { score, metrics, .. }| (score, metrics)),
        truncated: data.truncated(),
        file_rows: data.file_rows,
        dropped: left_out(&data.dropped),
        examples: data.rows.into_iter().map(|row| row.example).collect(),
    })
}

/// Predicts the answers by a language model that was never trained for the task.
fn zero_shot(args: &Args, task: &'static Task) -> Result<Predicted, CliError> {
    let model = (&*args.model, args.opening.as_deref(), &args.on);
    let answered = answered(model, (task, &args.data, args.split), None, |_| Ok(()))?;
    let scored = labels(&answered.examples).is_ok().then(|| metrics(task, &answered.examples, &answered.answers.labels));
    let scored = scored.transpose().map_err(FinetuneError::from)?;
    Ok(Predicted {
        details: answered.answers.scores.iter().map(|scores| json!({ "scores": scores })).collect(),
        answers: answered.answers.labels,
        numbers: answered.answers.scores,
        threshold: answered.answers.threshold,
        scored: scored.map(|metrics| (metrics[task.metric.name()], metrics)),
        truncated: answered.answers.truncated,
        file_rows: answered.file_rows,
        dropped: left_out(&answered.dropped),
        examples: answered.examples,
    })
}

/// Returns the header line: the names of the columns.
fn header(task: &Task, numbers: &[Vec<f64>]) -> String {
    let columns = numbers.iter().map(Vec::len).max().unwrap_or(0);
    let names: Vec<String> = match task.answer {
        Answer::Classes(names) if names.len() == columns => names.iter().map(|name| (*name).to_owned()).collect(),
        _ if columns == 1 => vec!["score".to_owned()],
        _ => (0..columns).map(|choice| choice.to_string()).collect(),
    };
    [vec!["id".to_owned(), "answer".to_owned()], names].concat().join("\t")
}

/// Returns an answer in words.
fn word(task: &Task, answer: Label) -> String {
    match (answer, task.answer) {
        (Label::Class(class), Answer::Classes(names)) => names[class].to_owned(),
        (Label::Class(class), _) => class.to_string(),
        (Label::Score(score), _) => format!("{score:.3}"),
    }
}

/// Returns the object of `--json`: all answers, and their score if every row has a label.
fn report(args: &Args, task: &Task, predicted: Predicted) -> Value {
    let rows = predicted.examples.iter().zip(&predicted.answers).zip(predicted.details).map(|((example, &answer), mut row)| {
        row["id"] = json!(example.id);
        row["answer"] = match answer {
            Label::Score(score) => json!(score),
            class => json!(word(task, class)),
        };
        row
    });
    let rows: Vec<_> = rows.collect();
    let (score, metrics) = predicted.scored.unzip();
    json!({
        "task": task.name, "split": args.split.name(), "zero_shot": args.zero_shot, "metric": task.metric.name(),
        "score": score, "metrics": metrics, "threshold": predicted.threshold,
        "examples": rows.len(), "rows": predicted.file_rows, "truncated": predicted.truncated, "dropped": predicted.dropped,
        "answers": rows,
    })
}
