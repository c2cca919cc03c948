//! Files and folders that are written atomically.
//!
//! A run may be killed, or its disk may become full, at any time; the previous contents must survive.
//!
//! ```text
//! one file    write .NAME.tmp-PID-N │ fsync │ rename over NAME │ fsync the folder     a .tmp file is locked while it is written
//!
//! a folder    write .NAME.tmp-PID/, fsync all          crash: NAME is the old one
//!             rename NAME → .NAME.old                  crash: .NAME.old is the old one, complete: recovered on load
//!             rename .NAME.tmp-PID → NAME              crash: NAME is the new one, .NAME.old a leftover
//!             rename .NAME.old → .NAME.tmp-PID         so that a half-removed folder is never named .NAME.old
//!             remove .NAME.tmp-PID                     crash: NAME is the new one
//! ```
//!
//! `rename` replaces a file in one step, but not a folder with files. Hence the step through `.NAME.old`, and
//! [`resolve_directory`] for readers. A writer first recovers what a crash left behind.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::disk::{self, Output, parent};

/// A failed file operation: the action, the path, the cause and a remedy.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {cause}; {}", path.display(), remedy(action, path, cause))]
pub struct FileError {
    /// The action, as words after "cannot": `write`, `read`, …
    pub action: &'static str,
    /// The file or folder concerned.
    pub path: PathBuf,
    /// The error of the operating system.
    pub cause: io::Error,
}

/// The action in an error about a file whose contents differ from what was written.
const TRUST: &str = "trust";

impl FileError {
    /// Creates an error of `action` (words after "cannot") on `path`.
    pub fn new(action: &'static str, path: &Path, cause: io::Error) -> Self {
        Self { action, path: path.to_path_buf(), cause }
    }

    /// Creates an error about a file whose contents differ from what was written.
    pub fn damaged(path: &Path, problem: String) -> Self {
        Self::new(TRUST, path, io::Error::new(io::ErrorKind::InvalidData, problem))
    }
}

/// Returns the remedy in the error message.
fn remedy(action: &str, path: &Path, cause: &io::Error) -> Cow<'static, str> {
    use io::ErrorKind as Kind;
    if action == TRUST && cause.kind() == Kind::InvalidData {
        let holds_sums = |folder: &&Path| path.ends_with(SUMS) || folder.join(SUMS).exists();
        let folder = path.ancestors().skip(1).find(holds_sums).filter(|found| !found.as_os_str().is_empty());
        let accept = format!("gradus verify {} --accept", quoted(folder.unwrap_or(parent(path))));
        return format!("put back a copy of it, or accept the file as it is: `{accept}`").into();
    }
    let words = match cause.kind() {
        Kind::FileTooLarge => {
            "raise the bound on a file's size (`ulimit -f unlimited`), or name a folder on a file system that takes larger files"
        }
        Kind::StorageFull | Kind::QuotaExceeded => {
            "free some space there, or name a folder on another disk; existing files are unchanged"
        }
        Kind::InvalidData => "it is damaged or of another format: put back a copy of it",
        Kind::OutOfMemory => "close other programs, or use a machine with more memory",
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem if action == "make the cache" => {
            "name a folder of your own with --cache"
        }
        Kind::PermissionDenied if matches!(action, "read" | "list") => "check its read permission",
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => {
            "check the write permission, or name another folder; existing files are unchanged"
        }
        Kind::ResourceBusy => "another gradus process is using the folder: wait until it ends, or name another folder",
        Kind::NotFound => "check the spelling of the path, and that the folders above it exist",
        Kind::IsADirectory => "a folder has that name: name a file, or move the folder away",
        Kind::NotADirectory => "a file has that name where a folder is needed: name another path, or move the file away",
        Kind::AlreadyExists => "a file has that name: name another path, or move the file away",
        // An `InvalidInput` of this program states what was expected; one of the system is about the name.
        Kind::InvalidInput if cause.get_ref().is_some() => "replace the existing file or folder by it, or name another path",
        Kind::InvalidInput => "name a path whose last part is a plain name",
        _ => "check the path and its disk",
    };
    words.into()
}

/// Quotes a word of a command line if a shell would interpret it.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Serialises a value as indented JSON, with a line end.
///
/// # Panics
/// Panics if JSON cannot represent the value, such as a path that is not Unicode.
pub fn json_text(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("a value that JSON can hold");
    text.push(b'\n');
    text
}

/// Writes a value as indented JSON, atomically.
///
/// # Errors
/// Returns an error in the cases of [`write_atomically`], or if JSON cannot represent the value, such as a path that is not
/// Unicode.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), FileError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|e| FileError::new("write", path, io::Error::other(e)))?;
    text.push(b'\n');
    write_atomically(path, |file| file.write_all(&text))
}

/// Writes the file at `path` atomically: `write` fills a temporary file in the same folder, which is then renamed.
///
/// # Errors
/// Returns an error if a step fails. The temporary file is then removed, and the old file, if any, is unchanged.
pub fn write_atomically(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), FileError> {
    replace_file(path, |file| write(file).map_err(|cause| FileError::new("write", path, cause)))
}

/// Writes a file as [`write_atomically`] does, for a writer that seeks or has another error type.
pub fn replace_file<E: From<FileError>>(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<Output>) -> Result<(), E>,
) -> Result<(), E> {
    written(path, fill)?.take_name(path)?;
    Ok(sync_folder(parent(path))?)
}

/// Writes and syncs a temporary file in the folder of `path`.
pub(crate) fn written<E: From<FileError>>(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<Output>) -> Result<(), E>,
) -> Result<Temporary, E> {
    let error = |cause| FileError::new("write", path, cause);
    sibling(path, "")?;
    // Renaming to the name of a device or a pipe would replace it by a file.
    match path.metadata().map(|found| found.file_type()) {
        Ok(kind) if kind.is_dir() => return Err(error(io::ErrorKind::IsADirectory.into()).into()),
        Ok(kind) if !kind.is_file() => {
            let found = "expected a plain file there, or none; found a device, pipe or socket";
            return Err(error(io::Error::new(io::ErrorKind::InvalidInput, found)).into());
        }
        _ => {}
    }
    let (file, temporary) = create_beside(path)?;
    file.lock();
    let mut out = BufWriter::with_capacity(1 << 18, file);
    fill(&mut out)?;
    let file = out.into_inner().map_err(|e| error(e.into_error()))?;
    file.sync().map_err(error)?;
    Ok(temporary)
}

/// Creates a temporary file in the folder of `path`, under an unused name.
fn create_beside(path: &Path) -> Result<(Output, Temporary), FileError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let name = sibling(path, &format!("{UNFINISHED}{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))?;
        match Output::create(&name) {
            Ok(file) => return Ok((file, Temporary(name))),
            // A killed process with the same process id left this file.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(FileError::new("write", path, cause)),
        }
    }
}

/// The beginning of the suffix of all unfinished files and folders.
const UNFINISHED: &str = "tmp-";

/// Returns whether this is the temporary name of an unfinished file or folder; with `of`, of the one to be renamed to `of`.
pub(crate) fn is_unfinished(path: &Path, of: Option<&OsStr>) -> bool {
    let Some(name) = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix('.')) else { return false };
    let Some((name, number)) = name.rsplit_once(&format!(".{UNFINISHED}")) else { return false };
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    is_number && of.is_none_or(|of| of == name)
}

/// Removes the unfinished files and folders of killed writers in a folder, or only those of one name. Files that another process
/// is writing are kept.
pub fn remove_unfinished(folder: &Path, of: Option<&OsStr>) -> Result<(), FileError> {
    let Ok(found) = disk::list(folder) else { return Ok(()) }; // the folder is missing or cannot be read
    for path in found.into_iter().filter(|path| is_unfinished(path, of)) {
        let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let is_held = || Output::append(&path).is_ok_and(|file| !file.lock());
        if is_folder {
            disk::remove_folder(&path).map_err(|cause| FileError::new("remove", &path, cause))?;
        } else if path.is_symlink() || !is_held() {
            disk::remove(&path).map_err(|cause| FileError::new("remove", &path, cause))?;
        }
    }
    Ok(())
}

/// Returns an entry of the folder at `path`, or the folder if it cannot be listed. Returns `None` if it is missing, or empty
/// except for unfinished files of killed writers.
pub fn occupant(path: &Path) -> Option<PathBuf> {
    match disk::list(path) {
        Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
        Err(_) => Some(path.to_owned()),
        Ok(entries) => entries.into_iter().find(|found| found.file_name() != Some(LOCK.as_ref()) && !is_unfinished(found, None)),
    }
}

/// The name of the file with a folder's checksums.
pub(crate) const SUMS: &str = "checksums.json";
/// The name of the file that locks a folder for one process.
pub(crate) const LOCK: &str = ".gradus.lock";

/// A lock on a folder for one process. The operating system releases it when the process ends, even by a crash.
#[derive(Debug)]
pub struct Lock {
    folder: PathBuf,
    /// Whether the folder was created here; it is then removed if it stays empty.
    made: bool,
    _file: File,
}

impl Lock {
    /// Creates the folder if needed, and locks it. Returns an error if another process holds the lock.
    pub fn take(folder: &Path) -> Result<Self, FileError> {
        let error = |action| move |cause| FileError::new(action, folder, cause);
        let made = !folder.exists();
        disk::make_folders(folder).map_err(error("make the directory"))?;
        let file = disk::lock(&folder.join(LOCK)).map_err(|cause| FileError::new("lock", &folder.join(LOCK), cause))?;
        let file = file.ok_or_else(|| error("work in")(io::ErrorKind::ResourceBusy.into()))?;
        Ok(Lock { folder: folder.to_owned(), made, _file: file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = disk::remove(&self.folder.join(LOCK));
        if self.made {
            let _ = disk::remove_empty_folder(&self.folder); // fails if the folder is not empty
        }
    }
}

/// Creates a folder within a folder that this process has locked. A link is rejected.
///
/// # Errors
/// Returns an error if the folder is a link or cannot be created.
pub fn make_own_folder(path: &Path) -> Result<(), FileError> {
    let error = |cause| FileError::new("make the directory", path, cause);
    if path.is_symlink() {
        return Err(error(io::Error::new(io::ErrorKind::InvalidInput, "expected a directory of the run's own, found a link")));
    }
    disk::make_folders(path).map_err(error)
}

/// Replaces the folder at `path`, and **everything in it**, by what `fill` writes into a new folder. At any time, either the old
/// or the new folder is complete on the disk (see the [module](self)). Only one process may write a folder; any number may read
/// it.
///
/// # Errors
/// Returns an error if a step fails, including `fill`. The new folder is then removed, and the old one is unchanged.
pub fn replace_directory<E: From<FileError>>(path: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    replace_observed(path, fill, &mut || ())
}

/// Replaces a folder as [`replace_directory`] does, and calls `at` at each point where a crash would leave a new state of the
/// disk.
fn replace_observed<E: From<FileError>>(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
    at: &mut dyn FnMut(),
) -> Result<(), E> {
    let (fresh, old) = (sibling(path, &format!("{UNFINISHED}{}", process::id()))?, sibling(path, "old")?);
    let above = parent(path);
    let error = |action: &'static str| move |cause| FileError::new(action, path, cause);

    disk::make_folders(above).map_err(|cause| FileError::new("create", above, cause))?;
    recover_directory(path)?;
    if path.exists() && !path.is_dir() {
        return Err(FileError::new("write", path, io::ErrorKind::NotADirectory.into()).into());
    }
    disk::make_folder(&fresh).map_err(error("create a fresh folder beside"))?;
    let temporary = Temporary(fresh);
    fill(&temporary.0)?;
    sync_tree(&temporary.0)?;
    at();
    let replaces = path.exists();
    if replaces {
        disk::rename(path, &old).map_err(error("set aside"))?;
        at();
    }
    if let Err(cause) = disk::rename(&temporary.0, path) {
        if replaces {
            disk::rename(&old, path).map_err(error("put back"))?;
        }
        return Err(FileError::new("put in place", path, cause).into());
    }
    sync_folder(above)?;
    at();
    // The new folder is in place. The old one is harmless, so its removal may fail; the next call tries again.
    if replaces && disk::rename(&old, &temporary.0).is_ok() {
        at();
    }
    drop(temporary);
    Ok(())
}

/// Returns the folder with the contents of `path`, which must end in a name: `path` or, after a crash between two renames,
/// `.NAME.old`. Changes nothing on the disk, so readers can call it while another process writes.
pub fn resolve_directory(path: &Path) -> Result<PathBuf, FileError> {
    let old = sibling(path, "old")?;
    Ok(if !path.exists() && old.exists() { old } else { path.to_path_buf() })
}

/// Renames a folder that a crash left as `.NAME.old` to `path`, and removes unfinished files and folders. Returns whether it
/// renamed a folder. Only for the process that writes `path`; readers use [`resolve_directory`].
///
/// # Errors
/// Returns an error if a rename or removal fails.
pub fn recover_directory(path: &Path) -> Result<bool, FileError> {
    let (old, above) = (sibling(path, "old")?, parent(path));
    let restored = !path.exists() && old.exists();
    if restored {
        disk::rename(&old, path).map_err(|cause| FileError::new("put back", path, cause))?;
        sync_folder(above)?;
    } else if old.is_symlink() {
        disk::remove(&old).map_err(|cause| FileError::new("remove", &old, cause))?;
    } else if old.exists() {
        disk::remove_folder(&old).map_err(|cause| FileError::new("remove", &old, cause))?;
    }
    remove_unfinished(above, path.file_name())?;
    Ok(restored)
}

/// Returns `.NAME.suffix` in the folder of `path`: hidden, and on the same disk, so that a rename suffices.
fn sibling(path: &Path, suffix: &str) -> Result<PathBuf, FileError> {
    let name = path.file_name().ok_or_else(|| FileError::new("write", path, io::ErrorKind::InvalidInput.into()))?;
    Ok(path.with_file_name([OsStr::new(""), name, OsStr::new(suffix)].join(OsStr::new("."))))
}

/// Syncs every file and folder under `path` to the disk.
fn sync_tree(path: &Path) -> Result<(), FileError> {
    for entry in disk::list(path).map_err(|cause| FileError::new("sync", path, cause))? {
        if entry.is_dir() {
            sync_tree(&entry)?;
        } else {
            disk::sync(&entry).map_err(|cause| FileError::new("sync", &entry, cause))?;
        }
    }
    sync_folder(path)
}

/// Syncs the entries of a folder to the disk.
pub(crate) fn sync_folder(path: &Path) -> Result<(), FileError> {
    disk::sync_folder(path).map_err(|cause| FileError::new("sync", path, cause))
}

/// A file or folder that is removed on drop, unless it was renamed.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    pub(crate) fn take_name(self, path: &Path) -> Result<(), FileError> {
        disk::rename(&self.0, path).map_err(|cause| FileError::new("replace", path, cause))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // The error of a removal is ignored: another error is already being returned.
        if self.0.is_dir() {
            let _ = disk::remove_folder(&self.0);
        } else if self.0.exists() {
            let _ = disk::remove(&self.0);
        }
    }
}

#[cfg(test)]
mod tests;
