//! Memory-mapped files, read-only, and little-endian numbers in them.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;

/// The bytes of a file: a map, or a copy if the system has no maps.
#[cfg(not(target_family = "wasm"))]
type Bytes = memmap2::Mmap;
#[cfg(target_family = "wasm")]
type Bytes = Vec<u8>;

/// The bytes of a file, mapped read-only. Pages are read on first access and shared between processes.
///
/// The file must not be truncated while it is mapped: reading past its new end would terminate the process (on Unix by SIGBUS).
/// To replace a mapped file, write another one and rename it.
#[derive(Debug)]
pub struct MappedFile(Bytes);

impl MappedFile {
    /// Maps a whole file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened or mapped. The error names the file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<MappedFile> {
        let path = path.as_ref();
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        File::open(path).and_then(Self::of).map_err(named)
    }

    /// Maps a whole open file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be mapped.
    pub fn of(file: File) -> io::Result<MappedFile> {
        bytes(file).map(MappedFile)
    }

    /// Releases the pages of these bytes, which then do not count as this process's memory. Reading them again gives the same
    /// bytes. Has no effect if the system has no such call.
    ///
    /// # Panics
    /// Panics if the range is not within the file.
    pub fn release(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} in a file of {} bytes", self.len());
        release(&self.0, range);
    }
}

#[cfg(unix)]
fn release(map: &Bytes, range: Range<usize>) {
    // SAFETY: the range is within the map, which is backed by a file and is never written to. A released page is read from the
    // file again, so no byte changes.
    let advised = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len()) };
    let _ = advised; // refused, the pages stay
}

#[cfg(not(unix))]
fn release(_: &Bytes, _: Range<usize>) {}

#[cfg(not(target_family = "wasm"))]
fn bytes(file: File) -> io::Result<Bytes> {
    // SAFETY: the map is private to its owner and read-only. Changes of the file by other programs cannot be prevented, but its
    // contents are only read as bytes, for which every value is valid.
    unsafe { memmap2::Mmap::map(&file) }
}

#[cfg(target_family = "wasm")]
fn bytes(mut file: File) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok(bytes)
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns all whole little-endian `u16`s.
pub fn u16s(bytes: &[u8]) -> impl ExactSizeIterator<Item = u16> + DoubleEndedIterator + Clone + '_ {
    bytes.as_chunks().0.iter().map(|&b| u16::from_le_bytes(b))
}

/// Returns all whole little-endian `u32`s.
pub fn u32s(bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> + DoubleEndedIterator + Clone + '_ {
    bytes.as_chunks().0.iter().map(|&b| u32::from_le_bytes(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_has_the_bytes_of_the_file() {
        let path = std::env::temp_dir().join(format!("gradus-mmap-{}", std::process::id()));
        std::fs::write(&path, [1, 0, 2, 0, 3, 0, 4]).unwrap();
        let map = MappedFile::open(&path).unwrap();
        assert_eq!(map.len(), 7);
        assert_eq!(u16s(&map).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(u32s(&map).collect::<Vec<_>>(), [0x0002_0001]);
        for range in [0..7, 2..3, 7..7] {
            map.release(range);
            assert_eq!(map[..], [1, 0, 2, 0, 3, 0, 4], "what was given back can be read again");
        }
        drop(map);
        std::fs::remove_file(&path).unwrap();
        let missing = MappedFile::open(&path).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(missing.to_string().contains("gradus-mmap"), "{missing}");
    }
}
