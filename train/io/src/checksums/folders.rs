//! The folders that a folder must have.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::audit::with_own_sums;
use super::{CHECKSUMS_FILE, Checksums, Digests, alone, write};
use crate::disk;
use crate::files::{self, FileError, resolve_directory};
use crate::hex;

/// The settings of runs and of studies: they say whether sums are kept.
const SETTINGS: [&str; 2] = ["run.json", "plan.json"];

/// Settings, with the word that the sums of their folder are kept.
#[derive(Debug, Serialize)]
pub struct Kept<T> {
    #[serde(flatten)]
    settings: T,
    checksums: bool,
}

impl<T> Kept<T> {
    /// That word beside these settings.
    pub fn with(settings: T) -> Self {
        Kept { settings, checksums: true }
    }
}

/// What says that a folder without sums had some: its own settings, or the sums of a folder above.
pub(super) fn who_expects(folder: &Path) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Word {
        checksums: bool,
    }
    let says = |path: &PathBuf| {
        let word = disk::read(path).ok().and_then(|bytes| serde_json::from_slice::<Word>(&bytes).ok());
        word.is_some_and(|word| word.checksums)
    };
    SETTINGS.map(|name| folder.join(name)).into_iter().find(says).or_else(|| {
        let above = listed_by(folder).into_iter().next()?;
        Some(above.folder.join(CHECKSUMS_FILE))
    })
}

/// The sums above a folder that list it, the nearest first.
fn listed_by(folder: &Path) -> Vec<Checksums> {
    let Ok(folder) = std::path::absolute(folder) else { return Vec::new() };
    let lists = |above: &Path| {
        let sums = Checksums::read(above).ok().flatten()?;
        let name = folder.strip_prefix(above).ok()?.to_str()?;
        sums.listed.folders.contains_key(name).then_some(sums)
    };
    folder.ancestors().skip(1).filter_map(lists).collect()
}

/// The SHA-256 of a folder's sums; `None`: it has none.
pub(super) fn digest(folder: &Path) -> Result<Option<String>, FileError> {
    let path = folder.join(CHECKSUMS_FILE);
    match disk::read(&path) {
        Ok(bytes) => Ok(Some(hex::encode(Sha256::digest(bytes)))),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(cause) => Err(FileError::new("read", &path, cause)),
    }
}

/// A listed folder that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost(
    /// Where it was.
    pub PathBuf,
);

impl Checksums {
    /// Compares the sums of a folder with what is listed of it. True if it is listed.
    ///
    /// # Errors
    /// One that is missing, a link, or another.
    pub(super) fn check_folder(&self, name: &str) -> Result<bool, FileError> {
        let Some(digests) = self.listed.folders.get(name) else { return Ok(false) };
        self.check_links(name)?;
        let path = resolve_directory(&self.folder.join(name))?; // or what a crash left of it
        if self.is_lost(name)? {
            return match digests.contains(&None) {
                true => Ok(true),
                false => Err(FileError::damaged(&path, "this directory is missing, though it was written".into())),
            };
        }
        let sums = path.join(CHECKSUMS_FILE);
        match digest(&path)? {
            _ if !path.is_dir() => Err(FileError::damaged(&path, "expected a directory, found a file".into())),
            _ if sums.is_symlink() => Err(FileError::damaged(&sums, super::IS_LINK.into())),
            found if digests.contains(&found) => Ok(true),
            None => Err(FileError::damaged(&sums, "it is missing, though it was written".into())),
            Some(_) if digests.is_empty() => Ok(true),
            Some(found) => {
                let listed = digests.iter().flatten().next().map_or("", String::as_str);
                let problem = format!("it is of another directory: SHA-256 {listed:.16}… was written, it has {found:.16}…");
                Err(FileError::damaged(&sums, problem))
            }
        }
    }

    /// Lists a folder. Files of it may be listed from before it had sums of its own.
    fn has_own_sums(&mut self, name: &str, digests: Digests) {
        self.listed.files.retain(|file, _| !Path::new(file).starts_with(name));
        self.listed.folders.insert(name.to_owned(), digests);
    }

    fn is_lost(&self, name: &str) -> Result<bool, FileError> {
        Ok(resolve_directory(&self.folder.join(name))?.symlink_metadata().is_err())
    }

    /// After a crash: finds which of its sums each folder has that was being replaced.
    pub(super) fn settle_folders(&mut self) {
        let folder = &self.folder;
        for (name, digests) in self.listed.folders.iter_mut().filter(|(_, digests)| digests.len() > 1) {
            let found = resolve_directory(&folder.join(name)).and_then(|path| digest(&path));
            match found {
                Ok(found) if found.is_some() && digests.contains(&found) => *digests = vec![found],
                _ => {} // none yet; or damaged: whoever reads it will be told
            }
        }
        self.listed.folders.retain(|name, digests| {
            let is_there = || folder.join(name).symlink_metadata().is_ok();
            digests.len() < 2 || digests.last() != Some(&None) || is_there() // it never was
        });
    }
}

/// Changes what a folder lists; a folder without sums lists nothing.
fn change(folder: &Path, how: impl FnOnce(&mut Checksums) -> Result<(), FileError>) -> Result<(), FileError> {
    let _alone = alone();
    let Some(mut sums) = Checksums::of(folder)? else { return Ok(()) };
    let before = sums.listed.folders.clone();
    how(&mut sums)?;
    if sums.listed.folders == before { Ok(()) } else { sums.store() }
}

/// Lists a folder within another, which must be there from now on: a finished one with the digest of its sums, one that is being
/// worked in without. Where `folder` has no sums, nothing is listed.
///
/// # Errors
/// Where the sums cannot be read or written.
pub fn list(folder: &Path, name: &str, is_finished: bool) -> Result<(), FileError> {
    change(folder, |sums| {
        let digests = if is_finished { digest(&folder.join(name))?.map(Some).into_iter().collect() } else { Digests::new() };
        sums.has_own_sums(name, digests);
        Ok(())
    })
}

/// A folder within another need not be there any more.
///
/// # Errors
/// As [`list`].
pub fn unlist(folder: &Path, name: &str) -> Result<(), FileError> {
    change(folder, |sums| {
        sums.listed.folders.remove(name);
        Ok(())
    })
}

/// Compares the sums of a folder within another with what is listed of it there.
///
/// # Errors
/// One that is a link or another. One that is missing is no error, and told.
pub fn check_folder(folder: &Path, name: &str) -> Result<Option<Lost>, FileError> {
    let Some(sums) = Checksums::of(folder)? else { return Ok(None) };
    if !sums.listed.folders.contains_key(name) {
        return Ok(None);
    }
    if sums.is_lost(name)? {
        return Ok(Some(Lost(folder.join(name))));
    }
    sums.check_folder(name).map(|_| None)
}

/// Replaces a folder within another by one with these files and their sums, and lists it. Whenever a crash comes, it is the old one or
/// the new one, and listed as either.
///
/// # Errors
/// As [`files::replace_directory`].
pub fn replace_within(folder: &Path, name: &str, files: &[(&str, Vec<u8>)]) -> Result<(), FileError> {
    let path = folder.join(name);
    files::replace_directory(&path, |fresh| {
        write(fresh, files)?;
        let new = digest(fresh)?;
        change(folder, |sums| {
            sums.settle_folders();
            let listed = sums.listed.folders.get(name).and_then(|digests| digests.first().cloned());
            let old = listed.map_or_else(|| digest(&path), Ok)?;
            let old = old.filter(|_| path.exists());
            sums.has_own_sums(name, vec![new, old]);
            Ok(())
        })
    })?;
    list(folder, name, true)
}

/// Lists all folders within another that have sums of their own, as [`list`]; returns those that were listed and are lost, and lists
/// them no longer.
///
/// # Errors
/// A listed folder that is a link, or another than the one that was written.
pub fn relist(folder: &Path, is_finished: impl Fn(&str) -> bool) -> Result<Vec<Lost>, FileError> {
    let mut lost = Vec::new();
    change(folder, |sums| {
        let mut names: Vec<String> = with_own_sums(folder)?
            .iter()
            .filter_map(|path| path.strip_prefix(folder).ok()?.to_str().map(str::to_owned))
            .filter(|name| !name.split('/').any(|part| part.starts_with('.'))) // what a crash left
            .collect();
        for name in sums.listed.folders.keys() {
            if sums.is_lost(name)? {
                lost.push(Lost(folder.join(name)));
            } else {
                sums.check_folder(name)?;
                names.push(name.clone());
            }
        }
        let found = |name: String| {
            let found = if is_finished(&name) { digest(&folder.join(&name))?.map(Some) } else { None };
            Ok((name, found.into_iter().collect()))
        };
        sums.listed.folders = names.into_iter().map(found).collect::<Result<_, FileError>>()?;
        Ok(())
    })?;
    Ok(lost)
}

/// Takes the sums of a folder as they are now, wherever they are listed above it.
///
/// # Errors
/// As [`list`], and where another process works above.
pub fn accept_above(folder: &Path) -> Result<(), FileError> {
    let absolute = std::path::absolute(folder).map_err(|cause| FileError::new("find", folder, cause))?;
    for above in listed_by(folder) {
        let name = absolute.strip_prefix(&above.folder).ok().and_then(Path::to_str);
        let has_digest = |name: &&str| above.listed.folders.get(*name).is_some_and(|digests| !digests.is_empty());
        if let Some(name) = name.filter(has_digest) {
            let _lock = files::Lock::take(&above.folder)?;
            list(&above.folder, name, true)?;
        }
    }
    Ok(())
}
