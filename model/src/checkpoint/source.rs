//! Files by name, and their bytes.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use gradus_tensor::mmap::MappedFile;

use super::{CheckpointError, io};

/// A file's bytes: mapped, or in memory.
#[derive(Debug)]
pub enum Bytes {
    /// Mapped, and read on access. Truncating the file while it is mapped ends the process: see [`MappedFile`].
    Mapped(MappedFile),
    /// In memory.
    Read(Vec<u8>),
}

/// The size up to which files are read into memory: so few pages are not worth a map.
const SMALL: u64 = 1 << 20;

impl Bytes {
    /// Opens a file; a large one is mapped.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened, or is no regular file: a pipe or a device may have no end.
    pub fn open(path: &Path) -> io::Result<Bytes> {
        regular(&fs::metadata(path)?)?; // before it is opened: opening a pipe waits for its other end
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        regular(&metadata)?;
        if metadata.len() > SMALL {
            return MappedFile::of(file).map(Bytes::Mapped);
        }
        let mut bytes = Vec::new();
        file.take(SMALL).read_to_end(&mut bytes)?;
        Ok(Bytes::Read(bytes))
    }

    /// Releases the pages of a part that has been copied, if the bytes are mapped.
    pub(super) fn release(&self, part: &[u8]) {
        let Bytes::Mapped(map) = self else { return };
        let start = (part.as_ptr() as usize).wrapping_sub(map.as_ptr() as usize);
        if start.checked_add(part.len()).is_some_and(|end| end <= map.len()) {
            map.release(start..start + part.len());
        }
    }
}

fn regular(metadata: &Metadata) -> io::Result<()> {
    let (kind, found) = match metadata.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => (io::ErrorKind::IsADirectory, "a directory"),
        _ => (io::ErrorKind::InvalidInput, "a pipe, a socket or a device"),
    };
    Err(io::Error::new(kind, format!("expected a regular file, found {found}")))
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::Read(bytes)
    }
}

/// The source of a model's files.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// The directory of the files, for messages.
    pub place: &'a Path,
    /// The function that opens a file by its name.
    pub open: &'a dyn Fn(&str) -> io::Result<Bytes>,
}

impl Source<'_> {
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    pub fn read(&self, name: &str) -> Result<Bytes, CheckpointError> {
        (self.open)(name).map_err(io(&self.path(name), "read"))
    }

    /// Returns a file's bytes; `None` if there is no such file.
    pub fn find(&self, name: &str) -> Result<Option<Bytes>, CheckpointError> {
        match (self.open)(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some).map_err(io(&self.path(name), "read")),
        }
    }

    /// Returns whether there is an entry of this name, of any kind.
    pub fn has(&self, name: &str) -> bool {
        !matches!((self.open)(name), Err(e) if e.kind() == io::ErrorKind::NotFound)
    }
}
