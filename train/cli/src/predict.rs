//! `gradus predict`.

use std::path::PathBuf;

use gradus_data::sets::{Answer, Label, Split, Task, submission};
use gradus_io::numbers::many;
use gradus_io::progress::Job;
use gradus_model::Tree;
use gradus_train::finetune::{Data, FinetuneError, TaskModel, answers, left_out, logits, score};
use gradus_train::hyperparameters::in_range;
use gradus_train::tasks;
use serde_json::{Value, json};

use crate::common::{On, Talk, warn_of_another_task};
use crate::error::CliError;
use crate::output;
use crate::page::vacant;
use crate::progress::Display;

/// Predict the answers of a split, labelled or not, with a fine-tuned model
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus predict --model runs/rte --task rte --data glue/RTE --split test
  gradus predict --model runs/mnli --task mnli --data glue/MNLI --split test-mismatched --glue submission/

One line per row that the data set counts, in the file's order: id, answer, and the probability of each class or choice (of STS-B's \
whole-number scores), separated by tabs. Choices are numbered from 0, in the order in which the data set has them. --glue writes the file \
that the GLUE benchmark takes, by its name, and no lines are printed; its diagnostic set (AX) is not read. --json gives each row's \
`logits` too, and `ids`: the token ids of its sequences, one, both orders, or one per choice; `score` and `metrics` where every row \
has a label, else null.")]
pub struct Args {
    /// Directory that `gradus finetune` made
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Task by name
    #[arg(long, value_name = "NAME")]
    task: String,
    /// Folder of the task's files
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// train, dev, test; MultiNLI also dev-mismatched and test-mismatched
    #[arg(long, default_value = "test")]
    split: Split,
    /// Existing folder for GLUE's submission file; an existing one is kept unless --overwrite is given
    #[arg(long, value_name = "DIR")]
    glue: Option<PathBuf>,
    /// Write over a submission file in --glue
    #[arg(long, requires = "glue")]
    overwrite: bool,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.threads.start()?;
    let task = Task::named(&args.task).map_err(FinetuneError::from)?;
    if let Some(dir) = &args.glue {
        // Before the long work: is this a split of GLUE's, and the place of its submission free?
        let path = dir.join(submission(task, args.split, &[], &[]).map_err(FinetuneError::from)?.file);
        in_range("glue", dir.display(), dir.is_dir(), "an existing folder")?;
        vacant(&path, args.overwrite)?;
    }
    let mut task_model = TaskModel::finetuned(&args.model, task)?;
    task_model.model = task_model.model.to(&args.on.open()?)?;
    warn_of_another_task(&args.model, task);
    let data = task_model.read(task, &args.data, args.split)?;
    let job = Job::new(task.title, data.rows.len() as u64, "examples");
    let z = Display::choose(args.talk.quiet).during(job, |reach| Ok(logits(&task_model.model, &data.rows, reach)))?;
    let answers = answers(task, &data.rows, &z).map_err(FinetuneError::from)?;
    let cut = match data.truncated() {
        0 => None,
        n => Some(format!("{} had a text cut to the model's context", many(n, "example"))),
    };
    if let Some(dir) = &args.glue {
        let examples: Vec<_> = data.rows.iter().map(|row| row.example.clone()).collect();
        let submission = submission(task, args.split, &examples, &answers);
        let path = submission.and_then(|file| file.write(dir)).map_err(FinetuneError::from)?;
        if !args.talk.quiet {
            let cut = cut.as_ref().map_or(String::new(), |cut| format!("; {cut}"));
            output::say(&format!("{}: {}{cut}", path.display(), many(answers.len(), "answer")));
        }
    }
    if args.talk.json {
        return output::json(&report(args, task, &data, &answers, &z)?);
    }
    if args.glue.is_none() {
        for ((row, &answer), z) in data.rows.iter().zip(&answers).zip(&z) {
            let probabilities: String = tasks::probabilities(z).iter().map(|p| format!("\t{p:.6}")).collect();
            output::line(&format!("{}\t{}{probabilities}", row.example.id, word(task, answer)))?;
        }
        cut.iter().for_each(|cut| output::say(cut));
        left_out(&data.dropped).iter().for_each(|(reason, rows)| output::say(&format!("{rows} rows left out: {reason}")));
    }
    Ok(())
}

/// An answer in words.
fn word(task: &Task, answer: Label) -> String {
    match (answer, task.answer) {
        (Label::Class(class), Answer::Classes(names)) => names[class].to_owned(),
        (Label::Class(class), _) => class.to_string(),
        (Label::Score(score), _) => format!("{score:.3}"),
    }
}

/// What `--json` prints: all answers, and their score where every row has a label.
fn report(args: &Args, task: &Task, data: &Data, answers: &[Label], z: &[Vec<f64>]) -> Result<Value, CliError> {
    let scored = data.check_labels().is_ok().then(|| score(task, &data.rows, z)).transpose().map_err(FinetuneError::from)?;
    let rows = data.rows.iter().zip(answers).zip(z).map(|((row, &answer), z)| {
        let answer = match answer {
            Label::Score(score) => json!(score),
            class => json!(word(task, class)),
        };
        json!({
            "id": row.example.id, "answer": answer, "probabilities": tasks::probabilities(z),
            "logits": z, "ids": row.encoded.rows,
        })
    });
    Ok(json!({
        "task": task.name, "split": args.split.name(), "metric": task.metric.name(),
        "score": scored.as_ref().map(|s| s.score), "metrics": scored.map(|s| s.metrics),
        "examples": answers.len(), "truncated": data.truncated(), "dropped": left_out(&data.dropped),
        "answers": rows.collect::<Vec<_>>(),
    }))
}
