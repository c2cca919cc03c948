//! Where a data set's files are: on the disk, or wherever else a caller has their bytes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use gradus_io::disk;

/// Files by their paths.
pub trait Files {
    /// A file's bytes.
    ///
    /// # Errors
    /// [`NotFound`](io::ErrorKind::NotFound) where there is none, or the system's.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The paths of what a folder holds, sorted.
    ///
    /// # Errors
    /// As of [`Files::read`].
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// Is there a file or a folder?
    fn exists(&self, path: &Path) -> bool;
}

/// Those of the system.
#[derive(Debug)]
pub(super) struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        disk::read(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        disk::list(folder)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }
}

/// A file or a folder of a data set.
#[derive(Clone)]
pub(super) struct Place<'a> {
    pub path: PathBuf,
    files: &'a dyn Files,
}

impl<'a> Place<'a> {
    pub fn of(path: &Path, files: &'a dyn Files) -> Self {
        Place { path: path.to_owned(), files }
    }

    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        self.at(self.path.join(name))
    }

    pub fn at(&self, path: PathBuf) -> Self {
        Place { path, files: self.files }
    }

    pub fn read(&self) -> io::Result<Vec<u8>> {
        self.files.read(&self.path)
    }

    pub fn list(&self) -> io::Result<Vec<PathBuf>> {
        self.files.list(&self.path)
    }

    pub fn exists(&self) -> bool {
        self.files.exists(&self.path)
    }
}

impl fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}
