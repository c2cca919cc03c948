//! Pre-training (§3.1, §4.1) of a model on a corpus or the micro-world, with evaluations.
//!
//! ```text
//! OUT/  config.json, model.safetensors, tokenizer files     the current model, in Hugging Face's format
//!       best/                                               the model with the lowest held-out loss; all losses that are
//!                                                           compared for it are over the same held-out tokens
//!       trainer.safetensors, run.json                       the state and the settings, for --resume
//!       metrics.jsonl, report.html, loss.svg                the measurements
//! ```
//!
//! A run of `--system kneser-ney` counts n-grams instead, in one pass, and has no steps.
//!
//! Every file is written under a temporary name, flushed and renamed, so each is always whole. A resumed run reads parameters
//! only from `trainer.safetensors`, so a crash between two files does no harm.

mod corpus;
mod count;
mod evaluations;
mod flops;
mod report;
mod settings;
mod source;
mod stored;
mod training;
mod viewer;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gradus_data::DataError;
use gradus_io::exit::{self, Exit};
use gradus_io::files::FileError;
use gradus_io::{hex, interrupt};
use gradus_model::Model;
use gradus_model::checkpoint::CheckpointError;
use gradus_report::metrics::EvaluationRecord;
use gradus_tensor::{DeviceError, Tensor};
use gradus_text::{Mode, TextError, Tokenizer};
use gradus_world::World;
use serde::Serialize;

use crate::answers::generate::GenerateError;
use crate::hyperparameters::{RangeError, in_unicode, require};
use crate::model_dir::BEST;
use crate::run::{self, Begun, Control, Manifest, Past, RunError};
use crate::trainer::precision::{self, Precision};
use crate::trainer::{self, ANOMALY, Trainer, check_room};

pub use count::Counted;
pub use flops::flops_per_step;
pub use report::compared;
pub use settings::{Length, PretrainOptions, PretrainSettings, SettingsError};
pub use source::{Sequences, Split, TextSource, Validation, weighted};
pub use stored::{PretrainManifest, Stored};
pub use viewer::Viewer;
pub use world::{HELD_OUT_STORIES, OPENED_ANYWHERE, VOCABULARY};

use corpus::Corpus;
use training::Pretraining;
use world::WorldSource;

/// The reason why a pre-training run could not begin, continue or end.
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
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Generate(#[from] GenerateError),
    #[error("the model could not be probed: {problem}")]
    Probe { problem: String },
    #[error("interrupted before the first step, or before all n-grams were counted; nothing was written")]
    Interrupted,
    #[error(
        "after step {step} the model's loss is {loss}: training diverged; this model was not saved, and the last checkpoint, if \
         any, is untouched; begin another run with a lower --lr, a longer --warmup or gradients clipped to a smaller norm (--clip)"
    )]
    Diverged { step: u64, loss: f64 },
}

impl Exit for PretrainError {
    fn exit_code(&self) -> u8 {
        match self {
            PretrainError::Settings(_) => exit::USAGE,
            PretrainError::Interrupted => exit::INTERRUPTED,
            _ => exit::FAILED,
        }
    }
}

/// The options of a pre-training session, besides the run's settings.
#[derive(Clone)]
pub struct PretrainControl<'m> {
    /// The options of every run.
    pub run: Control<'m>,
    /// Whether to print samples of the model during training.
    pub samples: bool,
    /// The directory of tokenized corpora.
    pub cache: PathBuf,
    /// A measurement before the first step and with every evaluation.
    pub probe: Option<&'m Probe>,
    /// Whether a resumed run recomputes activations; `None`: as before. It changes no bit.
    pub recompute: Option<bool>,
}

impl<'m> PretrainControl<'m> {
    /// Creates the options of a session without samples or a probe.
    pub fn new(run: Control<'m>, cache: impl Into<PathBuf>) -> Self {
        PretrainControl { run, samples: false, cache: cache.into(), probe: None, recompute: None }
    }
}

/// A measurement besides the loss: scores by name.
pub type Probe = dyn Fn(&Model<Tensor>) -> Result<BTreeMap<String, f64>, PretrainError>;

/// The outcome of a pre-training run.
#[derive(Clone, Debug, Serialize)]
pub struct PretrainOutcome {
    /// The directory of the run.
    pub out: PathBuf,
    /// The number of steps made.
    pub steps: u64,
    /// The number of steps of the whole run; more than `steps` if it was stopped early.
    pub total_steps: u64,
    /// Whether all steps are made.
    pub finished: bool,
    /// The loss of the last step, with dropout, in nats per token.
    pub final_loss: Option<f64>,
    /// The median number of tokens per second in this session.
    pub tokens_per_second: Option<f64>,
    /// The SHA-256 of all parameters (f32, little-endian, in the order of the model).
    pub parameters_sha256: String,
    /// The number of parameters.
    pub parameters: usize,
    /// The last evaluation on held-out text.
    pub validation: Option<EvaluationRecord>,
    /// The seconds of training in all sessions.
    pub seconds: f64,
}

/// Begins pre-training on a corpus, or on the micro-world if there is none.
pub fn begin(
    mut settings: PretrainSettings,
    corpus: Option<&Path>,
    out: &Path,
    control: &PretrainControl<'_>,
) -> Result<PretrainOutcome, PretrainError> {
    let context = settings.model.sizes.context;
    let least = world::context(settings.retold) + usize::from(!settings.view.is_next()); // a mark at each end
    let expected =
        format!("at least {least}, to hold the longest story of the micro-world and its special tokens, or a --corpus");
    require("context", context, corpus.is_some() || context >= least, expected).map_err(SettingsError::from)?;
    let expected = "no --corpus with it: only the micro-world's stories have a retelling";
    require("retold", settings.retold, corpus.is_none() || !settings.retold, expected).map_err(SettingsError::from)?;
    let mode = settings.mode.map_or("", Mode::name);
    let shuffled = settings.shuffle_sentences;
    let expected = "no --corpus with it: only the micro-world's sentences can be shuffled";
    require("shuffle-sentences", shuffled, corpus.is_none() || !shuffled, expected).map_err(SettingsError::from)?;
    require("mode", mode, corpus.is_some() || mode.is_empty(), "a --corpus with it: the micro-world has its own vocabulary")
        .map_err(SettingsError::from)?;
    check_paths(&settings, corpus, out).map_err(SettingsError::from)?;
    let texts = [corpus, settings.held_out_corpus.as_deref()];
    check_events(control.run.tensorboard.as_deref(), out, texts).map_err(SettingsError::from)?;
    let (shards, processes) = (settings.accumulate * settings.shards, control.run.collective.processes());
    require(
        "shards",
        shards,
        processes == 1 || shards >= processes,
        format!("at least {processes} (times --accumulate), one for each process"),
    )
    .map_err(SettingsError::from)?;
    let _lock = PretrainManifest::claim(out)?;
    let source: Box<dyn TextSource> = match corpus {
        Some(path) => {
            let tokenizer = corpus::tokenizer(&settings, path, control.run.monitor)?;
            Box::new(Corpus::open(&settings, path, tokenizer, &control.cache, control.run.monitor)?)
        }
        None => Box::new(WorldSource::new(&settings, None)?),
    };
    if interrupt::requested() {
        return Err(PretrainError::Interrupted);
    }
    settings.model = settings.model.with_vocab(source.tokenizer().vocab_size());
    settings.model.check().map_err(SettingsError::from)?;
    let world = corpus.is_none().then(|| World::named(settings.retold).name());
    let corpus = corpus.map(|p| p.canonicalize().unwrap_or_else(|_| p.to_owned()));
    let (command, digest) = (control.run.command.clone(), source.digest());
    if let Some(order) = settings.order {
        let (device, precision) = (None, Precision::default());
        let manifest = PretrainManifest { settings, corpus, world, steps: 0, digest, command, device, precision };
        return count::count(order, (&manifest, &*source), out, control);
    }
    let viewer = Viewer::new(&settings, &*source)?;
    check_room(&control.run.device, 4 * settings.model.parameters() as u64).map_err(RunError::from)?;
    let steps = settings.steps(source.tokens(), source.tokens_per_step(settings.batch));
    let trained = (steps as f64 * source.tokens_per_step(settings.batch)) as u64;
    settings.settle_evaluations(steps, trained, &|limit| viewer.validated(&*source, limit));
    let params = Model::init(&settings.model, settings.seed);
    let trainer = Trainer::new(settings.recipe(steps), params);
    let (precision, device) = (Precision::of(&control.run.device), precision::named(&control.run.device));
    let manifest = PretrainManifest { settings, corpus, world, steps, digest, command, device, precision };
    let stored = Stored { dir: out.to_owned(), manifest, source, viewer, trainer, past: Past::NONE, best: f64::INFINITY };
    // The run begins only after all processes agree.
    stored.share(control)?;
    stored.manifest.write(out, stored.source.tokenizer().files())?;
    Pretraining::new(stored, control).run()
}

/// Returns an error if a path is not Unicode, or if the run would be in its own corpus.
fn check_paths(settings: &PretrainSettings, corpus: Option<&Path>, out: &Path) -> Result<(), RangeError> {
    in_unicode("out", out)?;
    for (flag, text) in [("corpus", corpus), ("held-out-corpus", settings.held_out_corpus.as_deref())] {
        let Some(text) = text else { continue };
        in_unicode(flag, text)?;
        let is_apart = !(text.is_dir() && whole(out).starts_with(whole(text)));
        require("out", out.display(), is_apart, format!("a directory outside of --{flag}, or the run would read its own files"))?;
    }
    Ok(())
}

/// Returns an error if the folder of TensorBoard's event files is a file, or inside a directory that the run replaces or reads.
fn check_events(folder: Option<&Path>, out: &Path, texts: [Option<&Path>; 2]) -> Result<(), RangeError> {
    let Some(folder) = folder else { return Ok(()) };
    let place = whole(folder);
    let fits = |fits: bool, expected: String| require("tensorboard", folder.display(), fits, expected);
    let there = place.ancestors().find(|above| above.symlink_metadata().is_ok());
    if let Some(there) = there.filter(|there| !there.is_dir()) {
        fits(false, format!("a directory, found a file, {}", there.display()))?;
    }
    for own in [BEST, ANOMALY] {
        let is_apart = !place.starts_with(whole(out).join(own));
        fits(is_apart, format!("a directory outside of {}, which the run replaces", out.join(own).display()))?;
    }
    for text in texts.into_iter().flatten() {
        let is_apart = !(text.is_dir() && place.starts_with(whole(text)));
        fits(is_apart, format!("a directory outside of {}, or the run would read its own files", text.display()))?;
    }
    Ok(())
}

/// Returns an absolute path, with the links in its existing part resolved.
fn whole(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut there = path.ancestors();
    let known = there.find_map(|above| Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?)));
    // The path is built from components, since a join with an empty path ends with a slash.
    known.map_or_else(|| path.clone(), |(above, rest)| above.components().chain(rest.components()).collect())
}

/// Continues the pre-training in a directory from its last checkpoint.
pub fn resume(dir: &Path, control: &PretrainControl<'_>) -> Result<PretrainOutcome, PretrainError> {
    let (_lock, begun) = PretrainManifest::reclaim(dir)?;
    let texts = [begun.corpus.as_deref(), begun.settings.held_out_corpus.as_deref()];
    check_events(control.run.tensorboard.as_deref(), dir, texts).map_err(SettingsError::from)?;
    let mut stored = Stored::read(dir, &control.cache, control.run.monitor)?;
    if let Some(recompute) = control.recompute {
        let body = stored.manifest.settings.model.body;
        let (found, fits) = (format!("with {}", body.words()), body.transformer().is_some());
        let expected = "a run of a Transformer, whose blocks it computes again";
        require("recompute", found, fits, expected).map_err(SettingsError::from)?;
        stored.manifest.settings.recompute = recompute;
        stored.trainer.recipe = stored.manifest.recipe();
    }
    stored.share(control)?;
    Pretraining::new(stored, control).run()
}

/// Makes the steps of a pre-training that process 0 leads. `corpus` is the path of the text for this process; `None`: that of
/// process 0. `own` are the settings of this process, which must equal those of process 0. Writes only tokens, into the cache.
///
/// # Errors
/// Returns an error if the text or the settings differ, a process is lost, or training has diverged.
pub fn follow(corpus: Option<&Path>, own: Option<&PretrainSettings>, control: &PretrainControl<'_>) -> Result<(), PretrainError> {
    let collective = &control.run.collective;
    let Some(mut begun) = Begun::<PretrainManifest>::hear(&control.run)? else { return Ok(()) };
    let (manifest, files) = (begun.manifest.clone(), std::mem::take(&mut begun.files));
    let settings = &manifest.settings;
    settings.check()?;
    if let Some(own) = own {
        let model = own.model.clone().with_vocab(settings.model.sizes.vocab);
        let mut own = PretrainSettings { model, recompute: settings.recompute, ..own.clone() }; // `recompute` changes no result
        own.take_evaluations(settings);
        run::same_settings(&own, settings)?;
        run::same_precision(&control.run.device, &manifest.precision)?;
    }
    let open = |name: &str| files.get(name).cloned().ok_or_else(|| std::io::ErrorKind::NotFound.into());
    let tokenizer = Tokenizer::read(Path::new("the tokenizer of process 0"), &open)?;
    let source: Box<dyn TextSource> = match &manifest.corpus {
        None => Box::new(WorldSource::new(settings, Some(tokenizer))?),
        Some(its) => {
            let path = corpus.unwrap_or(its);
            Box::new(Corpus::open(settings, path, tokenizer, &control.cache, control.run.monitor)?)
        }
    };
    let viewer = Viewer::new(settings, &*source)?;
    let fresh = |recipe| Trainer::new(recipe, Model::init(&settings.model, settings.seed));
    let mut trainer =
        begun.trainer(settings.model.clone(), manifest.recipe(), fresh, (&source.digest(), &manifest.precision), collective)?;
    trainer.watches = control.run.anomaly;
    let batch = |t| viewer.batch(&*source, t, settings.batch);
    Ok(run::follow(&mut trainer, begun.stop, batch)?)
}

/// Returns the SHA-256 of all parameters, in hexadecimal digits.
///
/// # Errors
/// Returns an error if the parameters' GPU fails.
pub fn digest(params: &Model<Tensor>) -> Result<String, DeviceError> {
    trainer::digest(params).map(hex::encode)
}
