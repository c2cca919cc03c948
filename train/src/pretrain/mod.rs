//! Pre-training (§3.1, §4.1): a corpus or the micro-world, a model, and the loop between them.

mod corpus;
mod run_dir;
mod source;
mod stored;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gradus_data::DataError;
use gradus_io::files::{FileError, Lock, quoted};
use gradus_io::progress::{Job, Monitor, Progress};
use gradus_io::{hex, interrupt};
use gradus_model::Model;
use gradus_model::checkpoint::{self, CheckpointError};
use gradus_report::PretrainReport;
use gradus_report::metrics::{
    self, EvaluationRecord, MetricsError, MetricsLog, Moment, Record, SampleRecord, StepRecord, VALIDATION,
};
use gradus_tensor::Tensor;
use gradus_tensor::rng::Philox;
use gradus_text::{TextError, Tokenizer};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::generate::{Choice, GenerateError, Overflow, generate};
use crate::settings::{Settings, SettingsError};
use crate::trainer::{StateError, TrainError, Trainer};

pub use corpus::Corpus;
pub use run_dir::{RunDir, RunFile};
pub use source::{Source, Validation, weighted};
use stored::Beside;
pub use stored::Stored;
pub use world::{HELD_OUT_STORIES, SEPARATOR, TRAINING_STORIES, VOCABULARY, WorldSource};

/// Most tokens of a sample.
const SAMPLE_TOKENS: usize = 160;
/// Samples come from the model's own distribution.
const FREELY: Choice = Choice::Sample { temperature: 1.0, top_k: None, top_p: 1.0 };

/// Why a run could not begin, go on or end.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PretrainError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{dir} already holds {found}; nothing was changed: give another --out{}", continued(dir), dir = dir.display(), found = found.display())]
    Taken { dir: PathBuf, found: PathBuf },
    #[error(transparent)]
    Generate(#[from] GenerateError),
    #[error("the model could not be probed: {problem}")]
    Probe { problem: String },
    #[error("interrupted before the first update: nothing was trained and nothing is lost")]
    Interrupted,
    #[error("cannot go on from this run: {problem}")]
    Resume { problem: String },
    #[error(
        "after update {step} the model's loss is {loss}: training diverged; this model was not saved, and the checkpoint \
         before it, if any, is as it was; begin another run with a lower --lr, a longer --warmup or a smaller --clip"
    )]
    Diverged { step: u64, loss: f64 },
}

/// How the run of a directory goes on, if it is one.
fn continued(dir: &Path) -> String {
    if RunDir::open(dir).is_err() {
        return String::new();
    }
    format!("; the run there is continued with --resume {}", quoted(dir))
}

/// How a run is to be made, beyond its settings.
#[derive(Clone, Debug)]
pub struct Control<'m> {
    /// End after this many updates without changing the schedule.
    pub stop_at: Option<u64>,
    /// Choose the number of updates so that training takes about so long, at most what the settings say.
    pub within: Option<Duration>,
    /// Print samples as the model learns.
    pub samples: bool,
    /// Who watches.
    pub monitor: &'m dyn Monitor,
    /// Where tokenised corpora are kept.
    pub cache: PathBuf,
    /// The command line, for the report.
    pub command: String,
    /// Number of threads, for the report.
    pub threads: usize,
    /// What else is measured before the first update and with every evaluation.
    pub probe: Option<Probe>,
    /// Look at every op's value and every summand of a gradient, and stop at the first that is not finite.
    pub anomaly: bool,
    /// In a resumed run, whether activations are computed again; `None`: as before. It changes no bit.
    pub recompute: Option<bool>,
}

/// Measures something else than the loss: scores by name.
#[derive(Clone)]
pub struct Probe(pub Arc<ProbeFn>);

/// What a [`Probe`] calls.
pub type ProbeFn = dyn Fn(&Model<Tensor>) -> Result<BTreeMap<String, f64>, PretrainError> + Send + Sync;

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Where it is.
    pub out: PathBuf,
    /// Updates made.
    pub steps: u64,
    /// Updates of the whole run; more than `steps` where it was stopped early.
    pub total_steps: u64,
    /// Has it made them all?
    pub finished: bool,
    /// Loss of the last update, dropout on, in nats per token.
    pub final_loss: Option<f64>,
    /// Median rate of this session.
    pub tokens_per_second: Option<f64>,
    /// SHA-256 of all parameters (f32, little-endian, in the order of the model).
    pub parameters_sha256: String,
    /// Number of parameters.
    pub parameters: usize,
    /// The last evaluation on held-out text.
    pub validation: Option<EvaluationRecord>,
    /// Seconds of training in all sessions.
    pub seconds: f64,
}

/// Begins a run on a corpus, or on the micro-world where there is none.
pub fn begin(settings: Settings, corpus: Option<&Path>, out: &Path, control: &Control<'_>) -> Result<Outcome, PretrainError> {
    let mut settings = settings;
    let context = settings.model.context();
    if corpus.is_none() && context < world::CONTEXT {
        let expected = "at least 207, which the longest story of the micro-world takes, or a --corpus";
        return Err(SettingsError::Range { flag: "context", found: context.to_string(), expected }.into());
    }
    let _lock = Lock::take(out)?;
    let dir = RunDir::vacant(out)?;
    let source: Box<dyn Source> = match corpus {
        Some(path) => {
            let tokenizer = corpus::tokenizer(&settings, path, control.monitor)?;
            Box::new(Corpus::open(&settings, path, tokenizer, &control.cache, control.monitor)?)
        }
        None => Box::new(WorldSource::new(&settings, None)?),
    };
    if interrupt::requested() {
        return Err(PretrainError::Interrupted);
    }
    settings.model = settings.model.with_vocab(source.tokenizer().vocab_size());
    settings.model.check().map_err(SettingsError::from)?;
    let mut updates = settings.updates(source.tokens(), source.tokens_an_update(settings.batch));
    let params = Model::init(&settings.model.clone().into(), settings.seed);
    if let Some(within) = control.within {
        updates = updates.min(affordable(&settings, &*source, &params, updates, within)?);
    }
    let trainer = Trainer::new(settings.recipe(updates), params);
    let corpus = corpus.map(|p| p.canonicalize().unwrap_or_else(|_| p.to_owned()));
    let run = RunFile { settings, corpus, updates, digest: source.digest(), command: control.command.clone() };
    dir.begin(&run, source.tokenizer())?;
    let log = MetricsLog::create(&dir.metrics())?;
    Session::new(dir, run, source, trainer, log, control).run()
}

/// Continues the run of a directory from its last checkpoint.
pub fn resume(path: &Path, control: &Control<'_>) -> Result<Outcome, PretrainError> {
    RunDir::open(path)?; // no lock where no run is
    let _lock = Lock::take(path)?;
    let Stored { dir, mut run, source, mut trainer, seconds } = Stored::read(path, &control.cache, control.monitor)?;
    if let Some(recompute) = control.recompute {
        run.settings.recompute = recompute;
        trainer.recipe = run.settings.recipe(run.updates);
    }
    let (log, records) = MetricsLog::resume(&dir.metrics(), trainer.done())?;
    let mut session = Session::new(dir, run, source, trainer, log, control);
    session.before = seconds;
    session.best = metrics::evaluations(&records, VALIDATION).map(|e| e.nll).fold(f64::INFINITY, f64::min);
    session.run()
}

/// How many updates fit in `within`, measured on a few that are thrown away.
fn affordable(
    settings: &Settings,
    source: &dyn Source,
    params: &Model<Tensor>,
    updates: u64,
    within: Duration,
) -> Result<u64, PretrainError> {
    const TRIAL: u64 = 12;
    let mut trial = Trainer::new(settings.recipe(updates), params.clone());
    let mut times = Vec::new();
    for t in 1..=TRIAL {
        let begin = Instant::now();
        trial.update(&source::weighted(source.batch(t, settings.batch), settings.objective))?;
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(((within.as_secs_f64() / times[times.len() / 2]) as u64).max(1))
}

struct Session<'c> {
    dir: RunDir,
    run: RunFile,
    source: Box<dyn Source>,
    trainer: Trainer,
    log: MetricsLog,
    control: &'c Control<'c>,
    began: Instant,
    /// Seconds of training in earlier sessions.
    before: f64,
    best: f64,
    last: Option<EvaluationRecord>,
}

impl<'c> Session<'c> {
    fn new(
        dir: RunDir,
        run: RunFile,
        source: Box<dyn Source>,
        mut trainer: Trainer,
        log: MetricsLog,
        control: &'c Control<'c>,
    ) -> Self {
        let (began, before, best, last) = (Instant::now(), 0.0, f64::INFINITY, None);
        trainer.watches = control.anomaly;
        Session { dir, run, source, trainer, log, control, began, before, best, last }
    }

    fn elapsed(&self) -> f64 {
        self.before + self.began.elapsed().as_secs_f64()
    }

    fn an_update(&self) -> f64 {
        self.source.tokens_an_update(self.run.settings.batch)
    }

    fn moment(&self) -> Moment {
        let step = self.trainer.done();
        Moment { step, tokens: (step as f64 * self.an_update()) as u64, elapsed: self.elapsed() }
    }

    fn run(mut self) -> Result<Outcome, PretrainError> {
        let total = self.run.updates;
        let stop = self.control.stop_at.map_or(total, |s| s.min(total));
        let every = self.run.settings.eval_every.unwrap_or((total / 20).max(1));
        let tokens = self.an_update();
        let job = Job::new("pre-training", total, "updates").counting("tokens", tokens).starting_at(self.trainer.done());
        let mut progress = self.control.monitor.begin(job);
        let parameters = self.run.settings.model.parameters();
        let corpus = self.source.tokens();
        progress.say(&format!("{parameters} parameters, {corpus} tokens to learn from, {total} updates of {tokens:.0} tokens"));
        self.trainer.recipe.doubt().iter().for_each(|doubt| progress.warn(doubt));
        let (mut rates, mut final_loss) = (Vec::new(), None);
        let (mut logged, mut next_sample) = (Instant::now(), Duration::from_secs(8));
        if self.trainer.done() == 0 {
            self.probe()?;
        }
        while self.trainer.done() < stop && !interrupt::requested() {
            let t = self.trainer.done() + 1;
            let begin = Instant::now();
            let settings = &self.run.settings;
            let batch = source::weighted(self.source.batch(t, settings.batch), settings.objective);
            let step = match self.trainer.update(&batch) {
                Ok(step) => step,
                Err(e) => {
                    let (step, elapsed, text) = (t, self.elapsed(), e.to_string());
                    self.log.append(&Record::Warning { step, elapsed, text })?;
                    self.trainer.keep(&batch, &e, self.dir.path()).iter().for_each(|kept| progress.warn(kept));
                    self.report(&digest(&self.trainer.params))?;
                    return Err(e.into());
                }
            };
            let rate = tokens / begin.elapsed().as_secs_f64();
            rates.push(rate);
            final_loss = Some(step.loss);
            let at = self.moment();
            self.log.append(&Record::Step(StepRecord {
                step: t,
                tokens: at.tokens,
                loss: step.loss,
                lr: step.rate,
                grad_norm: step.gradient_norm,
                tokens_per_second: rate,
                elapsed: at.elapsed,
            }))?;
            for text in self.trainer.alarms.take() {
                progress.warn(&format!("update {t}: {text}"));
                self.log.append(&Record::Warning { step: t, elapsed: at.elapsed, text })?;
            }
            progress.note(format!("loss {:.3}", step.loss));
            progress.reach(t);
            let evaluates = t.is_multiple_of(every) || t == stop;
            if evaluates {
                self.evaluate_and_save(&mut *progress, t == total)?;
            }
            if self.control.samples
                && (evaluates && logged.elapsed() > Duration::from_secs(15) || self.began.elapsed() >= next_sample)
            {
                self.sample(&mut *progress)?;
                logged = Instant::now();
                next_sample = self.began.elapsed() + Duration::from_secs(45);
            }
        }
        if self.trainer.done() < stop {
            progress.say("interrupted: saving a checkpoint");
            self.refuse_diverged(&mut *progress, self.moment(), None)?; // the checkpoint before is good
            self.save()?;
        } else if self.last.is_none() {
            self.evaluate_and_save(&mut *progress, self.trainer.done() == total)?;
        }
        progress.finish();
        let parameters_sha256 = digest(&self.trainer.params);
        self.report(&parameters_sha256)?;
        rates.sort_by(f64::total_cmp);
        Ok(Outcome {
            steps: self.trainer.done(),
            total_steps: total,
            finished: self.trainer.done() == total,
            final_loss,
            tokens_per_second: rates.get(rates.len() / 2).copied(),
            parameters_sha256,
            parameters,
            validation: self.last.clone(),
            seconds: self.elapsed(),
            out: self.dir.path().to_owned(),
        })
    }

    fn evaluate_and_save(&mut self, progress: &mut dyn Progress, whole: bool) -> Result<(), PretrainError> {
        let at = self.moment();
        let limit = if whole { usize::MAX } else { self.run.settings.eval_tokens };
        let validation = self.source.validate(&self.trainer.params, limit);
        self.refuse_diverged(progress, at, validation.as_ref())?;
        if let Some(v) = validation {
            let mut record = EvaluationRecord::new(at, VALIDATION, v.nll.mean()).with_bytes(v.nll.tokens, v.bytes);
            if let Some(limit) = v.limit {
                record = record.with_limit(limit);
            }
            let excess = record.excess.map_or(String::new(), |e| format!(", {:.1} % above the limit", 100.0 * e));
            let bits = record.bits_per_byte.unwrap_or(f64::NAN);
            progress
                .say(&format!("update {}: held-out loss {:.4} nats a token, {bits:.4} bits a byte{excess}", at.step, record.nll));
            self.log.append(&Record::Evaluation(record.clone()))?;
            if record.nll < self.best {
                self.best = record.nll;
                self.dir.save_best(&self.trainer.params, self.source.tokenizer())?;
            }
            self.last = Some(record);
        }
        self.probe()?;
        self.save()
    }

    fn save(&mut self) -> Result<(), PretrainError> {
        let at = self.moment();
        self.trainer.save(&self.dir.trainer(), &Beside::write(&self.run, self.elapsed()))?;
        self.dir.save_model(&self.trainer.params)?;
        let path = self.dir.path().display().to_string();
        Ok(self.log.append(&Record::Checkpoint { step: at.step, elapsed: at.elapsed, path })?)
    }

    fn probe(&mut self) -> Result<(), PretrainError> {
        let Some(Probe(probe)) = &self.control.probe else { return Ok(()) };
        let scores = probe(&self.trainer.params)?;
        let Moment { step, tokens, elapsed } = self.moment();
        Ok(self.log.append(&Record::Probe { step, tokens, elapsed, scores })?)
    }

    /// A checkpoint is written over the one before only if its model still gives a loss: the update that ruins parameters
    /// saw those before it, so its own loss does not tell. Without held-out text, one training sequence does.
    fn refuse_diverged(
        &mut self,
        progress: &mut dyn Progress,
        at: Moment,
        validation: Option<&Validation>,
    ) -> Result<(), PretrainError> {
        let loss = match validation {
            Some(v) => v.nll.mean(),
            None => {
                let one = source::weighted(self.source.batch(at.step, 1), self.run.settings.objective);
                let losses = self.trainer.params.token_losses(&one).to_vec();
                losses.iter().map(|&l| f64::from(l)).sum::<f64>() / losses.len() as f64
            }
        };
        if loss.is_finite() {
            return Ok(());
        }
        let error = PretrainError::Diverged { step: at.step, loss };
        self.log.append(&Record::Warning { step: at.step, elapsed: at.elapsed, text: error.to_string() })?;
        // The next update would meet it: that one names the op, and is kept.
        let next = source::weighted(self.source.batch(at.step + 1, self.run.settings.batch), self.run.settings.objective);
        if let Err(met) = self.trainer.clone().update(&next) {
            progress.warn(&met.to_string());
            self.trainer.keep(&next, &met, self.dir.path()).iter().for_each(|kept| progress.warn(kept));
        }
        self.report(&digest(&self.trainer.params))?;
        Err(error)
    }

    /// Lets the model write a text: drawn from its own distribution, by a generator of its own.
    fn sample(&mut self, progress: &mut dyn Progress) -> Result<(), PretrainError> {
        let (model, context) = (&self.trainer.params, self.run.settings.model.context());
        let mut rng = Philox::with_stream(self.run.settings.seed ^ 0x5341_4d50_4c45, self.trainer.done());
        let mut ids = self.source.prompt();
        ids.truncate(context - 1);
        let (length, end) = (SAMPLE_TOKENS.min(context - ids.len()), self.source.end());
        let vocab = self.source.tokenizer().vocab_size();
        let goes_on = |ids: &[u32]| ids.last().copied() != end;
        generate(model, &mut ids, vocab, length, FREELY, Overflow::Refuse, &mut rng, goes_on)?;
        if ids.len() > 1 && ids.last().copied() == end {
            ids.pop();
        }
        let shown = if self.source.end().is_some() { &ids[1..] } else { &ids[..] };
        let text = self.source.tokenizer().decode(shown)?;
        progress.say(&format!("— update {}: {text}", self.trainer.done()));
        let Moment { step, tokens, elapsed } = self.moment();
        Ok(self.log.append(&Record::Sample(SampleRecord { step, tokens, elapsed, prompt: String::new(), text }))?)
    }

    fn report(&self, parameters_sha256: &str) -> Result<(), PretrainError> {
        let settings = serde_json::to_value(&self.run.settings).expect("plain values");
        let mut configuration = Vec::new();
        flatten("", &settings, &mut configuration);
        let versions = vec![
            ("gradus".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            (
                "machine".to_owned(),
                format!("{} {}, {} threads", std::env::consts::OS, std::env::consts::ARCH, self.control.threads),
            ),
        ];
        let (title, lead) = match &self.run.corpus {
            Some(path) => {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
                (format!("Pre-training GPT-1 on {name}"), format!("A GPT-1 of {} parameters, pre-trained from scratch on {name}.", self.run.settings.model.parameters()))
            }
            None => (
                "Pre-training GPT-1 on the micro-world".into(),
                "Stories told by a grammar with memory, whose exact probability is known: the limit is the smallest loss that any \
                 model can reach on them, and the distance to it is what this model has still to learn."
                    .into(),
            ),
        };
        let report = PretrainReport {
            title,
            lead,
            records: metrics::read(&self.dir.metrics())?,
            baselines: self.source.baselines(),
            goal: self.run.corpus.is_none().then_some(0.10),
            parameters: self.run.settings.model.parameters() as u64,
            parameters_sha256: parameters_sha256.into(),
            configuration,
            command: self.run.command.clone(),
            seed: self.run.settings.seed,
            versions,
        };
        report.loss_plot().write(&self.dir.picture())?;
        Ok(report.write(&self.dir.report())?)
    }
}

fn flatten(prefix: &str, value: &serde_json::Value, out: &mut Vec<(String, String)>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, value, out);
            }
        }
        serde_json::Value::Null => {}
        serde_json::Value::String(s) => out.push((prefix.into(), s.clone())),
        other => out.push((prefix.into(), other.to_string())),
    }
}

/// SHA-256 of all parameters.
pub fn digest(params: &Model<Tensor>) -> String {
    let mut hash = Sha256::new();
    checkpoint::parameter_bytes(params, |bytes| hash.update(bytes));
    hex::encode(hash.finalize())
}
