//! The manifest of a fine-tuning run, and the rows and the model that the run reads.

use std::path::{Path, PathBuf};

use gradus_data::sets::{Split, Task};
use gradus_io::hex;
use gradus_model::checkpoint;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Data, FinetuneError, FinetuneSettings, RowCounts, TaskModel};
use crate::hyperparameters::require;
use crate::run::{self, Manifest, RunError};
use crate::trainer::precision::Precision;

/// The manifest of a fine-tuning run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinetuneManifest {
    /// The task's name.
    pub task: String,
    /// The folder of the task's files.
    pub data: PathBuf,
    /// The directory of the pre-trained model.
    pub model: PathBuf,
    /// The hyperparameters, with the first seed.
    pub settings: FinetuneSettings,
    /// The number of seeds.
    pub seeds: u64,
    /// The digest of the rows and the pre-trained model.
    pub digest: String,
    /// The command that began the run.
    pub command: String,
    /// The GPU on which the run began; `None`: the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The precision of products.
    #[serde(default, skip_serializing_if = "Precision::is_full")]
    pub precision: Precision,
}

impl Manifest for FinetuneManifest {
    const COMMAND: &'static str = "finetune";

    fn precision(&mut self) -> &mut Precision {
        &mut self.precision
    }
}

/// The record of a seed that process 0 broadcasts to the other processes of a run.
#[derive(Serialize, Deserialize)]
pub(super) struct SeedRecord {
    pub(super) manifest: FinetuneManifest,
    pub(super) seed: u64,
}

impl run::SharedManifest for SeedRecord {
    const COMMAND: &'static str = FinetuneManifest::COMMAND;
}

/// Returns a digest that changes with any token of any row, and with any size or parameter of the pre-trained model.
fn digest(task_model: &TaskModel, data: &[&Data]) -> Result<String, RunError> {
    let mut hash = Sha256::new();
    hash.update(gradus_io::identity(&task_model.model.config()));
    checkpoint::parameter_bytes(&task_model.model, |bytes| hash.update(bytes))?;
    for row in data.iter().flat_map(|data| &data.rows) {
        for ids in &row.encoded.rows {
            ids.to_vec().iter().for_each(|id| hash.update(id.to_le_bytes()));
            hash.update([0xff; 4]);
        }
        hash.update(format!("{:?}", row.encoded.target));
    }
    Ok(hex::encode(hash.finalize()))
}

/// A run with its model, and the task's rows encoded for the model.
pub(super) struct Prepared {
    pub(super) task: &'static Task,
    pub(super) task_model: TaskModel,
    pub(super) train: Data,
    pub(super) dev: Data,
    /// Training and dev rows, before `--rows` and `--dev-rows`.
    pub(super) all_rows: [RowCounts; 2],
    /// The digest of all tokens of the rows and all parameters of the pre-trained model.
    pub(super) digest: String,
    pub(super) out: PathBuf,
    pub(super) manifest: FinetuneManifest,
}

impl Prepared {
    /// Writes the manifest if there is none yet. All processes must have agreed on the run before.
    pub(super) fn begin(&self) -> Result<(), RunError> {
        if FinetuneManifest::is_in(&self.out) { Ok(()) } else { self.manifest.write(&self.out, Vec::new()) }
    }

    pub(super) fn open(mut manifest: FinetuneManifest, task: &'static Task, out: &Path) -> Result<Self, FinetuneError> {
        // Checks that need no data come first, since reading it takes long.
        crate::tasks::head(task)?;
        let (first, seeds) = (manifest.settings.seed, manifest.seeds);
        require("seeds", seeds, (1..=1000).contains(&seeds), "a number from 1 to 1000")?;
        require(
            "seed",
            first,
            first.checked_add(seeds).is_some(),
            "a number that leaves room for the number of seeds in --seeds",
        )?;
        let mut task_model = TaskModel::pretrained(&manifest.model, first)?;
        if let Some(mode) = manifest.settings.mode {
            task_model.tokenizer = task_model.tokenizer.with_mode(mode)?;
        }
        manifest.settings.check(&task_model.model.config())?;
        manifest.settings.aux = Some(manifest.settings.lambda(task_model.model.predicts())); // the manifest stores the default, too
        let train = task_model.read(task, &manifest.data, Split::Train)?;
        let dev = task_model.read(task, &manifest.data, Split::Dev)?;
        let all_rows = [train.counts(), dev.counts()];
        let (train, dev) = (train.at_most(manifest.settings.rows), dev.at_most(manifest.settings.dev_rows));
        let digest = digest(&task_model, &[&train, &dev])?;
        Ok(Prepared { task, task_model, train, dev, all_rows, digest, out: out.to_owned(), manifest })
    }
}
