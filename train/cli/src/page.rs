//! Pages that a command writes to a given path.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use gradus_io::files::{FileError, remove_unfinished, write_atomically};
use gradus_io::{checksums, disk};

use crate::error::CliError;

/// The flags of a report that is also written as a page.
#[derive(Clone, Debug, clap::Args)]
pub struct Report {
    /// Also write the report to this file as Markdown (and, for a survey, its figure to an .svg file beside it)
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "markdown")]
    pub overwrite: bool,
}

/// Checks that the file can be written later: its folder exists, and the file does not exist or may be replaced.
pub fn free(path: &Path, overwrite: bool) -> Result<(), CliError> {
    let folder = disk::parent(path);
    let is_folder = folder.metadata().and_then(|m| if m.is_dir() { Ok(()) } else { Err(ErrorKind::NotADirectory.into()) });
    is_folder.map_err(|e| FileError::new("write into", folder, e))?;
    vacant(path, overwrite)?;
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(CliError::Usage(format!("{}: not a plain file, so it was not replaced; name another path", path.display())));
    }
    Ok(())
}

/// Checks that nothing is at this path, or that it may be replaced. Files that Gradus reads again may never be replaced.
pub fn vacant(path: &Path, overwrite: bool) -> Result<(), CliError> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    if !overwrite {
        return Err(CliError::Exists { path: path.to_owned() });
    }
    match checksums::is_kept(path)? {
        true => {
            Err(CliError::Usage(format!("{}: gradus needs this file, so it was not replaced; name another path", path.display())))
        }
        false => Ok(()),
    }
}

/// Writes the file atomically, and removes the temporary files of killed writers of this path. A file created since the first
/// check is kept, unless it may be replaced.
pub fn write(path: &Path, text: &str, overwrite: bool) -> Result<(), CliError> {
    written(path, overwrite, |file| file.write_all(text.as_bytes()))
}

/// Writes the file as [`write()`] does, with the contents that `write` writes.
pub fn written(path: &Path, overwrite: bool, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
    vacant(path, overwrite)?;
    if let Some(name) = path.file_name() {
        remove_unfinished(disk::parent(path), Some(name))?;
    }
    Ok(write_atomically(path, write)?)
}
