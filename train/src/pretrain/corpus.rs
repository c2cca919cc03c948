//! The text source of a run on text files.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gradus_data::{Chunks, Evaluation, RandomWindows, TokenBatch, TokenFile, Tokens};
use gradus_io::hex;
use gradus_io::progress::{Job, Monitor};
use gradus_model::Model;
use gradus_tensor::Tensor;
use gradus_text::{BpeTrainer, TextError, Tokenizer, each_document};
use sha2::{Digest, Sha256};

use super::source::{self, Split, TextSource, Validation};
use super::{PretrainError, PretrainSettings, viewer};
use crate::views::{SpecialTokens, ViewPlan};

/// The number of rows of an evaluation batch.
const ROWS: usize = 16;

/// A text source of random windows of a corpus, with its held-out part in order.
pub struct Corpus {
    tokenizer: Tokenizer,
    windows: RandomWindows,
    held_out: Option<Evaluation>,
    /// The texts that a scheme views: the training and the held-out texts.
    chunks: [Option<Chunks>; 2],
    digest: String,
}

/// Returns the tokenizer that the settings name; without one, a BPE is trained on the corpus.
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
            words.note().iter().for_each(|note| monitor.say(note));
            let mut progress = monitor.begin(Job::new("training the tokenizer", settings.vocab as u64, "merges"));
            let tokenizer = trainer.train(&words, |done, _| progress.reach(done as u64))?;
            progress.complete();
            progress.finish();
            tokenizer
        }
    };
    let mut tokenizer = match settings.mode {
        Some(mode) => tokenizer.with_mode(mode)?,
        None => tokenizer,
    };
    if SpecialTokens::of(&tokenizer).is_none() {
        viewer::specials(&settings.view).iter().try_for_each(|special| tokenizer.add_special(special).map(drop))?;
    }
    Ok(tokenizer)
}

impl Corpus {
    /// Opens the corpus of a run. A corpus that is not in the cache is tokenized first.
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
        let (tokens, context) = (open(corpus)?, settings.model.sizes().context);
        let (train, rest) = match &settings.held_out_corpus {
            None => {
                let (train, rest) = gradus_data::split(tokens.len(), settings.held_out)?;
                (train, (rest.len() >= 2).then(|| (tokens.clone(), rest)))
            }
            Some(path) => {
                let other = open(path)?;
                (0..tokens.len(), Some((other.clone(), 0..other.len())))
            }
        };
        let held_out = rest.clone().map(|(tokens, range)| Evaluation::new(tokens, range, context)).transpose()?;
        let chunks = match settings.view {
            ViewPlan::Next => [None, None],
            ViewPlan::Masked(_) => {
                let chunks = |(tokens, range): (Arc<TokenFile>, Range<usize>)| {
                    Chunks::new(tokens, range, viewer::room(settings), settings.seed)
                };
                [Some(chunks((tokens.clone(), train.clone()))?), rest.map(chunks).transpose()?]
            }
        };
        let windows = RandomWindows::new(tokens, train, context, settings.seed)?;
        Ok(Corpus { tokenizer, windows, held_out, chunks, digest: hex::encode(digest.finalize()) })
    }
}

impl Corpus {
    fn part(&self, part: Split) -> Option<&Chunks> {
        let [train, held_out] = &self.chunks;
        match part {
            Split::Train => train.as_ref(),
            Split::HeldOut => held_out.as_ref(),
        }
    }
}

impl Corpus {
    /// Returns the windows that an evaluation with a limit reads, spread evenly over the held-out part to sample all of it.
    fn windows_within(&self, all: &Evaluation, limit: usize) -> Vec<usize> {
        let count = limit.div_ceil(self.windows.context()).clamp(1, all.windows());
        (0..count).map(|i| i * all.windows() / count).collect()
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
        let of_windows = self.windows.context() as f64;
        let of_chunks = |chunks: &Chunks| self.tokens() as f64 / chunks.count() as f64;
        batch as f64 * self.part(Split::Train).map_or(of_windows, of_chunks)
    }
    fn digest(&self) -> String {
        self.digest.clone()
    }
    fn batch(&self, t: u64, batch: usize) -> TokenBatch {
        self.windows.batch(t, 0..batch)
    }
    fn validate(&self, model: &Model<Tensor>, limit: usize) -> Option<Validation> {
        let all = self.held_out.as_ref()?;
        let chosen = self.windows_within(all, limit);
        let batches = chosen.chunks(ROWS).map(|rows| all.batch(rows.iter().copied()));
        let (nll, tokens) = source::nll(model, batches);
        // Proportional for a part, exact for the whole.
        let bytes = (all.bytes() as f64 * tokens as f64 / all.predicted() as f64).round() as u64;
        Some(Validation { nll, tokens, bytes: Some(bytes), limit: None, follows: None })
    }
    fn validated(&self, limit: usize) -> u64 {
        let Some(all) = &self.held_out else { return 0 };
        let windows = self.windows_within(all, limit).len();
        (windows * self.windows.context()).min(all.predicted()) as u64
    }
    fn texts(&self, part: Split) -> usize {
        self.part(part).map_or(0, Chunks::count)
    }
    fn text(&self, part: Split, number: usize) -> Vec<u32> {
        self.part(part).map_or(Vec::new(), |chunks| chunks.read(number))
    }
    fn drawn(&self, t: u64, rows: usize) -> Vec<(usize, u64)> {
        let Some(chunks) = self.part(Split::Train) else { return Vec::new() };
        let epoch = |row: usize| (t.saturating_sub(1).wrapping_mul(rows as u64).wrapping_add(row as u64)) / chunks.count() as u64;
        (0..rows).map(|row| (chunks.drawn(t, row), epoch(row))).collect()
    }
    fn prompt(&self) -> Vec<u32> {
        self.windows.batch(0, 0..1).inputs.into_iter().take(8).collect()
    }
}

#[cfg(test)]
mod tests {
    use gradus_io::progress::Silent;
    use gradus_model::TransformerConfig;
    use gradus_model::check::tiny_gpt;

    use super::*;
    use crate::pretrain::{PretrainOptions, ViewKind};

    /// Of 180 letters to train on, a window of 22 reads 22, a masked view two less; an epoch reads each letter once.
    #[test]
    fn a_step_counts_the_tokens_that_a_view_has_room_for() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text.txt");
        std::fs::write(&text, "abcdefghi\n".repeat(20)).unwrap();
        for (view, tokens) in [(ViewKind::Next, 66.0), (ViewKind::Masked, 60.0)] {
            let settings =
                PretrainOptions { view: Some(view), context: Some(22), held_out: Some(0.1), ..PretrainOptions::default() };
            let settings = settings.settle().unwrap();
            let source = Corpus::open(&settings, &text, Tokenizer::bytes(), dir.path(), &Silent).unwrap();
            assert_eq!((source.tokens(), source.tokens_per_step(3)), (180, tokens));
        }
    }

    #[test]
    fn evaluations_read_the_tokens_that_are_counted_for_them() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text.txt");
        std::fs::write(&text, "abcdefghi\n".repeat(100)).unwrap();
        let settings = PretrainOptions { context: Some(9), held_out: Some(0.1), ..PretrainOptions::default() };
        let source = Corpus::open(&settings.settle().unwrap(), &text, Tokenizer::bytes(), dir.path(), &Silent).unwrap();
        let config = TransformerConfig { vocab: 256, ..tiny_gpt() };
        let model = Model::init(&config.into(), 1);
        for limit in [1, 9, 10, 50, 90, 91, 99, 100, usize::MAX] {
            assert_eq!(source.validate(&model, limit).unwrap().tokens, source.validated(limit), "{limit}");
        }
    }
}
