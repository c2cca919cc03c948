//! `gradus survey`.

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_io::files::quoted;
use gradus_io::numbers::duration;
use gradus_study::{StudyError, rule};
use gradus_survey::{Survey, SurveyError, Surveyed};
use gradus_train::hyperparameters::require;

use gradus_train::systems::SURVEYED;

use crate::common::{Products, Talk};
use crate::error::CliError;
use crate::page::{self, Report};
use crate::progress::Display;
use crate::{output, signals};

/// Compare GPT-1 and its relatives by how well they understand and how well they generate stories, in exact nats
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus survey --quick --seeds 1                    # a short survey, in minutes, to runs/survey
  gradus survey --out runs/plane                     # six seeds, hours: two budgets, rates searched for on another seed
  gradus survey --seeds 8 --systems gpt,bert --out runs/two     # enough seeds to decide claims
  gradus survey --resume runs/plane                  # after Ctrl-C or a crash; finished stages are not run again
  gradus survey --resume runs/plane --markdown FILE --overwrite # the page, and the plane as an SVG file beside it

Each network has as many parameters as GPT, heads included (the width of its feed-forward networks is chosen for that), and \
trains with as many floating-point operations; n-grams are counted in the same stories. U is the KL divergence of its predictions of a masked word from the world's own \
probabilities, G that of its predictions of the next word; a perfect model is at (0, 0). One training story in four begins at a \
later sentence, so a model that fits its training text exactly may have a G of up to 0.29 nats per story, a few thousandths per \
word.")]
pub struct Args {
    /// Directory to create. A survey there with the same options is continued
    #[arg(long, value_name = "DIR", default_value = "runs/survey")]
    out: PathBuf,
    /// Continue the survey in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "seeds", "seed", "systems", "quick", "scale", "matmul_precision"])]
    resume: Option<PathBuf>,
    /// Systems (`gradus systems` lists them), separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = surveyed())]
    systems: Vec<String>,
    /// Number of seeds, from 1 to 100, each with its own stories and models; a verdict on a claim needs at least six
    #[arg(long, value_name = "N", default_value_t = 6)]
    seeds: u64,
    /// First seed
    #[arg(long, value_name = "S", default_value_t = 201)]
    seed: u64,
    /// A short survey: one budget, a sixteenth of the larger one; no search for learning rates; fewer stories
    #[arg(long)]
    quick: bool,
    /// Factor on the work of each run, on the number of stories that models generate, and on the number of held-out stories, of
    /// which there are at most 500
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    scale: f64,
    #[command(flatten)]
    products: Products,
    #[command(flatten)]
    page: Report,
    #[command(flatten)]
    talk: Talk,
}

/// Returns the default of --systems.
fn surveyed() -> &'static str {
    static NAMES: LazyLock<String> = LazyLock::new(|| SURVEYED.map(|card| card.name).join(","));
    &NAMES
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.start()?;
    signals::stop_on_ctrl_c();
    let pages = args.page.markdown.as_ref().map(|page| [page.clone(), page.with_extension("svg")]);
    if let Some([page, plane]) = &pages {
        require("markdown", page.display(), page != plane, "a name that does not end with .svg, which is the figure's")?;
    }
    for page in pages.iter().flatten() {
        page::free(page, args.page.overwrite)?;
    }
    let monitor = Display::choose(args.talk.quiet);
    let made = match &args.resume {
        Some(dir) => gradus_survey::resume(dir, &monitor),
        None => {
            let survey = Survey::new(args.systems.clone(), args.seeds, args.seed, args.quick, args.scale)
                .with_products(args.products.chosen());
            gradus_survey::begin(&survey, &args.out, &monitor)
        }
    };
    let made = made.inspect_err(|e| {
        if let (SurveyError::Study(StudyError::Interrupted { .. }), Some(path)) = (e, &args.page.markdown) {
            output::note(&format!("the page is written at the end: give --markdown {} again then", quoted(path)));
        }
    })?;
    if let Some([page, plane]) = &pages {
        let picture = plane.file_name().expect("a page's name, but for its end").to_string_lossy();
        page::write(page, &made.markdown(&picture), args.page.overwrite)?;
        page::write(plane, &made.plane.standalone(), args.page.overwrite)?;
    }
    if args.talk.json { output::json(&made) } else { show(&made) }
}

fn show(made: &Surveyed) -> Result<(), CliError> {
    output::line("system, steps of GPT, seed      U       G   valid stories")?;
    for asked in &made.asked {
        let (u, g, (told, of)) = (asked.understanding.given_all.mean, asked.generation.before.mean, asked.told);
        let name = format!("{}, {}, {}", asked.system, asked.budget, asked.seed);
        output::line(&format!("{name:<26} {u:>6.3}  {g:>6.3}   {told} of {of}"))?;
    }
    for claim in &made.claims {
        let (verdict, mark) = (claim.judgement.words(), if claim.judgement.primary { '*' } else { ' ' });
        output::line(&format!("{verdict:<52} {mark} {} ({})", claim.statement, claim.ours))?;
    }
    output::line(rule::FOOTNOTE)?;
    output::line(&format!("the report: {} ({} of work in this session)", made.report.display(), duration(made.seconds)))
}
