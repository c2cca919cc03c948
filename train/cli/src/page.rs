//! Pages that a command writes to a given path.

use std::io::ErrorKind;
use std::path::Path;

use gradus_io::files::{FileError, write_atomically};

use crate::error::CliError;

/// Checks that the file can be written later: its folder exists, and it does not or may be replaced.
pub fn free(path: &Path, overwrite: bool) -> Result<(), CliError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_folder = folder.metadata().and_then(|m| if m.is_dir() { Ok(()) } else { Err(ErrorKind::NotADirectory.into()) });
    is_folder.map_err(|e| FileError::new("write into", folder, e))?;
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if !overwrite {
        return Err(CliError::Exists { path: path.to_owned(), found: "this already exists" });
    }
    if !found.is_file() {
        return Err(CliError::Usage {
            problem: format!("{}: not a plain file, so not replaced; name another path", path.display()),
        });
    }
    Ok(())
}

/// Writes the file, whole or not at all.
pub fn write(path: &Path, text: &str) -> Result<(), CliError> {
    Ok(write_atomically(path, |file| file.write_all(text.as_bytes()))?)
}
