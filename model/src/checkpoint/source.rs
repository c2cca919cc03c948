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
    /// In the file, read when they are looked at. A file that is cut while it is mapped ends the process: see [`MappedFile`].
    Mapped(MappedFile),
    /// In memory.
    Read(Vec<u8>),
}

/// Up to this size files are read: their pages would not be worth a map.
const SMALL: u64 = 1 << 20;

impl Bytes {
    /// A file's bytes: of a large one as a map.
    ///
    /// # Errors
    /// Where it cannot be opened, or is no regular file: a pipe or a device may have no end.
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

    /// A part of these bytes has been copied: a map's pages need not stay in memory.
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

/// Where a model's files come from.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// Their directory, for messages.
    pub place: &'a Path,
    /// Opens one of them by its name.
    pub open: &'a dyn Fn(&str) -> io::Result<Bytes>,
}

impl Source<'_> {
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    pub fn read(&self, name: &str) -> Result<Bytes, CheckpointError> {
        (self.open)(name).map_err(io(&self.path(name), "read"))
    }

    /// A file's bytes, `None` where there is no such file.
    pub fn find(&self, name: &str) -> Result<Option<Bytes>, CheckpointError> {
        match (self.open)(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some).map_err(io(&self.path(name), "read")),
        }
    }

    /// Is there something of this name, whatever it is?
    pub fn has(&self, name: &str) -> bool {
        !matches!((self.open)(name), Err(e) if e.kind() == io::ErrorKind::NotFound)
    }
}
