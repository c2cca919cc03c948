//! What was written, so that what is read can be trusted: a SHA-256 of each file that is read again, in `checksums.json` beside them.
//!
//! ```text
//! files that belong together    write each .NAME.tmp │ fsync
//!                               checksums.json: their new sums, and the old ones as `before` │ fsync the folder
//!                               rename each over NAME, in order │ fsync the folder
//!                               checksums.json: the new sums alone
//! ```
//!
//! Whenever a crash comes, each file is old or new and its sum is listed. A file that was not there before has `null` among its
//! sums of `before`. A log, `*.jsonl`, grows after its sum was taken: the sum is of its beginning, as long as it was then. A folder
//! without `checksums.json` was made by somebody else, and is taken as it is; so are files that are not listed.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::disk;
use crate::files::{self, FileError, LOCK, Temporary, is_unfinished, sync_folder, write_json, written};
use crate::hex;

/// The file of the sums.
pub const CHECKSUMS_FILE: &str = "checksums.json";

/// Length and digest of a file, or of the beginning of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
}

impl Sum {
    /// That of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = Summing::default();
        sum.update(bytes);
        sum.sum()
    }

    /// That of a file, or of as much of its beginning.
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

/// The sum of what is written in parts.
#[derive(Clone, Debug, Default)]
pub struct Summing {
    hash: Sha256,
    bytes: u64,
}

impl Summing {
    /// Takes in what comes next.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The sum so far.
    pub fn sum(&self) -> Sum {
        Sum { bytes: self.bytes, sha256: hex::encode(self.hash.clone().finalize()) }
    }
}

/// A file's sum, and while it is being replaced, those that it may still have; `None`: it may be missing.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    now: Sum,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    before: Vec<Option<Sum>>,
}

/// The sums of a folder's files.
#[derive(Debug)]
pub struct Checksums {
    folder: PathBuf,
    files: BTreeMap<String, Entry>,
}

/// The contents of [`CHECKSUMS_FILE`].
#[derive(Serialize, Deserialize)]
struct Stored {
    files: BTreeMap<String, Entry>,
    /// That of `files`, as compact JSON.
    sha256: String,
}

impl Stored {
    fn of(files: BTreeMap<String, Entry>) -> Self {
        let sha256 = hex::encode(Sha256::digest(serde_json::to_vec(&files).unwrap_or_default()));
        Stored { files, sha256 }
    }
}

impl Checksums {
    /// Reads those of a folder; `None` where it has none.
    ///
    /// # Errors
    /// Where they cannot be read, or are damaged themselves.
    pub fn of(folder: &Path) -> Result<Option<Self>, FileError> {
        let path = folder.join(CHECKSUMS_FILE);
        let bytes = match disk::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
            Err(cause) => return Err(FileError::new("read", &path, cause)),
        };
        let damaged = |problem| FileError::damaged(&path, format!("{problem}; the files that it lists may be sound"));
        Self::parse(folder, &bytes).map(Some).map_err(damaged)
    }

    /// Those of a folder whose file has these bytes.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(folder: &Path, bytes: &[u8]) -> Result<Self, String> {
        let stored: Stored = serde_json::from_slice(bytes).map_err(|e| format!("it is damaged at line {}", e.line()))?;
        let (found, right) = (stored.sha256, Stored::of(stored.files));
        if found != right.sha256 {
            return Err("its own SHA-256 is another: it is damaged".into());
        }
        if let Some(name) = right.files.keys().find(|name| !is_within(name)) {
            return Err(format!("it names a file outside its folder, {name:?}"));
        }
        Ok(Checksums { folder: folder.to_owned(), files: right.files })
    }

    /// Compares a file with its sum. True if it is listed.
    ///
    /// # Errors
    /// A file that is damaged, or listed and missing.
    pub fn check(&self, name: &str) -> Result<bool, FileError> {
        let Some(entry) = self.files.get(name) else { return Ok(false) };
        let path = self.folder.join(name);
        let found = self.found(name, entry)?;
        if std::iter::once(&Some(entry.now.clone())).chain(&entry.before).any(|sum| *sum == found) {
            return Ok(true);
        }
        Err(FileError::damaged(&path, mismatch(&entry.now, found)))
    }

    /// The sum of a file as it is, compared as that of `entry`; `None`: it is missing.
    fn found(&self, name: &str, entry: &Entry) -> Result<Option<Sum>, FileError> {
        self.sum_of(name, is_log(name).then_some(entry.now.bytes))
    }

    /// The sum of a file, or of so much of its beginning; `None`: it is missing.
    fn sum_of(&self, name: &str, length: Option<u64>) -> Result<Option<Sum>, FileError> {
        let path = self.folder.join(name);
        match Sum::of_file(&path, length) {
            Ok(sum) => Ok(Some(sum)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(FileError::new("read", &path, cause)),
        }
    }

    /// After a crash: finds which of its sums each file has that was being replaced.
    fn settle(&mut self) -> Result<(), FileError> {
        let open: Vec<_> =
            self.files.iter().filter(|(_, entry)| !entry.before.is_empty()).map(|(n, e)| (n.clone(), e.clone())).collect();
        for (name, entry) in open {
            match self.found(&name, &entry)? {
                None if entry.before.contains(&None) => {
                    self.files.remove(&name);
                }
                Some(sum) if sum == entry.now || entry.before.contains(&Some(sum.clone())) => {
                    self.files.insert(name, Entry { now: sum, before: Vec::new() });
                }
                _ => {} // damaged: whoever reads it will be told
            }
        }
        Ok(())
    }

    fn store(&self) -> Result<(), FileError> {
        write_json(&self.folder.join(CHECKSUMS_FILE), &Stored::of(self.files.clone()))
    }
}

impl FileError {
    /// Is it about the sums, and not about a file that has one?
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

fn is_log(name: &str) -> bool {
    name.ends_with(".jsonl")
}

fn is_within(name: &str) -> bool {
    let plain = |part| matches!(part, std::path::Component::Normal(_));
    !name.is_empty() && Path::new(name).components().all(plain)
}

/// Reads a file, compared with its sum where it has one.
///
/// # Errors
/// A file that is missing or damaged.
pub fn read(folder: &Path, name: &str) -> Result<Vec<u8>, FileError> {
    check(folder, &[name])?;
    let path = folder.join(name);
    disk::read(&path).map_err(|cause| FileError::new("read", &path, cause))
}

/// Compares files with their sums; false where the folder has no sums.
///
/// # Errors
/// A file that is damaged, or listed and missing.
pub fn check(folder: &Path, names: &[&str]) -> Result<bool, FileError> {
    let Some(sums) = Checksums::of(folder)? else { return Ok(false) };
    names.iter().try_for_each(|name| sums.check(name).map(drop))?;
    Ok(true)
}

/// Is this a file that whoever wrote it reads again: one with a sum, in its folder or in one above, or the file of the sums?
///
/// # Errors
/// Where the sums cannot be read.
pub fn is_kept(path: &Path) -> Result<bool, FileError> {
    let path = std::path::absolute(path).map_err(|cause| FileError::new("find", path, cause))?;
    for folder in path.ancestors().skip(1) {
        let Some(sums) = Checksums::of(folder)? else { continue };
        let name = path.strip_prefix(folder).ok().and_then(Path::to_str);
        if name.is_some_and(|name| name == CHECKSUMS_FILE || sums.files.contains_key(name)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses a file that was written with its sum and has lost it, so that nothing tells whether it was changed.
///
/// # Errors
/// A file that is not listed, or not what was written.
pub fn check_listed(folder: &Path, name: &str) -> Result<(), FileError> {
    if Checksums::of(folder)?.is_some_and(|sums| sums.files.contains_key(name)) {
        return check(folder, &[name]).map(drop);
    }
    Err(FileError::damaged(&folder.join(name), format!("its sum, with which it was written, is not in {CHECKSUMS_FILE}")))
}

/// Compares all listed files whose names are chosen with their sums; false where the folder has no sums.
///
/// # Errors
/// The first that is damaged or missing.
pub fn check_where(folder: &Path, is_chosen: impl Fn(&str) -> bool) -> Result<bool, FileError> {
    let Some(sums) = Checksums::of(folder)? else { return Ok(false) };
    sums.files.keys().filter(|name| is_chosen(name)).try_for_each(|name| sums.check(name).map(drop))?;
    Ok(true)
}

/// Compares all files of a folder in `folder` with their sums; false where `folder` has no sums.
///
/// # Errors
/// The first that is damaged, or listed and missing.
pub fn check_within(folder: &Path, inner: &str) -> Result<bool, FileError> {
    check_where(folder, |name| Path::new(name).starts_with(inner))
}

/// Files of a folder that belong together: when all are on the disk, [`Group::commit`] gives each its name, in the order in which they
/// were added.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    files: Vec<(String, Sum, Temporary)>,
    kept: Option<(&'static str, &'static str)>,
    log: Option<(&'static str, Sum)>,
}

impl Group {
    /// None yet.
    pub fn of(folder: &Path) -> Self {
        Group { folder: folder.to_owned(), files: Vec::new(), kept: None, log: None }
    }

    /// Writes a file, under a temporary name.
    ///
    /// # Errors
    /// Where the system refuses; nothing has changed then.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let path = self.folder.join(name);
        let fill =
            |file: &mut io::BufWriter<disk::Output>| file.write_all(bytes).map_err(|cause| FileError::new("write", &path, cause));
        self.files.push((name.to_owned(), Sum::of(bytes), written(&path, fill)?));
        Ok(())
    }

    /// Writes several.
    ///
    /// # Errors
    /// As [`Group::add`].
    pub fn add_all(&mut self, files: &[(&str, Vec<u8>)]) -> Result<(), FileError> {
        files.iter().try_for_each(|(name, bytes)| self.add(name, bytes))
    }

    /// The file that has this name now keeps another, in place of what had that.
    pub fn keep(&mut self, name: &'static str, previous: &'static str) {
        self.kept = Some((name, previous));
    }

    /// A log has come this far, and is on the disk.
    pub fn log(&mut self, name: &'static str, sum: Sum) {
        self.log = Some((name, sum));
    }

    /// Gives each its name.
    ///
    /// # Errors
    /// Where the system refuses. Each file is whole then, old or new.
    pub fn commit(self) -> Result<(), FileError> {
        let _alone = alone();
        let folder = &self.folder;
        let mut sums = Checksums::of(folder)?.unwrap_or_else(|| Checksums { folder: folder.clone(), files: BTreeMap::new() });
        sums.settle()?;
        let kept = self.kept.filter(|(name, _)| folder.join(name).exists());
        if let Some((name, previous)) = kept
            && let Some(sum) = sums.listed(name)?
        {
            sums.announce(previous, sum)?;
        }
        self.files.iter().try_for_each(|(name, sum, _)| sums.announce(name, sum.clone()))?;
        if let Some(entry) = kept.and_then(|(name, _)| sums.files.get_mut(name)) {
            entry.before.push(None); // between the two renames
        }
        if let Some((name, sum)) = self.log {
            sums.files.insert(name.into(), Entry { now: sum, before: Vec::new() });
        }
        sums.store()?;
        if let Some((name, previous)) = kept {
            let (from, to) = (folder.join(name), folder.join(previous));
            disk::rename(&from, &to).map_err(|cause| FileError::new("replace", &to, cause))?;
        }
        self.files.into_iter().try_for_each(|(name, _, temporary)| temporary.take_name(&folder.join(name)))?;
        sync_folder(folder)?;
        sums.files.values_mut().for_each(|entry| entry.before.clear());
        sums.store()
    }
}

/// Sums are read, changed and written by one thread at a time; that one process works in a folder is its `Lock`'s care.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes files that belong together.
///
/// # Errors
/// As [`Group::add`] and [`Group::commit`].
pub fn write(folder: &Path, files: &[(&str, Vec<u8>)]) -> Result<(), FileError> {
    let mut group = Group::of(folder);
    group.add_all(files)?;
    group.commit()
}

impl Checksums {
    /// The sum of a file: the listed one, or where it is there and not listed, that which it has.
    fn listed(&self, name: &str) -> Result<Option<Sum>, FileError> {
        match self.files.get(name) {
            Some(entry) => Ok(Some(entry.now.clone())),
            None => self.sum_of(name, None),
        }
    }

    /// Lists the sum that a file is about to have beside the one it has.
    fn announce(&mut self, name: &str, sum: Sum) -> Result<(), FileError> {
        let before = vec![self.listed(name)?];
        self.files.insert(name.to_owned(), Entry { now: sum, before });
        Ok(())
    }
}

/// Removes files that are no longer needed.
///
/// # Errors
/// Where the system refuses.
pub fn remove(folder: &Path, names: &[&str]) -> Result<(), FileError> {
    let _alone = alone();
    if let Some(mut sums) = Checksums::of(folder)? {
        sums.settle()?;
        let before = sums.files.len();
        sums.files.retain(|name, _| !names.contains(&name.as_str()));
        if sums.files.len() < before {
            sums.store()?;
        }
    }
    for path in names.iter().map(|name| folder.join(name)).filter(|path| path.exists()) {
        disk::remove(&path).map_err(|cause| FileError::new("remove", &path, cause))?;
    }
    Ok(())
}

/// Undoes the first [`Group::commit`] of a folder, which a crash ended: the folder is again what it was before it.
///
/// # Errors
/// Where the system refuses.
pub fn undo_first(folder: &Path) -> Result<(), FileError> {
    let Some(sums) = Checksums::of(folder)? else { return Ok(()) };
    let is_first = !sums.files.is_empty() && sums.files.values().all(|entry| entry.before.contains(&None));
    if is_first {
        let names: Vec<&str> = sums.files.keys().map(String::as_str).collect();
        for path in names.iter().copied().chain([CHECKSUMS_FILE]).map(|name| folder.join(name)).filter(|path| path.exists()) {
            disk::remove(&path).map_err(|cause| FileError::new("remove", &path, cause))?;
        }
    }
    Ok(())
}

/// [`files::replace_directory`], with the sums of all that `fill` wrote.
///
/// # Errors
/// As there.
pub fn replace_directory<E: From<FileError>>(path: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    files::replace_directory(path, |fresh| {
        fill(fresh)?;
        Ok(take(fresh, |_| true)?)
    })
}

/// Takes a folder's files as they are now: those that are listed, and where there is no list that can be read, all, with those of its
/// subfolders that have no sums of their own.
///
/// # Errors
/// Where the system refuses.
pub fn accept(folder: &Path) -> Result<(), FileError> {
    let listed = Checksums::of(folder).ok().flatten();
    take(folder, |name| match &listed {
        Some(listed) => listed.files.contains_key(name),
        None => !name.ends_with(".html") && !name.ends_with(".svg"), // nobody reads pages again
    })
}

/// Writes the sums of the chosen files.
fn take(folder: &Path, is_taken: impl Fn(&str) -> bool) -> Result<(), FileError> {
    let mut sums = Checksums { folder: folder.to_owned(), files: BTreeMap::new() };
    for path in within(folder)? {
        if let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str).filter(|name| is_taken(name)) {
            let sum = Sum::of_file(&path, None).map_err(|cause| FileError::new("read", &path, cause))?;
            sums.files.insert(name.to_owned(), Entry { now: sum, before: Vec::new() });
        }
    }
    sums.store()
}

/// The files of a folder, and of its subfolders that have no sums of their own.
fn within(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Vec::new();
    for path in disk::list(folder).map_err(|cause| FileError::new("list", folder, cause))? {
        if is_unfinished(&path, None) {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            if !path.join(CHECKSUMS_FILE).exists() {
                files.extend(within(&path)?);
            }
        } else if path.is_file() && !path.ends_with(CHECKSUMS_FILE) && !path.ends_with(LOCK) {
            files.push(path);
        }
    }
    Ok(files)
}

/// What became of a file.
#[derive(Debug)]
pub struct Verdict {
    /// The file.
    pub path: PathBuf,
    /// `Ok(true)`: as it was written; `Ok(false)`: it has no sum; else what is wrong.
    pub found: Result<bool, FileError>,
}

/// Compares every file of a folder and its subfolders with its sum.
///
/// # Errors
/// Where the folder cannot be listed.
pub fn verify(folder: &Path) -> Result<Vec<Verdict>, FileError> {
    let mut verdicts = Vec::new();
    match Checksums::of(folder) {
        Err(error) => verdicts.push(Verdict { path: folder.join(CHECKSUMS_FILE), found: Err(error) }),
        Ok(sums) => {
            let files = sums.as_ref().map(|sums| &sums.files);
            for name in files.into_iter().flat_map(BTreeMap::keys) {
                let found = sums.as_ref().map_or(Ok(false), |sums| sums.check(name));
                verdicts.push(Verdict { path: folder.join(name), found });
            }
            let is_listed = |path: &Path| {
                let name = path.strip_prefix(folder).ok().and_then(Path::to_str);
                files.is_some_and(|files| name.is_some_and(|name| files.contains_key(name)))
            };
            let others = within(folder)?.into_iter().filter(|path| !is_listed(path));
            verdicts.extend(others.map(|path| Verdict { path, found: Ok(false) }));
        }
    }
    for path in with_own_sums(folder)? {
        verdicts.extend(verify(&path)?);
    }
    Ok(verdicts)
}

/// The nearest subfolders that have sums of their own.
fn with_own_sums(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut found = Vec::new();
    for path in disk::list(folder).map_err(|cause| FileError::new("list", folder, cause))? {
        if !path.is_dir() || path.is_symlink() || is_unfinished(&path, None) {
            continue;
        }
        if path.join(CHECKSUMS_FILE).exists() {
            found.push(path);
        } else {
            found.extend(with_own_sums(&path)?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
