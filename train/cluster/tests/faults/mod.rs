//! Pre-training runs in each of which one connection breaks at a random byte. All processes end in time, with an error that names
//! a process at an end of that connection. Every file is whole, and any number of processes resumes to the bits of an undisturbed
//! run.
//!
//! `cargo test` breaks a few connections, drawn at random. `GRADUS_STREAMS=200` sets their number; `GRADUS_SEED` repeats a draw.

pub mod stream;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant, SystemTime};

use gradus_cluster::cluster::Cluster;
use gradus_cluster::control::Limits;
use gradus_cluster::rendezvous::{Hosts, Met, local_addresses, meet};
use gradus_cluster::secret::Secret;
use gradus_io::checksums;
use gradus_io::progress::Silent;
use gradus_tensor::rng::Philox;
use gradus_train::pretrain::{self, PretrainControl, PretrainError, PretrainOptions, PretrainOutcome};
use gradus_train::run::Control;

use stream::{Fault, Faulty, Flow};

/// The time after which a wait is considered a hang.
const DEADLINE: Duration = Duration::from_secs(60);
/// The number of concurrent runs; they mostly wait.
const AT_ONCE: u64 = 4;
/// The limits of runs that should succeed.
const PATIENT: Limits = crate::LIMITS;
/// The limits of runs whose connection breaks.
const SHORT: Limits = Limits { silence: Duration::from_secs(2), ..PATIENT };

/// A break of a connection: the process, its peer, the direction, the fault, and the byte at which it happens.
#[derive(Clone, Copy, Debug)]
struct Break {
    by: usize,
    with: usize,
    reads: bool,
    fault: Fault,
    at: u64,
}

/// The folders and options of a run.
#[derive(Clone)]
struct Setup {
    root: PathBuf,
    out: PathBuf,
    shard_moments: bool,
}

/// The result of a process, and the number of bytes that it wrote to each process.
type End = (Result<Option<PretrainOutcome>, String>, Vec<u64>);
/// The bytes from each process to each in a successful run, by number of processes and whether moments are sharded.
type Traffic = BTreeMap<(usize, bool), Vec<Vec<u64>>>;

impl Setup {
    /// Starts or resumes the run as process 0, or follows it as another process.
    fn train(&self, cluster: &Arc<Cluster>, me: usize) -> Result<Option<PretrainOutcome>, PretrainError> {
        let collective = Arc::clone(cluster) as _;
        let run = Control { collective, shard_moments: self.shard_moments, ..Control::new(&Silent) };
        let control = PretrainControl::new(run, self.root.join("cache"));
        if me > 0 {
            return pretrain::follow(None, None, &control).map(|()| None);
        }
        if self.out.join("run.json").exists() {
            return pretrain::resume(&self.out, &control).map(Some);
        }
        let options = PretrainOptions {
            tokenizer: Some("char".into()),
            layers: Some(1),
            heads: Some(2),
            width: Some(8),
            context: Some(8),
            batch: Some(4),
            shards: Some(4),
            steps: Some(16),
            eval_every: Some(4),
            dropout: Some(0.1),
            ..PretrainOptions::default()
        };
        pretrain::begin(options.settle()?, Some(&self.root.join("corpus.txt")), &self.out, &control).map(Some)
    }
}

/// Runs one of the processes, over connections of which one may break.
fn process(place: &Setup, hosts: &Hosts, secret: &Secret, breaks: Option<Break>) -> (End, bool) {
    let Met { control, data, session } = meet(hosts, secret, DEADLINE).unwrap();
    let mut flows = Vec::new();
    let mut faulty = |(with, socket): (usize, Option<_>)| {
        let breaks = breaks.filter(|b| (b.by, b.with) == (hosts.me, with));
        let flow = |reads: bool| {
            let breaks = breaks.filter(|b| b.reads == reads).map(|b| (b.fault, b.at));
            Arc::new(Flow { breaks, ..Flow::default() })
        };
        let [written, read] = [false, true].map(flow);
        flows.push([Arc::clone(&written), Arc::clone(&read)]);
        Some(Faulty { socket: socket?, written, read })
    };
    let data = data.into_iter().enumerate().map(&mut faulty).collect();
    let is_patient = breaks.is_none_or(|b| b.fault == Fault::Delays);
    let limits = if is_patient { PATIENT } else { SHORT };
    let cluster = Arc::new(Cluster::over(hosts.me, control, data, session, limits).unwrap());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let result = pool.install(|| place.train(&cluster, hosts.me)).map_err(|e| e.to_string());
    cluster.leave(result.as_ref().err().cloned());
    let has_broken = flows.iter().flatten().any(|flow| flow.has_broken.load(Relaxed));
    ((result, flows.iter().map(|[written, _]| written.bytes.load(Relaxed)).collect()), has_broken)
}

/// Runs `processes` processes in this place. Returns each one's result, and whether the connection has broken.
fn run(place: &Setup, processes: usize, breaks: Option<Break>) -> (Vec<End>, bool) {
    let (addresses, secret, (sender, receiver)) =
        (local_addresses(processes).unwrap(), Secret::random().unwrap(), mpsc::channel());
    for me in 0..processes {
        let (place, hosts, secret, sender) =
            (place.clone(), Hosts { addresses: addresses.clone(), me }, secret.clone(), sender.clone());
        std::thread::spawn(move || drop(sender.send((me, process(&place, &hosts, &secret, breaks)))));
    }
    drop(sender);
    let wait =
        |_| receiver.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("{breaks:?} of {processes}: a process hangs, or panicked"));
    let mut all: Vec<_> = (0..processes).map(wait).collect();
    all.sort_by_key(|(me, _)| *me);
    let has_broken = all.iter().any(|(_, (_, has_broken))| *has_broken);
    (all.into_iter().map(|(_, (end, _))| end).collect(), has_broken)
}

/// Returns the checksum of the parameters of a successful run.
fn digest(ends: &[End]) -> &str {
    let ended = ends.iter().map(|(result, _)| result.as_ref().unwrap().as_ref());
    let outcome = ended.flatten().next().expect("process 0 has an outcome");
    assert!(outcome.finished, "{outcome:?}");
    &outcome.parameters_sha256
}

/// Runs a pre-training of several processes whose connection breaks, then resumes it.
fn broken(root: &Path, number: u64, seed: u64, traffic: &Traffic, expected: &str) -> Break {
    let mut rng = Philox::with_stream(seed, number);
    let mut draw = |n: usize| rng.below(n as u64) as usize;
    let processes = 2 + draw(3);
    let by = draw(processes);
    let (with, reads, shard_moments) = ((by + 1 + draw(processes - 1)) % processes, draw(2) == 0, draw(2) == 0);
    let [from, to] = if reads { [with, by] } else { [by, with] };
    // The last bytes are left out, because no process reads them.
    let at = draw(traffic[&(processes, shard_moments)][from][to] as usize * 4 / 5) as u64;
    let breaks = Break { by, with, reads, fault: Fault::ALL[number as usize % Fault::ALL.len()], at };
    let what = format!("GRADUS_SEED={seed}, run {number} of {processes} processes: {breaks:?}");
    let place = Setup { root: root.to_owned(), out: root.join(format!("run-{number}")), shard_moments };
    let (ends, has_broken) = run(&place, processes, Some(breaks));
    assert!(has_broken, "{what}: it did not break");
    if breaks.fault == Fault::Delays {
        assert_eq!(digest(&ends), expected, "{what}");
        return breaks;
    }
    for (result, _) in &ends {
        let error = result.as_ref().expect_err(&what);
        assert!([by, with].iter().any(|p| error.contains(&format!("process {p} "))), "{what}: {error}");
    }
    if place.out.join("run.json").exists() {
        checksums::check_where(&place.out, |_| true).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    let (others, place) = ((processes + draw(3)) % 4 + 1, Setup { shard_moments: draw(2) == 0, ..place });
    assert_eq!(digest(&run(&place, others, None).0), expected, "{what}, gone on with by {others}");
    assert!(checksums::check_where(&place.out, |_| true).unwrap(), "{what}");
    std::fs::remove_dir_all(&place.out).unwrap();
    breaks
}

#[test]
fn a_run_resumes_to_the_same_bits_after_any_broken_connection() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros() as u64;
    let seed = std::env::var("GRADUS_SEED").map_or(now, |seed| seed.parse().expect("GRADUS_SEED is a number"));
    let runs: u64 = std::env::var("GRADUS_STREAMS").map_or(8, |n| n.parse().expect("GRADUS_STREAMS is a number"));
    let (folder, started) = (tempfile::tempdir().unwrap(), Instant::now());
    let root = folder.path();
    std::fs::write(root.join("corpus.txt"), "the cat sat on the mat, and the dog sat on the cat. ".repeat(30)).unwrap();
    let undisturbed = |(n, shard_moments): (usize, bool)| {
        let place = Setup { root: root.to_owned(), out: root.join(format!("whole-{n}-{shard_moments}")), shard_moments };
        let ends = run(&place, n, None).0;
        (digest(&ends).to_owned(), ((n, shard_moments), ends.into_iter().map(|(_, written)| written).collect()))
    };
    let whole = (1..=4).flat_map(|n| [(n, false), (n, true)]);
    let (digests, traffic): (Vec<String>, Traffic) = whole.map(undisturbed).unzip();
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    let counts = Mutex::new(BTreeMap::<(Fault, bool), u64>::new());
    std::thread::scope(|scope| {
        for first in 0..AT_ONCE {
            let (counts, traffic, expected) = (&counts, &traffic, &digests[0]);
            let some = (first..runs).step_by(AT_ONCE as usize);
            scope.spawn(move || {
                for number in some {
                    let Break { fault, reads, .. } = broken(root, number, seed, traffic, expected);
                    *counts.lock().unwrap().entry((fault, reads)).or_default() += 1;
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    eprintln!("{runs} runs in {:?}: {counts:?} (as it writes, or reads)", started.elapsed());
}
