//! Every call on files that a run depends on, in one place. Around each stands a [`Watcher`], so that a test can count the calls,
//! make any one of them fail, and know what a crash would have lost.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A call on a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// A file's contents are read.
    Read(&'a Path),
    /// A file is mapped into memory.
    Map(&'a Path),
    /// A folder is listed.
    List(&'a Path),
    /// A new file is made.
    Create(&'a Path),
    /// A file is opened to be appended to.
    Append(&'a Path),
    /// So many bytes are written to a file, at its end.
    Write(&'a Path, usize),
    /// A file's contents are brought to the disk.
    Sync(&'a Path),
    /// A folder's names are brought to the disk.
    SyncFolder(&'a Path),
    /// A file or folder takes another name.
    Rename(&'a Path, &'a Path),
    /// A file is removed.
    Remove(&'a Path),
    /// A folder is removed, with all that is in it.
    RemoveFolder(&'a Path),
    /// A folder is made.
    MakeFolder(&'a Path),
    /// A file is locked.
    Lock(&'a Path),
}

/// Stands around each call: it may let it `go`, fail in its place, or do either and take note.
pub trait Watcher: Send + Sync {
    /// In place of the call.
    ///
    /// # Errors
    /// The call's own, or one that the watcher invents.
    fn around(&self, call: Call<'_>, go: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
}

static IS_WATCHED: AtomicBool = AtomicBool::new(false);
static WATCHER: RwLock<Option<Arc<dyn Watcher>>> = RwLock::new(None);

/// All calls of this process go through `watcher` from now on; `None`: through nobody.
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

/// Reads a whole file. What is no plain file is refused: a pipe would keep its reader waiting, a device may never end.
///
/// # Errors
/// Those of the system, and [`io::ErrorKind::InvalidInput`] for a pipe, socket or device.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    watched(Call::Read(path), || {
        let file = open(path)?;
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // Not beyond the length that it has now: a file that grows as it is read has no end either.
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

/// The same as text.
///
/// # Errors
/// As of [`read`], and [`io::ErrorKind::InvalidData`] for what is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("expected text in UTF-8, found something else at byte {at}"))
    })
}

/// Opens a plain file to be read in parts.
///
/// # Errors
/// As of [`read`].
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

/// Lets a plain file be mapped by `map`.
///
/// # Errors
/// As of [`read`], and those of `map`.
pub fn map<M>(path: &Path, map: impl FnOnce(&Path) -> io::Result<M>) -> io::Result<M> {
    watched(Call::Map(path), || {
        is_plain(path)?;
        map(path)
    })
}

/// What a folder holds, sorted.
///
/// # Errors
/// Those of the system.
pub fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    watched(Call::List(path), || {
        let mut found = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        found.sort();
        Ok(found)
    })
}

/// A file that is written.
#[derive(Debug)]
pub struct Output {
    file: File,
    path: PathBuf,
}

impl Output {
    /// Makes a new file; nothing may have its name, not even a link.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = watched(Call::Create(path), || File::options().write(true).create_new(true).open(path))?;
        Ok(Output { file, path: path.to_owned() })
    }

    /// Opens a file to append to it. A link is not followed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn append(path: &Path) -> io::Result<Self> {
        let file = watched(Call::Append(path), || {
            if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a plain file, found a link or a device"));
            }
            File::options().append(true).open(path)
        })?;
        Ok(Output { file, path: path.to_owned() })
    }

    /// Brings its contents to the disk.
    ///
    /// # Errors
    /// Those of the system: what was written may be lost.
    pub fn sync(&self) -> io::Result<()> {
        watched(Call::Sync(&self.path), || self.file.sync_all())
    }

    /// Restricts the file to its owner (mode 600). Does nothing on systems without file modes.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub fn make_private(&self) -> io::Result<()> {
        #[cfg(unix)]
        self.file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(())
    }

    /// Marks the file as being written, until it is closed; true unless another process has.
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

/// Writes a new file, to be synced later.
///
/// # Errors
/// Those of the system.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Output::create(path)?.write_all(bytes)
}

/// Syncs a file or a folder that others have written.
///
/// # Errors
/// Those of the system.
pub fn sync(path: &Path) -> io::Result<()> {
    // Windows syncs only files opened for writing.
    watched(Call::Sync(path), || File::options().read(true).write(cfg!(windows)).open(path)?.sync_all())
}

/// Syncs the names in a folder. Windows has no such call and needs none.
///
/// # Errors
/// Those of the system.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    watched(Call::SyncFolder(path), || if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) })
}

/// Gives a file or a folder another name; a file of that name is replaced.
///
/// # Errors
/// Those of the system.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    watched(Call::Rename(from, to), || fs::rename(from, to))
}

/// Removes a file.
///
/// # Errors
/// Those of the system.
pub fn remove(path: &Path) -> io::Result<()> {
    watched(Call::Remove(path), || fs::remove_file(path))
}

/// Removes a folder and all that is in it.
///
/// # Errors
/// Those of the system.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    watched(Call::RemoveFolder(path), || fs::remove_dir_all(path))
}

/// Removes a folder that is empty.
///
/// # Errors
/// Those of the system, and where anything is in it.
pub fn remove_empty_folder(path: &Path) -> io::Result<()> {
    watched(Call::Remove(path), || fs::remove_dir(path))
}

/// Makes a folder that is not there.
///
/// # Errors
/// Those of the system.
pub fn make_folder(path: &Path) -> io::Result<()> {
    watched(Call::MakeFolder(path), || fs::create_dir(path))
}

/// Makes a folder and those above it, each known to the disk; those that are there stay.
///
/// # Errors
/// Those of the system.
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

/// The same; what is made, only its owner may enter.
///
/// # Errors
/// Those of the system.
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

/// The octal mode of a file, such as `644`, if its group or others may read it; `None` if they may not or the mode is unknown.
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

/// The folder above `path`; `.` for a bare name.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a file, made if needed, and locks it for this process; `None` if another has it. A link is not followed.
///
/// # Errors
/// Those of the system. A file system without locks has none to respect.
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
            // Whoever had the lock before may have removed the file meanwhile: then this lock is on a file without a name.
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

/// An open file cannot be removed there.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
pub(crate) mod tests;
