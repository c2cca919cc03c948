//! `gradus reproduce`, which also runs if no command is given.

use std::path::{Path, PathBuf};

use gradus_io::files::quoted;
use gradus_io::numbers::duration;
use gradus_paper::{ReproduceError, Reproduction, Sizes, Watch};
use gradus_study::StudyError;
use gradus_study::rule;

use crate::common::{Products, Talk};
use crate::error::CliError;
use crate::page::{self, Report};
use crate::progress::Display;
use crate::{output, signals};

/// Reproduce the paper in miniature: pre-train, fine-tune every task in every ablation, and report beside its tables
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus reproduce                                   # one seed, 15 to 25 minutes on two cores, to runs/miniature
  gradus reproduce --seeds 8 --seed 101 --out runs/eight   # enough to decide claims: 2 to 3 hours
  gradus reproduce --seeds 8 --full --out runs/full        # and experiments on the paper's other claims
  gradus reproduce --resume runs/eight               # after Ctrl-C or a crash; finished stages are not run again
  gradus reproduce --resume runs/eight --markdown train/paper/MINIATURE.md --overwrite      # the page in the repository

The stages: tasks of the micro-world in the original formats; a Transformer and an LSTM of about the same size pre-trained on \
its stories, with zero-shot scores during training; twelve tasks fine-tuned as in the paper, without pre-training, without the \
auxiliary objective, and from the LSTM; layers transferred one by one; report.html, with the paper's tables 2 to 5 and figure 2. \
Each claim of the paper is judged over the seeds: shown, against it, no difference that matters, or undecided; the report states \
the rule.")]
pub struct Args {
    /// Directory to create. A reproduction there with the same --scale, --seed, --seeds and --retold is continued; --full adds its
    /// experiments
    #[arg(long, value_name = "DIR", default_value = "runs/miniature")]
    out: PathBuf,
    /// Continue the reproduction in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "seeds", "seed", "scale", "retold", "full", "matmul_precision"])]
    resume: Option<PathBuf>,
    /// Number of seeds, from 1 to 100, each with its own stories, tasks and models. It is fixed before training: for more seeds,
    /// begin a new reproduction on other seeds
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// First seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Factor from 0.01 to 100 on the length of pre-training and the number of training rows
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    scale: f64,
    /// Pre-train on stories that end with a short retelling, which is sometimes wrong; the tasks are unchanged
    #[arg(long)]
    retold: bool,
    /// Also run the experiments: size of the labelled set, shuffled sentences, frozen features
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    products: Products,
    #[command(flatten)]
    page: Report,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.start()?;
    signals::stop_on_ctrl_c();
    if let Some(path) = &args.page.markdown {
        page::free(path, args.page.overwrite)?;
    }
    let watch = Watch { monitor: &Display::choose(args.talk.quiet), samples: !args.talk.quiet };
    let made = match &args.resume {
        Some(dir) => gradus_paper::resume(dir, &watch),
        None => {
            let sizes = Sizes::new(args.seeds, args.seed, args.scale, args.full).retold(args.retold);
            let sizes = sizes.with_products(args.products.chosen());
            gradus_paper::begin(&sizes, &args.out, &watch)
        }
    };
    let made = made.inspect_err(|e| {
        if let (ReproduceError::Study(StudyError::Interrupted { .. }), Some(path)) = (e, &args.page.markdown) {
            output::note(&format!("the page is written at the end: give --markdown {} again then", quoted(path)));
        }
    })?;
    if let Some(path) = &args.page.markdown {
        page::write(path, &made.markdown, args.page.overwrite)?;
    }
    if args.talk.json { output::json(&made) } else { show(&made) }
}

/// Runs the default job: the miniature with one seed. Continues a stopped run.
pub fn miniature() -> Result<(), CliError> {
    signals::stop_on_ctrl_c();
    output::say(
        "Gradus: GPT-1 from first principles. A small Transformer and an LSTM are now trained on stories of a made-up \
         world,\nand then fine-tuned on the paper's twelve tasks in miniature; the report shows the results beside the paper's \
         tables.\n`gradus --help` lists all commands.\n",
    );
    let watch = Watch { monitor: &Display::choose(false), samples: true };
    show(&gradus_paper::begin(&Sizes::new(1, 1, 1.0, false), Path::new("runs/miniature"), &watch)?)
}

fn show(made: &Reproduction) -> Result<(), CliError> {
    let are_judged = made.claims.iter().all(|claim| made.seeds >= claim.judgement.least_seeds as u64);
    for claim in made.claims.iter().filter(|_| are_judged) {
        let verdict = claim.judgement.words();
        let mark = if claim.judgement.primary { '*' } else { ' ' };
        output::line(&format!("{verdict:<52} {mark} {} ({}; the paper: {})", claim.statement, claim.ours, claim.paper))?;
    }
    if are_judged {
        output::line(rule::FOOTNOTE)?;
    }
    made.summary.iter().try_for_each(|line| output::line(line))?;
    output::line(&format!("the report: {} ({} of work in this session)", made.report.display(), duration(made.seconds)))
}
