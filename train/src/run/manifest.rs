//! The directory of a run: what it was begun with, and who holds it now.

use std::path::Path;

use gradus_io::files::{Lock, occupant, quoted, write_json};
use gradus_tensor::Device;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RunError;
use crate::precision::Precision;

const FILE: &str = "run.json";

/// What a run was begun with; a directory with its `run.json` can be resumed.
pub trait Manifest: Serialize + DeserializeOwned {
    /// The command that begins such runs: `pretrain`.
    const COMMAND: &'static str;

    /// Reads that of the run in a directory.
    fn read(dir: &Path) -> Result<Self, RunError> {
        let file = dir.join(FILE);
        let error = |problem: String| RunError::Resume { problem: format!("{}: {problem}", file.display()) };
        let text = std::fs::read_to_string(&file)
            .map_err(|e| error(format!("{e}; expected the --out directory of a `gradus {}`", Self::COMMAND)))?;
        serde_json::from_str(&text)
            .map_err(|e| error(format!("{e}; the file is damaged, or belongs to a run of another command")))
    }

    /// Writes it into its directory.
    fn write(&self, dir: &Path) -> Result<(), RunError> {
        Ok(write_json(&dir.join(FILE), self)?)
    }

    /// Its precision, to be completed.
    fn precision(&mut self) -> &mut Precision;

    /// Writes it again where kernels whose bits differ were chosen since, so that a resumed run takes the same.
    fn keep_kernels(&mut self, device: &Device, dir: &Path) -> Result<(), RunError> {
        let now = Precision::of(device);
        if now.is_full() || *self.precision() == now {
            return Ok(());
        }
        *self.precision() = now;
        self.write(dir)
    }

    /// Takes a directory for a new run; one that holds anything is refused.
    fn claim(dir: &Path) -> Result<Lock, RunError> {
        let lock = Lock::take(dir)?;
        let Some(found) = occupant(dir) else { return Ok(lock) };
        let hint = match Self::read(dir) {
            Ok(_) => format!("; the run there can be continued with --resume {}", quoted(dir)),
            Err(_) => String::new(),
        };
        Err(RunError::Taken { dir: dir.to_owned(), found, hint })
    }

    /// Takes the directory of a run to be resumed; if there is none, nothing is created, not even a lock.
    fn reclaim(dir: &Path) -> Result<(Lock, Self), RunError> {
        let manifest = Self::read(dir)?;
        Ok((Lock::take(dir)?, manifest))
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

    /// The holder of the directory still holds it once the run has begun.
    #[test]
    fn a_beginning_leaves_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        let told = |found: Result<Lock, RunError>| found.unwrap_err().to_string();
        let refused = |out: &Path| told(Any::reclaim(out).map(|(lock, _)| lock));
        assert!(refused(&out).contains("run.json") && !out.exists());
        let lock = Any::claim(&out).unwrap();
        Any {}.write(&out).unwrap();
        assert!(told(Any::claim(&out)).contains("another gradus is working there"));
        assert!(refused(&out).contains("another gradus is working there"));
        drop(lock);
        let taken = Any::claim(&out).unwrap_err();
        let RunError::Taken { dir, found, hint } = &taken else { panic!("{taken}") };
        assert_eq!((dir, found), (&out, &out.join("run.json")));
        assert!(hint.contains(&format!("--resume {}", quoted(&out))), "{hint}");
        Any::reclaim(&out).unwrap();
    }
}
