//! The list of subfolders that a folder must have.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::settings::settings_with_checksums;
use super::{CHECKSUMS_FILE, Checksums, Digests, alone, write};
use crate::disk;
use crate::files::{self, FileError, is_unfinished, resolve_directory};
use crate::hex;

/// Returns the file which states that a folder without checksums had some: its settings, or the checksums of a folder above.
pub(super) fn expected_by(folder: &Path) -> Option<PathBuf> {
    settings_with_checksums(folder).or_else(|| {
        let above = listed_by(folder).into_iter().next()?;
        Some(above.folder.join(CHECKSUMS_FILE))
    })
}

/// Returns whether a folder has checksums, or its settings state that it had some.
pub fn has_checksums(folder: &Path) -> bool {
    folder.join(CHECKSUMS_FILE).symlink_metadata().is_ok() || settings_with_checksums(folder).is_some()
}

/// Returns the checksums of the folders above that list this folder, nearest first.
fn listed_by(folder: &Path) -> Vec<Checksums> {
    let Ok(folder) = std::path::absolute(folder) else { return Vec::new() };
    let lists = |above: &Path| {
        let sums = Checksums::read(above).ok().flatten()?;
        let name = folder.strip_prefix(above).ok()?.to_str()?;
        sums.listed.folders.contains_key(name).then_some(sums)
    };
    folder.ancestors().skip(1).filter_map(lists).collect()
}

/// Returns the nearest subfolders that have checksums.
pub(super) fn with_own_sums(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut found = Vec::new();
    for path in disk::list(folder).map_err(|cause| FileError::new("list", folder, cause))? {
        if !path.is_dir() || path.is_symlink() || is_unfinished(&path, None) {
            continue;
        }
        if has_checksums(&path) {
            found.push(path);
        } else {
            found.extend(with_own_sums(&path)?);
        }
    }
    Ok(found)
}

/// Returns the SHA-256 of a folder's [`CHECKSUMS_FILE`]; `None` if there is none.
pub(super) fn digest(folder: &Path) -> Result<Option<String>, FileError> {
    let path = folder.join(CHECKSUMS_FILE);
    match disk::read(&path) {
        Ok(bytes) => Ok(Some(hex::encode(Sha256::digest(bytes)))),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(cause) => Err(FileError::new("read", &path, cause)),
    }
}

/// A listed subfolder that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost(
    /// The path.
    pub PathBuf,
);

impl Checksums {
    /// Compares a subfolder with its listed digests. Returns whether it is listed.
    ///
    /// # Errors
    /// Returns an error if a listed subfolder is missing, is a link, or has another digest.
    pub(super) fn check_folder(&self, name: &str) -> Result<bool, FileError> {
        let Some(digests) = self.listed.folders.get(name) else { return Ok(false) };
        self.check_links(name)?;
        let path = resolve_directory(&self.folder.join(name))?; // or the copy that an interrupted replacement left
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
                let problem = format!("it belongs to another directory: SHA-256 {listed:.16}… was written, it has {found:.16}…");
                Err(FileError::damaged(&sums, problem))
            }
        }
    }

    /// Lists a subfolder, and removes its files from the list: they may have been listed before it had checksums.
    fn has_own_sums(&mut self, name: &str, digests: Digests) {
        self.listed.files.retain(|file, _| !Path::new(file).starts_with(name));
        self.listed.folders.insert(name.to_owned(), digests);
    }

    fn is_lost(&self, name: &str) -> Result<bool, FileError> {
        Ok(resolve_directory(&self.folder.join(name))?.symlink_metadata().is_err())
    }

    /// Resolves replacements that a crash interrupted: finds which of its listed digests each subfolder has.
    pub(super) fn settle_folders(&mut self) {
        let folder = &self.folder;
        for (name, digests) in self.listed.folders.iter_mut().filter(|(_, digests)| digests.len() > 1) {
            let found = resolve_directory(&folder.join(name)).and_then(|path| digest(&path));
            match found {
                Ok(found) if found.is_some() && digests.contains(&found) => *digests = vec![found],
                _ => {} // missing, or damaged, which the next read reports
            }
        }
        self.listed.folders.retain(|name, digests| {
            let is_there = || folder.join(name).symlink_metadata().is_ok();
            digests.last() != Some(&None) || is_there() // otherwise it was never put in place
        });
    }
}

/// Changes the list of subfolders; a folder without checksums stays without a list.
fn change(folder: &Path, how: impl FnOnce(&mut Checksums) -> Result<(), FileError>) -> Result<(), FileError> {
    let _alone = alone();
    let Some(mut sums) = Checksums::of(folder)? else { return Ok(()) };
    let before = sums.listed.folders.clone();
    how(&mut sums)?;
    if sums.listed.folders == before { Ok(()) } else { sums.store() }
}

/// Lists a subfolder, which must exist from now on: a finished one with its digest, one in progress without. Does nothing if
/// `folder` has no checksums.
///
/// # Errors
/// Returns an error if the checksums cannot be read or written.
pub fn list(folder: &Path, name: &str, is_finished: bool) -> Result<(), FileError> {
    change(folder, |sums| {
        let digests = if is_finished { digest(&folder.join(name))?.map(Some).into_iter().collect() } else { Digests::new() };
        sums.has_own_sums(name, digests);
        Ok(())
    })
}

/// Removes a subfolder from the list, so that it may be missing.
///
/// # Errors
/// Returns an error if the checksums cannot be read or written.
pub fn unlist(folder: &Path, name: &str) -> Result<(), FileError> {
    change(folder, |sums| {
        sums.listed.folders.remove(name);
        Ok(())
    })
}

/// Compares a subfolder with its listed digests. A listed subfolder that is missing is returned, not an error.
///
/// # Errors
/// Returns an error if a listed subfolder is a link or has another digest.
pub fn check_folder(folder: &Path, name: &str) -> Result<Option<Lost>, FileError> {
    let Some(sums) = Checksums::of(folder)? else { return Ok(None) };
    let Some(digests) = sums.listed.folders.get(name) else { return Ok(None) };
    if sums.is_lost(name)? && !digests.contains(&None) {
        return Ok(Some(Lost(folder.join(name))));
    }
    sums.check_folder(name).map(|_| None)
}

/// Replaces a subfolder by one with these files and their checksums, and lists it. After a crash at any point, it is the old or
/// the new one, and the list permits both.
///
/// # Errors
/// Returns an error in the cases of [`files::replace_directory`].
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

/// Lists all subfolders that have checksums, as [`list`] does. Returns the listed subfolders that are missing, and removes them
/// from the list.
///
/// # Errors
/// Returns an error if a listed subfolder is a link or has another digest.
pub fn relist(folder: &Path, is_finished: impl Fn(&str) -> bool) -> Result<Vec<Lost>, FileError> {
    let mut lost = Vec::new();
    change(folder, |sums| {
        let mut names: Vec<String> = with_own_sums(folder)?
            .iter()
            .filter_map(|path| path.strip_prefix(folder).ok()?.to_str().map(str::to_owned))
            .filter(|name| !name.split('/').any(|part| part.starts_with('.'))) // leftovers of a crash
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

/// Accepts the current checksums of a folder in the lists of the folders above.
///
/// # Errors
/// Returns an error if the checksums above cannot be read or written, or if another process works in a folder above.
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
