//! `gradus audit …`.

mod cost;
mod ledger;
mod model;
mod ops;
mod replay;
pub mod step;
mod systems;

use std::path::PathBuf;

use clap::Subcommand;

use crate::common::Talk;
use crate::error::CliError;
use crate::output;
use crate::page::{free, write};

/// Show every computation, with evidence that it is correct
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    Ops(ops::Args),
    Model(model::Args),
    Systems(systems::Args),
    Step(step::Args),
    Cost(cost::Args),
    Ledger(ledger::Args),
    Replay(replay::Args),
}

/// The flags of one file to write.
#[derive(Clone, Debug, clap::Args)]
struct Page {
    /// Write the results to this file as HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
}

impl Page {
    /// Checks that the file can be written.
    fn check(&self) -> Result<(), CliError> {
        self.html.as_deref().map_or(Ok(()), |path| free(path, self.overwrite))
    }

    fn write(&self, html: impl FnOnce() -> String) -> Result<(), CliError> {
        self.html.as_deref().map_or(Ok(()), |path| write(path, &html(), self.overwrite))
    }
}

/// The flags of two files to write.
#[derive(Clone, Debug, clap::Args)]
struct Pages {
    /// Write the results to this file as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    page: Page,
}

impl Pages {
    fn check(&self) -> Result<(), CliError> {
        self.markdown.as_deref().map_or(Ok(()), |path| free(path, self.page.overwrite))?;
        if self.markdown.is_some() && self.markdown == self.page.html {
            return Err(CliError::Usage("--markdown and --html name the same file; give each its own".into()));
        }
        self.page.check()
    }

    fn write(&self, markdown: impl FnOnce() -> String, html: impl FnOnce() -> String) -> Result<(), CliError> {
        self.markdown.as_deref().map_or(Ok(()), |path| write(path, &markdown(), self.page.overwrite))?;
        self.page.write(html)
    }
}

pub fn run(command: &Command) -> Result<(), CliError> {
    match command {
        Command::Ops(args) => ops::run(args),
        Command::Model(args) => model::run(args),
        Command::Systems(args) => systems::run(args),
        Command::Step(args) => step::run(args),
        Command::Cost(args) => cost::run(args),
        Command::Ledger(args) => ledger::run(args),
        Command::Replay(args) => replay::run(args),
    }
}

/// Prints a table as text. The two widths apply to the first column and to the others.
fn columns(widths: [usize; 2], lines: impl IntoIterator<Item = impl AsRef<[String]>>) -> Result<(), CliError> {
    lines.into_iter().try_for_each(|line| {
        let line = line.as_ref();
        let rest: String = line[1..].iter().map(|cell| format!("{cell:>0$}", widths[1])).collect();
        output::line(&format!("{:<1$}{rest}", line[0], widths[0]))
    })
}

fn refuse(faults: Vec<String>) -> Result<(), CliError> {
    if faults.is_empty() { Ok(()) } else { Err(CliError::Refused { faults }) }
}
