//! A command under faults, and the properties that must hold after any fault.
#![allow(dead_code, reason = "two binaries have it, each with its own scenes")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use gradus_io::checksums::{self, CHECKSUMS_FILE};
use gradus_io::disk;
use gradus_tensor::buffer;
use safetensors::SafeTensors;
use serde_json::Value;
use tempfile::TempDir;

use crate::disk::{Disk, Fault};

/// The result of a command.
pub type Outcome = Result<(), Box<dyn Error>>;

/// A folder, and a command that works in it.
pub struct Scene<'c> {
    /// The folder of all files; it is restored before each trial.
    pub root: PathBuf,
    /// The command, which begins the work or continues it after a stop, as a user would.
    pub command: &'c dyn Fn(&Path) -> Outcome,
    /// The folder of the command's results, in the root.
    pub out: &'static str,
}

/// Files and folders by their paths; folders have no contents.
pub type Files = BTreeMap<PathBuf, Option<Vec<u8>>>;
/// The results, without times.
pub type Results = BTreeMap<PathBuf, Content>;

/// Locks the stage for one scene, its preparation included: the watcher belongs to the process.
pub fn stage() -> MutexGuard<'static, ()> {
    static STAGE: Mutex<()> = Mutex::new(());
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a folder in memory, if the system has one, where syncs cost nothing.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// The choice among the numbers from 1.
pub enum Trials {
    All,
    Sample(u64),
}

impl Trials {
    pub fn of_environment() -> Self {
        match std::env::var("GRADUS_FAULTS").as_deref() {
            Ok("all") => Trials::All,
            Ok(seed) => Trials::Sample(seed.parse().expect("GRADUS_FAULTS is `all` or the seed of a sample")),
            Err(_) => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
                Trials::Sample(now.as_nanos() as u64 >> 8)
            }
        }
    }

    /// Returns some of `cases`, with a description of how to draw them again.
    pub fn choose<T: Clone>(&self, cases: Vec<T>, sample: usize) -> (Vec<T>, String) {
        let Trials::Sample(seed) = self else { return (cases, "GRADUS_FAULTS=all".into()) };
        let mut order: Vec<usize> = (0..cases.len()).collect();
        gradus_tensor::rng::Philox::with_stream(*seed, 1).shuffle(&mut order);
        order.truncate(sample);
        (order.into_iter().map(|i| cases[i].clone()).collect(), format!("GRADUS_FAULTS={seed}"))
    }
}

impl Scene<'_> {
    /// Makes every call on files fail, or a sample of `sample` faults.
    pub fn every_call_may_fail(&self, sample: usize) {
        let begun = self.files();
        let calls = self.undisturbed();
        let expected = self.results();
        let cases = (1..=calls.len() as u64).flat_map(|n| Fault::ALL.map(|fault| (n, fault))).collect();
        let (chosen, again) = Trials::of_environment().choose(cases, sample);
        eprintln!("{} calls on files, {} trials", calls.len(), chosen.len());
        let mut shown = Progress::of(chosen.len());
        for (n, fault) in chosen {
            let what = format!("{fault:?} at call {n}, {} ({again})", calls[n as usize - 1]);
            self.put_back(&begun);
            self.disturb(n, fault, &what);
            self.goes_on_to(&expected, &what);
            shown.one_more();
        }
        self.put_back(&begun);
    }

    /// Runs the command, and returns its calls on files.
    pub fn undisturbed(&self) -> Vec<String> {
        let quiet = Arc::new(Disk::new(&self.root, None));
        disk::watch(Some(quiet.clone()));
        let done = (self.command)(&self.root);
        disk::watch(None);
        done.expect("undisturbed");
        quiet.seen()
    }

    /// Runs the command with a failure at its n-th call.
    pub fn disturb(&self, n: u64, fault: Fault, what: &str) {
        let disk = Arc::new(Disk::new(&self.root, Some((n, fault))));
        disk::watch(Some(disk.clone()));
        let result = panic::catch_unwind(AssertUnwindSafe(|| (self.command)(&self.root)));
        disk::watch(None);
        let result = result.unwrap_or_else(|_| panic!("{what}: a panic"));
        disk.crash();
        if let Err(error) = &result {
            assert_clear(&error.to_string(), what);
        }
    }

    /// Refuses every buffer, or a sample of them. The panic is caught once, as the program does.
    pub fn every_buffer_may_be_refused(&self, sample: usize) {
        let begun = self.files();
        (self.command)(&self.root).expect("undisturbed");
        let expected = self.results();
        // Each buffer decreases the count of `refuse_nth`. From this count, none is refused.
        const MORE_THAN_ALL: u64 = 1 << 40;
        self.put_back(&begun);
        buffer::refuse_nth(MORE_THAN_ALL);
        (self.command)(&self.root).expect("undisturbed");
        let taken = MORE_THAN_ALL - buffer::refuse_nth(0);
        let (chosen, again) = Trials::of_environment().choose((1..=taken).collect(), sample);
        eprintln!("{taken} buffers, {} trials", chosen.len());
        let mut shown = Progress::of(chosen.len());
        let report = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        for n in chosen {
            let what = format!("buffer {n} refused ({again})");
            self.put_back(&begun);
            buffer::refuse_nth(n);
            let result = panic::catch_unwind(AssertUnwindSafe(|| (self.command)(&self.root)));
            let refused = buffer::refused();
            buffer::refuse_nth(0);
            assert!(
                result.is_err() && refused.is_some() || result.is_ok_and(|r| r.is_ok()),
                "{what}: neither caught nor harmless"
            );
            self.goes_on_to(&expected, &what);
            shown.one_more();
        }
        panic::set_hook(report);
        self.put_back(&begun);
    }

    /// Asserts that nothing is damaged, and that the command, run again, ends with these results.
    pub fn goes_on_to(&self, expected: &Results, what: &str) {
        let out = self.root.join(self.out);
        if out.exists() {
            let damaged: Vec<_> = checksums::verify(&out)
                .unwrap_or_else(|e| panic!("{what}: {e}"))
                .into_iter()
                .filter_map(|verdict| verdict.found.err())
                .collect();
            assert!(damaged.is_empty(), "{what}: {damaged:?}");
        }
        (self.command)(&self.root).unwrap_or_else(|e| panic!("{what}: it does not go on: {e}"));
        let found = self.results();
        let names = |files: &Results| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(expected), "{what}");
        for (path, content) in expected {
            assert!(
                found[path] == *content,
                "{what}: {} differs: {} instead of {}",
                path.display(),
                short(&found[path]),
                short(content)
            );
        }
    }

    /// Returns everything in the root.
    pub fn files(&self) -> Files {
        let mut files = Files::new();
        collect(&self.root, &mut files);
        files
    }

    /// Restores the root to exactly these files.
    pub fn put_back(&self, files: &Files) {
        fs::remove_dir_all(&self.root).unwrap();
        fs::create_dir(&self.root).unwrap();
        write(files);
    }

    /// Returns the command's results, without times.
    pub fn results(&self) -> Results {
        let out = self.root.join(self.out);
        let files = self.files().into_iter().filter(|(path, _)| path.starts_with(&out) && !path.ends_with(CHECKSUMS_FILE));
        files.filter_map(|(path, bytes)| Some((path.clone(), Content::of(&path, bytes?)))).collect()
    }
}

/// A display of the trials' progress, every half minute.
pub struct Progress {
    done: usize,
    all: usize,
    printed: Instant,
}

impl Progress {
    pub fn of(all: usize) -> Self {
        Progress { done: 0, all, printed: Instant::now() }
    }

    pub fn one_more(&mut self) {
        self.done += 1;
        if self.printed.elapsed() > Duration::from_secs(30) {
            eprintln!("{} of {} trials held", self.done, self.all);
            self.printed = Instant::now();
        }
    }
}

fn collect(folder: &Path, files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
            files.insert(path, None);
        } else {
            files.insert(path.clone(), Some(fs::read(path).unwrap()));
        }
    }
}

/// Creates these files and folders.
pub fn write<'f>(files: impl IntoIterator<Item = (&'f PathBuf, &'f Option<Vec<u8>>)>) {
    for (path, bytes) in files {
        let Some(bytes) = bytes else {
            fs::create_dir_all(path).unwrap();
            continue;
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Asserts that a message names the failed action, the path, and a remedy.
fn assert_clear(message: &str, what: &str) {
    let is_clear = message.contains('/') && message.contains("; ") && !message.contains("Custom {") && message.len() < 1000;
    assert!(is_clear, "{what}: the error is {message:?}");
}

/// The contents of a file without its times.
#[derive(Debug, PartialEq)]
pub enum Content {
    Bytes(Vec<u8>),
    Lines(Vec<Value>),
    Tensors(BTreeMap<String, Vec<u8>>),
    /// A page that contains times: only its existence.
    Page,
}

impl Content {
    fn of(path: &Path, bytes: Vec<u8>) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".html") {
            return Content::Page;
        }
        if name.starts_with("trainer.") {
            let tensors = SafeTensors::deserialize(&bytes).expect("a state");
            return Content::Tensors(tensors.tensors().into_iter().map(|(name, view)| (name, view.data().to_vec())).collect());
        }
        let text = String::from_utf8_lossy(&bytes);
        let lines = match &*name {
            _ if name.ends_with(".jsonl") => text.lines().map(serde_json::from_str).collect(),
            _ if name.ends_with(".json") => serde_json::from_str(&text).map(|value| vec![value]),
            _ => return Content::Bytes(bytes),
        };
        let mut lines: Vec<Value> = lines.expect("JSON");
        lines.iter_mut().for_each(timeless);
        Content::Lines(lines)
    }
}

fn short(content: &Content) -> String {
    format!("{content:?}").chars().take(2000).collect()
}

fn timeless(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !["seconds", "elapsed", "tokens_per_second"].contains(&name.as_str()));
            fields.values_mut().for_each(timeless);
        }
        Value::Array(values) => values.iter_mut().for_each(timeless),
        _ => {}
    }
}
