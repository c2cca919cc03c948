//! Runs that count n-grams instead of training a network.
//!
//! ```text
//! OUT/  config.json, model.safetensors, tokenizer files     the counts
//!       run.json                                            the settings
//! ```

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Instant;

use gradus_io::checksums::{self, Sum};
use gradus_io::progress::{Job, Monitor};
use gradus_io::{disk, interrupt};
use gradus_model::KneserNey;
use gradus_model::checkpoint::{Bytes, CONFIG_FILE, WEIGHTS_FILE, ngram_files, read_ngram};
use gradus_report::metrics::Moment;

use super::source::{Split, TextSource, Validation};
use super::{PretrainControl, PretrainError, PretrainManifest, PretrainOutcome};
use crate::run::{Manifest, RunError};

/// The number of tokens between reports of progress.
const REPORTED: u64 = 1 << 16;

/// Counts n-grams of at most `order` tokens in the training texts of a source, and writes them with the manifest of the run.
///
/// # Errors
/// Returns an error on an interruption, or if a file cannot be written. Nothing is written before the counts are complete.
pub(super) fn count(
    order: usize,
    (manifest, source): (&PretrainManifest, &dyn TextSource),
    out: &Path,
    control: &PretrainControl<'_>,
) -> Result<PretrainOutcome, PretrainError> {
    let begin = Instant::now();
    let vocab = source.tokenizer().vocab_size();
    let progress = RefCell::new(control.run.monitor.begin(Job::new("counting n-grams", source.tokens(), "tokens")));
    let done = Cell::new(0_u64);
    let goes_on = |_: &u32| {
        done.set(done.get() + 1);
        if done.get().is_multiple_of(REPORTED) {
            progress.borrow_mut().reach(done.get());
        }
        !interrupt::requested()
    };
    let texts = source.sequences().map(|text| text.take_while(goes_on));
    let counts = KneserNey::between(source.separator(), order, texts, vocab);
    let mut progress = progress.into_inner();
    if interrupt::requested() {
        progress.finish();
        return Err(PretrainError::Interrupted);
    }
    progress.reach(done.get());
    progress.complete();
    progress.finish();
    let at = Moment { step: 0, tokens: source.tokens(), elapsed: begin.elapsed().as_secs_f64() };
    let validation = validate(&counts, source).map(|validation| validation.record(at));
    let mut files = source.tokenizer().files();
    let own = ngram_files(&counts);
    let parameters_sha256 = Sum::of(&own[1].1).sha256;
    files.extend(own);
    manifest.write(out, files)?;
    Ok(PretrainOutcome {
        out: out.to_owned(),
        steps: 0,
        total_steps: 0,
        finished: true,
        final_loss: None,
        tokens_per_second: None,
        parameters_sha256,
        parameters: counts.ngrams(),
        validation,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// A run that counted n-grams.
pub struct Counted {
    /// The manifest.
    pub manifest: PretrainManifest,
    /// The data.
    pub source: Box<dyn TextSource>,
    /// The counts.
    pub counts: KneserNey,
}

impl Counted {
    /// Reads a run. Only the tokens of its corpus are written, into `cache`, if they are missing there.
    ///
    /// # Errors
    /// Returns an error if the directory has no run that counted or a damaged one, or if the corpus has changed.
    pub fn read(dir: &Path, cache: &Path, monitor: &dyn Monitor) -> Result<Self, PretrainError> {
        let manifest = PretrainManifest::read(dir)?;
        let source = manifest.source(dir, cache, monitor)?;
        checksums::check(dir, &[CONFIG_FILE, WEIGHTS_FILE])?;
        let counts = read_ngram(dir, &|name| disk::map(&dir.join(name), Bytes::open))?;
        let missing = || RunError::Resume { problem: format!("{}: expected counts of n-grams, found a network", dir.display()) };
        Ok(Counted { manifest, source, counts: counts.ok_or_else(missing)? })
    }
}

/// Computes the loss on the held-out texts; `None` if there are none.
fn validate(counts: &KneserNey, source: &dyn TextSource) -> Option<Validation> {
    let (numbers, separator) = (source.evaluated(usize::MAX), source.separator());
    let of_text = |&number: &usize| {
        counts.losses(&[separator.as_slice(), &source.text(Split::HeldOut, number), separator.as_slice()].concat())
    };
    let losses: Vec<f64> = numbers.iter().flat_map(of_text).collect();
    let tokens = losses.len() as u64;
    let (bytes, limit) = source.known(&numbers, tokens);
    let nll = losses.iter().sum::<f64>() / tokens as f64;
    (tokens > 0).then_some(Validation { nll, tokens, bytes, limit, follows: None })
}
