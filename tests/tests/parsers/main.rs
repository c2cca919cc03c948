//! Every parser on damaged files: no panic, no hang, and no more memory than the size of the input allows.
//!
//! Inputs are the parsers' own seeds and the corpora of the fuzz targets of `tests/fuzz`, each damaged at random.
//! `PROPTEST_CASES` sets their number for each parser; inputs found by fuzzing are also read undamaged.

mod damage;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use gradus_tests::allocations::Counting;
use gradus_tests::parsers::{ALL, Parser};
use proptest::prelude::ProptestConfig;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

#[global_allocator]
static MEMORY: Counting = Counting;

/// Locks the counts, which belong to the process, for one test.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// Returns the files of a folder, sorted; none if there is no folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    files
}

/// Returns valid inputs, and the inputs of the corpus.
fn inputs(parser: &Parser) -> Vec<Vec<u8>> {
    let kept = files(&fuzz().join("corpus").join(parser.name)).into_iter().map(|path| fs::read(path).expect("readable"));
    (parser.seeds)().into_iter().chain(kept).collect()
}

/// The seeds of the fuzz targets are up to date; `GRADUS_SEEDS=write` writes them.
#[test]
fn the_seeds_of_fuzz_targets_are_up_to_date() {
    let is_to_be_written = std::env::var("GRADUS_SEEDS").is_ok_and(|what| what == "write");
    for parser in ALL {
        let folder = fuzz().join("corpus").join(parser.name);
        for (n, seed) in (parser.seeds)().iter().enumerate() {
            let path = folder.join(format!("seed-{n}"));
            if is_to_be_written {
                fs::create_dir_all(&folder).unwrap();
                fs::write(&path, seed).unwrap();
            }
            let there = fs::read(&path).unwrap_or_default();
            assert!(there == *seed, "{} is not what it was: GRADUS_SEEDS=write", path.display());
        }
    }
}

/// Reads each input that fuzzing and these tests have found.
#[test]
fn findings_of_fuzzing_stay_fixed() {
    let _alone = alone();
    for &parser in ALL {
        watched(parser, |check| {
            for file in files(&fuzz().join("findings").join(parser.name)) {
                println!("{}", file.display());
                check(&fs::read(&file).unwrap());
            }
        });
    }
}

/// A folder of another name would hold inputs that nothing reads.
#[test]
fn every_fuzz_target_and_corpus_belongs_to_a_parser() {
    let parsers: BTreeSet<String> = ALL.iter().map(|parser| parser.name.to_owned()).collect();
    let names = |folder: &str| -> BTreeSet<String> {
        files(&fuzz().join(folder)).iter().map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names("fuzz_targets"), parsers);
    assert_eq!(names("corpus"), parsers);
    assert!(names("findings").is_subset(&parsers));
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    assert!(parsers.iter().all(|name| manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\""))));
}

/// The time limit of a case, far longer than any takes; a case that exceeds it hangs.
const LONG: Duration = Duration::from_secs(30);

/// Calls `work` on another thread with each input in turn, and ends the process with the input that takes too long.
fn watched(parser: &'static Parser, work: impl FnOnce(&dyn Fn(&[u8]))) {
    let now = Arc::new(Mutex::new(None::<(Instant, Vec<u8>)>));
    let (watch, (sender, receiver)) = (now.clone(), mpsc::channel::<()>());
    let watcher = thread::spawn(move || {
        while receiver.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
            let now = watch.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((since, input)) = &*now
                && since.elapsed() > LONG
            {
                // `eprintln` would not work: the test harness captures its output until the end of the test, which never comes.
                let _ = writeln!(io::stderr(), "{} hangs on \"{}\"", parser.name, input.escape_ascii());
                process::abort();
            }
        }
    });
    work(&|input| {
        *now.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), input.to_vec()));
        parser.check(input);
    });
    drop(sender);
    watcher.join().expect("it watches");
}

/// Reads `PROPTEST_CASES` damaged inputs for each parser, 2,000 by default.
#[test]
fn damaged_inputs_give_values_or_errors() {
    let _alone = alone();
    let cases = env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000);
    for &parser in ALL {
        let inputs = inputs(parser);
        let config = ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 2000, ..ProptestConfig::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        watched(parser, |check| {
            let strategy = (0..inputs.len(), damage::edits());
            let result = runner.run(&strategy, |(which, edits)| {
                check(&damage::damaged(&inputs[which], &edits));
                Ok(())
            });
            result.unwrap_or_else(|failure| panic!("{}: {failure}", parser.name));
        });
    }
}

/// A piece of a valid input is repeated a thousand times: a parser with quadratic time would exceed the limit.
#[test]
fn long_inputs_are_parsed_in_bounded_time() {
    let _alone = alone();
    for &parser in ALL {
        watched(parser, |check| {
            for (n, seed) in (parser.seeds)().iter().enumerate() {
                for piece in damage::pieces(seed, n) {
                    damage::repeated(seed, piece, 1 << 18).iter().for_each(|input| check(input));
                }
            }
        });
    }
}
