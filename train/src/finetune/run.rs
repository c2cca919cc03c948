//! A fine-tuning on disk: begun, or gone on with, seed by seed.
//!
//! ```text
//! OUT/  run.json                   what --resume reads: task, data, model, settings
//!       result.json                what was measured, over all seeds
//!       the seed's files; with several seeds they are in OUT/seed-K
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gradus_data::sets::scores::mean_and_deviation;
use gradus_data::sets::{Split, Task};
use gradus_io::files::{Lock, occupant, write_json};
use gradus_io::hex;
use gradus_io::progress::Monitor;
use gradus_model::checkpoint;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::seed::{Seed, SeedOutcome};
use super::{Data, FinetuneError, Reader, Settings};

/// What a fine-tuning was, to continue it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// The task's name.
    pub task: String,
    /// The folder of its files.
    pub data: PathBuf,
    /// The pre-trained model.
    pub model: PathBuf,
    /// Hyperparameters; the first seed.
    pub settings: Settings,
    /// Number of seeds.
    pub seeds: Seeds,
    /// What the rows were.
    pub digest: String,
    /// The command that began it.
    pub command: String,
}

impl RunFile {
    const NAME: &str = "run.json";

    /// That of a directory; else why there is none.
    pub fn read(dir: &Path) -> Result<Self, String> {
        let file = dir.join(Self::NAME);
        let text = std::fs::read_to_string(&file).map_err(|e| {
            format!("{}: {e}; --resume takes the directory that was --out of an earlier `gradus finetune`", file.display())
        })?;
        serde_json::from_str(&text)
            .map_err(|e| format!("{}: {e}; the file is damaged, or is of another command's run", file.display()))
    }
}

/// Number of seeds, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seeds(pub u64);

impl Seeds {
    /// Are these seeds, from the first on?
    fn check(self, first: u64) -> Result<(), FinetuneError> {
        let range =
            |flag, found: u64, expected: &str| FinetuneError::Range { flag, found: found.to_string(), expected: expected.into() };
        if !(1..=1000).contains(&self.0) {
            return Err(range("seeds", self.0, "a number from 1 to 1000"));
        }
        first.checked_add(self.0).map(drop).ok_or_else(|| range("seed", first, "a number that leaves room for --seeds more"))
    }
}

/// How a run is to be made, beyond its settings.
#[derive(Clone, Debug)]
pub struct Control<'m> {
    /// End after this many updates of a seed, the schedule unchanged, so that it can be resumed.
    pub stop_at: Option<u64>,
    /// Who watches.
    pub monitor: &'m dyn Monitor,
    /// The command line.
    pub command: String,
    /// Look at every op's value and every summand of a gradient, and stop at the first that is not finite.
    pub anomaly: bool,
}

/// What a fine-tuning came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The task's name.
    pub task: String,
    /// The split scored.
    pub split: String,
    /// The task's metric.
    pub metric: String,
    /// Its mean over the seeds.
    pub score: f64,
    /// Its sample deviation; `None` with one seed.
    pub deviation: Option<f64>,
    /// All metrics, means over the seeds.
    pub metrics: BTreeMap<String, f64>,
    /// Examples scored.
    pub examples: usize,
    /// Examples trained on.
    pub train_examples: usize,
    /// Were there more, which `--rows` left out?
    pub capped: bool,
    /// Whether there are more dev rows than were read ([`Settings::dev_rows`]).
    pub dev_capped: bool,
    /// Examples of both splits of which a text was cut to the context.
    pub truncated: usize,
    /// Rows of the files that the data set leaves out, by reason.
    pub dropped: BTreeMap<String, usize>,
    /// Tokens of the longest row: the context that this data takes.
    pub longest: usize,
    /// Are all seeds done?
    pub finished: bool,
    /// Each seed that is.
    pub seeds: Vec<SeedOutcome>,
    /// Where it is.
    pub out: PathBuf,
}

/// Fine-tunes a model from a directory on a task.
///
/// # Errors
/// Whatever keeps it from beginning or going on; what was written before stays as it was.
pub fn begin(
    model: &Path,
    task: &'static Task,
    data: &Path,
    out: &Path,
    settings: &Settings,
    seeds: Seeds,
    control: &Control<'_>,
) -> Result<Outcome, FinetuneError> {
    let _lock = Lock::take(out)?;
    if let Some(found) = occupant(out) {
        return Err(FinetuneError::Taken { dir: out.to_owned(), found });
    }
    let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut run = RunFile {
        task: task.name.into(),
        data: absolute(data),
        model: absolute(model),
        settings: settings.clone(),
        seeds,
        digest: String::new(),
        command: control.command.clone(),
    };
    let work = Work::open(&run, task, out)?;
    run.digest = work.digest.clone();
    write_json(&out.join(RunFile::NAME), &run)?;
    work.run(&run, control)
}

/// Continues the fine-tuning of a directory: seeds that are done are not run again.
///
/// # Errors
/// No such run, other data than it began with, and those of [`begin`].
pub fn resume(out: &Path, control: &Control<'_>) -> Result<Outcome, FinetuneError> {
    let error = |problem: String| FinetuneError::Resume { problem };
    let run = RunFile::read(out).map_err(error)?;
    let _lock = Lock::take(out)?;
    let open = || Work::open(&run, Task::named(&run.task)?, out);
    let work = open().map_err(|e| match e {
        e if e.is_of_settings() => error(format!("{}: {e}; the file is damaged: put it back", out.join(RunFile::NAME).display())),
        e => e,
    })?;
    if work.digest != run.digest {
        return Err(error(format!(
            "the rows of {} or the model of {} are not those that the run began with; put them back, or begin a new run",
            run.data.display(),
            run.model.display()
        )));
    }
    work.run(&run, control)
}

/// Changes with any token of any row, and with any size or parameter of the pre-trained model.
fn digest(reader: &Reader, data: &[&Data]) -> String {
    let mut hash = Sha256::new();
    hash.update(reader.model.config().frozen());
    checkpoint::parameter_bytes(&reader.model, |bytes| hash.update(bytes));
    for row in data.iter().flat_map(|data| &data.rows) {
        for ids in &row.encoded.rows {
            ids.iter().for_each(|id| hash.update(id.to_le_bytes()));
            hash.update([0xff; 4]);
        }
        hash.update(format!("{:?}", row.encoded.target));
    }
    hex::encode(hash.finalize())
}

/// A task's rows as a model reads them.
pub(super) struct Work {
    pub(super) task: &'static Task,
    pub(super) reader: Reader,
    pub(super) train: Data,
    pub(super) dev: Data,
    /// Of training and dev, before any were left out by `--rows` and `--dev-rows`.
    all_rows: (usize, usize),
    /// Changes with any token of any row, and with any parameter of the pre-trained model.
    pub(super) digest: String,
    out: PathBuf,
}

impl Work {
    fn open(run: &RunFile, task: &'static Task, out: &Path) -> Result<Self, FinetuneError> {
        // What can be refused is, before the long reading.
        crate::tasks::head(task)?;
        run.seeds.check(run.settings.seed)?;
        let reader = Reader::pretrained(&run.model, run.settings.seed)?;
        run.settings.check(&reader.model.backbone.config())?;
        let train = reader.read(task, &run.data, Split::Train)?;
        let dev = reader.read(task, &run.data, Split::Dev)?;
        let all_rows = (train.rows.len(), dev.rows.len());
        let (train, dev) = (train.at_most(run.settings.rows), dev.at_most(run.settings.dev_rows));
        let digest = digest(&reader, &[&train, &dev]);
        Ok(Work { task, reader, train, dev, all_rows, digest, out: out.to_owned() })
    }

    fn run(&self, run: &RunFile, control: &Control<'_>) -> Result<Outcome, FinetuneError> {
        let mut done = Vec::new();
        for number in 0..run.seeds.0 {
            let settings = Settings { seed: run.settings.seed + number, ..run.settings.clone() };
            let dir = if run.seeds.0 == 1 { self.out.clone() } else { self.out.join(format!("seed-{}", settings.seed)) };
            let found = SeedOutcome::read(&dir, self, &settings)?;
            let outcome = match found {
                Some(done) => Some(done),
                None => {
                    let seed = if run.seeds.0 == 1 { String::new() } else { format!(", seed {}", settings.seed) };
                    let name = format!("{}{seed}", self.task.title);
                    Seed::open(self, dir, settings)?.run(&name, control).map_err(|e| e.halted(&self.out))?
                }
            };
            let Some(outcome) = outcome else { break };
            done.push(outcome);
        }
        let outcome = self.outcome(run, done);
        if outcome.finished {
            write_json(&self.out.join("result.json"), &outcome)?;
        }
        Ok(outcome)
    }

    fn outcome(&self, run: &RunFile, seeds: Vec<SeedOutcome>) -> Outcome {
        let scores: Vec<f64> = seeds.iter().map(|s| s.best.dev.score).collect();
        let (score, deviation) = mean_and_deviation(&scores);
        let mut metrics = BTreeMap::new();
        for seed in &seeds {
            for (name, value) in &seed.best.dev.metrics {
                *metrics.entry(name.clone()).or_insert(0.0) += value / seeds.len() as f64;
            }
        }
        let mut dropped = self.train.left_out();
        self.dev.left_out().into_iter().for_each(|(reason, rows)| *dropped.entry(reason).or_insert(0) += rows);
        Outcome {
            task: self.task.name.into(),
            split: Split::Dev.name().into(),
            metric: self.task.metric.name().into(),
            score,
            deviation,
            metrics,
            examples: self.dev.rows.len(),
            train_examples: self.train.rows.len(),
            capped: self.train.rows.len() < self.all_rows.0,
            dev_capped: self.dev.rows.len() < self.all_rows.1,
            truncated: self.train.truncated() + self.dev.truncated(),
            dropped,
            longest: self.train.longest().max(self.dev.longest()),
            finished: seeds.len() as u64 == run.seeds.0,
            seeds,
            out: self.out.clone(),
        }
    }
}
