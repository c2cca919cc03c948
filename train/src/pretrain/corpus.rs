//! A run on text files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gradus_data::{Evaluation, Phase, TokenFile, Tokens, Windows};
use gradus_io::hex;
use gradus_io::progress::{Job, Monitor};
use gradus_model::Model;
use gradus_tensor::Tensor;
use gradus_text::{BpeTrainer, Tokenizer, corpus_files, read_corpus, read_text, strip_gutenberg};
use sha2::{Digest, Sha256};

use super::PretrainError;
use super::source::{self, Source, Validation};
use crate::settings::Settings;

/// Rows of an evaluation batch.
const ROWS: usize = 16;

/// Random windows of a corpus, and its held-out part in order.
pub struct Corpus {
    tokenizer: Tokenizer,
    windows: Windows,
    held_out: Option<Evaluation>,
    digest: String,
}

impl std::fmt::Debug for Corpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Corpus of {} tokens", self.windows.tokens())
    }
}

/// The tokenizer that the settings name; without one, a BPE is trained on the corpus.
pub(super) fn tokenizer(settings: &Settings, corpus: &Path, monitor: &dyn Monitor) -> Result<Tokenizer, PretrainError> {
    match settings.tokenizer.as_deref() {
        Some("byte") => Ok(Tokenizer::bytes()),
        Some("char") => {
            let mut documents = read_corpus(corpus)?;
            if let Some(held_out) = &settings.held_out_corpus {
                documents.extend(read_corpus(held_out)?);
            }
            Ok(Tokenizer::characters(documents.iter().map(|d| d.text.as_str())))
        }
        Some(dir) => Ok(Tokenizer::load(Path::new(dir))?),
        None => {
            let trainer = BpeTrainer::new(settings.vocab);
            let mut words = trainer.word_counts();
            for path in corpus_files(corpus)? {
                words.add(&strip_gutenberg(&read_text(&path)?)); // one file in memory at a time
            }
            let mut progress = monitor.begin(Job::new("training the tokenizer", settings.vocab as u64, "merges"));
            let tokenizer = trainer.train(&words, |done, _| progress.reach(done as u64))?;
            progress.finish();
            Ok(tokenizer)
        }
    }
}

impl Corpus {
    /// Opens (tokenising first where the cache has it not) the corpus of a run.
    pub fn open(
        settings: &Settings,
        corpus: &Path,
        tokenizer: Tokenizer,
        cache: &Path,
        monitor: &dyn Monitor,
    ) -> Result<Self, PretrainError> {
        let open = |path: &Path| -> Result<(Arc<TokenFile>, PathBuf), PretrainError> {
            let mut progress = None; // none where the cache has it
            let file = TokenFile::open_or_build(cache, path, &tokenizer, None, &mut |p| {
                if p.phase == Phase::Tokenising {
                    let begin = || monitor.begin(Job::new(&format!("tokenising {}", path.display()), p.total, "bytes"));
                    progress.get_or_insert_with(begin).reach(p.done);
                }
            })?;
            if let Some(progress) = progress {
                progress.finish();
            }
            let name = file.path().to_owned();
            Ok((Arc::new(file), name))
        };
        let (tokens, name) = open(corpus)?;
        let context = settings.model.context();
        let mut digest = Sha256::new();
        digest.update(name.file_name().unwrap_or_default().as_encoded_bytes());
        let (train, rest) = match &settings.held_out_corpus {
            None => gradus_data::split(tokens.len(), settings.held_out)?,
            Some(_) => (0..tokens.len(), 0..0),
        };
        let held_out = match &settings.held_out_corpus {
            None if rest.len() < 2 => None,
            None => Some(Evaluation::new(tokens.clone(), rest, context, context)?),
            Some(path) => {
                let (other, name) = open(path)?;
                digest.update(name.file_name().unwrap_or_default().as_encoded_bytes());
                Some(Evaluation::new(other.clone(), 0..other.len(), context, context)?)
            }
        };
        let windows = Windows::new(tokens, train, context, settings.seed)?;
        Ok(Corpus { tokenizer, windows, held_out, digest: hex::encode(digest.finalize()) })
    }
}

impl Source for Corpus {
    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
    fn tokens(&self) -> u64 {
        self.windows.tokens() as u64
    }
    fn tokens_an_update(&self, batch: usize) -> f64 {
        (batch * self.windows.context()) as f64
    }
    fn digest(&self) -> String {
        self.digest.clone()
    }
    fn batch(&self, t: u64, batch: usize) -> gradus_data::Batch {
        self.windows.batch(t, 0..batch)
    }
    fn validate(&self, model: &Model<Tensor>, limit: usize) -> Option<Validation> {
        let all = self.held_out.as_ref()?;
        // Whole windows spread evenly over the held-out part, so that a limited evaluation sees all of it.
        let count = limit.div_ceil(model.backbone.config().context()).clamp(1, all.windows());
        let chosen: Vec<usize> = (0..count).map(|i| i * all.windows() / count).collect();
        let batches = chosen.chunks(ROWS).map(|rows| all.batch_of(rows));
        let nll = source::nll(model, batches);
        // In proportion where it is a part: exact for the whole.
        let bytes = (all.bytes() as f64 * nll.tokens as f64 / all.predicted() as f64).round() as u64;
        Some(Validation { nll, bytes, limit: None })
    }
    fn prompt(&self) -> Vec<u32> {
        self.windows.batch(0, 0..1).inputs.into_iter().take(8).collect()
    }
}
