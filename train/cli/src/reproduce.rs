//! `gradus reproduce`, and what the program does when it is asked for nothing.

use std::path::{Path, PathBuf};

use gradus_io::numbers::duration;
use gradus_paper::plan::Sizes;
use gradus_paper::{Outcome, Watch};

use crate::common::{Threads, flag, stop_on_ctrl_c};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// Reproduce the paper in miniature: pre-train, fine-tune every task in every ablation, and report beside its tables
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus reproduce                                   # one seed, about a quarter of an hour on two cores, to runs/miniature
  gradus reproduce --seeds 3 --out runs/three        # means and deviations
  gradus reproduce --seeds 3 --full --out runs/full  # and the paper's claims in words as experiments
  gradus reproduce --seeds 5 --out runs/three        # two more seeds; the three that are done stay
  gradus reproduce --resume runs/three               # after Ctrl-C or a crash; what is finished is not run again

The stages: tasks of the micro-world in the original formats; a Transformer and an LSTM of as many parameters pre-trained on its \
stories, with zero-shot scores on the way; twelve tasks fine-tuned as in the paper, without pre-training, without the auxiliary \
objective, and from the LSTM; layers transferred one by one; report.html, with the paper's tables 2 to 5 and figure 2.")]
pub struct Args {
    /// Directory to make, or of a reproduction of the same --scale and --seed to go on with; --seeds and --full add to it
    #[arg(long, value_name = "DIR", default_value = "runs/miniature")]
    out: PathBuf,
    /// Continue the reproduction in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "seeds", "seed", "scale", "full"])]
    resume: Option<PathBuf>,
    /// Number of seeds; each has stories, tasks and models of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Length of pre-training and number of training rows, 1 for the default
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    scale: f64,
    /// Also: size of the labelled set, shuffled sentences, frozen features
    #[arg(long)]
    full: bool,
    /// Say nothing but warnings
    #[arg(long)]
    quiet: bool,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: Threads,
}

/// Runs it.
pub fn run(args: &Args) -> Result<(), CliError> {
    args.threads.start()?;
    stop_on_ctrl_c();
    let watch = Watch { monitor: &Display::choose(args.quiet), samples: !args.quiet };
    let outcome = match &args.resume {
        Some(dir) => gradus_paper::resume(dir, &watch)?,
        None => {
            if !(0.01..=100.0).contains(&args.scale) {
                return Err(flag("--scale", args.scale, "a number from 0.01 to 100"));
            }
            let sizes = Sizes::new(args.seeds, args.seed, args.scale, args.full);
            gradus_paper::begin(&sizes, &args.out, &watch)?
        }
    };
    show(&outcome, args.json)
}

/// The main job: the miniature with one seed. A run that was stopped is continued.
pub fn miniature() -> Result<(), CliError> {
    stop_on_ctrl_c();
    output::say(
        "Gradus: GPT-1 from first principles. A small Transformer and an LSTM now learn to tell the stories of a made-up",
    );
    output::say(
        "world, and are then fine-tuned on the paper's twelve tasks in miniature; the report stands its tables beside them.",
    );
    output::say("`gradus --help` shows everything else.\n");
    let watch = Watch { monitor: &Display::choose(false), samples: true };
    let outcome = gradus_paper::begin(&Sizes::new(1, 1, 1.0, false), Path::new("runs/miniature"), &watch)?;
    show(&outcome, false)
}

fn show(outcome: &Outcome, json: bool) -> Result<(), CliError> {
    if json {
        return output::json(outcome);
    }
    for claim in &outcome.claims {
        output::line(&format!("{:<12} {} ({}; the paper: {})", claim.verdict.words(), claim.statement, claim.ours, claim.paper))?;
    }
    output::line(&format!("the report: {} ({} of work in this session)", outcome.report.display(), duration(outcome.seconds)))
}
