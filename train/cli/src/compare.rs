//! `gradus compare`.

use std::path::PathBuf;

use gradus_report::Comparison;
use gradus_train::pretrain;
use serde_json::{Map, Value, json};

use crate::error::CliError;
use crate::{output, page};

/// Compare pre-training runs: losses, curves, and differences in their settings
///
/// Runs in progress are compared up to their last record. The held-out loss of a run is the loss of its `best/`. The last
/// evaluation of a run reads all held-out text, earlier ones a sample: `over tokens` is the number of tokens read, and a note
/// marks losses over different numbers of tokens.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus compare runs/a runs/b                          # a table, and the settings that differ
  gradus compare runs/a runs/b runs/c --html abc.html   # with curves, as a page
  gradus compare runs/a runs/b --json                   # with every held-out loss")]
pub struct Args {
    /// Directories of the runs
    #[arg(num_args = 2.., required = true, value_name = "DIR")]
    runs: Vec<PathBuf>,
    /// Also write the comparison to this file as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "html")]
    overwrite: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    if let Some(path) = &args.html {
        page::free(path, args.overwrite)?;
    }
    let runs = args.runs.iter().map(|dir| pretrain::compared(dir)).collect::<Result<Vec<_>, _>>()?;
    let all = Comparison(runs);
    if let Some(path) = &args.html {
        page::write(path, &all.document().render(), args.overwrite)?;
    }
    if args.json { output::json(&told(&all)) } else { show(&all) }
}

fn told(all: &Comparison) -> Value {
    let names = || all.0.iter().map(|run| run.name.clone());
    let differing = all.differing().into_iter().map(|(setting, values)| {
        let of_runs: Map<String, Value> = names().zip(values.into_iter().map(Value::from)).collect();
        (setting, Value::from(of_runs))
    });
    json!({ "runs": all.numbers(), "differing": differing.collect::<Map<_, _>>(), "note": all.doubt() })
}

fn show(all: &Comparison) -> Result<(), CliError> {
    let widest = all.0.iter().map(|run| run.name.chars().count()).max().unwrap_or(0).max(3);
    output::line(&format!("{:<widest$}  held-out loss  over tokens  at step  bits per byte  train loss  steps", "run"))?;
    let some = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.4}"));
    for run in all.numbers() {
        let [over, step] = [run.held_out_tokens, run.at_step].map(|n| n.map_or("–".into(), |n| n.to_string()));
        let [loss, bits, train] = [run.held_out_loss, run.bits_per_byte, run.train_loss].map(some);
        let (name, steps, of) = (output::plain(&run.run).into_owned(), run.steps, run.total_steps);
        output::line(&format!("{name:<widest$}  {loss:>13}  {over:>11}  {step:>7}  {bits:>13}  {train:>10}  {steps} of {of}"))?;
    }
    for (setting, values) in all.differing() {
        output::line(&output::plain(&format!("{setting}: {}", values.join(" | "))))?;
    }
    output::notes(&all.doubt().map(str::to_owned).into_iter().collect::<Vec<_>>());
    Ok(())
}
