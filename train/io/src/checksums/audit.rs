//! Verification and acceptance of all files of a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{CHECKSUMS_FILE, Checksums, Digests, Entry, Sum, folders};
use crate::disk;
use crate::files::{self, FileError, LOCK, is_unfinished};

/// Replaces a directory as [`files::replace_directory`] does, with the checksums of all files that `fill` wrote.
///
/// # Errors
/// Returns an error in the cases of [`files::replace_directory`].
pub fn replace_directory<E: From<FileError>>(path: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    files::replace_directory(path, |fresh| {
        fill(fresh)?;
        let names = names_within(fresh)?;
        Ok(take(fresh, names, BTreeMap::new())?)
    })
}

/// Accepts the current files of a folder by recomputing their checksums. These are the listed files; without a readable list,
/// all files but `.html` and `.svg`, including those of subfolders without checksums. Listed subfolders are accepted too, and so
/// are links in place of either.
///
/// # Errors
/// Returns an error if a file cannot be read or written.
pub fn accept(folder: &Path) -> Result<(), FileError> {
    let (mut names, mut folders) = (BTreeSet::new(), BTreeMap::new());
    match Checksums::of(folder).ok().flatten() {
        Some(Checksums { listed, .. }) => {
            names.extend(listed.files.into_keys().filter(|name| folder.join(name).is_file()));
            for (name, mut digests) in listed.folders {
                let path = folder.join(&name);
                if path.is_dir() && !path.join(CHECKSUMS_FILE).exists() {
                    accept(&path)?; // its checksums were lost
                }
                if path.is_dir() {
                    if !digests.is_empty() {
                        digests = folders::digest(&path)?.map(Some).into_iter().collect();
                    }
                    folders.insert(name, digests);
                }
            }
        }
        None => {
            let is_read_again = |name: &String| !name.ends_with(".html") && !name.ends_with(".svg");
            names.extend(names_within(folder)?.into_iter().filter(is_read_again));
            folders
                .extend(folders::with_own_sums(folder)?.iter().filter_map(|path| Some((name_in(folder, path)?, Digests::new()))));
        }
    }
    take(folder, names, folders)
}

/// Writes the checksums of these files, and lists these subfolders.
fn take(folder: &Path, names: impl IntoIterator<Item = String>, folders: BTreeMap<String, Digests>) -> Result<(), FileError> {
    let mut sums = Checksums::none(folder);
    for name in names {
        let path = folder.join(&name);
        let now = Sum::of_file(&path, None).map_err(|cause| FileError::new("read", &path, cause))?;
        sums.listed.files.insert(name, Entry { now, before: Vec::new() });
    }
    sums.listed.folders = folders;
    let names = sums.listed.files.keys().chain(sums.listed.folders.keys());
    let parts = names.flat_map(|name| Path::new(name).ancestors()).filter_map(Path::to_str).filter(|part| !part.is_empty());
    sums.listed.links = parts.filter(|part| folder.join(part).is_symlink()).map(str::to_owned).collect();
    sums.store()
}

fn name_in(folder: &Path, path: &Path) -> Option<String> {
    path.strip_prefix(folder).ok().and_then(Path::to_str).map(str::to_owned)
}

fn names_within(folder: &Path) -> Result<BTreeSet<String>, FileError> {
    Ok(within(folder)?.iter().filter_map(|path| name_in(folder, path)).collect())
}

/// Returns the files of a folder and of its subfolders that have no checksums.
fn within(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Vec::new();
    for path in disk::list(folder).map_err(|cause| FileError::new("list", folder, cause))? {
        if is_unfinished(&path, None) {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            if !folders::has_checksums(&path) {
                files.extend(within(&path)?);
            }
        } else if path.is_file() && !path.ends_with(CHECKSUMS_FILE) && !path.ends_with(LOCK) {
            files.push(path);
        }
    }
    Ok(files)
}

/// The result of verifying a file or folder.
#[derive(Debug)]
pub struct Verdict {
    /// The file, or a folder that is missing or differs from the listed one.
    pub path: PathBuf,
    /// `Ok(true)`: unchanged; `Ok(false)`: without a checksum; otherwise the fault.
    pub found: Result<bool, FileError>,
}

/// Compares all files of a folder and its subfolders with their checksums, and the subfolders with the list.
///
/// # Errors
/// Returns an error if the entries of a folder cannot be read.
pub fn verify(folder: &Path) -> Result<Vec<Verdict>, FileError> {
    let mut verdicts = Vec::new();
    match Checksums::of(folder) {
        Err(error) => verdicts.push(Verdict { path: folder.join(CHECKSUMS_FILE), found: Err(error) }),
        Ok(sums) => {
            let listed = sums.as_ref().map(|sums| &sums.listed);
            if let Some(sums) = &sums {
                verdicts
                    .extend(sums.listed.files.keys().map(|name| Verdict { path: folder.join(name), found: sums.check(name) }));
                let faults = sums.listed.folders.keys().filter_map(|name| sums.check_folder(name).err());
                verdicts.extend(faults.map(|error| Verdict { path: error.path.clone(), found: Err(error) }));
            }
            let is_listed = |path: &Path| {
                listed.is_some_and(|listed| name_in(folder, path).is_some_and(|name| listed.files.contains_key(&name)))
            };
            let others = within(folder)?.into_iter().filter(|path| !is_listed(path));
            verdicts.extend(others.map(|path| Verdict { path, found: Ok(false) }));
        }
    }
    let told: BTreeSet<PathBuf> = verdicts.iter().map(|verdict| verdict.path.clone()).collect();
    for path in folders::with_own_sums(folder)? {
        verdicts.extend(verify(&path)?.into_iter().filter(|verdict| !told.contains(&verdict.path)));
    }
    Ok(verdicts)
}
