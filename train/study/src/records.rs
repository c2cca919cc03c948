//! The results of stages, in files with checksums.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use gradus_io::checksums::{self, Lost};
use gradus_io::disk;
use gradus_io::files::{FileError, json_text};
use gradus_io::progress::Monitor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StudyError;

/// Reads a result. A file that cannot be read is an error; its stage is not run again.
///
/// # Errors
/// Returns an error if the file is missing, damaged or changed.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<R, StudyError> {
    let damaged = |problem: String| StudyError::Damaged { path: path.to_owned(), problem };
    let (folder, name) = place(path);
    let blame = |e: FileError| if e.is_of_sums() { e.into() } else { damaged(e.cause.to_string()) };
    let text = checksums::read(folder, name).map_err(blame)?;
    let result = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
    checksums::check_listed(folder, name)?;
    Ok(result)
}

/// Writes a result and its checksum.
///
/// # Errors
/// Returns an error if a folder or file cannot be written.
pub fn write(path: &Path, result: &impl Serialize) -> Result<(), StudyError> {
    let (folder, name) = place(path);
    disk::make_folders(folder).map_err(|e| FileError::new("make the directory", folder, e))?;
    Ok(checksums::write(folder, &[(name, json_text(result))])?)
}

/// Lists the subfolders of a study in its checksums, so that they must exist from now on, and warns of missing ones. While one of
/// a seed's `results` is missing, the seed's subfolders are in progress.
///
/// # Errors
/// Returns an error if a listed subfolder is a link or has another digest.
pub fn list_folders(out: &Path, results: impl Iterator<Item = PathBuf>, monitor: &dyn Monitor) -> Result<(), StudyError> {
    let first_part = |path: &Path| path.iter().next().map(OsStr::to_owned);
    let missing = results.filter(|result| !result.exists());
    let in_progress: BTreeSet<_> = missing.filter_map(|path| first_part(path.strip_prefix(out).ok()?)).collect();
    let is_finished = |name: &str| first_part(Path::new(name)).is_none_or(|part| !in_progress.contains(&part));
    for Lost(folder) in checksums::relist(out, is_finished)? {
        monitor.warn(&format!("warning: {} is missing, though it was written", folder.display()));
    }
    Ok(())
}

/// Returns the folder of a result, and its file name.
fn place(path: &Path) -> (&Path, &str) {
    (disk::parent(path), path.file_name().and_then(OsStr::to_str).expect("the name of a stage"))
}
