//! What a run measured, as JSON lines: one record per line, appended as the run goes.
//!
//! The file is the run's memory of itself: the curves of the report, the table of the README and a continued run are all
//! made from it. A run that resumes at step s first drops what was recorded after s, so no curve has double points.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gradus_io::checksums::{self, LOG_FILE, Sum, Summing};
use gradus_io::disk::{self, Output};
use gradus_io::files::FileError;
use serde::{Deserialize, Serialize};

/// The split whose evaluations a run is judged by.
pub const VALIDATION: &str = "validation";

/// One line of a metrics file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// A step of the optimizer.
    Step(StepRecord),
    /// A measurement on a whole split.
    Evaluation(EvaluationRecord),
    /// A text that the model wrote.
    Sample(SampleRecord),
    /// A checkpoint was written.
    Checkpoint {
        /// Steps made so far.
        step: u64,
        /// Seconds of training so far.
        elapsed: f64,
        /// Where it was written.
        path: String,
    },
    /// What the model can do without being trained for it.
    Probe {
        /// When.
        #[serde(flatten)]
        at: Moment,
        /// Scores by name.
        scores: BTreeMap<String, f64>,
    },
    /// A session begins on a GPU, or on the CPU after one.
    Device {
        /// Steps made so far.
        step: u64,
        /// Seconds of training so far.
        elapsed: f64,
        /// As `--device` takes it.
        device: String,
        /// How it rounds.
        arithmetic: String,
        /// The precision of the factors of products.
        #[serde(default)]
        products: String,
    },
    /// Which of a device's kernels were measured to be fastest.
    Kernels {
        /// Steps made so far.
        step: u64,
        /// Seconds of training so far.
        elapsed: f64,
        /// Their names by kinds of products.
        kernels: BTreeMap<String, String>,
    },
    /// Where the time of each process went since the record before, where there are several.
    Processes {
        /// Steps made so far.
        step: u64,
        /// Seconds of training so far.
        elapsed: f64,
        /// By process.
        times: Vec<ProcessTimes>,
    },
    /// Something the reader should know.
    Warning {
        /// Steps made so far.
        step: u64,
        /// Seconds of training so far.
        elapsed: f64,
        /// What, in words.
        text: String,
    },
}

/// Where the time of a process went, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessTimes {
    /// Its own work.
    pub own: f64,
    /// Waiting for the slowest process to do its.
    pub slowest: f64,
    /// Waiting for gradients to come.
    pub wire: f64,
}

impl std::ops::AddAssign for ProcessTimes {
    fn add_assign(&mut self, other: Self) {
        self.own += other.own;
        self.slowest += other.slowest;
        self.wire += other.wire;
    }
}

/// One step of the optimizer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Steps made so far, this one included.
    pub step: u64,
    /// Target tokens seen so far.
    pub tokens: u64,
    /// Mean negative log-likelihood of the step's batch, dropout on, in nats per token.
    #[serde(with = "number")]
    pub loss: f64,
    /// Learning rate of the step.
    pub lr: f64,
    /// L2 norm of the gradient before clipping.
    #[serde(with = "number")]
    pub grad_norm: f64,
    /// Target tokens per second since the record before.
    #[serde(with = "number")]
    pub tokens_per_second: f64,
    /// Seconds of training so far, over all resumptions.
    pub elapsed: f64,
}

/// A measurement on a whole split, dropout off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRecord {
    /// When.
    #[serde(flatten)]
    pub at: Moment,
    /// Which part of the data: [`VALIDATION`], `train`, `test`, …
    pub split: String,
    /// Mean negative log-likelihood in nats per predicted token.
    #[serde(with = "number")]
    pub nll: f64,
    /// exp(nll).
    #[serde(with = "number")]
    pub perplexity: f64,
    /// nll · predicted tokens / (bytes of text · ln 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_byte: Option<f64>,
    /// The exact −ln p of the same text under the source it was drawn from, in nats per predicted token, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// nll / limit − 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excess: Option<f64>,
    /// Of pairs of texts: what it says of whether the second follows the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
    /// Further measurements by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, f64>,
}

impl EvaluationRecord {
    /// A measurement of `nll` nats per predicted token on `split`, after the step `at`.
    pub fn new(at: Moment, split: &str, nll: f64) -> Self {
        Self { at, split: split.into(), nll, perplexity: nll.exp(), ..Self::default() }
    }

    /// Adds bits per byte, from the number of `predicted` tokens and the `bytes` of text they stand for.
    #[must_use]
    pub fn with_bytes(mut self, predicted: u64, bytes: u64) -> Self {
        self.bits_per_byte = Some(self.nll * predicted as f64 / (bytes as f64 * std::f64::consts::LN_2));
        self
    }

    /// Adds the exact limit, in nats per predicted token, and the excess over it.
    #[must_use]
    pub fn with_limit(mut self, limit: f64) -> Self {
        (self.limit, self.excess) = (Some(limit), Some(self.nll / limit - 1.0));
        self
    }

    /// The limit in bits per byte: both measures count the same text, so they are proportional.
    pub(crate) fn limit_bits_per_byte(&self) -> Option<f64> {
        Some(self.bits_per_byte? * self.limit? / self.nll)
    }
}

/// Answers about whether the second of two texts follows the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Follows {
    /// The mean of −log P(right answer), in nats per pair; ln 2 for who knows nothing.
    #[serde(with = "number")]
    pub nll: f64,
    /// Pairs of which it was said rightly.
    pub right: u64,
    /// Pairs.
    pub pairs: u64,
}

impl fmt::Display for Follows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.right as f64 / self.pairs as f64;
        write!(f, "second texts told apart: {percent:.1} % of {}, {:.4} nats each", self.pairs, self.nll)
    }
}

/// A point in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Steps made so far.
    pub step: u64,
    /// Target tokens trained on so far.
    pub tokens: u64,
    /// Seconds of training so far.
    pub elapsed: f64,
}

/// A text that the model wrote while training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleRecord {
    /// When.
    #[serde(flatten)]
    pub at: Moment,
    /// What it was given to begin with.
    pub prompt: String,
    /// What it wrote after the prompt.
    pub text: String,
}

impl Record {
    /// The steps made when the record was written.
    pub fn step(&self) -> u64 {
        match self {
            Self::Step(record) => record.step,
            Self::Evaluation(EvaluationRecord { at, .. }) | Self::Sample(SampleRecord { at, .. }) | Self::Probe { at, .. } => {
                at.step
            }
            Self::Checkpoint { step, .. }
            | Self::Device { step, .. }
            | Self::Kernels { step, .. }
            | Self::Processes { step, .. }
            | Self::Warning { step, .. } => *step,
        }
    }
}

/// JSON has no NaN and no infinity: they are written as `null` and read as NaN.
mod number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
    }
}

/// Why a metrics file could not be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum MetricsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path}:{line}: expected one record as a JSON object, found `{found}` ({cause}); correct or remove that line")]
    Malformed { path: PathBuf, line: usize, found: String, cause: serde_json::Error },
}

/// All records of a metrics file, in the order in which they were written.
/// A last line without its end, torn by a crash, is passed over.
///
/// # Errors
/// If the file cannot be read, or any other line is not a record; the error names the line.
pub fn read(path: &Path) -> Result<Vec<Record>, MetricsError> {
    parse(path, &disk::read(path).map_err(|cause| FileError::new("read", path, cause))?)
}

/// The records in the bytes of a metrics file.
///
/// # Errors
/// A line that is not a record; `path` is named.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Record>, MetricsError> {
    parse_until(path, bytes, u64::MAX, u64::MAX).map(|(records, _)| records)
}

/// The records before the first one of a later step than `step`, and their length in bytes. A malformed line is an error up to the
/// byte `sure`. After it, where a crash may have left any bytes, a malformed line ends the records.
fn parse_until(path: &Path, bytes: &[u8], step: u64, sure: u64) -> Result<(Vec<Record>, usize), MetricsError> {
    let (mut records, mut end) = (Vec::<Record>::new(), 0);
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let content = line.trim_ascii();
        match serde_json::from_slice::<Record>(content) {
            _ if content.is_empty() => {}
            Ok(record) if record.step() > step => break,
            Ok(record) => records.push(record),
            Err(_) if !line.ends_with(b"\n") || end as u64 >= sure => break, // torn by a crash; only the last line can lack its end
            Err(cause) => {
                let found = String::from_utf8_lossy(content).chars().take(60).flat_map(char::escape_debug).collect();
                return Err(MetricsError::Malformed { path: path.into(), line: index + 1, found, cause });
            }
        }
        end += line.len();
    }
    Ok((records, end))
}

/// The part of a log that a resumed run keeps: the records up to the step of its saved state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The step of the state.
    pub step: u64,
    /// The length of the log in bytes when the state was saved; `None` if the state does not contain it.
    pub bytes: Option<u64>,
}

/// A metrics file open for appending.
#[derive(Debug)]
pub struct MetricsLog {
    path: PathBuf,
    file: Output,
    sum: Summing,
}

impl MetricsLog {
    /// Opens the log in a run's folder and truncates it after the kept records; `None` keeps no records. Also returns the kept
    /// records, and the number of bytes that the log lacks, which is not 0 if the user accepted a shortened log.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, differs from its checksum, or has a malformed line. It is then
    /// unchanged.
    pub fn resume(folder: &Path, kept: Option<Kept>) -> Result<(Self, Vec<Record>, u64), MetricsError> {
        let (path, mut lost) = (folder.join(LOG_FILE), 0);
        let there = if path.exists() { Some(disk::read(&path).map_err(|e| FileError::new("read", &path, e))?) } else { None };
        let (mut content, mut records) = (Vec::new(), Vec::new());
        if let Some(Kept { step, bytes }) = kept {
            checksums::check(folder, &[LOG_FILE])?;
            let found = there.as_deref().unwrap_or_default();
            lost = bytes.map_or(0, |bytes| bytes.saturating_sub(found.len() as u64));
            let end;
            (records, end) = parse_until(&path, found, step, bytes.unwrap_or(u64::MAX))?;
            content.extend_from_slice(&found[..end]);
            if !content.is_empty() && !content.ends_with(b"\n") {
                // The next record would be appended to the unfinished line.
                let unfinished = content.split_off(content.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1));
                if !unfinished.trim_ascii().is_empty() {
                    records.pop();
                }
            }
        }
        if there.as_ref() != Some(&content) {
            checksums::write(folder, &[(LOG_FILE, content.clone())])?;
        }
        let file = Output::append(&path).map_err(|cause| FileError::new("append to", &path, cause))?;
        let mut sum = Summing::default();
        sum.update(&content);
        Ok((Self { path, file, sum }, records, lost))
    }

    /// Appends one record as one line, at once, so that a crash can tear no other line than the last.
    pub fn append(&mut self, record: &Record) -> Result<(), MetricsError> {
        let write = line(record).and_then(|line| {
            self.file.write_all(&line)?;
            self.sum.update(&line);
            Ok(())
        });
        Ok(write.map_err(|cause| FileError::new("append to", &self.path, cause))?)
    }

    /// Brings the log to the disk, and says how far it has come.
    pub fn sync(&self) -> Result<Sum, MetricsError> {
        self.file.sync().map_err(|cause| FileError::new("sync", &self.path, cause))?;
        Ok(self.sum.sum())
    }
}

/// A record as a line, its end included.
fn line(record: &Record) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    Ok(line)
}

/// What the records of a run amount to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    /// Steps made.
    pub steps: u64,
    /// Target tokens trained on.
    pub tokens: u64,
    /// Seconds of training.
    pub elapsed: f64,
    /// Median of the records' tokens per second.
    pub tokens_per_second: Option<f64>,
    /// Train loss at the end in nats per token: the mean of the last [`Summary::LAST`] records.
    pub train_loss: Option<f64>,
    /// The evaluation on [`VALIDATION`] with the least nll.
    pub best: Option<EvaluationRecord>,
}

impl Summary {
    /// How many of the last records make the final train loss: single batches are noisy.
    pub(crate) const LAST: usize = 20;

    /// The summary of `records`.
    pub(crate) fn of(records: &[Record]) -> Self {
        let steps: Vec<_> = steps(records).collect();
        let last = steps.last();
        let mut rates: Vec<_> = steps.iter().map(|record| record.tokens_per_second).filter(|rate| rate.is_finite()).collect();
        rates.sort_by(f64::total_cmp);
        let end = &steps[steps.len().saturating_sub(Self::LAST)..];
        let train_loss = end.iter().map(|record| record.loss).sum::<f64>() / end.len() as f64;
        let evaluations = evaluations(records, VALIDATION).filter(|record| record.nll.is_finite());
        Self {
            steps: last.map_or(0, |record| record.step),
            tokens: last.map_or(0, |record| record.tokens),
            elapsed: last.map_or(0.0, |record| record.elapsed),
            tokens_per_second: rates.get(rates.len() / 2).copied(),
            train_loss: (!end.is_empty()).then_some(train_loss),
            best: evaluations.min_by(|a, b| a.nll.total_cmp(&b.nll)).cloned(),
        }
    }
}

/// The steps among `records`.
pub fn steps(records: &[Record]) -> impl DoubleEndedIterator<Item = &StepRecord> {
    records.iter().filter_map(|record| if let Record::Step(step) = record { Some(step) } else { None })
}

/// The evaluations on `split` among `records`.
pub fn evaluations<'a>(records: &'a [Record], split: &'a str) -> impl DoubleEndedIterator<Item = &'a EvaluationRecord> + Clone {
    records.iter().filter_map(move |record| match record {
        Record::Evaluation(evaluation) if evaluation.split == split => Some(evaluation),
        _ => None,
    })
}

/// The first evaluation on [`VALIDATION`] whose excess over the limit is at most `excess`.
pub(crate) fn first_within(records: &[Record], excess: f64) -> Option<&EvaluationRecord> {
    evaluations(records, VALIDATION).find(|record| record.excess.is_some_and(|reached| reached <= excess))
}

/// The samples among `records`.
pub fn samples(records: &[Record]) -> impl DoubleEndedIterator<Item = &SampleRecord> {
    records.iter().filter_map(|record| if let Record::Sample(sample) = record { Some(sample) } else { None })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn resume(folder: &Path, kept: Option<Kept>) -> Result<(MetricsLog, Vec<Record>), MetricsError> {
        MetricsLog::resume(folder, kept).map(|(log, records, _)| (log, records))
    }

    /// The records kept by a state after `step` steps that does not contain the length of the log.
    fn until(step: u64) -> Option<Kept> {
        Some(Kept { step, bytes: None })
    }

    fn step(step: u64, loss: f64) -> Record {
        let (tokens, elapsed) = (step * 100, step as f64 * 0.5);
        Record::Step(StepRecord { step, tokens, loss, lr: 1e-3, grad_norm: 0.7, tokens_per_second: 200.0, elapsed })
    }

    fn evaluation(step: u64, nll: f64) -> EvaluationRecord {
        EvaluationRecord::new(Moment { step, tokens: step * 100, elapsed: step as f64 * 0.5 }, VALIDATION, nll)
    }

    #[test]
    fn records_survive_the_way_to_the_file_and_back() {
        let mut measured = evaluation(2, 3.0).with_bytes(1000, 4000).with_limit(2.5);
        measured.extra.insert("unigram".into(), 5.25);
        let text = " \"upon\"\na <time> ü".into();
        let mut expected = vec![
            step(1, 7.5),
            step(2, 7.1),
            Record::Sample(SampleRecord { at: measured.at, prompt: "Once".into(), text }),
            Record::Evaluation(measured),
            Record::Checkpoint { step: 2, elapsed: 1.0, path: "runs/last".into() },
            step(3, f64::INFINITY),
            Record::Warning { step: 3, elapsed: 1.5, text: "the loss is not finite".into() },
            Record::Processes { step: 3, elapsed: 1.5, times: vec![ProcessTimes { own: 1.0, slowest: 0.25, wire: 0.5 }; 2] },
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let (mut log, _) = resume(folder.path(), None).unwrap();
        expected.iter().for_each(|record| log.append(record).unwrap());
        // NaN is unequal to itself: the infinite loss is compared apart.
        let mut found = read(&path).unwrap();
        let (Record::Step(_), Record::Step(infinite)) = (expected.remove(5), found.remove(5)) else { panic!("order") };
        assert!(infinite.loss.is_nan());
        assert_eq!(found, expected);
        let text = fs::read_to_string(&path).unwrap();
        let first = r#"{"record":"step","step":1,"tokens":100,"loss":7.5,"lr":0.001,"grad_norm":0.7,"tokens_per_second":200.0,"elapsed":0.5}"#;
        assert_eq!(text.lines().next(), Some(first));
    }

    #[test]
    fn a_resumed_run_has_no_double_points_and_no_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let (mut log, _) = resume(folder.path(), None).unwrap();
        (1..=5).for_each(|index| log.append(&step(index, index as f64)).unwrap());
        log.file.write_all(br#"{"record":"st"#).unwrap();
        let (mut log, kept) = resume(folder.path(), until(3)).unwrap();
        assert_eq!(kept, [step(1, 1.0), step(2, 2.0), step(3, 3.0)]);
        log.append(&step(4, 40.0)).unwrap();
        assert_eq!(read(&path).unwrap(), [&kept[..], &[step(4, 40.0)]].concat());
    }

    /// A resumed run keeps the log as it was when the state was saved. Damage to that part is detected.
    #[test]
    fn a_log_is_cut_where_the_state_was_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let (mut log, _) = resume(folder.path(), None).unwrap();
        (1..=2).for_each(|index| log.append(&step(index, 1.0)).unwrap());
        let sum = log.sync().unwrap();
        let mut group = checksums::Group::of(folder.path());
        group.log(sum.clone());
        group.commit().unwrap();
        log.append(&step(3, 9.0)).unwrap();
        log.file.write_all(b"\0\0\n\0").unwrap(); // a crash may leave any bytes after the last sync
        let whole = fs::read(&path).unwrap();
        let kept = Some(Kept { step: 2, bytes: Some(sum.bytes) });
        for unsynced in [&whole[..], &[&whole[..sum.bytes as usize], b"\0\0\n\0"].concat()] {
            fs::write(&path, unsynced).unwrap();
            assert_eq!(resume(folder.path(), kept).unwrap().1, [step(1, 1.0), step(2, 1.0)]);
            assert_eq!(fs::read(&path).unwrap(), whole[..sum.bytes as usize]);
        }

        let mut flipped = whole.clone();
        flipped[3] ^= 1;
        for (damaged, words) in [(&flipped[..], "SHA-256"), (&whole[..40], "40"), (&[], "it has 0")] {
            fs::write(&path, damaged).unwrap();
            let error = resume(folder.path(), kept).unwrap_err().to_string();
            assert!(error.contains("damaged") && error.contains(words) && error.contains("gradus verify"), "{error}");
        }
        fs::remove_file(&path).unwrap();
        let error = resume(folder.path(), kept).unwrap_err().to_string();
        assert!(error.contains("missing"), "{error}");

        // Accepted as it is, a log goes on with its whole lines.
        fs::write(&path, &whole[..sum.bytes as usize - 5]).unwrap();
        checksums::accept(folder.path()).unwrap();
        let (_, records, lost) = MetricsLog::resume(folder.path(), kept).unwrap();
        assert_eq!((records, lost), (vec![step(1, 1.0)], 5));
        fs::remove_file(&path).unwrap();
        checksums::accept(folder.path()).unwrap();
        let (_, records, lost) = MetricsLog::resume(folder.path(), kept).unwrap();
        assert_eq!((records, lost), (vec![], sum.bytes));

        // A log that was lengthened and accepted is cut between two records, each time it is resumed.
        let note = Record::Warning { step: 1, elapsed: 0.5, text: "a note of my own".into() };
        let longer: Vec<u8> =
            [step(1, 1.0), note.clone(), step(2, 1.0), step(3, 9.0)].iter().flat_map(|record| line(record).unwrap()).collect();
        fs::write(&path, &longer).unwrap();
        checksums::accept(folder.path()).unwrap();
        for _ in 0..2 {
            let (_, records, lost) = MetricsLog::resume(folder.path(), kept).unwrap();
            assert_eq!((records, lost), (vec![step(1, 1.0), note.clone(), step(2, 1.0)], 0));
        }
        // A log without its last newline loses only the last line.
        fs::write(&path, &whole[..sum.bytes as usize - 1]).unwrap();
        checksums::accept(folder.path()).unwrap();
        assert_eq!(resume(folder.path(), kept).unwrap().1, [step(1, 1.0)]);
    }

    #[test]
    fn a_torn_last_line_is_passed_over_and_any_other_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let whole: Vec<u8> = [step(1, 3.0), step(2, 2.0)].iter().flat_map(|record| line(record).unwrap()).collect();
        let first = line(&step(1, 3.0)).unwrap().len();
        for cut in first..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let expected = if cut == whole.len() - 1 { 2 } else { 1 };
            assert_eq!(read(&path).unwrap().len(), expected, "cut at {cut}");
        }
        fs::write(&path, [&whole[..first / 2], b"\n", &whole[..]].concat()).unwrap();
        let (message, before) = (read(&path).unwrap_err().to_string(), fs::read(&path).unwrap());
        assert!(message.starts_with(&format!("{}:1: expected one record", path.display())), "{message}");
        assert_eq!(resume(folder.path(), until(1)).unwrap_err().to_string(), message);
        assert!(fs::read(&path).unwrap() == before, "a file with a fault is not written over");
    }

    #[test]
    fn the_summary_holds_the_best_evaluation_and_the_final_loss() {
        let mut records: Vec<_> = (1..=50).map(|index| step(index, 100.0 - index as f64)).collect();
        for (at, nll) in [(10, 4.0), (20, 2.1), (30, 2.2)] {
            records.push(Record::Evaluation(evaluation(at, nll).with_bytes(1, 4).with_limit(2.0)));
        }
        let summary = Summary::of(&records);
        assert_eq!((summary.steps, summary.tokens, summary.elapsed), (50, 5000, 25.0));
        assert_eq!(summary.train_loss, Some(59.5), "the mean of 50..=69");
        let best = summary.best.unwrap();
        assert_eq!((best.at.step, best.perplexity), (20, 2.1f64.exp()));
        assert!((best.excess.unwrap() - 0.05).abs() < 1e-12);
        assert!((best.bits_per_byte.unwrap() - 2.1 / (4.0 * 2f64.ln())).abs() < 1e-12);
        assert!((best.limit_bits_per_byte().unwrap() - 2.0 / (4.0 * 2f64.ln())).abs() < 1e-12);
        assert_eq!(first_within(&records, 0.10).unwrap().at.step, 20);
        assert_eq!(first_within(&records, 0.01), None);
        assert_eq!(Summary::of(&[]), Summary::default());
    }
}
