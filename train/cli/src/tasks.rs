//! `gradus tasks`.

mod show;

use clap::Subcommand;
use gradus_data::sets::{self, Answer, Task};
use gradus_train::answers::zero_shot::ZeroShot;
use gradus_train::tasks::head;
use serde_json::json;

use crate::error::CliError;
use crate::output;

/// List the tasks, their answers, and the files that --data must contain, or show rows of one task
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "Examples:\n  gradus tasks\n  gradus tasks --json\n  gradus tasks show rte --data glue/RTE --rows 3"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    Show(show::Args),
}

pub fn run(args: &Args) -> Result<(), CliError> {
    if let Some(Command::Show(args)) = &args.command {
        return show::run(args);
    }
    if args.json {
        let tasks: Vec<_> = sets::ALL
            .iter()
            .map(|task| {
                json!({
                    "name": task.name,
                    "title": task.title,
                    "family": task.family.to_string(),
                    "form": task.transformation.to_string(),
                    "answers": answers(task.answer),
                    "metric": task.metric.name(),
                    "also": task.also.iter().map(|m| m.name()).collect::<Vec<_>>(),
                    "fine_tuned": head(task).is_ok(),
                    "zero_shot": ZeroShot::has(task),
                    "splits": task.splits.iter().map(|s| s.name()).collect::<Vec<_>>(),
                    "folder": task.folder,
                })
            })
            .collect();
        return output::json(&json!({ "tasks": tasks }));
    }
    for task in sets::ALL {
        let Task { name, title, family, transformation, metric, folder, .. } = task;
        let (answers, asked) = (answers(task.answer), asked(task));
        let also: String = task.also.iter().map(|m| format!(", {m}")).collect();
        let splits = task.splits.iter().map(|s| s.name()).collect::<Vec<_>>().join(", ");
        output::line(&format!("{name:<12} {title}: {family}, {transformation} ({answers}); {metric}{also}{asked}"))?;
        output::line(&format!("             splits {splits}; {folder}\n"))?;
    }
    Ok(())
}

/// Returns a note on tasks that a language model can answer without fine-tuning.
fn asked(task: &Task) -> &'static str {
    match (head(task).is_ok(), ZeroShot::has(task)) {
        (true, true) => "; zero-shot too",
        (false, _) => "; zero-shot only",
        (true, false) => "",
    }
}

fn answers(answer: Answer) -> String {
    match answer {
        Answer::Classes(names) => names.join(", "),
        Answer::Score { max } => format!("0 to {max}"),
        Answer::Choice { of } => format!("one of {of}"),
    }
}
