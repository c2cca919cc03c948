//! All calls on files that a run depends on. Each goes through a [`Watcher`] if one is set, so that a test can count the calls,
//! make any of them fail, and determine what a crash would have lost.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A call on a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// A read of a file's contents.
    Read(&'a Path),
    /// A mapping of a file into memory.
    Map(&'a Path),
    /// A listing of a folder.
    List(&'a Path),
    /// The creation of a new file.
    Create(&'a Path),
    /// The opening of a file for appending.
    Append(&'a Path),
    /// A write of this many bytes to a file.
    Write(&'a Path, usize),
    /// A sync of a file's contents to the disk.
    Sync(&'a Path),
    /// A sync of a folder's entries to the disk.
    SyncFolder(&'a Path),
    /// A rename of a file or folder.
    Rename(&'a Path, &'a Path),
    /// The removal of a file or an empty folder.
    Remove(&'a Path),
    /// The removal of a folder and its contents.
    RemoveFolder(&'a Path),
    /// The creation of a folder.
    MakeFolder(&'a Path),
    /// A lock on a file.
    Lock(&'a Path),
}

/// An observer of all calls, which can execute a call or make it fail.
pub trait Watcher: Send + Sync {
    /// Runs in place of the call; `go` executes it.
    ///
    /// # Errors
    /// Returns the error of the call, or one injected by the watcher.
    fn around(&self, call: Call<'_>, go: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
}

static IS_WATCHED: AtomicBool = AtomicBool::new(false);
static WATCHER: RwLock<Option<Arc<dyn Watcher>>> = RwLock::new(None);

/// Sends all later calls of this process through `watcher`; `None` removes the watcher.
pub fn watch(watcher: Option<Arc<dyn Watcher>>) {
    IS_WATCHED.store(watcher.is_some(), Ordering::SeqCst);
    *WATCHER.write().unwrap_or_else(PoisonError::into_inner) = watcher;
}

fn watched<T>(call: Call<'_>, go: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if !IS_WATCHED.load(Ordering::Relaxed) {
        return go();
    }
    let Some(watcher) = WATCHER.read().unwrap_or_else(PoisonError::into_inner).clone() else { return go() };
    let (mut go, mut made) = (Some(go), None);
    watcher.around(call, &mut || {
        if let Some(go) = go.take() {
            made = Some(go()?);
        }
        Ok(())
    })?;
    made.ok_or_else(|| io::Error::other("a watcher let no call go, and gave no error"))
}

/// Reads a whole file. Only regular files are accepted: a pipe would block, and a device may have no end.
///
/// # Errors
/// Returns an error if the file cannot be read, or if it is a pipe, socket or device ([`io::ErrorKind::InvalidInput`]).
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    watched(Call::Read(path), || {
        let file = open(path)?;
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // Reading stops at the current length, since the file may grow during the read.
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

/// Reads a whole file as text.
///
/// # Errors
/// Returns an error in the cases of [`read`], or if the file is not UTF-8 ([`io::ErrorKind::InvalidData`]).
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("expected text in UTF-8, found invalid UTF-8 at byte {at}"))
    })
}

/// Opens a regular file for reading in parts.
///
/// # Errors
/// Returns an error in the cases of [`read`].
pub fn open_to_read(path: &Path) -> io::Result<File> {
    watched(Call::Read(path), || open(path))
}

fn open(path: &Path) -> io::Result<File> {
    is_plain(path)?;
    File::open(path)
}

fn is_plain(path: &Path) -> io::Result<()> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() {
        Ok(())
    } else if kind.is_dir() {
        Err(io::Error::new(io::ErrorKind::IsADirectory, "expected a plain file, found a directory"))
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a plain file, found a pipe, socket or device"))
    }
}

/// Maps a regular file with `map`.
///
/// # Errors
/// Returns an error in the cases of [`read`], or if `map` does.
pub fn map<M>(path: &Path, map: impl FnOnce(&Path) -> io::Result<M>) -> io::Result<M> {
    watched(Call::Map(path), || {
        is_plain(path)?;
        map(path)
    })
}

/// Returns the paths of the entries of a folder, sorted.
///
/// # Errors
/// Returns an error if the folder cannot be listed.
pub fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    watched(Call::List(path), || {
        let mut found = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        found.sort();
        Ok(found)
    })
}

/// A file opened for writing.
#[derive(Debug)]
pub struct Output {
    file: File,
    path: PathBuf,
}

impl Output {
    /// Creates a new file; its name must be unused, even by a link.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = watched(Call::Create(path), || File::options().write(true).create_new(true).open(path))?;
        Ok(Output { file, path: path.to_owned() })
    }

    /// Opens a file for appending, without following links.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or is not a regular file.
    pub fn append(path: &Path) -> io::Result<Self> {
        let file = watched(Call::Append(path), || {
            if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a plain file, found a link or a device"));
            }
            File::options().append(true).open(path)
        })?;
        Ok(Output { file, path: path.to_owned() })
    }

    /// Syncs the contents to the disk.
    ///
    /// # Errors
    /// Returns an error if the sync fails; the data may then be lost.
    pub fn sync(&self) -> io::Result<()> {
        watched(Call::Sync(&self.path), || self.file.sync_all())
    }

    /// Restricts the file to its owner (mode 600). Does nothing on systems without file modes.
    ///
    /// # Errors
    /// Returns an error if the mode cannot be changed.
    pub fn make_private(&self) -> io::Result<()> {
        #[cfg(unix)]
        self.file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(())
    }

    /// Locks the file until it is closed, to mark it as being written. Returns false if another process holds the lock.
    pub fn lock(&self) -> bool {
        !matches!(self.file.try_lock(), Err(fs::TryLockError::WouldBlock))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        watched(Call::Write(&self.path, bytes.len()), || self.file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Writes a new file without syncing it.
///
/// # Errors
/// Returns an error if the file cannot be created or written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Output::create(path)?.write_all(bytes)
}

/// Syncs a file or a folder that was written elsewhere.
///
/// # Errors
/// Returns an error if the sync fails.
pub fn sync(path: &Path) -> io::Result<()> {
    // Windows syncs only files opened for writing.
    watched(Call::Sync(path), || File::options().read(true).write(cfg!(windows)).open(path)?.sync_all())
}

/// Syncs the entries of a folder. Windows has no such call and needs none.
///
/// # Errors
/// Returns an error if the sync fails.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    watched(Call::SyncFolder(path), || if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) })
}

/// Renames a file or a folder, and replaces an existing file of the new name.
///
/// # Errors
/// Returns an error if the rename fails.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    watched(Call::Rename(from, to), || fs::rename(from, to))
}

/// Removes a file.
///
/// # Errors
/// Returns an error if the file cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    watched(Call::Remove(path), || fs::remove_file(path))
}

/// Removes a folder and its contents.
///
/// # Errors
/// Returns an error if the folder cannot be removed.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    watched(Call::RemoveFolder(path), || fs::remove_dir_all(path))
}

/// Removes an empty folder.
///
/// # Errors
/// Returns an error if the folder is not empty or cannot be removed.
pub fn remove_empty_folder(path: &Path) -> io::Result<()> {
    watched(Call::Remove(path), || fs::remove_dir(path))
}

/// Creates a folder, which must not exist.
///
/// # Errors
/// Returns an error if the folder cannot be created.
pub fn make_folder(path: &Path) -> io::Result<()> {
    watched(Call::MakeFolder(path), || fs::create_dir(path))
}

/// Creates a folder and its missing parents, and syncs each new entry. Existing folders are unchanged.
///
/// # Errors
/// Returns an error if a folder cannot be created.
pub fn make_folders(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let above = parent(path);
    make_folders(above)?;
    match make_folder(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(e) => Err(e),
        Ok(()) => sync_folder(above),
    }
}

/// Creates folders as [`make_folders`] does. If `path` itself is new, only its owner can access it.
///
/// # Errors
/// Returns an error if a folder cannot be created, or its mode cannot be changed.
pub fn make_private_folders(path: &Path) -> io::Result<()> {
    let is_new = !path.exists();
    make_folders(path)?;
    #[cfg(unix)]
    if is_new {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(path, mode)?;
    }
    Ok(())
}

/// Returns the octal mode of a file, such as `644`, if its group or others may read it; `None` if they may not or the mode is
/// unknown.
pub fn readable_by_others(path: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).ok()?.permissions()) & 0o777;
        (mode & 0o044 != 0).then(|| format!("{mode:o}"))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Returns the folder above `path`; `.` for a bare name.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a file, which is created if needed, and locks it for this process. Returns `None` if another process holds the lock.
/// Links are not followed.
///
/// # Errors
/// Returns an error if the file cannot be opened, or is not a regular file. On a file system without locks, locking always
/// succeeds.
pub fn lock(path: &Path) -> io::Result<Option<File>> {
    watched(Call::Lock(path), || {
        loop {
            if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
                let found = "expected a plain file or none, found a link, a folder, a pipe or a device";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, found));
            }
            let file = File::options().create(true).append(true).open(path)?;
            if matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)) {
                return Ok(None);
            }
            // The previous holder of the lock may have removed the file; this lock is then on a file without a name.
            if is_at(&file, path) {
                return Ok(Some(file));
            }
        }
    })
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |found: io::Result<fs::Metadata>| found.map(|found| (found.dev(), found.ino())).ok();
    id(file.metadata()) == id(fs::metadata(path))
}

/// Returns true: outside Unix, an open file cannot be removed.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
pub(crate) mod tests;
