//! A fine-tuning run on disk: begun or resumed, seed by seed.
//!
//! ```text
//! OUT/  run.json                   the task, data, model and settings, for --resume
//!       result.json                the measurements over all seeds
//!       the seed's files; with several seeds they are in OUT/seed-K
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gradus_data::sets::scores::mean_and_deviation;
use gradus_data::sets::{Split, Task};
use gradus_io::checksums::{self, Lost};
use gradus_io::files::{json_text, remove_unfinished};
use gradus_model::Tree;
use serde::{Deserialize, Serialize};

use super::manifest::{FinetuneManifest, Prepared, SeedRecord};
use super::seed::{Seed, SeedOutcome};
use super::{FinetuneError, FinetuneSettings, RowCounts, Session, left_out};
use crate::hyperparameters::{in_unicode, require};
use crate::run::{self, Begun, Control, Manifest, RunError};
use crate::trainer::check_room;
use crate::trainer::precision::{self, Precision};

/// The outcome of a fine-tuning run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinetuneOutcome {
    /// The task's name.
    pub task: String,
    /// The split scored.
    pub split: String,
    /// The task's metric.
    pub metric: String,
    /// The mean of the metric over the seeds.
    pub score: f64,
    /// The sample deviation of the metric; `None` with one seed.
    pub deviation: Option<f64>,
    /// The means of all metrics over the seeds.
    pub metrics: BTreeMap<String, f64>,
    /// The number of examples scored.
    pub examples: usize,
    /// The number of examples trained on.
    pub train_examples: usize,
    /// Whether `--rows` left out any training examples.
    pub capped: bool,
    /// Whether `--dev-rows` left out any examples of the dev split ([`FinetuneSettings::dev_rows`]).
    pub dev_capped: bool,
    /// The number of examples of both splits with a text cut to the context.
    pub truncated: usize,
    /// The numbers of rows that the data set leaves out of its files, by reason.
    pub dropped: BTreeMap<String, usize>,
    /// The rows of each split, before `--rows` and `--dev-rows`.
    pub splits: BTreeMap<String, RowCounts>,
    /// The number of tokens of the longest row: the context that this data needs.
    pub longest: usize,
    /// Whether all seeds are finished.
    pub finished: bool,
    /// The outcome of each finished seed.
    pub seeds: Vec<SeedOutcome>,
    /// The directory of the run.
    pub out: PathBuf,
}

/// Fine-tunes a model from a directory on a task. Earlier files are untouched, even after an error.
pub fn begin(
    model: &Path,
    task: &'static Task,
    data: &Path,
    out: &Path,
    settings: &FinetuneSettings,
    seeds: u64,
    control: &Control<'_>,
) -> Result<FinetuneOutcome, FinetuneError> {
    [("out", out), ("model", model), ("data", data)].into_iter().try_for_each(|(flag, path)| in_unicode(flag, path))?;
    let (shards, processes) = (settings.shards, control.collective.processes());
    require("shards", shards, processes == 1 || shards >= processes, format!("at least {processes}, one for each process"))?;
    let _lock = FinetuneManifest::claim(out)?;
    let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let manifest = FinetuneManifest {
        task: task.name.into(),
        data: absolute(data),
        model: absolute(model),
        settings: settings.clone(),
        seeds,
        digest: String::new(),
        command: control.command.clone(),
        device: precision::named(&control.device),
        precision: Precision::of(&control.device),
    };
    let mut ready = Prepared::open(manifest, task, out)?;
    check_room(&control.device, ready.task_model.model.bytes_to(&control.device)).map_err(RunError::from)?;
    ready.manifest.digest = ready.digest.clone();
    ready.run(control)
}

/// Continues the fine-tuning in a directory, with its original data. Finished seeds are not run again.
pub fn resume(out: &Path, control: &Control<'_>) -> Result<FinetuneOutcome, FinetuneError> {
    let (_lock, manifest) = FinetuneManifest::reclaim(out)?;
    let open = || Prepared::open(manifest.clone(), Task::named(&manifest.task)?, out);
    let ready = open().map_err(|e| match e {
        e if e.is_of_settings() => FinetuneError::resume(format!("{}: {e}; its run.json is damaged: put it back", out.display())),
        e => e,
    })?;
    if ready.digest != manifest.digest {
        return Err(FinetuneError::resume(format!(
            "the rows of {} or the model of {} have changed since the run began; put them back, or begin a new run",
            manifest.data.display(),
            manifest.model.display()
        )));
    }
    ready.run(control)
}

/// The options that a process was started with.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// The task's name.
    pub task: &'a str,
    /// The number of seeds.
    pub seeds: u64,
    /// The settings.
    pub settings: &'a FinetuneSettings,
}

/// Makes the steps of a fine-tuning that process 0 leads. `model` and `data` are the paths of the pre-trained model and the rows
/// for this process; `None`: those of process 0. `own` are the options of this process, which must equal those of process 0.
///
/// # Errors
/// Returns an error if the model, the rows or the settings differ, a process is lost, or training has diverged.
pub fn follow(
    model: Option<&Path>,
    data: Option<&Path>,
    own: Option<Own<'_>>,
    control: &Control<'_>,
) -> Result<(), FinetuneError> {
    let mut ready = None;
    while let Some(mut begun) = Begun::<SeedRecord>::hear(control)? {
        let SeedRecord { manifest, seed } = &begun.manifest;
        let precision = manifest.precision.clone();
        let task = Task::named(&manifest.task)?;
        if let Some(Own { task, seeds, settings }) = own {
            let what = |task: &str, seeds: u64| serde_json::json!({ "task": task, "seeds": seeds });
            run::same_settings(&what(task, seeds), &what(&manifest.task, manifest.seeds))?;
            let own = FinetuneSettings { aux: settings.aux.or(manifest.settings.aux), ..settings.clone() };
            run::same_settings(&own, &manifest.settings)?;
            run::same_precision(&control.device, &manifest.precision)?;
        }
        let settings = FinetuneSettings { seed: *seed, ..manifest.settings.clone() };
        let mut here = manifest.clone();
        here.model = model.map_or(here.model, Path::to_owned);
        here.data = data.map_or(here.data, Path::to_owned);
        let ready: &Prepared = match &mut ready {
            Some(ready) => ready,
            none => none.insert(Prepared::open(here, task, Path::new(""))?),
        };
        let session = Session::of_seed(ready, &settings)?;
        let (config, recipe) = (session.trainer.params.config(), session.trainer.recipe.clone());
        let fresh = |_| session.trainer.clone();
        let mut trainer = begun.trainer(config, recipe, fresh, (&ready.digest, &precision), &control.collective)?;
        trainer.watches = control.anomaly;
        run::follow(&mut trainer, begun.stop, |t| session.batch(t))?;
    }
    Ok(())
}

impl Prepared {
    fn run(&self, control: &Control<'_>) -> Result<FinetuneOutcome, FinetuneError> {
        let manifest = &self.manifest;
        self.train.notes.iter().chain(&self.dev.notes).for_each(|note| control.monitor.say(&format!("note: {note}")));
        let mut done = Vec::new();
        for number in 0..manifest.seeds {
            let settings = FinetuneSettings { seed: manifest.settings.seed + number, ..manifest.settings.clone() };
            let dir = if manifest.seeds == 1 { self.out.clone() } else { self.out.join(format!("seed-{}", settings.seed)) };
            remove_unfinished(&dir, None)?;
            let own = (manifest.seeds > 1).then(|| format!("seed-{}", settings.seed));
            if let Some(own) = &own
                && let Some(Lost(lost)) = checksums::check_folder(&self.out, own).map_err(RunError::from)?
            {
                let warning = "is missing, though it was written: this seed is run again, with the same result";
                control.monitor.warn(&format!("warning: {} {warning}", lost.display()));
                checksums::unlist(&self.out, own).map_err(RunError::from)?;
            }
            let mut outcome = SeedOutcome::read(&dir, self, &settings)?;
            if outcome.is_none() {
                let seed = if manifest.seeds == 1 { String::new() } else { format!(", seed {}", settings.seed) };
                let name = format!("{}{seed}", self.task.title);
                outcome =
                    Seed::open(self, dir, settings, control.monitor)?.run(&name, control).map_err(|e| e.halted(&self.out))?;
            }
            let Some(outcome) = outcome else { break };
            if let Some(own) = &own {
                checksums::list(&self.out, own, true).map_err(RunError::from)?;
            }
            done.push(outcome);
        }
        run::end(&*control.collective)?;
        let outcome = self.outcome(done);
        if outcome.finished {
            checksums::write(&self.out, &[("result.json", json_text(&outcome))])?;
        }
        Ok(outcome)
    }

    fn outcome(&self, seeds: Vec<SeedOutcome>) -> FinetuneOutcome {
        let scores: Vec<f64> = seeds.iter().map(|s| s.best.dev.score).collect();
        let (score, deviation) = mean_and_deviation(&scores);
        let mut metrics = BTreeMap::new();
        for seed in &seeds {
            for (name, value) in &seed.best.dev.metrics {
                *metrics.entry(name.clone()).or_insert(0.0) += value / seeds.len() as f64;
            }
        }
        FinetuneOutcome {
            task: self.task.name.into(),
            split: Split::Dev.name().into(),
            metric: self.task.metric.name().into(),
            score,
            deviation,
            metrics,
            examples: self.dev.rows.len(),
            train_examples: self.train.rows.len(),
            capped: self.train.rows.len() < self.all_rows[0].used,
            dev_capped: self.dev.rows.len() < self.all_rows[1].used,
            truncated: self.train.truncated() + self.dev.truncated(),
            dropped: left_out(self.train.dropped.iter().chain(&self.dev.dropped)),
            splits: [Split::Train, Split::Dev]
                .map(|split| split.name().to_owned())
                .into_iter()
                .zip(self.all_rows.clone())
                .collect(),
            longest: self.train.longest().max(self.dev.longest()),
            finished: seeds.len() as u64 == self.manifest.seeds,
            seeds,
            out: self.out.clone(),
        }
    }
}
