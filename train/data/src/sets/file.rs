//! The files of a data set, plain or compressed, decoded to text.
//!
//! The first bytes of a file determine its format, not its name. gzip is decompressed, and so is a zip with one file, or with one
//! file of the expected name. UTF-16 and other compression formats are rejected with the command that converts them. The text
//! must be UTF-8 and may begin with a byte order mark.

use std::borrow::Cow;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use gradus_text::foreign;

use super::error::SetError;
use super::location::Location;
use super::task::{Loaded, Task};

const GZIP: &[u8] = b"\x1F\x8B";
const ZIP: &[u8] = b"PK\x03\x04";
/// The largest compression ratio allowed, unless the text has at most [`SMALL`] bytes. Deflate compresses English text three to
/// four times; a higher ratio means that the file was made to fill memory.
const RATIO: u64 = 100;
const SMALL: u64 = 1 << 20;

/// A file of a data set.
#[derive(Debug)]
pub(super) struct SetFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The text.
    pub text: String,
}

impl Loaded {
    /// Returns a split of this file without rows.
    pub(super) fn of(file: &SetFile) -> Self {
        let note = || {
            let path = file.path.display();
            format!("{path}: the last line has no line end; if the file is truncated, rows are missing")
        };
        let notes = file.is_unfinished().then(note).into_iter().collect();
        Loaded { files: vec![file.path.clone()], notes, ..Loaded::default() }
    }
}

impl SetFile {
    /// Reads the file of this name, plain or compressed.
    pub(super) fn read(task: &Task, named: &Location<'_>) -> Result<Self, SetError> {
        let there = found(named).unwrap_or_else(|| named.clone());
        let io = |cause| task.io_error(&there.path, "file", cause);
        let packed = there.read().map_err(io)?;
        let path = there.path.clone();
        let (content, whole) = unpacked(&path, &packed).map_err(io)?;
        let bytes = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&content);
        if let Some((what, command)) = foreign(bytes) {
            let remedy = format!("Convert it: {command}");
            return Err(SetError::malformed(&path, (1, 1), "text in UTF-8", what, remedy));
        }
        if !whole {
            let expected = format!("a packed text of at most {RATIO} times its packed size");
            let remedy = "Unpack it by hand, if you trust it";
            return Err(SetError::malformed(&path, (1, 1), expected, "a larger one", remedy));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(SetFile { text: text.to_owned(), path }),
            Err(error) => {
                let (sound, rest) = bytes.split_at(error.valid_up_to());
                let at = place(&String::from_utf8_lossy(sound), 1);
                let found = format!("the byte 0x{:02X} as character {} of the line", rest[0], at.1);
                let remedy = "Download the file again, or convert it to UTF-8";
                Err(SetError::malformed(&path, at, "text in UTF-8", found, remedy))
            }
        }
    }

    /// Returns the lines, numbered from 1, without line ends. Blank lines at the end of the file are skipped.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> + Clone {
        let lines = self.text.trim_end_matches(['\r', '\n']).split_terminator('\n');
        (1..).zip(lines.map(|line| line.strip_suffix('\r').unwrap_or(line)))
    }

    /// Returns whether the last line has no line end, as in a truncated file.
    pub(super) fn is_unfinished(&self) -> bool {
        !self.text.is_empty() && !self.text.ends_with('\n')
    }

    /// Returns the error for this line and column. On a last line without a line end, it mentions that the file may be truncated.
    pub(super) fn malformed(
        &self,
        at: (usize, usize),
        expected: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> SetError {
        let mut remedy = remedy.into();
        if self.is_unfinished() && at.0 == 1 + self.text.matches('\n').count() {
            remedy = format!("The last line has no line end: the file may be truncated. {remedy}");
        }
        SetError::malformed(&self.path, at, expected, found, remedy)
    }
}

/// Returns the existing file of this name: plain, or else compressed.
fn found<'a>(place: &Location<'a>) -> Option<Location<'a>> {
    let packed = |kind: &str| {
        let mut name = place.path.as_os_str().to_owned();
        name.push(kind);
        place.at(name.into())
    };
    ["", ".gz", ".zip"].map(packed).into_iter().find(Location::exists)
}

/// Returns the index in `files` of the file to read, for a data set whose files have several names: the first that exists. If
/// none exists, the first with existing `relatives`, so that the error names the file missing from that group.
pub(super) fn choose<const N: usize>(folder: &Location<'_>, files: [&str; N], relatives: [&[&str]; N]) -> usize {
    let is_there = |name: &str| found(&folder.join(name)).is_some();
    let own = files.iter().position(|name| is_there(name));
    own.or_else(|| relatives.iter().position(|names| names.iter().any(|name| is_there(name)))).unwrap_or(0)
}

/// Decompresses these bytes if they are compressed. Also returns whether the content is complete.
fn unpacked<'b>(path: &Path, bytes: &'b [u8]) -> io::Result<(Cow<'b, [u8]>, bool)> {
    let most = (RATIO * bytes.len() as u64).max(SMALL);
    let damaged = |e: io::Error| io::Error::new(io::ErrorKind::InvalidData, format!("its compressed contents are damaged ({e})"));
    let take = |reader: &mut dyn Read| {
        let mut content = Vec::new();
        reader.take(most + 1).read_to_end(&mut content).map_err(damaged)?;
        let whole = content.len() as u64 <= most;
        Ok((Cow::Owned(content), whole))
    };
    if bytes.starts_with(GZIP) {
        return take(&mut flate2::read::MultiGzDecoder::new(bytes));
    }
    if bytes.starts_with(ZIP) {
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|e| damaged(e.into()))?;
        let index = member(path, &archive)?;
        return take(&mut archive.by_index(index)?);
    }
    Ok((Cow::Borrowed(bytes), true))
}

/// Returns the index of the file to read from an archive: the only one, or the one of this name.
fn member<R: Read + io::Seek>(path: &Path, archive: &zip::ZipArchive<R>) -> io::Result<usize> {
    // macOS adds the folder `__MACOSX` to archives.
    let is_file = |name: &str| !name.ends_with('/') && !name.starts_with("__MACOSX/");
    let names: Vec<_> = archive.file_names().collect::<Result<_, _>>()?;
    let files: Vec<(usize, &str)> = (0..).zip(names.iter().map(|name| &**name)).filter(|(_, name)| is_file(name)).collect();
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    let own = own.strip_suffix(".zip").unwrap_or(&own);
    let named = files.iter().find(|(_, name)| name.rsplit('/').next() == Some(own));
    match (&files[..], named) {
        ([only], _) | (_, Some(only)) => Ok(only.0),
        _ => {
            let found = files.len();
            let why = format!("expected a zip that holds one file, or one of the name {own:?}, found {found} files; unpack it");
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
    }
}

/// Returns the line and column of the character after `text`, which begins on line `first`.
pub(super) fn place(text: &str, first: usize) -> (usize, usize) {
    let last = text.rsplit('\n').next().unwrap_or_default();
    (first + text.matches('\n').count(), last.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::sst2::SST2;
    use super::super::testing::{folder, rows};
    use super::super::{Loaded, Split};
    use std::fs;

    use super::*;

    const DEV: &str = "sentence\tlabel\nfine\t1\n";

    fn load(name: &str, bytes: &[u8]) -> Result<Loaded, String> {
        let folder = folder(&[]);
        fs::write(folder.path().join(name), bytes).unwrap();
        SST2.load(folder.path(), Split::Dev).map_err(|error| error.to_string())
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    fn zip(files: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in files {
            archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(text.as_bytes()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn a_compressed_file_is_read_under_any_name() {
        let packed = gzip(DEV.as_bytes());
        let two = [gzip(&DEV.as_bytes()[..9]), gzip(&DEV.as_bytes()[9..])].concat();
        let mac = zip(&[("SST-2/the_only.tsv", DEV), ("__MACOSX/SST-2/._the_only.tsv", "x")]);
        let several = zip(&[("readme.md", "x"), ("SST-2/dev.tsv", DEV)]);
        for (name, bytes) in [
            ("dev.tsv", packed.clone()),
            ("dev.tsv.gz", packed),
            ("dev.tsv.gz", two),
            ("dev.tsv.zip", zip(&[("a.txt", DEV)])),
            ("dev.tsv", mac),
            ("dev.tsv.zip", several),
        ] {
            let loaded = load(name, &bytes).unwrap();
            assert_eq!(rows(&loaded), ["0: fine = 1"], "{name}");
            assert_eq!(loaded.files[0].file_name().unwrap(), name);
        }
    }

    #[test]
    fn unreadable_formats_are_errors_with_a_remedy() {
        let utf16: Vec<u8> = DEV.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let several = zip(&[("a.tsv", DEV), ("b.tsv", DEV)]);
        let cut = gzip(DEV.as_bytes());
        for (bytes, words) in [
            ([b"\xFF\xFE", &utf16[..]].concat(), "found UTF-16. Convert it: iconv -f UTF-16 -t UTF-8"),
            (b"BZh91AY".to_vec(), "found a file packed by bzip2. Convert it: bzip2 -d"),
            (b"\xFD7zXZ\0\0".to_vec(), "found a file packed by xz"),
            (b"\x28\xB5\x2F\xFD.".to_vec(), "found a file packed by zstd"),
            (several, "expected a zip that holds one file, or one of the name \"dev.tsv\", found 2 files; unpack it"),
            (zip(&[]), ""),
            (cut[..cut.len() - 9].to_vec(), "dev.tsv"),
            (b"PK\x03\x04".to_vec(), "dev.tsv"),
        ] {
            let message = load("dev.tsv", &bytes).unwrap_err();
            assert!(message.contains(words), "{message}");
        }
    }

    /// Deflate can reach a ratio of 1,000.
    #[test]
    fn a_decompression_bomb_is_rejected() {
        let words = "expected a packed text of at most 100 times its packed size, found a larger one";
        let bomb = gzip(&vec![b' '; 16 << 20]);
        assert!(load("dev.tsv", &bomb).unwrap_err().contains(words));
        let text = format!("{DEV}{}", "fine\t1\n".repeat(100_000));
        assert_eq!(load("dev.tsv", &gzip(text.as_bytes())).unwrap().examples.len(), 100_001, "small");
        let mut rng = gradus_tensor::rng::Philox::new(1);
        let text = format!("{DEV}{}", (0..60_000).map(|_| format!("{:032x}\t1\n", rng.double_word())).collect::<String>());
        assert!(text.len() as u64 > 2 * SMALL);
        assert_eq!(load("dev.tsv", &gzip(text.as_bytes())).unwrap().examples.len(), 60_001, "large, and not from little");
    }

    #[test]
    fn a_last_line_without_line_end_is_reported() {
        let whole = load("dev.tsv", DEV.as_bytes()).unwrap();
        assert!(whole.notes.is_empty(), "{:?}", whole.notes);
        let cut = load("dev.tsv", DEV.trim_end().as_bytes()).unwrap();
        assert_eq!(cut.examples, whole.examples);
        assert!(cut.notes[0].ends_with("dev.tsv: the last line has no line end; if the file is truncated, rows are missing"));
        let error = load("dev.tsv", &DEV.as_bytes()[..DEV.len() - 3]).unwrap_err();
        let words = "line 2, column 2: expected 2 columns separated by tabs (sentence, label), found 1. The last line has no \
                     line end: the file may be truncated.";
        assert!(error.contains(words), "{error}");
        let error = load("dev.tsv", "sentence\tlabel\nfine\nfine\t1".as_bytes()).unwrap_err();
        assert!(!error.contains("cut off"), "{error}");
    }

    /// The error for a truncated compressed file states the remedy.
    #[test]
    fn a_damaged_packed_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["dev.tsv.gz", "dev.tsv.zip"] {
            let packed = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/packed").join(name)).unwrap();
            let path = folder.path().join(name);
            fs::write(&path, &packed[..packed.len() * 2 / 3]).unwrap();
            let error = SetFile::read(Task::named("sst-2").unwrap(), &Location::of(&path, &crate::sets::location::Disk))
                .unwrap_err()
                .to_string();
            assert!(error.contains("its compressed contents are damaged") && error.contains("put back a copy"), "{error}");
        }
    }
}
