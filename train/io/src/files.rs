//! Files that are written whole or not at all.
//!
//! A run may be killed, or its disk fill up, at any instant; what was on the disk before must survive.
//!
//! ```text
//! one file    write .NAME.tmp-PID-N │ fsync │ rename over NAME │ fsync the folder
//!
//! a folder    write .NAME.tmp-PID/, fsync all          crash: NAME is the old one
//!             rename NAME → .NAME.old                  crash: .NAME.old is the old one, complete: recovered on load
//!             rename .NAME.tmp-PID → NAME              crash: NAME is the new one, .NAME.old a leftover
//!             rename .NAME.old → .NAME.tmp-PID         so that a half-removed folder is never named .NAME.old
//!             remove .NAME.tmp-PID                     crash: NAME is the new one
//! ```
//!
//! `rename` replaces a file in one step, but not a folder that holds files; hence the detour by `.NAME.old`, and
//! [`resolve_directory`] for readers; a writer first puts back what a crash left.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// A file operation that failed: what was being done, to which path, why, and what would help.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {cause}; {}", path.display(), remedy(action, cause))]
pub struct FileError {
    /// What was being done, as words after "cannot": `write`, `read`, …
    pub action: &'static str,
    /// The file or folder concerned.
    pub path: PathBuf,
    /// What the operating system answered.
    pub cause: io::Error,
}

impl FileError {
    /// An error of `action` (words after "cannot") on `path`.
    pub fn new(action: &'static str, path: &Path, cause: io::Error) -> Self {
        Self { action, path: path.to_path_buf(), cause }
    }
}

/// What a reader of the error can do about it.
fn remedy(action: &str, cause: &io::Error) -> &'static str {
    use io::ErrorKind as Kind;
    match cause.kind() {
        Kind::StorageFull | Kind::QuotaExceeded => {
            "free some space there, or name a folder on another disk; what was there before is untouched"
        }
        Kind::PermissionDenied if matches!(action, "read" | "list") => "check who may read it",
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => {
            "check who may write there, or name a folder of your own; what was there before is untouched"
        }
        Kind::ResourceBusy => "another gradus is working there: wait until it ends, or name another folder",
        Kind::NotFound => "check the spelling of the path, and that the folders above it exist",
        Kind::IsADirectory => "a folder has that name: name a file",
        Kind::NotADirectory => "a file has that name where a folder is needed: name another path, or move the file away",
        Kind::AlreadyExists => "a file has that name: name another path, or move the file away",
        Kind::InvalidInput => "name a path whose last part is a plain name",
        _ => "check the path and its disk",
    }
}

/// A word of a command line, in quotes where a shell would take it for something else.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Writes a value as readable JSON, whole or not at all.
///
/// # Errors
/// Those of [`write_atomically`], and a value that JSON cannot hold: a path that is not Unicode.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), FileError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|e| FileError::new("write", path, io::Error::other(e)))?;
    text.push(b'\n');
    write_atomically(path, |file| file.write_all(&text))
}

/// Writes the file at `path` whole or not at all: `write` fills a temporary file beside it, which then takes its name.
///
/// # Errors
/// Whatever step fails, the temporary file is removed and the old file, if any, is untouched.
pub fn write_atomically(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), FileError> {
    replace_file(path, |file| write(file).map_err(|cause| FileError::new("write", path, cause)))
}

/// [`write_atomically`] for a writer that seeks or has errors of its own.
pub fn replace_file<E: From<FileError>>(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>) -> Result<(), E> {
    written(path, fill)?.take_name(path)?;
    Ok(sync_directory(parent(path))?)
}

/// Writes files that belong together, such as a backbone and its head: all are on the disk before the first takes its name.
///
/// # Errors
/// As for [`write_atomically`]: if a file cannot be written, none has taken its name.
pub fn write_together(folder: &Path, files: &[(&'static str, Vec<u8>)]) -> Result<(), FileError> {
    let mut fresh = Vec::new();
    for (name, bytes) in files {
        let path = folder.join(name);
        let write = |file: &mut BufWriter<File>| file.write_all(bytes).map_err(|cause| FileError::new("write", &path, cause));
        fresh.push((written(&path, write)?, path));
    }
    fresh.into_iter().try_for_each(|(temporary, path)| temporary.take_name(&path))?;
    sync_directory(folder)
}

/// A temporary file beside `path`, filled and synced.
fn written<E: From<FileError>>(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>) -> Result<Temporary, E> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let suffix = format!("tmp-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let temporary = Temporary(sibling(path, &suffix)?);
    let error = |cause| FileError::new("write", path, cause);
    if path.is_dir() {
        return Err(error(io::ErrorKind::IsADirectory.into()).into());
    }
    let mut out = BufWriter::with_capacity(1 << 18, File::create(&temporary.0).map_err(error)?);
    fill(&mut out)?;
    let file = out.into_inner().map_err(|e| error(e.into_error()))?;
    file.sync_all().map_err(error)?;
    Ok(temporary)
}

/// Something in the folder at `path`, or the folder itself if it cannot be listed; `None` if it is missing or empty.
pub fn occupant(path: &Path) -> Option<PathBuf> {
    match fs::read_dir(path) {
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => Some(path.to_owned()),
        Err(_) => None,
        Ok(entries) => entries.flatten().map(|entry| entry.path()).find(|found| found.file_name() != Some(LOCK.as_ref())),
    }
}

/// The file that locks a folder for one process.
const LOCK: &str = ".gradus.lock";

/// A folder that one process works in. It is released at the end, even by a crash: the lock is the operating system's.
#[derive(Debug)]
pub struct Lock {
    folder: PathBuf,
    /// The folder was created here: it is removed again if it stays empty.
    made: bool,
    _file: File,
}

impl Lock {
    /// Creates the folder if needed, and takes it; an error if another process has it.
    pub fn take(folder: &Path) -> Result<Self, FileError> {
        let error = |action| move |cause| FileError::new(action, folder, cause);
        let made = !folder.exists();
        fs::create_dir_all(folder).map_err(error("make the directory"))?;
        let file = File::options().create(true).append(true).open(folder.join(LOCK)).map_err(error("work in"))?;
        match file.try_lock() {
            Err(fs::TryLockError::WouldBlock) => Err(FileError::new("work in", folder, io::ErrorKind::ResourceBusy.into())),
            // A file system without locks has none to respect.
            Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(Lock { folder: folder.to_owned(), made, _file: file }),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.join(LOCK));
        if self.made {
            let _ = fs::remove_dir(&self.folder); // refused where there is anything in it
        }
    }
}

/// Replaces the folder at `path`, and **everything in it**, by what `fill` writes into the fresh folder it is given.
/// At every instant either the old or the new folder is complete on the disk (see the [module](self)).
/// One process writes one folder; many may read it.
///
/// # Errors
/// Whatever step fails, `fill` included, the fresh folder is removed and the old one is untouched.
pub fn replace_directory<E: From<FileError>>(path: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    replace_observed(path, fill, &mut || ())
}

/// [`replace_directory`], calling `at` wherever a crash would leave a new state of the disk.
fn replace_observed<E: From<FileError>>(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
    at: &mut dyn FnMut(),
) -> Result<(), E> {
    let (fresh, old) = (sibling(path, &format!("tmp-{}", process::id()))?, sibling(path, "old")?);
    let above = parent(path);
    let error = |action: &'static str| move |cause| FileError::new(action, path, cause);

    fs::create_dir_all(above).map_err(|cause| FileError::new("create", above, cause))?;
    recover_directory(path)?;
    if path.exists() && !path.is_dir() {
        return Err(FileError::new("write", path, io::ErrorKind::NotADirectory.into()).into());
    }
    fs::create_dir(&fresh).map_err(error("create a fresh folder beside"))?;
    let temporary = Temporary(fresh);
    fill(&temporary.0)?;
    sync_tree(&temporary.0)?;
    at();
    let replaces = path.exists();
    if replaces {
        fs::rename(path, &old).map_err(error("set aside"))?;
        at();
    }
    if let Err(cause) = fs::rename(&temporary.0, path) {
        if replaces {
            fs::rename(&old, path).map_err(error("put back"))?;
        }
        return Err(FileError::new("put in place", path, cause).into());
    }
    sync_directory(above)?;
    at();
    // The new folder is in place. A leftover does no harm, so its removal may fail; the next call tries again.
    if replaces && fs::rename(&old, &temporary.0).is_ok() {
        at();
    }
    drop(temporary);
    Ok(())
}

/// The folder that holds the contents of `path`, which must end in a name: `path` itself or, after a crash between two renames,
/// `.NAME.old`. Changes nothing on the disk, so it suits a reader while another process writes.
pub fn resolve_directory(path: &Path) -> Result<PathBuf, FileError> {
    let old = sibling(path, "old")?;
    Ok(if !path.exists() && old.exists() { old } else { path.to_path_buf() })
}

/// Puts a folder that a crash left as `.NAME.old` back as `path` and removes unfinished leftovers; true if it put one
/// back. Only for the process that writes `path`; readers use [`resolve_directory`].
fn recover_directory(path: &Path) -> Result<bool, FileError> {
    let (old, above) = (sibling(path, "old")?, parent(path));
    let restored = !path.exists() && old.exists();
    if restored {
        fs::rename(&old, path).map_err(|cause| FileError::new("put back", path, cause))?;
        sync_directory(above)?;
    } else if old.exists() {
        fs::remove_dir_all(&old).map_err(|cause| FileError::new("remove", &old, cause))?;
    }
    let Ok(entries) = fs::read_dir(above) else { return Ok(restored) };
    let unfinished = format!(".{}.tmp-", path.file_name().unwrap_or_default().to_string_lossy());
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&unfinished) && entry.path().is_dir() {
            fs::remove_dir_all(entry.path()).map_err(|cause| FileError::new("remove", &entry.path(), cause))?;
        }
    }
    Ok(restored)
}

/// The folder above `path`; `.` for a bare name.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// `.NAME.suffix` beside `path`: on the same disk, so that a rename suffices, and hidden.
fn sibling(path: &Path, suffix: &str) -> Result<PathBuf, FileError> {
    let name = path.file_name().ok_or_else(|| FileError::new("write", path, io::ErrorKind::InvalidInput.into()))?;
    Ok(path.with_file_name([OsStr::new(""), name, OsStr::new(suffix)].join(OsStr::new("."))))
}

/// Syncs every file and folder under `path` to the disk.
fn sync_tree(path: &Path) -> Result<(), FileError> {
    let error = |cause| FileError::new("sync", path, cause);
    for entry in fs::read_dir(path).map_err(error)? {
        let entry = entry.map_err(error)?.path();
        if entry.is_dir() {
            sync_tree(&entry)?;
        } else {
            // Windows syncs only files opened for writing.
            let file = File::options().read(true).write(cfg!(windows)).open(&entry).map_err(error)?;
            file.sync_all().map_err(|cause| FileError::new("sync", &entry, cause))?;
        }
    }
    sync_directory(path)
}

/// Syncs the names in a folder to the disk. Windows has no such call and needs none.
fn sync_directory(path: &Path) -> Result<(), FileError> {
    if cfg!(unix) {
        let sync = File::open(path).and_then(|folder| folder.sync_all());
        sync.map_err(|cause| FileError::new("sync", path, cause))?;
    }
    Ok(())
}

/// A file or folder that is removed when this goes out of scope, unless it has another name by then.
struct Temporary(PathBuf);

impl Temporary {
    fn take_name(self, path: &Path) -> Result<(), FileError> {
        fs::rename(&self.0, path).map_err(|cause| FileError::new("replace", path, cause))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // If it cannot be removed there is nobody left to tell: the error that brought us here is on its way.
        let _ = if self.0.is_dir() { fs::remove_dir_all(&self.0) } else { fs::remove_file(&self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that cannot be written, in a folder that is not there, leaves those before it as they were.
    #[test]
    fn files_that_belong_together_are_written_together() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
        write_together(folder.path(), &[("a", b"1".to_vec()), ("b", b"2".to_vec())]).unwrap();
        assert_eq!((read("a"), read("b")), (b"1".to_vec(), b"2".to_vec()));
        let error = write_together(folder.path(), &[("a", b"3".to_vec()), ("none/b", b"4".to_vec())]).unwrap_err();
        assert_eq!((error.action, error.cause.kind()), ("write", io::ErrorKind::NotFound), "{error}");
        assert!(error.path.starts_with(folder.path().join("none")), "{error}");
        assert_eq!(read("a"), b"1");
        assert_eq!(names(folder.path()), ["a", "b"], "and nothing is left beside them");
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn copy_tree(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap().path();
            let target = to.join(entry.file_name().unwrap());
            if entry.is_dir() { copy_tree(&entry, &target) } else { fs::copy(&entry, &target).map(|_| ()).unwrap() }
        }
    }

    const FILES: [&str; 3] = ["config.json", "model.safetensors", "trainer.bin"];

    /// A checkpoint of three files that all say the same.
    fn save(folder: &Path, content: &str) -> Result<(), FileError> {
        for file in FILES {
            write_atomically(&folder.join(file), |out| out.write_all(content.as_bytes()))?;
        }
        Ok(())
    }

    /// What a complete checkpoint says; panics on one that is incomplete or mixed.
    fn load(folder: &Path) -> String {
        let contents = FILES.map(|file| fs::read_to_string(folder.join(file)).unwrap());
        assert!(contents.iter().all(|content| *content == contents[0]), "mixed checkpoint: {contents:?}");
        contents[0].clone()
    }

    #[test]
    fn a_file_is_replaced_whole_and_a_full_disk_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        for content in ["first", "second, which is longer", "old"] {
            write_atomically(&path, |out| out.write_all(content.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        let error = write_atomically(&path, |out| {
            out.write_all(&vec![1; 1 << 20])?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(folder.path()), ["model.safetensors"]);
        let message = error.to_string();
        assert!(message.starts_with(&format!("cannot write {}: ", path.display())), "{message}");
        assert!(message.contains("; free some space there"), "{message}");
    }

    #[test]
    fn errors_name_the_path_and_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| write_atomically(path, |out| out.write_all(b"x")).unwrap_err().to_string();
        let told = |path: &Path, remedy: &str| {
            let message = message(path);
            assert!(message.starts_with(&format!("cannot write {}: ", path.display())) && message.contains(remedy), "{message}");
        };
        told(&folder.path().join("no/such/file"), "folders above it exist");
        told(folder.path(), "name a file");
        told(Path::new(".."), "plain name");

        let file = folder.path().join("plain");
        fs::write(&file, "mine").unwrap();
        let error = replace_directory(&file, |fresh| save(fresh, "new")).unwrap_err().to_string();
        assert!(error.contains("where a folder is needed"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    }

    #[test]
    fn a_directory_is_replaced_with_all_that_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs/best");
        replace_directory(&path, |fresh| save(fresh, "first")).unwrap();
        fs::write(path.join("vocab.json"), "of the first").unwrap();
        replace_directory(&path, |fresh| save(fresh, "second")).unwrap();
        assert_eq!(load(&path), "second");
        assert_eq!(names(&path), FILES);
        assert_eq!(names(path.parent().unwrap()), ["best"]);
    }

    #[test]
    fn a_failing_save_leaves_the_old_directory_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("last");
        replace_directory(&path, |fresh| save(fresh, "old")).unwrap();
        let error = replace_directory(&path, |fresh| {
            fs::write(fresh.join(FILES[0]), "new").unwrap();
            Err(FileError::new("write", fresh, io::ErrorKind::StorageFull.into()))
        })
        .unwrap_err();
        assert!(error.to_string().contains("free some space"));
        assert_eq!(load(&path), "old");
        assert_eq!(names(folder.path()), ["last"]);
    }

    /// The disk is copied at each instant at which a crash would leave a new state; from every copy a reader and a
    /// writer must find a complete checkpoint, and the next save must work and leave nothing behind.
    #[test]
    fn every_crash_leaves_a_complete_checkpoint() {
        for replaces in [false, true] {
            let (disk, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let path = disk.path().join("last");
            if replaces {
                replace_directory(&path, |fresh| save(fresh, "old")).unwrap();
            }
            let taken = std::cell::Cell::new(0);
            let copy = || {
                copy_tree(disk.path(), &copies.path().join(taken.get().to_string()));
                taken.set(taken.get() + 1);
            };
            let fill = |fresh: &Path| -> Result<(), FileError> {
                copy();
                for file in FILES {
                    fs::write(fresh.join(file), "new").unwrap();
                    copy();
                }
                Ok(())
            };
            replace_observed(&path, fill, &mut || copy()).unwrap();
            copy();

            let (mut seen, mut restored) = (Vec::new(), 0);
            for crash in 0..taken.get() {
                let path = copies.path().join(crash.to_string()).join("last");
                let found = resolve_directory(&path).unwrap();
                let reader = found.exists().then(|| load(&found));
                restored += usize::from(recover_directory(&path).unwrap());
                assert_eq!(path.exists().then(|| load(&path)), reader, "crash {crash}");
                seen.push(reader.unwrap_or_else(|| "none".into()));
                replace_directory(&path, |fresh| save(fresh, "next")).unwrap();
                assert_eq!(load(&path), "next");
                assert_eq!(names(path.parent().unwrap()), ["last"], "crash {crash}");
            }
            // Before: the old one (or none); from one instant on: the new one.
            let before = if replaces { "old" } else { "none" };
            let turn = seen.iter().position(|content| content == "new").unwrap();
            assert!(seen[..turn].iter().all(|content| content == before), "{seen:?}");
            assert!(seen[turn..].iter().all(|content| content == "new"), "{seen:?}");
            assert_eq!(restored, usize::from(replaces), "the instant between the renames is among the copies");
        }
    }
}
