//! Pages that a command writes to a given path.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use gradus_io::disk;
use gradus_io::files::{FileError, remove_unfinished, write_atomically};

use crate::error::CliError;

/// Checks that the file can be written later: its folder exists, and it does not or may be replaced.
pub fn free(path: &Path, overwrite: bool) -> Result<(), CliError> {
    let folder = disk::parent(path);
    let is_folder = folder.metadata().and_then(|m| if m.is_dir() { Ok(()) } else { Err(ErrorKind::NotADirectory.into()) });
    is_folder.map_err(|e| FileError::new("write into", folder, e))?;
    vacant(path, overwrite)?;
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(CliError::Usage(format!("{}: not a plain file, so not replaced; name another path", path.display())));
    }
    Ok(())
}

/// Checks that nothing is there, or that it may be replaced.
pub fn vacant(path: &Path, overwrite: bool) -> Result<(), CliError> {
    if overwrite || path.symlink_metadata().is_err() { Ok(()) } else { Err(CliError::Exists { path: path.to_owned() }) }
}

/// Writes the file, whole or not at all; what killed writers of this name left is removed.
pub fn write(path: &Path, text: &str) -> Result<(), CliError> {
    written(path, |file| file.write_all(text.as_bytes()))
}

/// The same by `write`.
pub fn written(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
    if let Some(name) = path.file_name() {
        remove_unfinished(disk::parent(path), Some(name))?;
    }
    Ok(write_atomically(path, write)?)
}
