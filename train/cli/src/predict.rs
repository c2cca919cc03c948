//! `gradus predict`.

use std::path::PathBuf;

use gradus_data::sets::{Answer, Label, Split, Task, submission};
use gradus_io::numbers::many;
use gradus_io::progress::{Job, Monitor};
use gradus_train::finetune::{FinetuneError, Reader, answers, logits, score};
use gradus_train::tasks;
use serde_json::json;

use crate::common::{Threads, flag, warn_of_another_task};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// Answer a split with a fine-tuned model, labelled or not
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus predict --model runs/rte --task rte --data glue/RTE --split test
  gradus predict --model runs/mnli --task mnli --data glue/MNLI --split test-mismatched --glue submission/

One line per row that the data set counts, in the file's order: id, answer, and the probability of each class or choice (of STS-B's \
whole scores), separated by tabs. Choices are numbered from 0, in the order in which the data set has them. --glue writes the file \
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
    /// Existing folder for GLUE's submission file; one that stands there is kept unless --overwrite is given
    #[arg(long, value_name = "DIR")]
    glue: Option<PathBuf>,
    /// Write over a submission file in --glue
    #[arg(long, requires = "glue")]
    overwrite: bool,
    /// Say nothing but warnings
    #[arg(long)]
    quiet: bool,
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: Threads,
}

/// Runs it.
pub fn run(args: &Args) -> Result<(), CliError> {
    args.threads.start()?;
    let task = Task::named(&args.task).map_err(FinetuneError::from)?;
    if let Some(dir) = &args.glue {
        // Before the long work: is this a split of GLUE's, and its place free?
        let path = dir.join(submission(task, args.split, &[], &[]).map_err(FinetuneError::from)?.file);
        if !dir.is_dir() {
            return Err(flag("--glue", dir.display(), "a folder that exists"));
        }
        if !args.overwrite && path.symlink_metadata().is_ok() {
            return Err(CliError::Exists { path, found: "a submission stands there" });
        }
    }
    let reader = Reader::finetuned(&args.model, task)?;
    warn_of_another_task(&args.model, task);
    let data = reader.read(task, &args.data, args.split)?;
    let encoded: Vec<_> = data.rows.iter().map(|row| &row.encoded).collect();
    let mut progress = Display::choose(args.quiet).begin(Job::new(task.title, encoded.len() as u64, "examples"));
    let z = logits(&reader.model, &encoded, |done| progress.reach(done as u64));
    progress.finish();
    let answers = answers(task, &data.rows, &z).map_err(FinetuneError::from)?;
    if let Some(dir) = &args.glue {
        let examples: Vec<_> = data.rows.iter().map(|row| row.example.clone()).collect();
        let file = submission(task, args.split, &examples, &answers).map_err(FinetuneError::from)?;
        let path = file.write(dir).map_err(FinetuneError::from)?;
        let cut = match data.truncated() {
            0 => String::new(),
            n => format!("; {n} had a text cut to the model's context"),
        };
        if !args.quiet {
            output::say(&format!("{}: {}{cut}", path.display(), many(answers.len(), "answer")));
        }
        if !args.json {
            return Ok(());
        }
    }
    let word = |label: Label| match (label, task.answer) {
        (Label::Class(class), Answer::Classes(names)) => names[class].to_owned(),
        (Label::Class(class), _) => class.to_string(),
        (Label::Score(score), _) => format!("{score:.3}"),
    };
    if args.json {
        let rows = data.rows.iter().zip(&answers).zip(&z).map(|((row, &answer), z)| {
            let answer = match answer {
                Label::Score(score) => json!(score),
                class => json!(word(class)),
            };
            json!({
                "id": row.example.id, "answer": answer, "probabilities": tasks::probabilities(z),
                "logits": z, "ids": row.encoded.rows,
            })
        });
        let rows: Vec<_> = rows.collect();
        let scored = data.check_labels().is_ok().then(|| score(task, &data.rows, &z)).transpose().map_err(FinetuneError::from)?;
        return output::json(&json!({
            "task": task.name, "split": args.split.name(), "metric": task.metric.name(),
            "score": scored.as_ref().map(|s| s.score), "metrics": scored.map(|s| s.metrics),
            "examples": rows.len(), "truncated": data.truncated(), "dropped": data.left_out(), "answers": rows,
        }));
    }
    for ((row, &answer), z) in data.rows.iter().zip(&answers).zip(&z) {
        let probabilities: String = tasks::probabilities(z).iter().map(|p| format!("\t{p:.6}")).collect();
        output::line(&format!("{}\t{}{probabilities}", row.example.id, word(answer)))?;
    }
    if data.truncated() > 0 {
        output::say(&format!("{} examples had a text cut to the model's context", data.truncated()));
    }
    data.left_out().iter().for_each(|(reason, rows)| output::say(&format!("{rows} rows left out: {reason}")));
    Ok(())
}
