//! The directory of a run.
//!
//! ```text
//! OUT/  config.json, model.safetensors, tokenizer files     the model as it is now, in Hugging Face's format
//!       best/                                               the same where the held-out loss was lowest
//!       trainer.safetensors, run.json                       what --resume reads: state, settings
//!       metrics.jsonl, report.html, loss.svg                what was measured
//! ```
//!
//! Every file is written beside its place, flushed and renamed, so each is always whole. A resumed run reads
//! `trainer.safetensors` alone for parameters, so it does not matter whether a crash came between two files.

use std::path::{Path, PathBuf};

use gradus_io::files::{occupant, replace_directory, write_atomically, write_json};
use gradus_model::Model;
use gradus_model::checkpoint;
use gradus_tensor::Tensor;
use gradus_text::Tokenizer;
use serde::{Deserialize, Serialize};

use super::PretrainError;
use crate::settings::Settings;

/// What a run was, to continue it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// Its settings.
    pub settings: Settings,
    /// Its corpus; none: the micro-world.
    pub corpus: Option<PathBuf>,
    /// Number of updates of the whole run.
    pub updates: u64,
    /// What its data was.
    pub digest: String,
    /// The command that began it.
    pub command: String,
}

/// Paths within a run's directory.
#[derive(Clone, Debug)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// A directory for a new run; one that holds anything is refused. Nothing is made yet.
    pub fn vacant(path: &Path) -> Result<Self, PretrainError> {
        match occupant(path) {
            Some(found) => Err(PretrainError::Taken { dir: path.to_owned(), found }),
            None => Ok(RunDir(path.to_owned())),
        }
    }

    /// The directory of an existing run, and what it was.
    pub fn open(path: &Path) -> Result<(Self, RunFile), PretrainError> {
        let dir = RunDir(path.to_owned());
        let file = dir.run_file();
        let text = std::fs::read_to_string(&file).map_err(|e| PretrainError::Resume {
            problem: format!("{}: {e}; expected the directory that was --out of a `gradus pretrain`", file.display()),
        })?;
        let run = serde_json::from_str(&text).map_err(|e| PretrainError::Resume {
            problem: format!("{}: {e}; the file is damaged, or is of another command's run", file.display()),
        })?;
        Ok((dir, run))
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }
    /// Settings of the run.
    pub fn run_file(&self) -> PathBuf {
        self.0.join("run.json")
    }
    /// The trainer's state.
    pub fn trainer(&self) -> PathBuf {
        self.0.join(crate::trainer::TRAINER_FILE)
    }
    /// The metrics.
    pub fn metrics(&self) -> PathBuf {
        self.0.join("metrics.jsonl")
    }
    /// The report.
    pub fn report(&self) -> PathBuf {
        self.0.join("report.html")
    }
    /// The loss curve as a picture.
    pub fn picture(&self) -> PathBuf {
        self.0.join("loss.svg")
    }
    /// The best model's directory.
    pub fn best(&self) -> PathBuf {
        self.0.join("best")
    }

    /// Writes what does not change during a run; `run.json`, which makes it one, last.
    pub fn begin(&self, run: &RunFile, tokenizer: &Tokenizer) -> Result<(), PretrainError> {
        tokenizer.save(&self.0)?;
        Ok(write_json(&self.run_file(), run)?)
    }

    /// Writes the model as it is now, each file whole or not at all.
    pub fn save_model(&self, model: &Model<Tensor>) -> Result<(), PretrainError> {
        for (name, bytes) in checkpoint::files(model) {
            write_atomically(&self.0.join(name), |file| file.write_all(&bytes))?;
        }
        Ok(())
    }

    /// Replaces the best model, the directory as a whole.
    pub fn save_best(&self, model: &Model<Tensor>, tokenizer: &Tokenizer) -> Result<(), PretrainError> {
        replace_directory(&self.best(), |fresh| {
            tokenizer.save(fresh)?;
            Ok(checkpoint::save(fresh, model)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Options;
    use gradus_io::files::Lock;

    /// Whoever has the directory still has it when the run has begun.
    #[test]
    fn a_beginning_leaves_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        let lock = Lock::take(&out).unwrap();
        let settings = Options::default().settle().unwrap();
        let run = RunFile { settings, corpus: None, updates: 1, digest: String::new(), command: String::new() };
        RunDir::vacant(&out).unwrap().begin(&run, &Tokenizer::bytes()).unwrap();
        assert_eq!(RunDir::open(&out).unwrap().1, run);
        assert!(Lock::take(&out).is_err());
        drop(lock);
        assert!(Lock::take(&out).is_ok());
    }
}
