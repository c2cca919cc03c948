//! A long run: 20,000 steps in sessions of 2,000, with evaluations, checkpoints and resumes. Memory and open files stay at their
//! level after the first session, and the log is complete. Run by `.ci/deep`; it takes minutes.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use gradus_io::checksums;
use gradus_io::progress::Silent;
use gradus_report::metrics::{self, Record};
use gradus_train::pretrain::{self, PretrainControl, PretrainOptions};
use gradus_train::run::Control;

const STEPS: u64 = 20_000;
const SESSION: u64 = 2_000;
const EVERY: u64 = 100;

/// Returns the bytes of this process in memory.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn bytes_on_disk(folder: &Path) -> u64 {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap())
        .filter(|found| found.is_file())
        .map(|f| f.len())
        .sum()
}

#[test]
fn a_long_run_does_not_grow_in_memory_or_open_files() {
    let folder = tempfile::tempdir().unwrap();
    let [corpus, out, cache] = ["corpus.txt", "run", "cache"].map(|name| folder.path().join(name));
    fs::write(&corpus, "the cat sat on the mat, and the dog sat on the cat. ".repeat(200)).unwrap();
    let options = format!("preset = 'tiny'\ntokenizer = 'char'\ncontext = 16\nbatch = 4\nsteps = {STEPS}\neval_every = {EVERY}");
    let mut seen = Vec::new();
    for stop in (SESSION..=STEPS).step_by(SESSION as usize) {
        let control = PretrainControl::new(Control { stop_at: Some(stop), ..Control::new(&Silent) }, &cache);
        let outcome = match stop {
            SESSION => {
                let settings = toml::from_str::<PretrainOptions>(&options).unwrap().settle().unwrap();
                pretrain::begin(settings, Some(&corpus), &out, &control)
            }
            _ => pretrain::resume(&out, &control),
        };
        assert_eq!(outcome.unwrap().steps, stop);
        let log = fs::metadata(out.join("metrics.jsonl")).unwrap().len();
        let page = ["report.html", "loss.svg"].map(|name| fs::metadata(out.join(name)).unwrap().len()).iter().sum::<u64>();
        seen.push((memory(), open_files(), bytes_on_disk(&out) - log - page));
        eprintln!(
            "step {stop}: {} MB, {} open files, {} bytes of run",
            seen[seen.len() - 1].0 >> 20,
            open_files(),
            bytes_on_disk(&out)
        );
    }
    // The log grows, and the report is made from all of it: 20,000 records are about 10 MB.
    let (first, last) = (seen[0], seen[seen.len() - 1]);
    assert!(last.0 < first.0 + (24 << 20), "memory: {seen:?}");
    assert_eq!(last.1, first.1, "open files");
    assert!(last.2.abs_diff(first.2) < 2000, "bytes on the disk: {seen:?}");

    let records = metrics::read(&out.join("metrics.jsonl")).unwrap();
    let steps: Vec<u64> = metrics::steps(&records).map(|record| record.step).collect();
    assert_eq!(steps, (1..=STEPS).collect::<Vec<_>>());
    let count = |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count() as u64;
    assert_eq!(count(|r| matches!(r, Record::Evaluation(_))), STEPS / EVERY);
    assert_eq!(count(|r| matches!(r, Record::Checkpoint { .. })), STEPS / EVERY);
    assert!(checksums::verify(&out).unwrap().iter().all(|verdict| verdict.found.is_ok()));
}
