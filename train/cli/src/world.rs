//! `gradus world`.

use std::path::{Path, PathBuf};

use gradus_io::numbers::count;
use gradus_io::progress::Job;
use gradus_paper::tasks;
use gradus_tensor::rng::Philox;
use gradus_text::{TextError, read_text};
use gradus_world::{Measure, Story, World};
use serde_json::json;

use crate::common::within;
use crate::error::{CliError, StoryError};
use crate::output;
use crate::page::{vacant, written};
use crate::progress::Display;

/// Generate stories of the micro-world, whose exact probability is known.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Generate short English stories from the micro-world: a probabilistic grammar with memory, in which early \
        choices matter sentences later. Because the exact log-probability of every story is known, a model's loss on them can be \
        compared with the smallest possible one.\n\n\
        Prints one story per line. The log-probability of a story, its end included, is in nats; the limit in bits per byte is \
        the sum of −log2 p over the sum of bytes, line ends not counted.\n\n\
        With --tasks it writes the paper's fine-tuning tasks, made from such stories with exact labels, in the files of the \
        original data sets; where those publish a test set without labels, the labels are in test_labels.tsv next to it.",
    after_long_help = "Examples:\n  \
        gradus world --stories 3 --seed 7\n  \
        gradus world --stories 20000 --out stories.txt\n  \
        gradus world --log-prob stories.txt --json\n  \
        gradus world --describe\n  \
        gradus world --tasks tasks --rows 500 --seed 1"
)]
pub struct Args {
    /// Number of stories.
    #[arg(long, value_name = "N", default_value_t = 5)]
    stories: usize,
    /// Seed of the stories: a seed gives the same stories on every machine.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Use the world whose stories end with a short retelling, in other words and sometimes wrong. Its tasks are the same.
    #[arg(long, conflicts_with = "tasks")]
    retold: bool,
    /// Write the stories to this file instead, one per line; an existing file is kept unless --overwrite is given.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace an existing file at --out.
    #[arg(long, requires = "out")]
    overwrite: bool,
    /// Instead of generating stories, print the log-probability in nats of each line of this file, except blank lines.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stories", "seed", "out", "describe"])]
    log_prob: Option<PathBuf>,
    /// Instead of generating stories, describe the world: lengths, entropy, the limit.
    #[arg(long, conflicts_with_all = ["stories", "seed", "out"])]
    describe: bool,
    /// Instead of generating stories, write the paper's tasks made from them to this new folder, one folder per task.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["stories", "out", "overwrite", "log_prob", "describe"])]
    tasks: Option<PathBuf>,
    /// Training rows per task, with 0.3 times as many dev rows and 0.6 times as many test rows; tasks with long rows and easy
    /// tasks have fewer training rows.
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "tasks")]
    rows: usize,
    /// Print one JSON object: `limit`, and `stories` with text, log_prob, tokens and the facts behind each (not with --out).
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    let world = World::named(args.retold);
    if args.describe {
        return describe(&world, args.json);
    }
    if let Some(path) = &args.log_prob {
        return log_prob(&world, path, args.json);
    }
    if let Some(dir) = &args.tasks {
        return tasks(dir, args);
    }
    within("stories", args.stories, 1..=10_000_000, "")?;
    let mut rng = Philox::new(args.seed);
    let Some(out) = &args.out else {
        if args.json {
            let stories = world.corpus(&mut rng, args.stories);
            return output::json(&json!({ "stories": stories, "limit": Measure::of(&stories) }));
        }
        for _ in 0..args.stories {
            output::line(&world.story(&mut rng).text)?;
        }
        return Ok(());
    };
    vacant(out, args.overwrite)?;
    let stories = world.corpus(&mut rng, args.stories);
    written(out, args.overwrite, |to| stories.iter().try_for_each(|story| writeln!(to, "{}", story.text)))?;
    let limit = Measure::of(&stories);
    output::say(&format!("{} stories → {}; the limit is {limit}", count(stories.len() as u64), out.display()));
    if args.json { output::json(&json!({ "out": out.display().to_string(), "limit": limit })) } else { Ok(()) }
}

fn tasks(dir: &Path, args: &Args) -> Result<(), CliError> {
    let job = Job::new("tasks", tasks::names().count() as u64, "tasks");
    let write = |reach: &mut dyn FnMut(usize)| Ok(tasks::write(args.seed, dir, args.rows, reach)?);
    let written = Display::choose(args.rows < 10_000).during(job, write)?;
    if args.json {
        return output::json(&json!(written));
    }
    output::line(&format!("{:12} {:>6} {:>13} {:>8} {:>13}", "task", "rows", "words per row", "longest", "best possible"))?;
    for t in &written.tasks {
        output::line(&format!("{:12} {:>6} {:>13.1} {:>8} {:>13}", t.name, t.rows, t.mean_words, t.max_words, t.bayes))?;
    }
    output::say(&format!("{} tasks → {}", written.tasks.len(), dir.display()));
    Ok(())
}

fn describe(world: &World, as_json: bool) -> Result<(), CliError> {
    if !as_json {
        return output::line(&world.describe());
    }
    let exact = world.properties();
    output::json(&json!({
        "name": world.name(),
        "config": world.config(),
        "mean_tokens": exact.mean_tokens,
        "max_tokens": exact.max_tokens,
        "entropy": exact.entropy,
    }))
}

/// Reads a story. The error names the other world if the story belongs to it.
fn read(world: &World, text: &str) -> Result<Story, StoryError> {
    let other = World::named(!world.config().retold);
    world.read(text).map_err(|source| match other.read(text) {
        Ok(_) if other.config().retold => StoryError::Other { found: other.name(), remedy: "give --retold" },
        Ok(_) => StoryError::Other { found: other.name(), remedy: "leave --retold out" },
        Err(_) => StoryError::None(source),
    })
}

fn log_prob(world: &World, path: &Path, as_json: bool) -> Result<(), CliError> {
    let mut stories: Vec<Story> = Vec::new();
    for (line, text) in (1..).zip(read_text(path)?.lines()) {
        if !text.trim().is_empty() {
            stories.push(read(world, text).map_err(|source| CliError::Story { path: path.to_owned(), line, source })?);
        }
    }
    if stories.is_empty() {
        return Err(TextError::Empty { path: path.to_owned() }.into());
    }
    let log_probs: Vec<f64> = stories.iter().map(|s| s.log_prob).collect();
    if as_json {
        return output::json(&json!({ "log_probs": log_probs, "limit": Measure::of(&stories) }));
    }
    log_probs.iter().try_for_each(|p| output::line(&p.to_string()))?;
    output::say(&Measure::of(&stories).to_string());
    Ok(())
}
