//! SHA-256 checksums of the files that Gradus reads again, in a `checksums.json` beside them. They reveal files that were changed
//! or lost.
//!
//! ```text
//! files that belong together    write each .NAME.tmp │ fsync
//!                               checksums.json: their new sums, and the old ones as `before` │ fsync the folder
//!                               rename each over NAME, in order │ fsync the folder
//!                               checksums.json: the new sums alone
//! ```
//!
//! After a crash at any point, each file is old or new, and its checksum is listed. For a new file, `before` contains `null`.
//!
//! The log, `metrics.jsonl`, grows after its checksum is computed. The checksum covers the bytes that the log had then; later
//! bytes are not compared. No other file may grow.
//!
//! Subfolders that have a `checksums.json` are listed too, and must exist:
//!
//! ```text
//! "seed-2": []                in progress: its checksums.json may have any content
//! "seed-1": ["9f86…"]         finished: its checksums.json has this SHA-256
//! "best": ["9f86…", "60b7…"]  being replaced: the SHA-256 of the new one, then of the old one, or `null` if there was none
//! ```
//!
//! A symbolic link in place of a listed file or folder is an error. `gradus verify --accept` accepts it and adds it to `links`.
//!
//! A lost `checksums.json` is detected if a settings file in its folder, `run.json` or `plan.json`, contains `"checksums": true`,
//! or if a folder above lists the folder. Any other folder without `checksums.json` is assumed to be of another program. Its
//! files are not checked, and neither are unlisted files.

mod audit;
mod folders;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::disk;
use crate::files::{FileError, SUMS, Temporary, json_text, sync_folder, write_json, written};
use crate::hex;

pub use audit::{Verdict, accept, replace_directory, verify};
pub use folders::{Lost, accept_above, check_folder, has_checksums, list, relist, replace_within, unlist};
pub use settings::{FORMAT, Kept, settings};

/// The name of the file with the checksums.
pub const CHECKSUMS_FILE: &str = SUMS;
/// The name of the log, the only file that may grow after its checksum is computed.
pub const LOG_FILE: &str = "metrics.jsonl";

/// The length and digest of a file, or of the beginning of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// The length in bytes.
    pub bytes: u64,
    /// The SHA-256.
    pub sha256: String,
}

impl Sum {
    /// Returns the length and digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = Summing::default();
        sum.update(bytes);
        sum.sum()
    }

    /// Returns the length and digest of a file, or of its first `length` bytes.
    fn of_file(path: &Path, length: Option<u64>) -> io::Result<Self> {
        let mut file = disk::open_to_read(path)?.take(length.unwrap_or(u64::MAX));
        let (mut sum, mut buffer) = (Summing::default(), vec![0; 1 << 18]);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(sum.sum()),
                n => sum.update(&buffer[..n]),
            }
        }
    }
}

/// The sum of data that is written in parts.
#[derive(Clone, Debug, Default)]
pub struct Summing {
    hash: Sha256,
    bytes: u64,
}

impl Summing {
    /// Adds the next part.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Returns the sum so far.
    pub fn sum(&self) -> Sum {
        Sum { bytes: self.bytes, sha256: hex::encode(self.hash.clone().finalize()) }
    }
}

/// The error message for a link in place of a listed file or folder.
const IS_LINK: &str = "expected what was written there, found a link";

/// A file's sum and, while it is being replaced, the other sums that it may have; `None`: it may be missing.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    now: Sum,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    before: Vec<Option<Sum>>,
}

/// The permitted SHA-256 digests of a subfolder's `checksums.json`; empty: any. With `None` among them, the subfolder may be
/// missing.
type Digests = Vec<Option<String>>;

/// The checksums of a folder's files, and its listed subfolders.
#[derive(Debug)]
pub struct Checksums {
    folder: PathBuf,
    listed: Listed,
}

/// The listed files, subfolders and accepted links, by path relative to the folder.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Listed {
    files: BTreeMap<String, Entry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    folders: BTreeMap<String, Digests>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    links: BTreeSet<String>,
}

/// The contents of [`CHECKSUMS_FILE`].
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    listed: Listed,
    /// The SHA-256 of the compact JSON of `files`, then of `folders` and `links` if not empty.
    sha256: String,
}

impl Stored {
    fn of(listed: Listed) -> Self {
        let mut hash = Sha256::new();
        hash.update(serde_json::to_vec(&listed.files).unwrap_or_default());
        if !listed.folders.is_empty() {
            hash.update(serde_json::to_vec(&listed.folders).unwrap_or_default());
        }
        if !listed.links.is_empty() {
            hash.update(serde_json::to_vec(&listed.links).unwrap_or_default());
        }
        Stored { listed, sha256: hex::encode(hash.finalize()) }
    }
}

impl Checksums {
    /// Reads the checksums of a folder; `None` if it has none and is not known to have had any.
    ///
    /// # Errors
    /// Returns an error if [`CHECKSUMS_FILE`] cannot be read, is lost, is damaged, or is a link.
    pub fn of(folder: &Path) -> Result<Option<Self>, FileError> {
        let path = folder.join(CHECKSUMS_FILE);
        if path.is_symlink() {
            return Err(FileError::damaged(&path, IS_LINK.into()));
        }
        match Self::read(folder) {
            Ok(None) => match folders::expected_by(folder) {
                Some(by) => {
                    let problem = format!("it is missing, though {} states that checksums are kept", by.display());
                    Err(FileError::damaged(&path, problem))
                }
                None => Ok(None),
            },
            other => other,
        }
    }

    /// Reads the checksums of a folder; `None` if there is no [`CHECKSUMS_FILE`].
    fn read(folder: &Path) -> Result<Option<Self>, FileError> {
        let path = folder.join(CHECKSUMS_FILE);
        let bytes = match disk::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
            Err(cause) => return Err(FileError::new("read", &path, cause)),
        };
        let damaged = |problem| FileError::damaged(&path, format!("{problem}; the files that it lists may be intact"));
        Self::parse(folder, &bytes).map(Some).map_err(damaged)
    }

    /// Parses the bytes of a folder's [`CHECKSUMS_FILE`]. They must equal what Gradus would write, white space included.
    ///
    /// # Errors
    /// Returns a description of the damage.
    pub fn parse(folder: &Path, bytes: &[u8]) -> Result<Self, String> {
        let stored: Stored = serde_json::from_slice(bytes).map_err(|e| format!("it is damaged at line {}", e.line()))?;
        let (found, right) = (stored.sha256, Stored::of(stored.listed));
        if found != right.sha256 {
            return Err("its own SHA-256 differs: it is damaged".into());
        }
        let Listed { files, folders, links } = &right.listed;
        if let Some(name) = files.keys().chain(folders.keys()).chain(links).find(|name| !is_within(name)) {
            return Err(format!("it names a file outside its folder, {name:?}"));
        }
        if json_text(&right) != bytes {
            return Err("its layout differs from the one that was written: it is damaged".into());
        }
        Ok(Checksums { folder: folder.to_owned(), listed: right.listed })
    }

    fn none(folder: &Path) -> Self {
        Checksums { folder: folder.to_owned(), listed: Listed::default() }
    }

    /// Returns an error if `name`, or a folder on its path, is a link that was not accepted.
    fn check_links(&self, name: &str) -> Result<(), FileError> {
        let parts = Path::new(name).ancestors().filter(|part| !part.as_os_str().is_empty());
        let is_accepted = |part: &Path| part.to_str().is_some_and(|part| self.listed.links.contains(part));
        match parts.filter(|part| !is_accepted(part)).map(|part| self.folder.join(part)).find(|path| path.is_symlink()) {
            Some(path) => Err(FileError::damaged(&path, IS_LINK.into())),
            None => Ok(()),
        }
    }

    /// Compares a file with its sum. Returns whether it is listed.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, or listed and missing.
    pub fn check(&self, name: &str) -> Result<bool, FileError> {
        let Some(entry) = self.listed.files.get(name) else { return Ok(false) };
        self.check_links(name)?;
        let path = self.folder.join(name);
        let found = self.found(name, entry)?;
        if std::iter::once(&Some(entry.now.clone())).chain(&entry.before).any(|sum| *sum == found) {
            return Ok(true);
        }
        Err(FileError::damaged(&path, mismatch(&entry.now, found)))
    }

    /// Returns the current sum of a file, computed as that of `entry`; `None` if the file is missing.
    fn found(&self, name: &str, entry: &Entry) -> Result<Option<Sum>, FileError> {
        self.sum_of(name, (name == LOG_FILE).then_some(entry.now.bytes))
    }

    /// Returns the sum of a file, or of its first `length` bytes; `None` if the file is missing.
    fn sum_of(&self, name: &str, length: Option<u64>) -> Result<Option<Sum>, FileError> {
        let path = self.folder.join(name);
        match Sum::of_file(&path, length) {
            Ok(sum) => Ok(Some(sum)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(FileError::new("read", &path, cause)),
        }
    }

    /// Resolves replacements that a crash interrupted: finds which of its listed checksums each file and subfolder has.
    fn settle(&mut self) -> Result<(), FileError> {
        self.settle_folders();
        let open: Vec<_> =
            self.listed.files.iter().filter(|(_, entry)| !entry.before.is_empty()).map(|(n, e)| (n.clone(), e.clone())).collect();
        for (name, entry) in open {
            match self.found(&name, &entry)? {
                None if entry.before.contains(&None) => {
                    self.listed.files.remove(&name);
                }
                Some(sum) if sum == entry.now || entry.before.contains(&Some(sum.clone())) => {
                    self.listed.files.insert(name, Entry { now: sum, before: Vec::new() });
                }
                _ => {} // damaged, which the next read reports
            }
        }
        Ok(())
    }

    fn store(&self) -> Result<(), FileError> {
        write_json(&self.folder.join(CHECKSUMS_FILE), &Stored::of(self.listed.clone()))
    }
}

impl FileError {
    /// Returns whether the error is about [`CHECKSUMS_FILE`] itself, rather than a file that it lists.
    pub fn is_of_sums(&self) -> bool {
        self.path.ends_with(CHECKSUMS_FILE)
    }
}

fn mismatch(expected: &Sum, found: Option<Sum>) -> String {
    match found {
        None => "it is missing, though it was written".into(),
        Some(found) if found.bytes != expected.bytes => {
            format!("it is damaged: {} bytes were written, it has {}", expected.bytes, found.bytes)
        }
        Some(found) => format!("it is damaged: SHA-256 {:.16}… was written, it has {:.16}…", expected.sha256, found.sha256),
    }
}

fn is_within(name: &str) -> bool {
    let plain = |part| matches!(part, std::path::Component::Normal(_));
    !name.is_empty() && Path::new(name).components().all(plain)
}

/// Reads a file and compares it with its sum, if it has one.
///
/// # Errors
/// Returns an error if the file is missing or damaged.
pub fn read(folder: &Path, name: &str) -> Result<Vec<u8>, FileError> {
    check(folder, &[name])?;
    let path = folder.join(name);
    disk::read(&path).map_err(|cause| FileError::new("read", &path, cause))
}

/// Compares files with their sums. Returns false if the folder has no sums.
///
/// # Errors
/// Returns an error if a file is damaged, or listed and missing.
pub fn check(folder: &Path, names: &[&str]) -> Result<bool, FileError> {
    let Some(sums) = Checksums::of(folder)? else { return Ok(false) };
    names.iter().try_for_each(|name| sums.check(name).map(drop))?;
    Ok(true)
}

/// Returns whether a file is listed with a checksum, in its folder or in one above, or is a [`CHECKSUMS_FILE`].
///
/// # Errors
/// Returns an error if the sums cannot be read.
pub fn is_kept(path: &Path) -> Result<bool, FileError> {
    let path = std::path::absolute(path).map_err(|cause| FileError::new("find", path, cause))?;
    for folder in path.ancestors().skip(1) {
        let Some(sums) = Checksums::of(folder)? else { continue };
        let name = path.strip_prefix(folder).ok().and_then(Path::to_str);
        if name.is_some_and(|name| name == CHECKSUMS_FILE || sums.listed.files.contains_key(name)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Checks that a file which was written with a sum still has one. Without it, a change of the file would not be detected.
///
/// # Errors
/// Returns an error if the file is not listed, or differs from what was written.
pub fn check_listed(folder: &Path, name: &str) -> Result<(), FileError> {
    if Checksums::of(folder)?.is_some_and(|sums| sums.listed.files.contains_key(name)) {
        return check(folder, &[name]).map(drop);
    }
    Err(FileError::damaged(&folder.join(name), format!("its checksum is missing from {CHECKSUMS_FILE}")))
}

/// Compares the listed files for which `is_chosen` holds with their sums. Returns false if the folder has no sums.
///
/// # Errors
/// Returns an error for the first file that is damaged or missing.
pub fn check_where(folder: &Path, is_chosen: impl Fn(&str) -> bool) -> Result<bool, FileError> {
    let Some(sums) = Checksums::of(folder)? else { return Ok(false) };
    sums.listed.files.keys().filter(|name| is_chosen(name)).try_for_each(|name| sums.check(name).map(drop))?;
    Ok(true)
}

/// Compares all files of the folder `inner` in `folder` with their sums. Returns false if `folder` has no sums.
///
/// # Errors
/// Returns an error for the first file that is damaged, or listed and missing.
pub fn check_within(folder: &Path, inner: &str) -> Result<bool, FileError> {
    check_where(folder, |name| Path::new(name).starts_with(inner))
}

/// Files of a folder that belong together. When all are on the disk, [`Group::commit`] renames each, in the order in
/// which they were added.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    files: Vec<(String, Sum, Temporary)>,
    kept: Option<(&'static str, &'static str)>,
    log: Option<Sum>,
}

impl Group {
    /// Creates a group without files.
    pub fn of(folder: &Path) -> Self {
        Group { folder: folder.to_owned(), files: Vec::new(), kept: None, log: None }
    }

    /// Writes a file under a temporary name.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written; nothing has changed then.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let path = self.folder.join(name);
        let fill =
            |file: &mut io::BufWriter<disk::Output>| file.write_all(bytes).map_err(|cause| FileError::new("write", &path, cause));
        self.files.push((name.to_owned(), Sum::of(bytes), written(&path, fill)?));
        Ok(())
    }

    /// Writes several files.
    ///
    /// # Errors
    /// Returns an error in the cases of [`Group::add`].
    pub fn add_all(&mut self, files: &[(&str, Vec<u8>)]) -> Result<(), FileError> {
        files.iter().try_for_each(|(name, bytes)| self.add(name, bytes))
    }

    /// Keeps the file that now has the name `name` under the name `previous`, replacing the file of that name.
    pub fn keep(&mut self, name: &'static str, previous: &'static str) {
        self.kept = Some((name, previous));
    }

    /// Sets the checksum of the log, which is already synced to the disk.
    pub fn log(&mut self, sum: Sum) {
        self.log = Some(sum);
    }

    /// Gives each file its name.
    ///
    /// # Errors
    /// Returns an error if an operation fails. Each file is then complete, old or new.
    pub fn commit(self) -> Result<(), FileError> {
        let _alone = alone();
        let folder = &self.folder;
        let mut sums = Checksums::of(folder)?.unwrap_or_else(|| Checksums::none(folder));
        sums.settle()?;
        let kept = self.kept.filter(|(name, _)| folder.join(name).exists());
        if let Some((name, previous)) = kept
            && let Some(sum) = sums.listed(name)?
        {
            sums.announce(previous, sum)?;
        }
        self.files.iter().try_for_each(|(name, sum, _)| sums.announce(name, sum.clone()))?;
        if let Some(entry) = kept.and_then(|(name, _)| sums.listed.files.get_mut(name)) {
            entry.before.push(None); // missing between the two renames
        }
        if let Some(sum) = self.log {
            sums.listed.files.insert(LOG_FILE.into(), Entry { now: sum, before: Vec::new() });
        }
        sums.store()?;
        if let Some((name, previous)) = kept {
            let (from, to) = (folder.join(name), folder.join(previous));
            disk::rename(&from, &to).map_err(|cause| FileError::new("replace", &to, cause))?;
        }
        self.files.into_iter().try_for_each(|(name, _, temporary)| temporary.take_name(&folder.join(name)))?;
        sync_folder(folder)?;
        sums.listed.files.values_mut().for_each(|entry| entry.before.clear());
        sums.store()
    }
}

/// Locks the checksums: one thread at a time reads, changes and writes them. A `Lock` excludes other processes from a folder.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes files that belong together.
///
/// # Errors
/// Returns an error in the cases of [`Group::add`] and [`Group::commit`].
pub fn write(folder: &Path, files: &[(&str, Vec<u8>)]) -> Result<(), FileError> {
    let mut group = Group::of(folder);
    group.add_all(files)?;
    group.commit()
}

impl Checksums {
    /// Returns the listed sum of a file, or, if it exists and is not listed, its current sum.
    fn listed(&self, name: &str) -> Result<Option<Sum>, FileError> {
        match self.listed.files.get(name) {
            Some(entry) => Ok(Some(entry.now.clone())),
            None => self.sum_of(name, None),
        }
    }

    /// Lists the next sum of a file in addition to its current one.
    fn announce(&mut self, name: &str, sum: Sum) -> Result<(), FileError> {
        let before = vec![self.listed(name)?];
        self.listed.files.insert(name.to_owned(), Entry { now: sum, before });
        Ok(())
    }
}

/// Removes files that are no longer needed.
///
/// # Errors
/// Returns an error if a file cannot be removed.
pub fn remove(folder: &Path, names: &[&str]) -> Result<(), FileError> {
    let _alone = alone();
    if let Some(mut sums) = Checksums::of(folder)? {
        sums.settle()?;
        let before = sums.listed.files.len();
        sums.listed.files.retain(|name, _| !names.contains(&name.as_str()));
        if sums.listed.files.len() < before {
            sums.store()?;
        }
    }
    for path in names.iter().map(|name| folder.join(name)).filter(|path| path.exists()) {
        disk::remove(&path).map_err(|cause| FileError::new("remove", &path, cause))?;
    }
    Ok(())
}

/// Undoes the first [`Group::commit`] of a folder, which a crash interrupted: restores the state before it.
///
/// # Errors
/// Returns an error if an operation fails.
pub fn undo_first(folder: &Path) -> Result<(), FileError> {
    let Some(sums) = Checksums::of(folder)? else { return Ok(()) };
    let is_first = !sums.listed.files.is_empty() && sums.listed.files.values().all(|entry| entry.before.contains(&None));
    if is_first {
        let names: Vec<&str> = sums.listed.files.keys().map(String::as_str).collect();
        for path in names.iter().copied().chain([CHECKSUMS_FILE]).map(|name| folder.join(name)).filter(|path| path.exists()) {
            disk::remove(&path).map_err(|cause| FileError::new("remove", &path, cause))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
