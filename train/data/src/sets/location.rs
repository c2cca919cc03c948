//! Access to a data set's files, on the disk or in memory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use gradus_io::disk;

/// A file system: files by path.
pub trait Files {
    /// Returns a file's bytes.
    ///
    /// # Errors
    /// Returns an error if the file does not exist ([`NotFound`](io::ErrorKind::NotFound)) or cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Returns the paths of the entries of a folder, sorted.
    ///
    /// # Errors
    /// Returns an error if the folder does not exist ([`NotFound`](io::ErrorKind::NotFound)) or cannot be read.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// Returns whether a file or a folder exists.
    fn exists(&self, path: &Path) -> bool;
}

/// The file system of the operating system.
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
pub(super) struct Location<'a> {
    pub path: PathBuf,
    files: &'a dyn Files,
}

impl<'a> Location<'a> {
    pub fn of(path: &Path, files: &'a dyn Files) -> Self {
        Location { path: path.to_owned(), files }
    }

    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        self.at(self.path.join(name))
    }

    pub fn at(&self, path: PathBuf) -> Self {
        Location { path, files: self.files }
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

impl fmt::Debug for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}
