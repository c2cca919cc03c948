//! The directory of a run: its manifest and its lock.

use std::io::ErrorKind;
use std::path::Path;

use gradus_io::checksums::{self, Kept};
use gradus_io::files::{Lock, json_text, occupant, quoted, recover_directory, remove_unfinished};
use gradus_tensor::Device;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RunError;
use crate::model_dir::BEST;
use crate::trainer::ANOMALY;
use crate::trainer::precision::Precision;

pub(crate) const FILE: &str = "run.json";

/// The manifest of a run; a directory with its `run.json` can be resumed.
pub trait Manifest: Serialize + DeserializeOwned {
    /// The command that begins such runs: `pretrain`.
    const COMMAND: &'static str;

    /// Returns whether a directory holds a run.
    fn is_in(dir: &Path) -> bool {
        dir.join(FILE).exists()
    }

    /// Reads the manifest of the run in a directory.
    fn read(dir: &Path) -> Result<Self, RunError> {
        let file = dir.join(FILE);
        let error = |problem: String| RunError::Resume { problem: format!("{}: {problem}", file.display()) };
        let text = checksums::read(dir, FILE).map_err(|e| match e.cause.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                error(format!("{}; expected the --out directory of a `gradus {}`", e.cause, Self::COMMAND))
            }
            _ => e.into(),
        })?;
        Self::parse(&file, &text)
    }

    /// Returns whether the run has steps, so that it can be resumed.
    fn has_steps(&self) -> bool {
        true
    }

    /// Decodes a manifest from the bytes of its file; errors name `path`.
    ///
    /// # Errors
    /// Returns [`RunError::Resume`] if the bytes are malformed or belong to another command.
    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, RunError> {
        let error = |problem: String| RunError::Resume { problem: format!("{}: {problem}", path.display()) };
        let settings = checksums::settings(bytes).map_err(error)?;
        let command = if settings.contains_key("task") { "finetune" } else { "pretrain" };
        let is_other = settings.contains_key("settings") && command != Self::COMMAND;
        serde_json::from_value(settings.into()).map_err(|e| match is_other {
            true => error(format!("it belongs to a run of another command: `gradus {command} --resume` continues it")),
            false => error(format!("{e}; the file is damaged, or belongs to a run of another command")),
        })
    }

    /// Writes the manifest into its directory, after these files: once it is written, the run has begun.
    fn write(&self, dir: &Path, mut files: Vec<(&'static str, Vec<u8>)>) -> Result<(), RunError> {
        files.push((FILE, json_text(&Kept::with(self))));
        Ok(checksums::write(dir, &files)?)
    }

    /// Returns the precision of the run, to be updated.
    fn precision(&mut self) -> &mut Precision;

    /// Writes the manifest again if kernels whose bits differ were chosen since, so that a resumed run uses the same kernels.
    fn keep_kernels(&mut self, device: &Device, dir: &Path) -> Result<(), RunError> {
        let now = Precision::of(device);
        if now.is_full() || *self.precision() == now {
            return Ok(());
        }
        *self.precision() = now;
        self.write(dir, Vec::new())
    }

    /// Locks a directory for a new run. Returns an error if the directory holds anything.
    fn claim(dir: &Path) -> Result<Lock, RunError> {
        let lock = Lock::take(dir)?;
        if !dir.join(FILE).exists() {
            checksums::undo_first(dir)?; // removes the files of a beginning that a crash ended
        }
        let Some(found) = occupant(dir) else {
            remove_unfinished(dir, None)?;
            return Ok(lock);
        };
        let hint = match Self::read(dir) {
            Ok(run) if run.has_steps() => format!("; the run there can be continued with --resume {}", quoted(dir)),
            _ => String::new(),
        };
        Err(RunError::Taken { dir: dir.to_owned(), found, hint })
    }

    /// Locks the directory of a run to be resumed. If it does not exist, nothing is created, not even a lock.
    fn reclaim(dir: &Path) -> Result<(Lock, Self), RunError> {
        let manifest = Self::read(dir)?;
        let lock = Lock::take(dir)?;
        // Removes the files that a crash left.
        remove_unfinished(dir, None)?;
        for folder in [BEST, ANOMALY] {
            recover_directory(&dir.join(folder))?;
        }
        Ok((lock, manifest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, serde::Deserialize)]
    struct Any {}

    impl Manifest for Any {
        const COMMAND: &'static str = "any";
        fn precision(&mut self) -> &mut Precision {
            unreachable!("on the CPU")
        }
    }

    /// The lock on the directory is still held once the run has begun.
    #[test]
    fn a_new_run_keeps_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        let message = |found: Result<Lock, RunError>| found.unwrap_err().to_string();
        let refused = |out: &Path| message(Any::reclaim(out).map(|(lock, _)| lock));
        assert!(refused(&out).contains("run.json") && !out.exists());
        let lock = Any::claim(&out).unwrap();
        Any {}.write(&out, Vec::new()).unwrap();
        assert!(message(Any::claim(&out)).contains("another gradus process is using the folder"));
        assert!(refused(&out).contains("another gradus process is using the folder"));
        drop(lock);
        let taken = Any::claim(&out).unwrap_err();
        let RunError::Taken { dir, found, hint } = &taken else { panic!("{taken}") };
        assert_eq!((dir, found), (&out, &out.join("checksums.json")));
        assert!(hint.contains(&format!("--resume {}", quoted(&out))), "{hint}");
        Any::reclaim(&out).unwrap();
    }
}
