//! A run on text files.

use std::path::Path;
use std::sync::Arc;

use gradus_data::{Evaluation, RandomWindows, TokenBatch, TokenFile, Tokens};
use gradus_io::hex;
use gradus_io::progress::{Job, Monitor};
use gradus_model::Model;
use gradus_tensor::Tensor;
use gradus_text::{BpeTrainer, TextError, Tokenizer, each_document};
use sha2::{Digest, Sha256};

use super::source::{self, TextSource, Validation};
use super::{PretrainError, PretrainSettings};

/// Rows of an evaluation batch.
const ROWS: usize = 16;

/// Random windows of a corpus, and its held-out part in order.
pub struct Corpus {
    tokenizer: Tokenizer,
    windows: RandomWindows,
    held_out: Option<Evaluation>,
    digest: String,
}

/// The tokenizer that the settings name; without one, a BPE is trained on the corpus.
pub(super) fn tokenizer(settings: &PretrainSettings, corpus: &Path, monitor: &dyn Monitor) -> Result<Tokenizer, PretrainError> {
    let tokenizer = match settings.tokenizer.as_deref() {
        Some("byte") => Tokenizer::bytes(),
        Some("char") => {
            let mut texts = Vec::new();
            for path in [Some(corpus), settings.held_out_corpus.as_deref()].into_iter().flatten() {
                each_document(path, |_, text| {
                    texts.push(text.to_owned());
                    Ok::<_, TextError>(())
                })?;
            }
            Tokenizer::characters(texts.iter().map(String::as_str))
        }
        Some(dir) => Tokenizer::load(Path::new(dir))?,
        None => {
            let trainer = BpeTrainer { mode: settings.mode.unwrap_or_default(), ..BpeTrainer::new(settings.vocab) };
            let mut words = trainer.word_counts();
            each_document(corpus, |_, text| {
                words.add(text);
                Ok::<_, TextError>(())
            })?;
            let mut progress = monitor.begin(Job::new("training the tokenizer", settings.vocab as u64, "merges"));
            let tokenizer = trainer.train(&words, |done, _| progress.reach(done as u64))?;
            progress.finish();
            tokenizer
        }
    };
    Ok(match settings.mode {
        Some(mode) => tokenizer.with_mode(mode)?,
        None => tokenizer,
    })
}

impl Corpus {
    /// Opens the corpus of a run, tokenising it first if it is not in the cache.
    pub fn open(
        settings: &PretrainSettings,
        corpus: &Path,
        tokenizer: Tokenizer,
        cache: &Path,
        monitor: &dyn Monitor,
    ) -> Result<Self, PretrainError> {
        let mut digest = Sha256::new();
        let mut open = |path: &Path| -> Result<Arc<TokenFile>, PretrainError> {
            let file = TokenFile::open_or_build(cache, path, &tokenizer, monitor)?;
            digest.update(file.path().file_name().unwrap_or_default().as_encoded_bytes());
            Ok(Arc::new(file))
        };
        let (tokens, context) = (open(corpus)?, settings.model.context());
        let (train, held_out) = match &settings.held_out_corpus {
            None => {
                let (train, rest) = gradus_data::split(tokens.len(), settings.held_out)?;
                let held_out = (rest.len() >= 2).then(|| Evaluation::new(tokens.clone(), rest, context));
                (train, held_out.transpose()?)
            }
            Some(path) => {
                let other = open(path)?;
                (0..tokens.len(), Some(Evaluation::new(other.clone(), 0..other.len(), context)?))
            }
        };
        let windows = RandomWindows::new(tokens, train, context, settings.seed)?;
        Ok(Corpus { tokenizer, windows, held_out, digest: hex::encode(digest.finalize()) })
    }
}

impl TextSource for Corpus {
    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
    fn tokens(&self) -> u64 {
        self.windows.tokens() as u64
    }
    fn tokens_per_step(&self, batch: usize) -> f64 {
        (batch * self.windows.context()) as f64
    }
    fn digest(&self) -> String {
        self.digest.clone()
    }
    fn batch(&self, t: u64, batch: usize) -> TokenBatch {
        self.windows.batch(t, 0..batch)
    }
    fn validate(&self, model: &Model<Tensor>, limit: usize) -> Option<Validation> {
        let all = self.held_out.as_ref()?;
        // Whole windows spread evenly over the held-out part, so that a limited evaluation sees all of it.
        let count = limit.div_ceil(model.backbone.config().context()).clamp(1, all.windows());
        let chosen: Vec<usize> = (0..count).map(|i| i * all.windows() / count).collect();
        let batches = chosen.chunks(ROWS).map(|rows| all.batch(rows.iter().copied()));
        let (nll, tokens) = source::nll(model, batches);
        // Proportional for a part, exact for the whole.
        let bytes = (all.bytes() as f64 * tokens as f64 / all.predicted() as f64).round() as u64;
        Some(Validation { nll, tokens, bytes, limit: None })
    }
    fn prompt(&self) -> Vec<u32> {
        self.windows.batch(0, 0..1).inputs.into_iter().take(8).collect()
    }
}
