//! The text source of a run on text files.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gradus_data::{Chunks, Evaluation, RandomWindows, TokenFile, Tokens};
use gradus_io::hex;
use gradus_io::numbers::count_of;
use gradus_io::progress::{Job, Monitor};
use gradus_text::{BpeTrainer, TextError, Tokenizer, each_document};
use sha2::{Digest, Sha256};

use super::source::{Sequences, Split, TextSource};
use super::{PretrainError, PretrainSettings, SettingsError, viewer};
use crate::hyperparameters::RangeError;
use crate::views::SpecialTokens;

/// A text source of random windows or of chunks of a corpus.
pub struct Corpus {
    tokenizer: Tokenizer,
    windows: RandomWindows,
    train: Texts,
    held_out: Option<Texts>,
    digest: String,
}

/// The texts of a part of a corpus.
enum Texts {
    /// Random windows, numbered by their starts.
    Windows(RandomWindows),
    /// Adjacent windows.
    InOrder(Evaluation),
    /// Chunks that do not overlap.
    Chunks(Chunks),
}

impl Texts {
    fn count(&self) -> usize {
        match self {
            Texts::Windows(windows) => windows.tokens(),
            Texts::InOrder(windows) => windows.windows(),
            Texts::Chunks(chunks) => chunks.count(),
        }
    }

    fn read(&self, number: usize) -> Vec<u32> {
        match self {
            Texts::Windows(windows) => windows.read(number),
            Texts::InOrder(windows) => windows.read(number),
            Texts::Chunks(chunks) => chunks.read(number),
        }
    }

    fn length(&self, number: usize) -> usize {
        match self {
            Texts::Windows(windows) => windows.context() + 1,
            Texts::InOrder(windows) => windows.length(number),
            Texts::Chunks(chunks) => chunks.read(number).len(),
        }
    }
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
        Some(dir) if !Path::new(dir).exists() => {
            return Err(
                SettingsError::from(RangeError::new("tokenizer", dir, "char, byte, or a directory with a tokenizer")).into()
            );
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
        let (tokens, counts) = (open(corpus)?, settings.order.is_some());
        // Counts have no windows.
        let context = |whole: usize| if counts { whole } else { settings.model.sizes.context };
        let (train, rest) = match &settings.held_out_corpus {
            None => {
                let (train, rest) = gradus_data::split(tokens.len(), settings.held_out)?;
                if settings.held_out > 0.0 && rest.len() < 2 {
                    let found = count_of(rest.len(), "token");
                    monitor
                        .say(&format!("warning: the held-out part has {found}, too few to predict one, so nothing is evaluated"));
                }
                (train, (rest.len() >= 2).then(|| (tokens.clone(), rest)))
            }
            Some(path) => {
                let other = open(path)?;
                (0..tokens.len(), Some((other.clone(), 0..other.len())))
            }
        };
        let in_order = rest
            .clone()
            .map(|(tokens, range)| Evaluation::new(tokens, range.clone(), context(range.len().saturating_sub(1).max(1))))
            .transpose()?;
        let windows = RandomWindows::new(tokens.clone(), train.clone(), context(1), settings.seed)?;
        let (train, held_out) = match settings.view.is_next() {
            true => (Texts::Windows(windows.clone()), in_order.map(Texts::InOrder)),
            false => {
                let chunks = |(tokens, range): (Arc<TokenFile>, Range<usize>)| {
                    Chunks::new(tokens, range, viewer::room(settings), settings.seed).map(Texts::Chunks)
                };
                (chunks((tokens, train))?, rest.map(chunks).transpose()?)
            }
        };
        Ok(Corpus { tokenizer, windows, train, held_out, digest: hex::encode(digest.finalize()) })
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
        batch as f64
            * match &self.train {
                Texts::Chunks(chunks) => self.tokens() as f64 / chunks.count() as f64,
                _ => self.windows.context() as f64,
            }
    }
    fn digest(&self) -> String {
        self.digest.clone()
    }
    fn texts(&self, part: Split) -> usize {
        match part {
            Split::Train => self.train.count(),
            Split::HeldOut => self.held_out.as_ref().map_or(0, Texts::count),
        }
    }
    fn text(&self, part: Split, number: usize) -> Vec<u32> {
        match part {
            Split::Train => self.train.read(number),
            Split::HeldOut => self.held_out.as_ref().map_or(Vec::new(), |texts| texts.read(number)),
        }
    }
    fn held_out_length(&self, number: usize) -> usize {
        self.held_out.as_ref().map_or(0, |texts| texts.length(number))
    }
    fn drawn(&self, t: u64, rows: usize) -> Vec<(usize, u64)> {
        let epoch =
            |row: usize| (t.saturating_sub(1).wrapping_mul(rows as u64).wrapping_add(row as u64)) / self.train.count() as u64;
        let drawn = |row: usize| match &self.train {
            Texts::Chunks(chunks) => chunks.drawn(t, row),
            _ => self.windows.start(t, row),
        };
        (0..rows).map(|row| (drawn(row), epoch(row))).collect()
    }
    /// Returns texts that are spread evenly over the held-out part.
    fn evaluated(&self, limit: usize) -> Vec<usize> {
        let Some(texts) = &self.held_out else { return Vec::new() };
        let each = if let Texts::Chunks(_) = texts { texts.length(0).max(1) } else { self.windows.context() };
        let count = limit.div_ceil(each).clamp(1, texts.count());
        (0..count).map(|i| i * texts.count() / count).collect()
    }
    /// Returns bytes in proportion to the tokens; those of the whole part are exact.
    fn known(&self, _: &[usize], tokens: u64) -> (Option<u64>, Option<f64>) {
        let Some(Texts::InOrder(all)) = &self.held_out else { return (None, None) };
        (Some((all.bytes() as f64 * tokens as f64 / all.predicted() as f64).round() as u64), None)
    }
    fn sequences(&self) -> Sequences<'_> {
        Box::new(std::iter::once(Box::new(self.windows.all()) as Box<dyn Iterator<Item = u32>>))
    }
    fn prompt(&self) -> Vec<u32> {
        self.windows.read(self.windows.start(0, 0)).into_iter().take(8).collect()
    }
}

#[cfg(test)]
mod tests {
    use gradus_io::progress::Silent;
    use gradus_model::Model;
    use gradus_model::check::tiny_gpt;

    use super::*;
    use crate::pretrain::{PretrainOptions, Viewer};

    /// Of 180 letters to train on, a window of 22 reads 22, a masked view two less; an epoch reads each letter once.
    #[test]
    fn a_step_counts_the_tokens_that_fit_its_view() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text.txt");
        std::fs::write(&text, "abcdefghi\n".repeat(20)).unwrap();
        for (view, tokens) in [("next", 66.0), ("masked", 60.0)] {
            let settings =
                PretrainOptions { view: Some(view.into()), context: Some(22), held_out: Some(0.1), ..PretrainOptions::default() };
            let settings = settings.settle().unwrap();
            let source = Corpus::open(&settings, &text, Tokenizer::bytes(), dir.path(), &Silent).unwrap();
            assert_eq!((source.tokens(), source.tokens_per_step(3)), (180, tokens));
        }
    }

    #[test]
    fn evaluations_read_the_counted_number_of_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text.txt");
        std::fs::write(&text, "abcdefghi\n".repeat(100)).unwrap();
        let settings = PretrainOptions { context: Some(9), held_out: Some(0.1), ..PretrainOptions::default() };
        let settings = settings.settle().unwrap();
        let source = Corpus::open(&settings, &text, Tokenizer::bytes(), dir.path(), &Silent).unwrap();
        let config = tiny_gpt().with_vocab(256);
        let (viewer, model) = (Viewer::new(&settings, &source).unwrap(), Model::init(&config, 1));
        for limit in [1, 9, 10, 50, 90, 91, 99, 100, usize::MAX] {
            assert_eq!(viewer.validate(&source, &model, limit).unwrap().tokens, viewer.validated(&source, limit), "{limit}");
        }
    }
}
