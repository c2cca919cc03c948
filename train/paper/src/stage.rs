//! One stage: done once, its result kept in a file, never run again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use gradus_data::sets::{Example, Split, Task};
use gradus_io::files::{FileError, quoted, write_json};
use gradus_io::interrupt;
use gradus_io::progress::Monitor;
use gradus_model::{BackboneConfig, GptConfig, LstmConfig, Model, Transfer};
use gradus_report::metrics::{self, Record, VALIDATION};
use gradus_tensor::Tensor;
use gradus_text::Tokenizer;
use gradus_train::finetune::{self, Data, FinetuneError, Reader, Session, evenly};
use gradus_train::optim::Warmup;
use gradus_train::pretrain::{self, PretrainError, Probe, SEPARATOR};
use gradus_train::settings::{Length, Options, Settings};
use gradus_train::tasks::TaskError;
use gradus_train::zero_shot::ZeroShot;
use gradus_world::World;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ReproduceError;
use crate::plan::{Planned, Sizes, Stage};
use crate::results::{Body, PretrainResult, TaskResult, Variant, ZeroShotPoint};
use crate::tasks;

/// How the work is watched.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'m> {
    /// Who watches.
    pub monitor: &'m dyn Monitor,
    /// Print what the Transformer writes as it learns.
    pub samples: bool,
}

/// The tasks of figure 2, right.
pub const ZERO_SHOT: [&str; 4] = ["sst-2", "cola", "race", "dprd"];
/// Rows of each that a probe asks.
const PROBED: usize = 200;
/// Points of figure 2, right.
const POINTS: u64 = 12;
/// The LSTM's best rates, as multiples of the Transformer's best: each was sought alike.
const LSTM_PRETRAINING: f64 = 16.0;
const LSTM_FINETUNING: f64 = 4.0;
/// The best rate of a head alone, sought on SST-2 (79.7 at 7e-4, 88.3 at this) and CoLA (20, 26).
const FEATURES: f64 = 1e-2;
/// Training rows that the generalisation gap is measured on.
const TRAIN_ROWS: usize = 300;

/// The directory of a reproduction.
///
/// ```text
/// OUT/  plan.json, results.json, report.html
///       seed-K/world/TASK/…                      the tasks' files, in the original formats
///       seed-K/gpt, lstm, shuffled               runs of pre-training
///       seed-K/results/pretrain.BODY.json        what each of these came to
///       seed-K/results/TASK.VARIANT.json         what each fine-tuning came to
/// ```
#[derive(Clone, Debug)]
pub struct Places(pub PathBuf);

impl Places {
    fn seed(&self, seed: u64) -> PathBuf {
        self.0.join(format!("seed-{seed}"))
    }
    /// The tasks' files.
    pub fn world(&self, seed: u64) -> PathBuf {
        self.seed(seed).join("world")
    }
    /// A run of pre-training.
    pub fn body(&self, seed: u64, body: Body) -> PathBuf {
        self.seed(seed).join(body.name())
    }
    /// The file of a stage's result; the world has none but its folder.
    pub fn result(&self, planned: &Planned) -> PathBuf {
        let name = match &planned.stage {
            Stage::World => return self.world(planned.seed),
            Stage::Pretrain(body) => format!("pretrain.{}.json", body.name()),
            Stage::Finetune { task, variant } => format!("{task}.{variant}.json"),
        };
        self.seed(planned.seed).join("results").join(name)
    }
}

/// Reads a result; a file that cannot be read is an error, not a stage to run again.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<R, ReproduceError> {
    let damaged = |problem: String| ReproduceError::Damaged { path: path.to_owned(), problem };
    let text = std::fs::read_to_string(path).map_err(|e| damaged(e.to_string()))?;
    serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))
}

fn write(path: &Path, result: &impl Serialize) -> Result<(), ReproduceError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| FileError::new("make the directory", folder, e))?;
    }
    Ok(write_json(path, result)?)
}

/// Does a stage; one line on what came of it.
pub fn run(places: &Places, sizes: &Sizes, planned: &Planned, watch: &Watch<'_>) -> Result<String, ReproduceError> {
    match &planned.stage {
        Stage::World => world(places, sizes, planned.seed),
        Stage::Pretrain(body) => {
            let result = pre_train(places, sizes, planned.seed, *body, watch)?;
            write(&places.result(planned), &result)?;
            let excess = 100.0 * (result.loss / result.limit - 1.0);
            Ok(format!("{} parameters, {:.3} nats a token, {excess:.1} % above the limit", result.parameters, result.loss))
        }
        Stage::Finetune { task, variant } => {
            let result = fine_tune(places, sizes, planned.seed, task, *variant)?;
            write(&places.result(planned), &result)?;
            Ok(format!("{} {:.1}", result.test.metric, 100.0 * result.test.score))
        }
    }
}

fn world(places: &Places, sizes: &Sizes, seed: u64) -> Result<String, ReproduceError> {
    let dir = places.world(seed);
    let written = tasks::write(&World::default(), seed, &dir, tasks::Sizes::of(sizes.rows))?;
    let rows: usize = written.tasks.iter().map(|t| t.rows).sum();
    Ok(format!("{} tasks, {rows} rows in {}", written.tasks.len(), dir.display()))
}

/// Labelled rows for the heuristics, and training rows for CoLA's threshold.
struct Questions {
    task: &'static Task,
    train: Vec<Example>,
    asked: Vec<Example>,
}

fn questions(folder: &Path) -> Result<Vec<Questions>, ReproduceError> {
    let one = |name: &&str| {
        let task = Task::named(name)?;
        let load = |split| Ok::<_, ReproduceError>(evenly(task.load(&folder.join(name), split)?.examples, Some(PROBED)));
        Ok(Questions { task, train: load(Split::Train)?, asked: load(Split::Dev)? })
    };
    ZERO_SHOT.iter().map(one).collect()
}

/// How the miniature is pre-trained: the same text, updates and schedule for each body.
fn settings(sizes: &Sizes, seed: u64, body: Body) -> Result<Settings, ReproduceError> {
    let mut settings = Options::micro_world().settle().map_err(PretrainError::from)?;
    settings.seed = seed;
    settings.length = Length::Steps(sizes.updates);
    settings.eval_every = Some((sizes.updates / POINTS).max(1));
    settings.shuffle_sentences = body == Body::Shuffled;
    if let (Body::Lstm, BackboneConfig::Gpt(gpt)) = (body, &settings.model) {
        // The vocabulary is the tokenizer's; the world's BPE fills it.
        let gpt = GptConfig { vocab: pretrain::VOCABULARY, ..gpt.clone() };
        settings.model = LstmConfig::matching(&gpt).into();
        settings.optimizer.lr *= LSTM_PRETRAINING;
    }
    Ok(settings)
}

/// Asks the questions of a model on its way.
fn probe(questions: Vec<Questions>, tokenizer: PathBuf) -> Probe {
    Probe(Arc::new(move |model: &Model<Tensor>| {
        let tokenizer = Tokenizer::load(&tokenizer)?;
        let asked_of = ZeroShot { model, tokenizer: &tokenizer, opening: tokenizer.token_id(SEPARATOR) };
        let score = |Questions { task, train, asked }: &Questions| {
            let answers = asked_of.answers(task, train, asked)?;
            Ok((task.name.to_owned(), finetune::metrics(task, asked, &answers.labels)?[task.metric.name()]))
        };
        let scores: Result<_, TaskError> = questions.iter().map(score).collect();
        scores.map_err(|e| PretrainError::Probe { problem: e.to_string() })
    }))
}

fn pre_train(places: &Places, sizes: &Sizes, seed: u64, body: Body, watch: &Watch<'_>) -> Result<PretrainResult, ReproduceError> {
    let dir = places.body(seed, body);
    let questions = questions(&places.world(seed))?;
    let settings = settings(sizes, seed, body)?;
    let control = pretrain::Control {
        stop_at: None,
        within: None,
        samples: body == Body::Gpt && watch.samples,
        monitor: watch.monitor,
        cache: dir.clone(),
        command: format!("gradus reproduce --resume {}", quoted(&places.0)),
        threads: rayon::current_num_threads(),
        anomaly: false,
        probe: Some(probe(questions, dir.clone())), // the run writes its tokenizer before the first update
        recompute: None,
    };
    let interrupted = || ReproduceError::Interrupted { out: places.0.clone() };
    let outcome = if dir.join("run.json").exists() {
        pretrain::resume(&dir, &control)?
    } else {
        pretrain::begin(settings, None, &dir, &control).map_err(|e| match e {
            PretrainError::Interrupted => interrupted(),
            e => e.into(),
        })?
    };
    if outcome.steps < outcome.total_steps {
        return Err(interrupted());
    }
    let records = metrics::read(&dir.join("metrics.jsonl")).map_err(PretrainError::from)?;
    Ok(pretrained(seed, body, &outcome, &records))
}

/// What a pre-training came to.
fn pretrained(seed: u64, body: Body, outcome: &pretrain::Outcome, records: &[Record]) -> PretrainResult {
    let last = metrics::evaluations(records, VALIDATION).next_back();
    let zero_shot = records.iter().filter_map(|record| match record {
        Record::Probe { step, tokens, scores, .. } => {
            Some(ZeroShotPoint { update: *step, tokens: *tokens, scores: scores.clone() })
        }
        _ => None,
    });
    PretrainResult {
        seed,
        body,
        parameters: outcome.parameters,
        loss: last.map_or(f64::NAN, |e| e.nll),
        limit: last.and_then(|e| e.limit).unwrap_or(f64::NAN),
        zero_shot: zero_shot.collect(),
        seconds: outcome.seconds,
    }
}

/// Which pre-trained model a variant begins with.
fn body(variant: Variant) -> Body {
    match variant {
        Variant::Lstm => Body::Lstm,
        Variant::Shuffled => Body::Shuffled,
        _ => Body::Gpt,
    }
}

/// How a variant is fine-tuned.
fn recipe(sizes: &Sizes, seed: u64, variant: Variant) -> finetune::Settings {
    finetune::Settings {
        lr: match variant {
            Variant::Frozen => FEATURES,
            Variant::Lstm => LSTM_FINETUNING * sizes.lr,
            _ => sizes.lr,
        },
        epochs: sizes.epochs,
        aux: if matches!(variant, Variant::NoAux | Variant::Frozen) { 0.0 } else { 0.5 },
        transfer: match variant {
            Variant::NoPretraining | Variant::NoPretrainingRows(_) => Transfer::None,
            Variant::Layers(n) => Transfer::Layers(n),
            _ => Transfer::All,
        },
        frozen: variant == Variant::Frozen,
        batch: 16,
        warmup: Warmup::Share(0.1), // few updates: at a full rate from the first, they undo what was learnt before
        seed,
        ..finetune::Settings::default()
    }
}

fn fine_tune(places: &Places, sizes: &Sizes, seed: u64, name: &str, variant: Variant) -> Result<TaskResult, ReproduceError> {
    let begin = Instant::now();
    let task = Task::named(name)?;
    let reader = Reader::pretrained(&places.body(seed, body(variant)), seed)?;
    let folder = places.world(seed).join(name);
    let rows = match variant {
        Variant::Rows(n) | Variant::NoPretrainingRows(n) => Some(n),
        _ => None,
    };
    let train = reader.read(task, &folder, Split::Train)?.at_most(rows);
    let dev = reader.read(task, &folder, Split::Dev)?;
    let mut session = Session::new(&reader, task, &train, &dev, &recipe(sizes, seed, variant))?;
    if !session.run(interrupt::requested)? {
        return Err(ReproduceError::Interrupted { out: places.0.clone() });
    }
    let best = session.best.as_ref().expect("the last update ends an epoch");
    let scored = |data: &Data| {
        let encoded: Vec<_> = data.rows.iter().map(|row| &row.encoded).collect();
        let z = finetune::logits(best, &encoded, |_| {});
        finetune::score(task, &data.rows, &z).map_err(FinetuneError::from)
    };
    let test = |split| {
        let labels = tasks::test_labels(&folder, name, split);
        let read = || match labels.exists() {
            true => reader.read_labelled(task, &folder, split, &labels),
            false => reader.read(task, &folder, split),
        };
        scored(&read()?)
    };
    let result = TaskResult {
        seed,
        task: task.name.into(),
        variant,
        rows: train.rows.len(),
        test: test(Split::Test)?,
        mismatched: match task.splits.contains(&Split::TestMismatched) {
            true => Some(test(Split::TestMismatched)?),
            false => None,
        },
        train: scored(&train.clone().at_most(Some(TRAIN_ROWS)))?,
        curve: session.curve.clone(),
        seconds: begin.elapsed().as_secs_f64(),
    };
    Ok(result)
}
