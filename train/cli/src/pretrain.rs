//! `gradus pretrain`.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, FromArgMatches};
use gradus_io::files::quoted;
use gradus_io::interrupt;
use gradus_io::numbers::count_of;
use gradus_tensor::Device;
use gradus_train::pretrain::{
    self, PretrainControl, PretrainError, PretrainManifest, PretrainOptions, PretrainSettings, SettingsError,
};
use gradus_train::run::{Control, Manifest};
use gradus_train::systems::{self, Stories};

use crate::cache::cache;
use crate::common::{On, Talk, command, first_given, on, resumes_with, unless_interrupted};
use crate::error::CliError;
use crate::launch::{Group, Launch, Work};
use crate::progress::Display;
use crate::{output, signals};

/// Pre-train a GPT, or one of its relatives, on text (GPT-1 §3.1, §4.1)
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus pretrain --corpus novels/ --preset small --steps 2000 --out runs/novels
  gradus pretrain --system bert                                   # trains on stories to fill masks, to runs/bert
  gradus pretrain --system kneser-ney --corpus novels/            # counts n-grams, without training
  gradus pretrain --corpus shakespeare.txt --tokenizer char --preset tiny --context 64 --batch 12 --dropout 0 --out runs/sh
  gradus pretrain --config run.toml --seed 2 --out runs/again     # fields of the file are the flags' names, `_` for `-`
  gradus pretrain --resume runs/novels                            # continues from the last checkpoint, to the same bits

A window is context + 1 tokens: context inputs, and the same shifted by one as targets. --out becomes a model directory in \
Hugging Face's format, of a network with best/ (the one with the lowest held-out loss), metrics.jsonl and report.html.")]
pub struct Args {
    /// Text file, or folder of text files; without it, the run trains on stories of the micro-world (`--system bert` then uses the
    /// settings of train/examples/cloze.toml and fewer steps, unless other flags override them)
    #[arg(long, conflicts_with = "resume")]
    corpus: Option<PathBuf>,
    /// Directory to create, for the model, its tokenizer, metrics and report [default: runs/NAME with --system NAME]
    #[arg(long, required_unless_present_any = ["resume", "system"], conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Continue the run in this directory, with the settings stored there
    #[arg(long, conflicts_with = "config")]
    resume: Option<PathBuf>,
    /// TOML file of settings, named like the flags of model, view, training, data and evaluation, with `_` for `-`; flags override it
    #[arg(long)]
    config: Option<PathBuf>,
    /// Stop after this many steps, with the schedule unchanged, so that --resume can continue
    #[arg(long)]
    stop_at: Option<u64>,
    /// Directory of tokenised corpora [default: gradus in the user's cache directory]
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Check every op's value and every gradient that an op passes back, and stop at the first NaN or infinity
    #[arg(long)]
    anomaly: bool,
    /// Also write losses, rates and scores to TensorBoard event files in this folder, one file per session. The folder may be
    /// inside --out, such as runs/a/tensorboard, but not inside its best/ or anomaly/, nor inside the corpus
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
    /// Print texts that the model generates during training
    #[arg(long)]
    samples: bool,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
    #[command(flatten)]
    launch: Launch,
    #[command(flatten)]
    options: PretrainOptions,
}

/// The most used flags, listed first in the help.
const FIRST: [&str; 10] = ["corpus", "out", "resume", "system", "preset", "tokenizer", "context", "steps", "batch", "lr"];

/// The flags of training, besides those of several processes.
const TRAINING: [&str; 6] = ["stop_at", "anomaly", "tensorboard", "samples", "device", "matmul_precision"];

/// Orders the flags in the help: those of `FIRST`, then the others.
pub fn in_order(command: clap::Command) -> clap::Command {
    let mut others = FIRST.len();
    command.mut_args(|arg| match FIRST.iter().position(|first| arg.get_id() == *first) {
        Some(order) => arg.display_order(order).help_heading(None::<&str>),
        None => {
            others += 1;
            arg.display_order(others)
        }
    })
}

pub fn run(mut args: Args, given: &ArgMatches) -> Result<(), CliError> {
    if let (None, None, Some(system)) = (&args.out, &args.resume, &args.options.system) {
        args.out = Some(Path::new("runs").join(system));
    }
    if args.resume.is_some() {
        let allowed = [
            "resume",
            "stop_at",
            "cache",
            "anomaly",
            "samples",
            "tensorboard",
            "quiet",
            "json",
            "threads",
            "device",
            "recompute",
        ];
        resumes_with::<Args>(&[&allowed[..], &Launch::FLAGS].concat(), given)?;
    }
    if let Some(dir) = &args.resume
        && let Ok(begun) = PretrainManifest::read(dir)
        && let Some(next) = gradus_study::plan::continuing(dir, &begun.command)
    {
        return Err(CliError::OfStudy { run: dir.clone(), next });
    }
    let counts = args.resume.is_none() && settings(&args, given, &Device::CPU).is_ok_and(|settings| settings.order.is_some());
    let is_of_training = |id: &str| TRAINING.contains(&id) || Launch::FLAGS.contains(&id);
    if let Some(flag) = first_given::<Args>(given, is_of_training).filter(|_| counts) {
        return Err(CliError::Usage(format!(
            "--{flag}: n-grams are counted on the CPU of one process, without steps; leave --{flag} out"
        )));
    }
    let out = args.resume.as_deref().or(args.out.as_deref());
    let what = Work { command: "pretrain", out, quiet: args.talk.quiet };
    args.launch.run(what, |group| pretrain_in(&args, given, group))
}

fn pretrain_in(args: &Args, given: &ArgMatches, group: Group) -> Result<(), CliError> {
    args.talk.start()?;
    let resumed = args.resume.as_deref().or(args.out.as_deref().filter(|out| group.goes_on && PretrainManifest::is_in(out)));
    let device = match resumed {
        Some(run) if !group.follows() => {
            let begun = PretrainManifest::read(run).map_err(PretrainError::from)?;
            args.on.open_again(&begun.device, &begun.precision)?
        }
        _ => args.on.open_for_training()?,
    };
    group.check_device(&device)?;
    signals::stop_on_ctrl_c();
    let monitor = &Display::choose(args.talk.quiet || group.follows());
    let follows = group.follows();
    let control = PretrainControl {
        run: Control {
            stop_at: args.stop_at,
            command: command(),
            device: device.clone(),
            anomaly: args.anomaly,
            collective: group.collective,
            shard_moments: args.launch.shards_moments(),
            tensorboard: args.tensorboard.clone(),
            ..Control::new(monitor)
        },
        samples: args.samples,
        cache: args.cache.clone().unwrap_or_else(|| cache(args.out.as_deref().or(args.resume.as_deref()))),
        probe: None,
        recompute: args.options.recompute,
    };
    if follows {
        let own = if args.resume.is_some() { None } else { Some(settings(args, given, &device)?) };
        pretrain::follow(args.corpus.as_deref(), own.as_ref(), &control)?;
        return if interrupt::requested() { Err(CliError::Stopped) } else { Ok(()) };
    }
    let dir = resumed.or(args.out.as_deref()).expect("clap requires --out without --resume");
    let outcome = match resumed {
        Some(dir) => pretrain::resume(dir, &control),
        None => pretrain::begin(settings(args, given, &device)?, args.corpus.as_deref(), dir, &control),
    };
    let outcome = outcome.map_err(|e| CliError::from(e).with_next("pretrain", dir))?;
    let out = outcome.out.display();
    let made = match outcome.total_steps {
        0 => count_of(outcome.parameters, "n-gram"),
        _ => count_of(outcome.steps as usize, "step"),
    };
    match &outcome.validation {
        _ if args.talk.json => output::json(&outcome)?,
        Some(v) => {
            let predicted = if v.bits_per_byte.is_none() { "predicted " } else { "" };
            output::line(&format!("{out}: {made}, held-out loss {:.4} nats per {predicted}token", v.nll))?;
        }
        None => output::line(&format!("{out}: {made}"))?,
    }
    unless_interrupted(outcome.finished, || format!("gradus pretrain --resume {}{}", quoted(&outcome.out), on(&device)))
}

/// Returns the settings of the flags and the file.
fn settings(args: &Args, given: &ArgMatches, device: &Device) -> Result<PretrainSettings, CliError> {
    let file = match (&args.config, &args.corpus) {
        (Some(path), _) => PretrainOptions::read(path),
        (None, None) => of_stories(&args.options),
        (None, Some(_)) => Ok(PretrainOptions::default()),
    };
    let mut options = over(file.map_err(PretrainError::from)?, &args.options, given);
    options.check_source(args.corpus.is_some()).map_err(PretrainError::from)?;
    if args.corpus.is_none() && !options.counts() {
        let context = PretrainOptions::world_context(options.retold.unwrap_or(false));
        options.context = options.context.or(Some(context));
    }
    if !device.is_cpu() {
        options.shards = options.shards.or(Some(1)); // one shard keeps a GPU busy
    }
    Ok(options.settle().map_err(PretrainError::from)?)
}

/// Returns the default options of the flags' system for the micro-world, before other flags override them.
fn of_stories(flags: &PretrainOptions) -> Result<PretrainOptions, SettingsError> {
    let card = flags.system.as_deref().and_then(systems::named);
    let Some(Stories { file, config, steps }) = card.and_then(|card| card.stories) else { return Ok(PretrainOptions::default()) };
    Ok(PretrainOptions { steps: Some(steps), ..PretrainOptions::parse(Path::new(file), config)? })
}

/// Returns the options of a file, overridden by those of the command line.
fn over(mut file: PretrainOptions, flags: &PretrainOptions, given: &ArgMatches) -> PretrainOptions {
    if flags.steps.is_some() || flags.epochs.is_some() {
        (file.steps, file.epochs) = (None, None); // the flags replace the length, in either unit
    }
    file.drop_view_of(flags);
    file.update_from_arg_matches(given).expect("flags that were read before");
    file
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    /// A system may have default settings for the micro-world. Flags override them, and runs on a corpus do not use them.
    #[test]
    fn systems_have_default_settings_for_stories() {
        let settings = |line: &[&str]| {
            let command = Args::augment_args(clap::Command::new("pretrain"));
            let given = command.get_matches_from(["pretrain"].iter().chain(line));
            let args = Args::from_arg_matches(&given).unwrap();
            super::settings(&args, &given, &Device::CPU).unwrap()
        };
        let length = |settings: &PretrainSettings| settings.length;
        let plain = settings(&["--system", "bert"]);
        let cloze = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/cloze.toml");
        let steps = systems::named("bert").unwrap().stories.unwrap().steps.to_string();
        let of_file = settings(&["--config", cloze, "--steps", &steps, "--out", "x"]);
        assert_eq!(plain, of_file);
        assert_eq!(length(&settings(&["--system", "bert", "--steps", "7"])), pretrain::Length::Steps(7));
        assert_eq!(settings(&["--system", "bert", "--lr", "1e-4"]).optimizer.lr, 1e-4);
        let corpus = settings(&["--system", "bert", "--corpus", "text"]);
        assert_eq!(corpus.system().unwrap().name, "bert");
        assert_ne!(length(&corpus), length(&plain));
        assert_ne!(length(&settings(&["--system", "gpt"])), length(&plain));
    }

    #[test]
    fn the_help_begins_with_the_flags_that_matter_most() {
        let help = in_order(Args::augment_args(clap::Command::new("pretrain"))).render_help().to_string();
        let flags: Vec<&str> = help.lines().filter_map(|line| line.trim().strip_prefix("--")?.split(' ').next()).collect();
        assert_eq!(flags[..FIRST.len()], FIRST);
        assert!(flags.len() > 50 && flags.contains(&"beta2"), "{flags:?}");
    }

    #[test]
    fn flags_override_the_config_file() {
        let command = PretrainOptions::augment_args(clap::Command::new("pretrain"));
        let given = command.get_matches_from(["pretrain", "--lr", "nan", "--steps", "7"]);
        let flags = PretrainOptions::from_arg_matches(&given).unwrap();
        let file = PretrainOptions { lr: Some(0.01), epochs: Some(3.0), heads: Some(2), ..Default::default() };
        let both = over(file, &flags, &given);
        assert_eq!((both.steps, both.epochs, both.heads, both.beta2), (Some(7), None, Some(2), None));
        assert!(both.lr.is_some_and(f64::is_nan), "NaN is not the default");
        for (file, flags, expected) in [
            ("masked:rate=0.3,hide=0.5", &["--mask-rate", "0.2"][..], "masked:rate=0.2,hide=0.5,replace=0.1,masks=dynamic"),
            ("masked:rate=0.3", &["--mask-rate", "0.2"], "masked:rate=0.2,hide=0.8,replace=0.1,masks=dynamic"),
            ("masked:rate=0.3", &["--view", "masked:hide=0.7"], "masked:rate=0.15,hide=0.7,replace=0.1,masks=dynamic"),
            ("masked:rate=0.3", &["--view", "next"], "next"),
        ] {
            let command = PretrainOptions::augment_args(clap::Command::new("pretrain"));
            let given = command.get_matches_from(["pretrain"].iter().chain(flags));
            let flags = PretrainOptions::from_arg_matches(&given).unwrap();
            let file = PretrainOptions { view: Some(file.into()), ..Default::default() };
            assert_eq!(over(file, &flags, &given).settle().unwrap().view.to_string(), expected);
        }
        let given =
            PretrainOptions::augment_args(clap::Command::new("pretrain")).get_matches_from(["pretrain", "--view", "next"]);
        let flags = PretrainOptions::from_arg_matches(&given).unwrap();
        let file = PretrainOptions { mask_rate: Some(0.3), ..Default::default() };
        assert_eq!(over(file, &flags, &given).mask_rate, None);
    }
}
