//! `gradus tasks show`.

use std::path::PathBuf;

use gradus_data::sets::{Answer, Example, Input, Label, Split, Task, visible};
use gradus_io::numbers::count;
use gradus_train::finetune::{FinetuneError, TaskModel, evenly, left_out};
use gradus_train::hyperparameters::require;
use gradus_train::tasks::{Encoded, Encoder, TaskError, head};
use serde_json::json;

use crate::common::open_model;
use crate::error::CliError;
use crate::output;

/// Show rows of a task as they are read: texts, gold labels, and with --model the tokens that it reads and the truncation
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus tasks show rte --data glue/RTE
  gradus tasks show race --data RACE --split dev --rows 2 --model runs/novels
  gradus tasks show qqp --data glue/QQP --json

First the rows in the split's files, those used, and those left out, with the reason; then rows spread evenly over the split. Tokens \
are divided by `|`.")]
pub struct Args {
    /// Name of the task, as listed by `gradus tasks`
    #[arg(value_name = "TASK")]
    task: String,
    /// Folder of the task's files
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Split of the task: train, dev, test; MultiNLI also dev-mismatched and test-mismatched [default: train, or the only one]
    #[arg(long)]
    split: Option<Split>,
    /// Number of rows, evenly spaced over the split
    #[arg(long, value_name = "N", default_value_t = 5)]
    rows: usize,
    /// Directory of a pre-trained or fine-tuned model, whose tokens are also shown
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    let task = Task::named(&args.task).map_err(FinetuneError::from)?;
    require("rows", 0, args.rows > 0, "a number from 1")?;
    if args.model.is_some() {
        head(task).map_err(FinetuneError::from)?;
    }
    let split = args.split.unwrap_or(task.splits[0]);
    let loaded = task.load(&args.data, split).map_err(FinetuneError::from)?;
    output::notes(&loaded.notes);
    let (file, used, dropped) = (loaded.rows(), loaded.examples.len(), left_out(&loaded.dropped));
    let examples = evenly(loaded.examples, Some(args.rows));
    let reader = args.model.as_deref().map(Reader::open).transpose()?;
    let encoded = match &reader {
        None => vec![None; examples.len()],
        Some(reader) => reader.read(task, &examples).map_err(FinetuneError::from)?.into_iter().map(Some).collect(),
    };
    let rows = examples.iter().zip(&encoded);
    if args.json {
        let tokens = |encoded: &Encoded| reader.as_ref().map(|reader| reader.tokens(encoded));
        let rows = rows.map(|(example, encoded)| {
            let encoded = encoded.as_ref().map(|it| json!({ "tokens": tokens(it), "cut": it.truncated }));
            json!({ "id": example.id, "texts": texts(example), "label": label(task, example), "encoded": encoded })
        });
        return output::json(&json!({
            "task": task.name, "split": split.name(), "files": loaded.files, "rows": file, "used": used, "dropped": dropped,
            "notes": loaded.notes, "shown": rows.collect::<Vec<_>>(),
        }));
    }
    let left_out: String = dropped.iter().map(|(reason, rows)| format!("; {} left out: {reason}", count(*rows as u64))).collect();
    output::line(&format!("{}, split {split}: {} of {} rows{left_out}", task.title, count(used as u64), count(file as u64)))?;
    for (example, encoded) in rows {
        output::line(&format!("\n{}  label: {}", example.id, label(task, example).as_deref().unwrap_or("none")))?;
        for (name, text) in texts(example) {
            output::line(&format!("  {name}: {}", visible(&text)))?;
        }
        for (reader, encoded) in reader.iter().zip(encoded) {
            for tokens in reader.tokens(encoded) {
                output::line(&format!("  {} tokens: {}", tokens.len(), tokens.join("|")))?;
            }
            if encoded.truncated {
                output::line(&format!("  a text was cut to the context of {}", reader.context))?;
            }
        }
    }
    Ok(())
}

/// A model's encoder of examples.
struct Reader {
    model: TaskModel,
    context: usize,
}

impl Reader {
    fn open(path: &std::path::Path) -> Result<Self, CliError> {
        let dir = open_model(path)?;
        let model = TaskModel::pretrained(dir.path(), 0)?;
        Ok(Reader { context: model.model.sizes().context, model })
    }

    fn read(&self, task: &'static Task, examples: &[Example]) -> Result<Vec<Encoded>, TaskError> {
        let mut encoder = Encoder::new(task, &self.model.tokenizer, self.model.format, self.context)?;
        examples.iter().map(|example| encoder.encode(example)).collect()
    }

    /// Returns the tokens of each sequence, as text.
    fn tokens(&self, encoded: &Encoded) -> Vec<Vec<String>> {
        let token = |id: u32| visible(&self.model.tokenizer.token(id).unwrap_or_else(|| id.to_string()));
        encoded.rows.iter().map(|row| row.to_vec().into_iter().map(token).collect()).collect()
    }
}

/// Returns the texts of an example with their names.
fn texts(example: &Example) -> Vec<(String, String)> {
    let named = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let numbered = |name: &str, texts: &[String]| {
        let each = texts.iter().enumerate().map(|(k, text)| (format!("{name} {k}"), text.clone()));
        each.collect::<Vec<_>>()
    };
    match &example.input {
        Input::One(text) => vec![named("text", text)],
        Input::Pair(a, b) => vec![named("first", a), named("second", b)],
        Input::Choices { document, question, answers } => {
            let asked = (!question.is_empty()).then(|| named("question", question));
            [named("document", document)].into_iter().chain(asked).chain(numbered("answer", answers)).collect()
        }
        Input::Reference { before, after, candidates } => {
            let sentence = named("sentence", &format!("{before}[?]{after}"));
            [sentence].into_iter().chain(numbered("candidate", candidates)).collect()
        }
    }
}

/// Returns the gold label as the data set has it, in words for a class.
fn label(task: &Task, example: &Example) -> Option<String> {
    Some(match (example.label?, task.answer) {
        (Label::Class(class), Answer::Classes(names)) => names[class].to_owned(),
        (Label::Class(class), _) => class.to_string(),
        (Label::Score(score), _) => score.to_string(),
    })
}
