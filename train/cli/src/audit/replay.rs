//! `gradus audit replay`.

use std::path::PathBuf;

use gradus_train::trainer::{TrainError, Trainer};
use serde_json::json;

use super::{Talk, refuse};
use crate::error::CliError;
use crate::output;

/// Repeat the step at which training stopped: the first non-finite number, its op, and what went into it
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus audit replay runs/novels/anomaly
  gradus audit replay runs/novels/anomaly --json

A run that stops at a NaN or an infinity keeps the step in `anomaly` of its directory: the parameters before it, its batch, and the \
seed of its dropout. Nothing else is needed to make it again, to the same bits. Exit code 0 where the number is found again.")]
pub struct Args {
    /// The `anomaly` directory of a run
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.threads.start()?;
    let (trainer, batch, error) = Trainer::replay(&args.dir)?;
    if !args.talk.quiet {
        output::say(&format!("the run said: {error}"));
    }
    let step = trainer.done() + 1;
    let Some(anomaly) = trainer.anomaly(&batch) else {
        // Finite in every shard: then it is their sum that is not.
        if let Err(e @ TrainError::NotFinite { .. }) = trainer.clone().step(&batch) {
            return match args.talk.json {
                true => output::json(&json!({ "update": step, "direction": "Shards", "error": e.to_string() })),
                false => output::line(&e.to_string()),
            };
        }
        return refuse(vec![format!("{}: step {step} has no non-finite number, here", args.dir.display())]);
    };
    if !error.contains(&anomaly.to_string()) {
        return refuse(vec![format!(
            "{}: this is not what the run said; here step {step} meets another number: {anomaly}",
            args.dir.display()
        )]);
    }
    if args.talk.json {
        return output::json(&json!({
            "update": step, "op": anomaly.op, "details": anomaly.details, "place": &*anomaly.site.scope,
            "source": anomaly.site.at.to_string(), "direction": format!("{:?}", anomaly.direction), "made": anomaly.made.to_string(),
            "from": anomaly.from.iter().map(|(name, s)| json!({ "what": name, "is": s.to_string() })).collect::<Vec<_>>(),
        }));
    }
    output::line(&format!("step {step}: {anomaly}"))
}
