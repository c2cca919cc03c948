//! The stages: each runs once and writes its result to a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gradus_data::sets::{Example, SetError, Split, Task};
use gradus_io::checksums;
use gradus_io::files::quoted;
use gradus_io::interrupt;
use gradus_io::numbers::count;
use gradus_io::progress::Monitor;
use gradus_model::{LstmConfig, Model, ModelConfig, Transfer, Tree};
use gradus_report::metrics::{self, Record, VALIDATION};
use gradus_study::plan::Plan;
use gradus_study::{StudyError, records};
use gradus_tensor::{Device, Tensor};
use gradus_text::Tokenizer;
use gradus_train::answers::Causal;
use gradus_train::answers::zero_shot::ZeroShot;
use gradus_train::finetune::{self, Data, FinetuneError, FinetuneSettings, Session, TaskModel, evenly};
use gradus_train::model_dir::ModelDirError;
use gradus_train::optim::Warmup;
use gradus_train::pretrain::{
    self, Length, PretrainControl, PretrainError, PretrainOptions, PretrainOutcome, PretrainSettings, Probe,
};
use gradus_train::run::{Control, METRICS_FILE, RunError};
use gradus_train::tasks::TaskError;
use gradus_train::views::SEPARATOR;

use crate::error::ReproduceError;
use crate::plan::{Planned, Sizes, Stage};
use crate::results::{Body, PretrainResult, TaskResult, Variant, ZeroShotPoint};
use crate::tasks;

/// The observers of the work.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'m> {
    /// The receiver of progress reports.
    pub monitor: &'m dyn Monitor,
    /// Whether to print samples of the Transformer during training.
    pub samples: bool,
}

/// The tasks of figure 2, right.
pub const ZERO_SHOT: [&str; 4] = ["sst-2", "cola", "race", "dprd"];
/// Returns the key of a task's zero-shot cross-entropy among its scores.
pub fn in_nats(task: &str) -> String {
    format!("{task}-nats")
}

/// The number of rows per task that a probe scores.
const PROBED: usize = 200;
/// The number of points of figure 2 (right).
const POINTS: u64 = 12;
/// The LSTM's best rates as multiples of the Transformer's best; one search found both.
const LSTM_PRETRAINING: f64 = 16.0;
const LSTM_FINETUNING: f64 = 4.0;
/// The best rate for a head only, from SST-2 (79.7 at 7e-4, 88.3 at this rate) and CoLA (20, 26).
const FEATURES: f64 = 1e-2;
/// The number of training rows for the measurement of the generalisation gap.
const TRAIN_ROWS: usize = 300;

/// The name of the folder of a seed's results.
const RESULTS: &str = "results";

/// The directory of a reproduction.
///
/// ```text
/// OUT/  plan.json, results.json, report.html
///       seed-K/world/TASK/…                      the tasks' files, in the original formats
///       seed-K/gpt, lstm, shuffled               runs of pre-training
///       seed-K/results/pretrain.BODY.json        the result of each of these
///       seed-K/results/TASK.VARIANT.json         the result of each fine-tuning
/// ```
#[derive(Clone, Debug)]
pub struct Paths(pub PathBuf);

impl Paths {
    fn seed(&self, seed: u64) -> PathBuf {
        self.0.join(format!("seed-{seed}"))
    }
    /// Returns the folder of the tasks' files.
    pub fn world(&self, seed: u64) -> PathBuf {
        self.seed(seed).join("world")
    }
    /// Returns the folders of a seed that files are written to.
    pub fn folders(&self, seed: u64) -> [PathBuf; 2] {
        [self.seed(seed), self.seed(seed).join(RESULTS)]
    }
    /// Returns the existing folders of a seed's runs of pre-training.
    pub fn bodies(&self, seed: u64) -> impl Iterator<Item = PathBuf> {
        Body::ALL.into_iter().map(move |body| self.body(seed, body)).filter(|run| run.is_dir() && !run.is_symlink())
    }
    /// Returns the folder of a run of pre-training.
    pub fn body(&self, seed: u64, body: Body) -> PathBuf {
        self.seed(seed).join(body.name())
    }
    /// Returns the error for an interrupted reproduction.
    pub fn interrupted(&self) -> ReproduceError {
        StudyError::Interrupted { command: Sizes::COMMAND, out: self.0.clone() }.into()
    }
    /// Returns the file of a stage's result; for the world, its folder.
    pub fn result(&self, planned: &Planned) -> PathBuf {
        let name = match &planned.stage {
            Stage::World => return self.world(planned.seed),
            Stage::Pretrain(body) => format!("pretrain.{}.json", body.name()),
            Stage::Finetune { task, variant } => format!("{task}.{variant}.json"),
        };
        self.seed(planned.seed).join(RESULTS).join(name)
    }
}

/// Runs a stage, and returns a line on its outcome.
pub fn run(paths: &Paths, sizes: &Sizes, planned: &Planned, watch: &Watch<'_>) -> Result<String, ReproduceError> {
    match &planned.stage {
        Stage::World => {
            let dir = paths.world(planned.seed);
            let written = tasks::write(planned.seed, &dir, sizes.rows, |_| {})?;
            let rows: usize = written.tasks.iter().map(|t| t.rows).sum();
            Ok(format!("{} tasks, {rows} rows in {}", written.tasks.len(), dir.display()))
        }
        Stage::Pretrain(body) => {
            let result = pre_train(paths, sizes, planned.seed, *body, watch)?;
            records::write(&paths.result(planned), &result)?;
            let excess = 100.0 * (result.loss / result.limit - 1.0);
            Ok(format!(
                "{} parameters, {:.3} nats per token, {excess:.1} % above the limit",
                count(result.parameters as u64),
                result.loss
            ))
        }
        Stage::Finetune { task, variant } => {
            let result = fine_tune(paths, sizes, planned.seed, task, *variant)?;
            records::write(&paths.result(planned), &result)?;
            Ok(format!("{} {:.1}", result.test.metric, 100.0 * result.test.score).replace('-', "−"))
        }
    }
}

/// Returns the settings of pre-training: equal text, steps and schedule for each body.
fn settings(sizes: &Sizes, seed: u64, body: Body) -> Result<PretrainSettings, ReproduceError> {
    let context = Some(PretrainOptions::world_context(sizes.retold));
    let options = PretrainOptions { context, ..PretrainOptions::micro_world() };
    let mut settings = options.settle().map_err(PretrainError::from)?;
    settings.seed = seed;
    settings.length = Length::Steps(sizes.steps);
    settings.eval_every = Some((sizes.steps / POINTS).max(1));
    // The evaluations during training scale with the miniature. The last one reads all held-out text.
    settings.eval_tokens = Some((100_000.0 * sizes.scale.clamp(0.05, 1.0)) as usize);
    settings.shuffle_sentences = body == Body::Shuffled;
    settings.retold = sizes.retold;
    if let (Body::Lstm, Some(gpt)) = (body, settings.model.transformer()) {
        // The vocabulary size is the tokenizer's; the world's BPE reaches it.
        let sizes = gradus_model::Sizes { vocab: pretrain::VOCABULARY, ..settings.model.sizes };
        settings.model = ModelConfig::new(sizes, LstmConfig::matching(sizes, gpt));
        settings.optimizer.lr *= LSTM_PRETRAINING;
    }
    Ok(settings)
}

/// Returns a probe that scores a model in training on labelled rows; training rows determine CoLA's threshold.
fn probe(world: &Path, tokenizer: PathBuf) -> Result<Box<Probe>, ReproduceError> {
    let mut asked = Vec::new();
    for name in ZERO_SHOT {
        checksums::check_within(world, name)?;
        let task = Task::named(name)?;
        let load = |split| Ok::<_, SetError>(evenly(task.load(&world.join(name), split)?.examples, Some(PROBED)));
        asked.push((task, load(Split::Train)?, load(Split::Dev)?));
    }
    Ok(Box::new(move |model: &Model<Tensor>| {
        let tokenizer = Tokenizer::load(&tokenizer)?;
        let zero_shot = ZeroShot { model: &Causal::new(model), tokenizer: &tokenizer, opening: tokenizer.token_id(SEPARATOR) };
        let mut scores = BTreeMap::new();
        let mut score = |(task, train, dev): &(&'static Task, Vec<Example>, Vec<Example>)| {
            let answers = zero_shot.answers(task, train, dev)?;
            scores.insert(task.name.to_owned(), finetune::metrics(task, dev, &answers.labels)?[task.metric.name()]);
            scores.extend(answers.cross_entropy(dev).map(|nats| (in_nats(task.name), nats)));
            Ok(())
        };
        asked.iter().try_for_each(&mut score).map_err(|e: TaskError| PretrainError::Probe { problem: e.to_string() })?;
        Ok(scores)
    }))
}

fn pre_train(paths: &Paths, sizes: &Sizes, seed: u64, body: Body, watch: &Watch<'_>) -> Result<PretrainResult, ReproduceError> {
    let dir = paths.body(seed, body);
    let probe = probe(&paths.world(seed), dir.clone())?; // the run writes its tokenizer before the first step
    let settings = settings(sizes, seed, body)?;
    let command = format!("gradus reproduce --resume {}", quoted(&paths.0));
    let device = Device::Cpu(sizes.matmul_precision);
    let run = Control { next: Some(command.clone()), command, device, ..Control::new(watch.monitor) };
    let samples = body == Body::Gpt && watch.samples;
    let control = PretrainControl { samples, probe: Some(&*probe), ..PretrainControl::new(run, &dir) };
    let outcome = if dir.join("run.json").exists() {
        pretrain::resume(&dir, &control)?
    } else {
        pretrain::begin(settings, None, &dir, &control).map_err(|e| match e {
            PretrainError::Interrupted => paths.interrupted(),
            e => e.into(),
        })?
    };
    if outcome.steps < outcome.total_steps {
        return Err(paths.interrupted());
    }
    let records = metrics::read(&dir.join(METRICS_FILE)).map_err(|e| PretrainError::from(RunError::from(e)))?;
    Ok(pretrained(sizes, seed, body, &outcome, &records))
}

/// Returns the result of a pre-training run.
fn pretrained(sizes: &Sizes, seed: u64, body: Body, outcome: &PretrainOutcome, records: &[Record]) -> PretrainResult {
    let last = metrics::evaluations(records, VALIDATION).next_back();
    let zero_shot = records.iter().filter_map(|record| match record {
        Record::Probe { at, scores } => Some(ZeroShotPoint { step: at.step, tokens: at.tokens, scores: scores.clone() }),
        _ => None,
    });
    PretrainResult {
        world: sizes.world.clone(),
        seed,
        body,
        parameters: outcome.parameters,
        loss: last.map_or(f64::NAN, |e| e.nll),
        limit: last.and_then(|e| e.limit).unwrap_or(f64::NAN),
        zero_shot: zero_shot.collect(),
        seconds: outcome.seconds,
    }
}

/// Returns the pre-trained model that a variant begins with.
fn body(variant: Variant) -> Body {
    match variant {
        Variant::Lstm => Body::Lstm,
        Variant::Shuffled => Body::Shuffled,
        _ => Body::Gpt,
    }
}

/// Returns the settings for fine-tuning a variant.
fn recipe(sizes: &Sizes, seed: u64, variant: Variant) -> FinetuneSettings {
    FinetuneSettings {
        lr: match variant {
            Variant::Frozen => FEATURES,
            Variant::Lstm => LSTM_FINETUNING * sizes.lr,
            _ => sizes.lr,
        },
        epochs: sizes.epochs,
        aux: Some(if matches!(variant, Variant::NoAux | Variant::Frozen) { 0.0 } else { 0.5 }),
        transfer: match variant {
            Variant::NoPretraining | Variant::NoPretrainingRows(_) => Transfer::None,
            Variant::Layers(n) => Transfer::Layers(n),
            _ => Transfer::All,
        },
        frozen: variant == Variant::Frozen,
        batch: 16,
        warmup: Warmup::Share(0.1), // with few steps, a full rate at the start destroys pre-trained features
        seed,
        ..FinetuneSettings::default()
    }
}

/// Loads the pre-trained model of a body for fine-tuning.
fn begin_with(paths: &Paths, seed: u64, body: Body) -> Result<TaskModel, ReproduceError> {
    let run = paths.body(seed, body);
    TaskModel::pretrained(&run, seed).map_err(|e| {
        let problem = match e {
            FinetuneError::Model(ModelDirError::NoModel { found, .. }) => {
                format!("{}: expected a run with its best model, found {found}", run.display())
            }
            FinetuneError::Model(e) => e.to_string(),
            e => return e.into(),
        };
        let result = paths.result(&Planned { seed, stage: Stage::Pretrain(body), tokens: 0.0 });
        StudyError::Lost { run, result, problem }.into()
    })
}

fn fine_tune(paths: &Paths, sizes: &Sizes, seed: u64, name: &str, variant: Variant) -> Result<TaskResult, ReproduceError> {
    let begin = Instant::now();
    let task = Task::named(name)?;
    let mut task_model = begin_with(paths, seed, body(variant))?;
    task_model.model =
        task_model.model.to(&Device::Cpu(sizes.matmul_precision)).map_err(|e| FinetuneError::from(RunError::from(e)))?;
    let folder = paths.world(seed).join(name);
    checksums::check_within(&paths.world(seed), name)?;
    let rows = match variant {
        Variant::Rows(n) | Variant::NoPretrainingRows(n) => Some(n),
        _ => None,
    };
    let train = task_model.read(task, &folder, Split::Train)?.at_most(rows);
    let dev = task_model.read(task, &folder, Split::Dev)?;
    let mut session = Session::new(&task_model, task, &train, &dev, &recipe(sizes, seed, variant))?;
    if !session.run(&interrupt::requested)? {
        return Err(paths.interrupted());
    }
    let best = session.best.as_ref().expect("the last step ends an epoch");
    let scored = |data: &Data| {
        let z = finetune::logits(best, &data.rows, &mut |_| {});
        finetune::score(task, &data.rows, &z).map_err(FinetuneError::from)
    };
    let test = |split| {
        let labels = tasks::test_labels(&folder, name, split);
        let read = || match labels.exists() {
            true => task_model.read_labelled(task, &folder, split, &labels),
            false => task_model.read(task, &folder, split),
        };
        scored(&read()?)
    };
    Ok(TaskResult {
        world: sizes.world.clone(),
        seed,
        task: task.name.into(),
        variant,
        rows: train.rows.len(),
        test: test(Split::Test)?,
        mismatched: task.splits.contains(&Split::TestMismatched).then(|| test(Split::TestMismatched)).transpose()?,
        train: scored(&train.clone().at_most(Some(TRAIN_ROWS)))?,
        curve: session.curve.clone(),
        seconds: begin.elapsed().as_secs_f64(),
    })
}
