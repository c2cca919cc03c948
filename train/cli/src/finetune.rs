//! `gradus finetune`.

use std::path::PathBuf;

use clap::ArgMatches;
use clap::parser::ValueSource;
use gradus_data::sets::Task;
use gradus_io::files::quoted;
use gradus_io::interrupt;
use gradus_io::numbers::count;
use gradus_tensor::Device;
use gradus_train::finetune::{self, FinetuneError, FinetuneManifest, FinetuneOutcome, FinetuneSettings, RowCounts};
use gradus_train::model_dir::ModelDir;
use gradus_train::run::{Control, Manifest};

use crate::common::{On, Talk, command, on, resumes_with, say_about, unless_interrupted};
use crate::error::CliError;
use crate::launch::{Group, Launch, Work};
use crate::progress::Display;
use crate::{output, signals};

/// Fine-tune a pre-trained model on a task (GPT-1 §3.2, §3.3; BERT §4)
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "gradus finetune --model <DIR> --task <NAME> --data <DIR> --out <DIR> [OPTIONS]\n       \
        gradus finetune --resume <DIR> [OPTIONS]",
    after_long_help = "\
Examples:
  gradus finetune --model runs/novels --task rte --data glue/RTE --out runs/rte
  gradus finetune --model runs/novels --task mnli --data glue/MNLI --rows 10000 --seeds 3 --out runs/mnli
  gradus finetune --model runs/novels --task cola --data glue/CoLA --transfer none --out runs/cola-fresh     # no pre-training
  gradus finetune --resume runs/mnli                  # after Ctrl-C or a crash: to the same bits; finished seeds are kept

`gradus tasks` lists the tasks and the files that --data must hold. The defaults are the paper's (§4.1). --out becomes the \
directory of the model with the best dev score (the first on a tie), which `gradus evaluate --task` and `gradus predict` read; \
with --seeds it holds one such directory per seed: `seed-1`, …. An epoch drops the last rows if they do not fill a batch. A \
Transformer that classifies single sequences opens in transformers as OpenAIGPTForSequenceClassification (or GPT2…); other heads \
are in head.safetensors beside their backbone.

A model that fills masks (BERT, RoBERTa) reads [CLS] a [SEP] b [SEP], or <s> a </s></s> b </s> where its tokenizer has those, \
and the head reads the hidden state of the first token; the tokenizer must have these tokens. A pair is read once, the longer \
text is truncated, and no token is predicted (--aux 0). The hyperparameters have the same defaults; BERT's own were rates of \
2e-5 to 5e-5, a warm-up of 0.1, 2 to 4 epochs (A.3). It opens in transformers as BertForSequenceClassification or \
BertForMultipleChoice (Roberta…), and `gradus fill` can no longer use it.

The data sets are published at gluebenchmark.com (GLUE's nine), nlp.stanford.edu/projects/snli (SNLI), allenai.org/data/scitail \
(SciTail), cs.cmu.edu/~glai1/data/race (RACE), cs.rochester.edu/nlp/rocstories (Story Cloze) and \
hlt.utdallas.edu/~vince/data/emnlp12 (DPRD)."
)]
pub struct Args {
    /// Directory of the pre-trained model and its tokenizer; any head is dropped, but BERT's pooler is kept
    #[arg(long, value_name = "DIR", required_unless_present = "resume", conflicts_with = "resume")]
    model: Option<PathBuf>,
    /// Name of the task
    #[arg(long, value_name = "NAME", required_unless_present = "resume", conflicts_with = "resume")]
    task: Option<String>,
    /// Folder of the task's files
    #[arg(long, value_name = "DIR", required_unless_present = "resume", conflicts_with = "resume")]
    data: Option<PathBuf>,
    /// Directory to create
    #[arg(long, value_name = "DIR", required_unless_present = "resume", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Continue the fine-tuning in this directory, with the settings stored there
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Number of seeds, beginning with --seed; the score is the mean over them, with the sample standard deviation
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// Stop after this many steps, with the schedule unchanged, so that --resume can continue
    #[arg(long, value_name = "N")]
    stop_at: Option<u64>,
    /// Check every op's value and every gradient that an op passes back, and stop at the first NaN or infinity
    #[arg(long)]
    anomaly: bool,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
    #[command(flatten)]
    launch: Launch,
    #[command(flatten)]
    settings: FinetuneSettings,
}

pub fn run(args: &Args, given: &ArgMatches) -> Result<(), CliError> {
    if args.resume.is_some() {
        let allowed = ["resume", "stop_at", "anomaly", "quiet", "json", "threads", "device"];
        resumes_with::<Args>(&[&allowed[..], &Launch::FLAGS].concat(), given)?;
    }
    let out = args.resume.as_deref().or(args.out.as_deref());
    let what = Work { command: "finetune", out, quiet: args.talk.quiet };
    args.launch.run(what, |group| finetune_in(args, given, group))
}

fn finetune_in(args: &Args, given: &ArgMatches, group: Group) -> Result<(), CliError> {
    args.talk.start()?;
    signals::stop_on_ctrl_c();
    let resumed = args.resume.as_deref().or(args.out.as_deref().filter(|out| group.goes_on && FinetuneManifest::is_in(out)));
    let device = match resumed {
        Some(run) if !group.follows() => {
            let begun = FinetuneManifest::read(run).map_err(FinetuneError::from)?;
            args.on.open_again(&begun.device, &begun.precision)?
        }
        _ => args.on.open_for_training()?,
    };
    group.check_device(&device)?;
    let follows = group.follows();
    let monitor = &Display::choose(args.talk.quiet || follows);
    let control = Control {
        stop_at: args.stop_at,
        command: command(),
        device,
        anomaly: args.anomaly,
        collective: group.collective,
        shard_moments: args.launch.shards_moments(),
        ..Control::new(monitor)
    };
    let mut settings = args.settings.clone();
    if !control.device.is_cpu() && given.value_source("shards") == Some(ValueSource::DefaultValue) {
        settings.shards = 1; // one shard keeps a GPU busy
    }
    if follows {
        let asked = args.task.as_deref().map(|task| finetune::Own { task, seeds: args.seeds, settings: &settings });
        let own = asked.filter(|_| args.resume.is_none());
        finetune::follow(args.model.as_deref(), args.data.as_deref(), own, &control)?;
        return if interrupt::requested() { Err(CliError::Stopped) } else { Ok(()) };
    }
    let next = |dir| move |e| CliError::from(e).with_next("finetune", dir);
    let outcome = match (resumed, &args.model, &args.task, &args.data, &args.out) {
        (Some(dir), ..) => finetune::resume(dir, &control).map_err(next(dir))?,
        (None, Some(model), Some(task), Some(data), Some(out)) => {
            let task = Task::named(task).map_err(FinetuneError::from)?;
            if let Ok(dir) = ModelDir::open(model) {
                say_about(&dir);
            }
            finetune::begin(model, task, data, out, &settings, args.seeds, &control).map_err(next(out))?
        }
        _ => unreachable!("clap requires them without --resume"),
    };
    if args.talk.json {
        output::json(&outcome)?
    } else {
        output::line(&summary(&outcome, &control.device))?
    }
    unless_interrupted(outcome.finished, || format!("gradus finetune --resume {}{}", quoted(&outcome.out), on(&control.device)))
}

/// Returns one line: the score, the number of seeds, and facts about the data.
fn summary(outcome: &FinetuneOutcome, device: &Device) -> String {
    let FinetuneOutcome { task, metric, score, .. } = outcome;
    let out = outcome.out.display();
    if !outcome.finished {
        return format!("{out}: stopped early; continue with `gradus finetune --resume {}{}`", quoted(&outcome.out), on(device));
    }
    let deviation = outcome.deviation.map_or(String::new(), |d| format!(" ± {d:.4} over {} seeds", outcome.seeds.len()));
    let taken = [("train", outcome.train_examples), ("dev", outcome.examples)];
    let splits = taken.map(|(split, taken)| used(split, &outcome.splits[split], taken)).join("; ");
    let others = outcome.metrics.iter().filter(|(name, _)| *name != metric);
    let others: String = others.map(|(name, value)| format!(", {name} {value:.4}")).collect();
    format!("{out}: {task} dev {metric} {score:.4}{deviation}{others} ({splits})")
}

/// Describes how many rows of a split's files were used, and how many of these were taken.
fn used(split: &str, rows: &RowCounts, taken: usize) -> String {
    let [file, used, cut] = [rows.file, rows.used, rows.cut].map(|n| count(n as u64));
    let mut told = format!("{split} {used} of {file} rows");
    if taken < rows.used {
        told += &format!(", {} of them used", count(taken as u64));
    }
    for (reason, rows) in &rows.dropped {
        told += &format!(", {} left out: {reason}", count(*rows as u64));
    }
    if rows.cut > 0 {
        told += &format!(", {cut} cut to the context");
    }
    told
}
