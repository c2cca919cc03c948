//! `gradus audit step`.

use std::path::PathBuf;

use gradus_audit::step::{Opened, Size, StepInputs};
use gradus_data::sets::Task;
use gradus_io::disk;
use gradus_io::files::FileError;
use gradus_io::numbers::count;
use gradus_io::progress::Job;
use gradus_train::finetune::FinetuneError;
use gradus_train::pretrain::{PretrainError, PretrainManifest, Stored};
use gradus_train::run::Manifest;
use serde_json::json;

use super::{Talk, refuse};
use crate::cache::cache;
use crate::common::{On, command, open_model, within};
use crate::error::CliError;
use crate::output;
use crate::page::{free, write};
use crate::progress::Display;

/// The default number of sequences.
pub const SEQUENCES: usize = 1;

/// Show one training step: every value, every gradient and its origin, and evidence that they are correct
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus audit step                                   # a small GPT in the micro-world: step.html, in a few seconds
  gradus audit step --by-hand --html by-hand.html     # two tokens and three dimensions, for pen and paper
  gradus audit step --model runs/novels --text \"It was a bright cold day in April\" --tokens 8 --html novels.html
  gradus audit step --run runs/shakespeare            # the next step of a pre-training stopped by Ctrl-C or --stop-at
  gradus audit step --model runs/novels --corpus emma.txt --device gpu --html on-a-gpu.html
  gradus audit step --model runs/novels --task rte --data glue/RTE --html rte.html     # a step of a fine-tuning
  gradus audit step --model runs/novels --corpus emma.txt --tokens 128 --sequences 2 --html emma.html

The page is one file and needs no network. It shows the graph of the step, which can be zoomed from the model down to the \
primitives of a fused op. For each op it shows the equation, the values, the gradients and where they come from, the cost, and \
the derivative compared with central differences at the step's own numbers. Everything is computed in f64, with dropout as in \
training; on a GPU in f32, and the differences in f64 at its numbers. With --run, the step uses the run's optimizer, rate and \
moments; without it, GPT-1's optimizer at its defaults. A page of 512 tokens takes about 30 MB; size and time grow with \
--sequences. The exit code is 1 if differences contradict a derivative.")]
#[command(group(clap::ArgGroup::new("checkpoint").args(["model", "run"])))]
pub struct Args {
    /// Directory of a pre-trained model; by default, a small GPT is first trained on the micro-world
    #[arg(long, value_name = "DIR", conflicts_with = "by_hand")]
    model: Option<PathBuf>,
    /// Directory of an unfinished pre-training run; its next step is shown
    #[arg(long, value_name = "DIR", conflicts_with_all = ["by_hand", "seed", "text", "corpus", "task", "data", "tokens"])]
    run: Option<PathBuf>,
    /// Text for the model to read
    #[arg(long, value_name = "TEXT", requires = "model")]
    text: Option<String>,
    /// File of text for the model to read, from its beginning
    #[arg(long, value_name = "FILE", requires = "model", conflicts_with = "text")]
    corpus: Option<PathBuf>,
    /// Task to fine-tune the model on, from its training rows: both objectives, L₂ and L₁
    #[arg(long, value_name = "NAME", requires = "model", requires = "data", conflicts_with_all = ["text", "corpus", "tokens"])]
    task: Option<String>,
    /// Folder of the task's files
    #[arg(long, value_name = "DIR", requires = "task")]
    data: Option<PathBuf>,
    /// Number of tokens per sequence [default: as many as text and context allow, at most 16]
    #[arg(long, value_name = "T", requires = "model")]
    tokens: Option<usize>,
    /// Number of sequences, one after the other in the text, or of examples of a task [default: 1]. With --run, number of the
    /// batch's sequences, from the first [default: all, or as many as make 512 tokens]
    #[arg(long, value_name = "B", requires = "checkpoint")]
    sequences: Option<usize>,
    /// Show a step small enough to compute by hand: two tokens, three dimensions, one head, one block; it has no seed
    #[arg(long, conflicts_with_all = ["seed", "text", "corpus", "task", "data", "tokens", "sequences"])]
    by_hand: bool,
    /// Seed of stories, parameters, dropout and the directions of the evidence
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// File to write
    #[arg(long, value_name = "FILE", default_value = "step.html")]
    html: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.start()?;
    free(&args.html, args.overwrite)?;
    let device = match &args.run {
        Some(run) => args.on.open_for(None, &PretrainManifest::read(run).map_err(PretrainError::from)?.precision)?,
        None => args.on.open()?,
    };
    let step = inputs(args)?;
    let opened = Opened::on(&device, step, &command())?;
    let digest = |name: &str| opened.facts.iter().find(|(fact, _)| fact == name).map(|(_, digest)| digest);
    write(&args.html, &opened.html(), args.overwrite)?;
    let faults = opened.faults();
    if args.talk.json {
        output::json(&json!({
            "html": args.html.display().to_string(), "loss": opened.loss, "nodes": opened.nodes.len(), "proved": opened.proved(),
            "parameters_sha256": digest("SHA-256 of the parameters"), "batch_sha256": digest("SHA-256 of the batch"), "faults": faults,
        }))?;
    } else {
        let (path, loss) = (args.html.display(), opened.loss);
        let [nodes, proved] = [opened.nodes.len(), opened.proved()].map(|n| count(n as u64));
        let compared = format!("{proved} derivatives compared with differences at the step's own numbers");
        output::line(&format!("{path}: loss {loss:.6}, {nodes} nodes, {compared}"))?;
    }
    refuse(faults)
}

fn inputs(args: &Args) -> Result<StepInputs, CliError> {
    if let Some(path) = &args.run {
        let stored = Stored::read(path, &cache(Some(path)), &Display::choose(args.talk.quiet))?;
        return Ok(StepInputs::of_run(&stored, args.sequences)?);
    }
    let Some(path) = &args.model else {
        if args.by_hand {
            return Ok(StepInputs::by_hand());
        }
        let job = Job::new("learning", StepInputs::STEPS, "steps");
        return Display::choose(args.talk.quiet).during(job, |reach| Ok(StepInputs::standard(args.seed, reach)?));
    };
    let sequences = args.sequences.unwrap_or(SEQUENCES);
    within("sequences", sequences, 1..=1024, "")?;
    if let (Some(task), Some(data)) = (&args.task, &args.data) {
        let task = Task::named(task).map_err(FinetuneError::from)?;
        return Ok(StepInputs::of_task(path, task, data, sequences, args.seed)?);
    }
    let (text, data) = match (&args.text, &args.corpus) {
        (Some(text), _) => (text.clone(), format!("“{text}”")),
        (None, Some(file)) => {
            let text = disk::read_text(file).map_err(|e| FileError::new("read", file, e))?;
            (text, format!("the beginning of {}", file.display()))
        }
        (None, None) => {
            let problem = "--model needs an input: give --text, --corpus, or --task with --data";
            return Err(CliError::Usage(problem.into()));
        }
    };
    let size = Size { sequences, tokens: args.tokens };
    Ok(StepInputs::of_model(&open_model(path)?, &text, data, size, args.seed)?)
}
