//! The program `gradus`: one file per subcommand, with its flags and its implementation.
//!
//! Messages go to stderr, results to stdout; `--json` prints one JSON object as the last line of stdout. Wrong usage ends with
//! exit code 2, Ctrl-C with 130 once the work is saved, a run that has lost one of its processes with 75, every other error with
//! 1.

mod audit;
mod bench;
mod cache;
mod common;
mod compare;
mod devices;
mod error;
mod evaluate;
mod export;
mod fill;
mod finetune;
mod generate;
mod ids;
mod import;
mod kernels;
mod launch;
mod output;
mod page;
mod panics;
mod predict;
mod pretrain;
mod progress;
mod reproduce;
mod signals;
mod survey;
mod systems;
mod tasks;
mod tokenizer;
mod verify;
mod world;
mod zero_shot;

use std::borrow::Cow;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use error::CliError;
use gradus_tensor::allocator::OrExit;

#[global_allocator]
static MEMORY: OrExit = OrExit;

/// GPT-1 from first principles: train it, measure it, generate text.
#[derive(Debug, Parser)]
#[command(
    name = "gradus",
    version,
    long_about = "GPT-1 (Radford, Narasimhan, Salimans, Sutskever 2018) from first principles: train it, measure it, generate \
        text.\n\n\
        Every command reports its progress on stderr and prints its result on stdout. With --json the last line of stdout is one \
        JSON object. The exit code is 0 for success, 2 for wrong usage, 130 after Ctrl-C, 75 if a process of the run was lost, \
        and 1 for every other error.",
    after_long_help = "To begin:\n  \
        gradus                          no command: the paper in miniature, in 15 to 25 minutes, to runs/miniature\n  \
        gradus pretrain --corpus novel.txt --out runs/novel\n  \
        gradus evaluate --model runs/novel --corpus other.txt\n  \
        gradus generate --model runs/novel --prompt \"Once upon a time\" --tokens 40\n\n\
        `gradus COMMAND --help` explains every flag, with its unit and its default."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Pretrain(Box<pretrain::Args>),
    Finetune(Box<finetune::Args>),
    Compare(compare::Args),
    Evaluate(evaluate::Args),
    Predict(predict::Args),
    Tasks(tasks::Args),
    Reproduce(reproduce::Args),
    Survey(survey::Args),
    Generate(generate::Args),
    Fill(fill::Args),
    Systems(systems::Args),
    #[command(subcommand)]
    Tokenizer(tokenizer::Command),
    World(world::Args),
    Import(import::Args),
    Export(export::Args),
    #[command(subcommand)]
    Bench(bench::Command),
    #[command(subcommand)]
    Audit(audit::Command),
    Devices(devices::Args),
    Verify(verify::Args),
}

/// Runs a command. `matches` also has the source of each value: the command line or a default.
fn run(cli: Cli, matches: &ArgMatches) -> Result<(), CliError> {
    let given = matches.subcommand().map_or(matches, |(_, given)| given);
    match cli.command {
        Some(Command::Pretrain(args)) => pretrain::run(*args, given),
        Some(Command::Finetune(args)) => finetune::run(&args, given),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Evaluate(args)) => evaluate::run(&args),
        Some(Command::Predict(args)) => predict::run(&args),
        Some(Command::Tasks(args)) => tasks::run(&args),
        Some(Command::Reproduce(args)) => reproduce::run(&args),
        Some(Command::Survey(args)) => survey::run(&args),
        Some(Command::Generate(args)) => generate::run(&args),
        Some(Command::Fill(args)) => fill::run(&args),
        Some(Command::Systems(args)) => systems::run(&args),
        Some(Command::Tokenizer(command)) => tokenizer::run(&command),
        Some(Command::World(args)) => world::run(&args),
        Some(Command::Import(args)) => import::run(&args),
        Some(Command::Export(args)) => export::run(&args),
        Some(Command::Bench(command)) => bench::run(&command),
        Some(Command::Audit(command)) => audit::run(&command),
        Some(Command::Devices(args)) => devices::run(&args),
        Some(Command::Verify(args)) => verify::run(&args),
        None => reproduce::miniature(),
    }
}

/// Prints the error of the arguments, or the requested help, and exits. Control characters are escaped.
fn refused(error: &clap::Error) -> ! {
    let words = error.render().to_string();
    if matches!(output::plain(&words), Cow::Borrowed(_)) {
        error.exit();
    }
    output::say(words.trim_end());
    std::process::exit(error.exit_code());
}

/// Returns the definition of the command line.
fn command() -> clap::Command {
    with_negative_numbers(Cli::command().mut_subcommand("pretrain", pretrain::in_order))
}

/// Lets all commands accept negative numbers as values of flags, so that the check of each flag reports its range.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command.allow_negative_numbers(true).mut_subcommands(with_negative_numbers)
}

fn main() -> ExitCode {
    let matches = command().try_get_matches().unwrap_or_else(|e| refused(&e));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| refused(&e));
    panics::keep_quiet();
    signals::let_large_files_fail();
    let result = panics::caught(|| run(cli, &matches));
    let kept = panics::caught(|| {
        kernels::keep();
        Ok(())
    });
    match result.and(kept) {
        Ok(()) => ExitCode::SUCCESS,
        // The failed child process has already printed its error.
        #[cfg(feature = "distributed")]
        Err(CliError::Launch(gradus_cluster::launch::LaunchError::Ended { code, .. })) => ExitCode::from(code),
        // A reader that closes stdout early (`gradus world | head`) is not an error.
        Err(CliError::Output(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::say(&format!("{}error: {}", error::speaker(), error::with_causes(&error)));
            ExitCode::from(error.exit_code())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ValueEnum};
    use gradus_model::ModelConfig;
    use gradus_tensor::device::GpuInfo;
    use gradus_tests::lines;
    use gradus_train::finetune::FinetuneSettings;
    use gradus_train::optim::{OptimizerKind, ScheduleKind};
    use gradus_train::pretrain::PretrainOptions;
    use gradus_train::trainer::default_shards;

    use super::*;

    #[test]
    fn flags_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn flag_values_are_spelled_as_in_files() {
        for kind in OptimizerKind::ALL {
            assert_eq!(<OptimizerKind as ValueEnum>::from_str(&kind.to_string(), false), Ok(kind));
        }
        for kind in ScheduleKind::ALL {
            assert_eq!(<ScheduleKind as ValueEnum>::from_str(&kind.to_string(), false), Ok(kind));
        }
    }

    /// The defaults are those of §4.1.
    #[test]
    fn a_fine_tuning_without_flags_is_the_paper_s() {
        #[derive(Parser)]
        struct Flags {
            #[command(flatten)]
            settings: FinetuneSettings,
        }
        assert_eq!(Flags::parse_from(["program"]).settings, FinetuneSettings::default());
    }

    /// Every flag and command has a help text.
    #[test]
    fn everything_has_help() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "`{}` says what it does", command.get_name());
            for arg in command.get_arguments() {
                assert!(arg.get_help().is_some(), "`{}` explains {}", command.get_name(), arg.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    /// Returns the defaults that a help text states itself, as in `[default: 0.9]`.
    fn stated(arg: &Arg) -> Vec<String> {
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        help.split("[default: ").skip(1).map(|rest| rest.split(']').next().unwrap_or_default().to_owned()).collect()
    }

    /// Returns the value stated for a preset. For example, `0.02; gpt1 2000` states 2000 for `gpt1` and 0.02 for all other
    /// presets.
    fn stated_for<'s>(stated: &'s str, preset: &str) -> Option<&'s str> {
        let parts = || stated.split([';', ',']).map(str::trim);
        let own = parts().find_map(|part| part.strip_prefix(preset)?.strip_prefix(' '));
        own.or_else(|| parts().find(|part| !part.contains(' ')))
    }

    /// With every preset, a flag with the default that its help states gives the same settings as no flag.
    #[test]
    fn defaults_in_the_help_of_pretrain_are_those_in_use() {
        #[derive(Parser)]
        struct Flags {
            #[command(flatten)]
            options: PretrainOptions,
        }
        let settle = |line: &[&str]| {
            let flags = Flags::try_parse_from([&["program"], line].concat()).ok()?;
            Some(flags.options.settle().expect("settings that make a run"))
        };
        let mut in_words = Vec::new();
        for arg in Flags::command().get_arguments() {
            let (id, flag) = (arg.get_id().as_str(), format!("--{}", arg.get_long().expect("a flag")));
            for (stated, preset) in stated(arg).iter().flat_map(|stated| ModelConfig::PRESETS.map(|preset| (stated, preset))) {
                let plain: &[&str] = match id {
                    "preset" => &[],
                    "order" => &["--backbone", "ngram"],
                    "units" => &["--preset", preset, "--backbone", "lstm"],
                    "mask_rate" | "mask_hide" | "mask_replace" | "masks" | "pairs" => &["--preset", preset, "--view", "masked"],
                    _ => &["--preset", preset],
                };
                let given = stated_for(stated, preset).and_then(|value| settle(&[plain, &[&flag, value]].concat()));
                match given {
                    Some(given) => assert_eq!(Some(given), settle(plain), "{flag} with {preset}: the help states {stated}"),
                    None => in_words.push(id.to_owned()),
                }
            }
        }
        in_words.dedup();
        let [plain, retold] = [false, true].map(PretrainOptions::world_context);
        let context = Flags::command().get_arguments().find(|arg| arg.get_id() == "context").map(stated);
        assert_eq!(context, Some(vec![format!("the preset's; {plain} in the micro-world, {retold} with --retold")]));
        assert_eq!(
            in_words,
            ["context", "inner", "init_std", "steps", "tokenizer", "mode", "eval_every", "eval_tokens"],
            "all others state a value"
        );
    }

    /// In all other commands clap prints the defaults. The few that are written by hand are listed here.
    #[test]
    fn defaults_written_by_hand_in_help_are_correct() {
        fn by_hand(command: &clap::Command, found: &mut Vec<String>) {
            for arg in command.get_arguments() {
                let stated = stated(arg);
                let place = format!("{} --{}", command.get_name(), arg.get_id());
                assert!(stated.is_empty() || arg.get_default_values().is_empty(), "{place} states its default twice");
                let numbers = stated.into_iter().filter(|text| text.starts_with(|c: char| c.is_ascii_digit()));
                found.extend(numbers.map(|text| format!("{place}: {text}")));
            }
            command.get_subcommands().filter(|command| command.get_name() != "pretrain").for_each(|c| by_hand(c, found));
        }
        let mut found = Vec::new();
        by_hand(&Cli::command(), &mut found);
        let shards =
            format!("train --shards: {}; {} for a part of one sequence, and on a GPU", default_shards(2), default_shards(1));
        let [cpu, gpu, software] = [None, Some("discrete"), Some(GpuInfo::SOFTWARE)].map(bench::matmul::sizes);
        let listed = |sizes: &[usize]| sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let (cpu, software, largest) = (listed(cpu), listed(software), gpu.last().expect("a size"));
        let sizes = format!("matmul --sizes: {cpu}; to {largest} on a GPU; {software} on a software renderer");
        let lambda = |predicts| gradus_train::finetune::FinetuneSettings::default().lambda(predicts);
        let [next, masked] = [gradus_model::Predicts::Next, gradus_model::Predicts::Masked].map(lambda);
        let aux = format!("finetune --aux: {next} (§3.2); {masked}, the only value, for a model that fills masks");
        assert_eq!(found, [aux, shards, sizes, format!("step --sequences: {}", audit::step::SEQUENCES)]);
    }

    /// Returns the usage error of a `gradus` command, if any. A command mentioned in prose may lack required arguments.
    fn fault(words: &[String], alone: bool) -> Option<clap::Error> {
        use clap::error::ErrorKind as Kind;
        let parse = || command().try_get_matches_from(words);
        let error = parse().err()?;
        let allowed: &[Kind] = match alone {
            true => &[Kind::DisplayHelp],
            false => &[
                Kind::DisplayHelp,
                Kind::DisplayHelpOnMissingArgumentOrSubcommand,
                Kind::MissingRequiredArgument,
                Kind::InvalidValue,    // a flag without its value
                Kind::ValueValidation, // `--masked X`
            ],
        };
        (!allowed.contains(&error.kind())).then_some(error)
    }

    /// Every example in a help text parses and belongs to its command. Commands and flags mentioned in its prose exist.
    #[test]
    fn examples_in_help_parse() {
        fn check(command: &clap::Command, path: &[&str]) {
            let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help.lines().map(str::trim).filter(|line| line.starts_with("gradus ")).collect();
            assert!(command.has_subcommands() || !examples.is_empty(), "{path:?} has an example");
            for example in examples {
                // Two spaces separate an example from its explanation.
                let usage = lines::of("", &format!("    {}", example.split("  ").next().unwrap_or(example)), "gradus");
                let words = usage[0].words();
                assert!(words[1..].iter().zip(path).all(|(word, name)| word == name), "{example} in the help of {path:?}");
                assert!(fault(&words, true).is_none(), "{example}: {}", fault(&words, true).unwrap());
            }
            let flags = command.get_arguments().flat_map(|arg| [arg.get_help(), arg.get_long_help()]);
            let texts = flags.chain([command.get_about(), command.get_long_about(), command.get_after_long_help()]).flatten();
            texts.for_each(|text| mentioned(&lines::of(command.get_name(), &text.to_string(), "gradus")));
            command.get_subcommands().for_each(|sub| check(sub, &[path, &[sub.get_name()]].concat()));
        }
        check(&Cli::command(), &[]);
    }

    #[track_caller]
    fn mentioned(lines: &[lines::Line]) {
        for line in lines.iter().filter(|line| !line.alone && !line.text.starts_with("gradus COMMAND")) {
            let fault = fault(&line.words(), false);
            assert!(fault.is_none(), "{}: `{}`: {}", line.file, line.text, fault.unwrap());
        }
    }

    /// The commands in documents and in the headers of examples parse, including the arguments after `cargo run … --`.
    #[test]
    fn commands_in_documents_parse() {
        let mut typed = lines::beginning_with("gradus");
        mentioned(&typed);
        typed.retain(|line| line.alone);
        assert!(typed.len() > 50, "{} lines", typed.len());
        for line in lines::beginning_with("cargo") {
            if let (true, Some((_, words))) = (line.text.starts_with("cargo run"), line.text.split_once(" -- ")) {
                let text = format!("gradus {words}");
                typed.extend((!line.text.contains("--example")).then_some(lines::Line { text, ..line }));
            }
        }
        for line in typed {
            let fault = fault(&line.words(), true);
            assert!(fault.is_none(), "{}: {}: {}", line.file, line.text, fault.unwrap());
        }
    }
}
