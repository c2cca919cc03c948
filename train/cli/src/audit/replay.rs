//! `gradus audit replay`.

use std::path::PathBuf;

use gradus_train::trainer::{Replay, TrainError, Trainer};
use serde_json::json;

use super::{Talk, refuse};
use crate::common::On;
use crate::error::CliError;
use crate::output;

/// Repeat the step at which training stopped: show its first non-finite number, the op that computed it, and the op's inputs
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus audit replay runs/novels/anomaly
  gradus audit replay runs/novels/anomaly --json
  gradus audit replay runs/novels/anomaly --device gpu     # of a run on a GPU

A run that stops at a NaN or an infinity keeps that step in the folder `anomaly` of its directory: the parameters before the \
step, its batch and the seed of its dropout. This suffices to repeat the step bit for bit on the same device. The exit code is 0 \
if the same non-finite number is found.")]
pub struct Args {
    /// The `anomaly` directory of a run
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.start()?;
    let Replay { mut trainer, batch, precision, error } = Trainer::replay(&args.dir)?;
    let device = args.on.open_for(None, &precision)?;
    trainer.place(&device)?;
    if !args.talk.quiet {
        output::say(&format!("the run reported: {error}"));
    }
    let step = trainer.done() + 1;
    let Some(anomaly) = trainer.anomaly(&batch) else {
        // Every shard is finite, so the non-finite number is in their sum.
        if let Err(e @ TrainError::NotFinite { .. }) = trainer.clone().step(&batch) {
            return match args.talk.json {
                true => output::json(&json!({ "update": step, "direction": "Shards", "error": e.to_string() })),
                false => output::line(&e.to_string()),
            };
        }
        return refuse(vec![format!(
            "{}: expected a non-finite number in step {step}, found none; replay unchanged files, with the build and on the \
             device of the run",
            args.dir.display()
        )]);
    };
    if !error.contains(&anomaly.to_string()) {
        return refuse(vec![format!(
            "{}: expected the number that the run reported, found another in step {step}: {anomaly}; replay unchanged files, \
             with the build and on the device of the run",
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
