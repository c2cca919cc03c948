//! `gradus audit …`.

mod cost;
mod ledger;
mod model;
mod ops;
mod replay;
mod step;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use gradus_io::files::{FileError, write_atomically};

use crate::common::Threads;
use crate::error::CliError;

/// Show every step, and prove it
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    Ops(ops::Ops),
    Model(model::Model),
    Step(step::Step),
    Cost(cost::Cost),
    Ledger(ledger::Ledger),
    Replay(replay::Replay),
}

/// How it talks, and with how many threads it computes.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Talk {
    /// Say nothing but warnings
    #[arg(long)]
    quiet: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: Threads,
}

/// A file to write.
#[derive(Clone, Debug, clap::Args)]
struct Page {
    /// Write it to this file as HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace what stands there
    #[arg(long)]
    overwrite: bool,
}

impl Page {
    /// Is the place free?
    fn check(&self) -> Result<(), CliError> {
        self.html.as_deref().map_or(Ok(()), |path| free(path, self.overwrite))
    }

    fn write(&self, html: impl FnOnce() -> String) -> Result<(), CliError> {
        self.html.as_deref().map_or(Ok(()), |path| write(path, &html()))
    }
}

/// Two files to write.
#[derive(Clone, Debug, clap::Args)]
struct Pages {
    /// Write it to this file as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    page: Page,
}

impl Pages {
    fn check(&self) -> Result<(), CliError> {
        self.markdown.as_deref().map_or(Ok(()), |path| free(path, self.page.overwrite))?;
        if self.markdown.is_some() && self.markdown == self.page.html {
            return Err(CliError::Usage { problem: "--markdown and --html name the same file; give each its own".into() });
        }
        self.page.check()
    }

    fn write(&self, markdown: impl FnOnce() -> String, html: impl FnOnce() -> String) -> Result<(), CliError> {
        self.markdown.as_deref().map_or(Ok(()), |path| write(path, &markdown()))?;
        self.page.write(html)
    }
}

/// Can the file be written in the end: is there a folder for it, and does nothing stand there, or may it be replaced?
fn free(path: &Path, overwrite: bool) -> Result<(), CliError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_folder = folder.metadata().and_then(|m| if m.is_dir() { Ok(()) } else { Err(ErrorKind::NotADirectory.into()) });
    is_folder.map_err(|e| FileError::new("write into", folder, e))?;
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if !overwrite {
        return Err(CliError::Exists { path: path.to_owned(), found: "there is something of this name" });
    }
    if !found.is_file() {
        return Err(CliError::Usage {
            problem: format!("{}: no plain file, and not replaced; name another place", path.display()),
        });
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    Ok(write_atomically(path, |file| file.write_all(text.as_bytes()))?)
}

/// Runs it.
pub fn run(command: &Command) -> Result<(), CliError> {
    match command {
        Command::Ops(args) => args.run(),
        Command::Model(args) => args.run(),
        Command::Step(args) => args.run(),
        Command::Cost(args) => args.run(),
        Command::Ledger(args) => args.run(),
        Command::Replay(args) => args.run(),
    }
}

fn refuse(faults: Vec<String>) -> Result<(), CliError> {
    if faults.is_empty() { Ok(()) } else { Err(CliError::Refused { faults }) }
}
