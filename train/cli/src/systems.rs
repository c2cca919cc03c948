//! `gradus systems`.

use std::path::PathBuf;

use gradus_train::systems::{self, Card};
use serde_json::json;

use crate::error::CliError;
use crate::{output, page};

/// Show GPT-1 and its relatives: a card for each system, or with --against the differences between two
///
/// A system combines a view of texts, a network that reads them, and the prediction of the network. `gradus pretrain --system
/// NAME` trains it; each of its axes is also a flag.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus systems                          # all, in the order of their years
  gradus systems bert                     # its card
  gradus systems bert --against roberta   # the axes in which they differ
  gradus systems --markdown SYSTEMS.md    # all cards as a page")]
pub struct Args {
    /// System whose card to show
    name: Option<String>,
    /// Show only the axes in which the system differs from this one
    #[arg(long, value_name = "NAME", requires = "name")]
    against: Option<String>,
    /// Write all cards to this file as Markdown
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    markdown: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "markdown")]
    overwrite: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    if let Some(path) = &args.markdown {
        page::free(path, args.overwrite)?;
        page::write(path, &markdown(), args.overwrite)?;
    }
    match (&args.name, &args.against) {
        (None, _) if args.json => output::json(&json!({ "systems": systems::ALL })),
        (None, _) => systems::ALL
            .iter()
            .try_for_each(|card| output::line(&format!("{:<10} {:<8} {}  {}", card.name, card.title, card.year, card.equation))),
        (Some(name), None) => show(named(name)?, args.json),
        (Some(name), Some(other)) => compare(named(name)?, named(other)?, args.json),
    }
}

/// Returns the page, which begins with the command that wrote it.
fn markdown() -> String {
    let again = "gradus systems --markdown train/src/systems/SYSTEMS.md --overwrite";
    format!("<!-- Written by `{again}`: not by hand. -->\n\n{}", systems::page().markdown())
}

/// Returns the system with this name.
pub fn named(name: &str) -> Result<&'static Card, CliError> {
    let unknown = || CliError::Usage(format!("{name}: expected a system: {}", systems::names()));
    systems::named(name).ok_or_else(unknown)
}

fn show(card: &Card, as_json: bool) -> Result<(), CliError> {
    if as_json {
        return output::json(card);
    }
    output::line(&format!("{} ({})", card.title, card.year))?;
    card.entries().iter().try_for_each(|(name, text)| {
        let lines = text.lines().enumerate();
        lines.into_iter().try_for_each(|(i, line)| output::line(&format!("  {:<14} {line}", if i == 0 { name } else { "" })))
    })
}

fn compare(card: &Card, other: &Card, as_json: bool) -> Result<(), CliError> {
    let axes = card.against(other);
    if as_json {
        let axis = |(flag, own, its): (String, String, String)| json!({ "axis": flag, card.name: own, other.name: its });
        return output::json(&json!({ "axes": axes.into_iter().map(axis).collect::<Vec<_>>() }));
    }
    output::line(&format!("{:<16} {:<14} {}", "", card.name, other.name))?;
    axes.iter().try_for_each(|(flag, own, its)| output::line(&format!("--{flag:<14} {own:<14} {its}")))
}
