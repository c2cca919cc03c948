//! TensorBoard event files: `Event` messages in the Protocol Buffers encoding, each framed as a TFRecord.
//!
//! ```text
//! record     length (u64)   masked CRC-32C of it (u32)   event   masked CRC-32C of it (u32)      all little-endian
//! Event      1 wall_time (double)   2 step (int64)   3 file_version (string)   5 summary   7 session_log
//! Summary    1 value, repeated:     1 tag (string)   2 simple_value (float)
//! ```
//!
//! The layout follows TensorFlow's `core/util/event.proto`, `core/framework/summary.proto` and `lib/io/record_writer.h`.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use gradus_io::disk::{self, Output};
use gradus_io::files::FileError;

use crate::metrics::{Record, VALIDATION};

/// The event file of one session of a run.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: Output,
}

impl EventFile {
    /// Creates the file of a session that continues after `step` steps, and its folder if needed. TensorBoard then ignores later
    /// steps in the files of earlier sessions in the folder.
    ///
    /// # Errors
    /// Returns an error if the folder or the file cannot be written.
    pub fn create(folder: &Path, step: u64) -> Result<Self, FileError> {
        disk::make_folders(folder).map_err(|cause| FileError::new("make the directory", folder, cause))?;
        let time = now();
        for number in 0.. {
            // TensorBoard reads the files of a folder in the order of their names.
            let path = folder.join(format!("events.out.tfevents.{time:017.6}.gradus.{}.{number}", process::id()));
            match Output::create(&path) {
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(FileError::new("write", &path, cause)),
                Ok(file) => {
                    let mut events = EventFile { path, file };
                    events.append(&event(now(), 0, |event| event.bytes(3, b"brain.Event:2")))?;
                    let start = |event: &mut Message| event.message(7, |session| session.whole(1, 1));
                    events.append(&event(now(), step + 1, start))?;
                    return Ok(events);
                }
            }
        }
        unreachable!("a name that is free")
    }

    /// Appends the scalars of a record; does nothing if it has none.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&mut self, record: &Record) -> Result<(), FileError> {
        let scalars = scalars(record);
        if scalars.is_empty() {
            return Ok(());
        }
        self.append(&event(now(), record.step(), |event| {
            event.message(5, |summary| {
                for (tag, value) in &scalars {
                    summary.message(1, |scalar| {
                        scalar.bytes(1, tag.as_bytes());
                        scalar.float(2, *value as f32);
                    });
                }
            });
        }))
    }

    /// Appends an event, without buffering.
    fn append(&mut self, event: &[u8]) -> Result<(), FileError> {
        let write: io::Result<()> = self.file.write_all(&framed(event));
        write.map_err(|cause| FileError::new("append to", &self.path, cause))
    }
}

/// Returns the seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Returns the scalars of a record, by tag.
fn scalars(record: &Record) -> Vec<(String, f64)> {
    let named = |pairs: &[(&str, Option<f64>)]| -> Vec<(String, f64)> {
        pairs.iter().filter_map(|&(tag, value)| Some((tag.to_owned(), value?))).collect()
    };
    match record {
        Record::Step(step) => named(&[
            ("loss/train", Some(step.loss)),
            ("learning rate", Some(step.lr)),
            ("gradient norm", Some(step.grad_norm)),
            ("tokens per second", Some(step.tokens_per_second)),
        ]),
        Record::Evaluation(found) if found.split == VALIDATION => named(&[
            ("loss/held-out", Some(found.nll)),
            ("loss/exact limit", found.limit),
            ("held-out bits per byte", found.bits_per_byte),
            ("next sentence/nats", found.follows.map(|it| it.nll)),
            ("next sentence/accuracy", found.follows.map(|it| it.right as f64 / it.pairs.max(1) as f64)),
        ]),
        Record::Probe { scores, .. } => scores.iter().map(|(name, score)| (format!("zero-shot/{name}"), *score)).collect(),
        _ => Vec::new(),
    }
}

/// Encodes an event: its wall time, its step, and the fields that `rest` adds.
fn event(time: f64, step: u64, rest: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut event = Message::default();
    event.double(1, time);
    if step > 0 {
        event.whole(2, step); // proto3 omits zeros
    }
    rest(&mut event);
    event.0
}

/// A Protocol Buffers message. A field is a varint of its number and wire type, followed by its value.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn field(&mut self, number: u64, wire: u64) {
        self.varint(number << 3 | wire);
    }

    fn whole(&mut self, number: u64, value: u64) {
        self.field(number, 0);
        self.varint(value);
    }

    fn double(&mut self, number: u64, value: f64) {
        self.field(number, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn float(&mut self, number: u64, value: f32) {
        self.field(number, 5);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, number: u64, value: &[u8]) {
        self.field(number, 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    fn message(&mut self, number: u64, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(number, &inner.0);
    }
}

/// Frames an event as a TFRecord.
fn framed(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    let sums = [&length[..], event].map(|bytes| masked(crc32c(bytes)).to_le_bytes());
    [&length[..], &sums[0], event, &sums[1]].concat()
}

/// Returns the masked CRC of TensorFlow's `crc32c.h`, to be stored with the data: the CRC of data that contains CRCs is
/// unreliable.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Returns the CRC-32C (Castagnoli; RFC 3720, appendix B.4), computed bit by bit, since events are short.
fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    let byte = |crc: u32, &byte: &u8| (0..8).fold(crc ^ u32::from(byte), |crc, _| bit(crc));
    !bytes.iter().fold(!0, byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{EvaluationRecord, Moment, StepRecord};

    /// The test vectors of RFC 3720, appendix B.4, and the inverse of the mask.
    #[test]
    fn crc32c_matches_the_rfc_test_vectors() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
    }

    /// The bytes equal those that `tensorboard` 2.21 writes for the same events (`tests/golden/tensorboard_events.py`).
    #[test]
    fn event_files_equal_those_of_tensorboard() {
        let expected = include_str!("tensorboard.hex");
        let record = event(1.5, 300, |event| {
            event.message(5, |summary| {
                for (tag, value) in [("loss/train", 2.25), ("learning rate", 0.001)] {
                    summary.message(1, |scalar| {
                        scalar.bytes(1, tag.as_bytes());
                        scalar.float(2, value);
                    });
                }
            });
        });
        let start = event(1.5, 1, |event| event.message(7, |session| session.whole(1, 1)));
        let version = event(1.5, 0, |event| event.bytes(3, b"brain.Event:2"));
        let hex = |event: &[u8]| framed(event).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!([version, start, record].map(|event| hex(&event)).join("\n"), expected.trim());
    }

    #[test]
    fn each_session_writes_a_file_of_its_scalars() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("a/b");
        let mut files = [0, 7].map(|step| EventFile::create(&into, step).unwrap());
        let loss = 2.5;
        let step = StepRecord { step: 8, tokens: 80, loss, lr: 0.1, grad_norm: 1.0, tokens_per_second: 9.0, elapsed: 1.0 };
        files[1].write(&Record::Step(step)).unwrap();
        let at = Moment { step: 8, tokens: 80, elapsed: 1.0 };
        files[1].write(&Record::Evaluation(EvaluationRecord::new(at, VALIDATION, 2.0))).unwrap();
        files[1].write(&Record::Warning { step: 8, elapsed: 1.0, text: "no number".into() }).unwrap();
        let read: Vec<Vec<u8>> = disk::list(&into).unwrap().iter().map(|path| std::fs::read(path).unwrap()).collect();
        let (mut at, mut events) = (0, 0);
        while at < read[1].len() {
            let length = u64::from_le_bytes(read[1][at..at + 8].try_into().unwrap()) as usize;
            let event = &read[1][at + 12..at + 12 + length];
            assert_eq!(framed(event), read[1][at..at + 16 + length]);
            (at, events) = (at + 16 + length, events + 1);
        }
        assert_eq!((read.len(), events), (2, 4), "a version, a start, a step and an evaluation");
        let has = |words: &str| read[1].windows(words.len()).any(|part| part == words.as_bytes());
        assert!(has("loss/train") && has("loss/held-out") && has("gradient norm") && !has("exact limit"));
    }
}
