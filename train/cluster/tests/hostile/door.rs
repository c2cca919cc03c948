//! Unauthenticated peers that connect during the rendezvous: they have the addresses, but not the secret.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gradus_cluster::cluster::Cluster;
use gradus_cluster::rendezvous::{Hosts, RendezvousError, VERSION, local_addresses, meet};
use gradus_cluster::secret::{Secret, digest};
use gradus_collective::Collective;
use gradus_model::check::{random_batch, tiny_gpt};
use gradus_model::{Model, Objective};
use gradus_tensor::Tensor;
use gradus_tensor::rng::Philox;
use gradus_train::trainer::{Recipe, Trainer};

use crate::{DEADLINE, LIMITS, panics, seed, tries, with_others};

/// The number of true processes of a run.
const PROCESSES: usize = 3;
/// The number of strangers that connect at the same time.
const STRANGERS: usize = 6;
/// The number of connections by strangers before the last process starts.
const BEFORE: usize = 60;
/// The most bytes that a stranger receives: a verdict, a nonce, a verdict.
const LONGEST_ANSWER: usize = 34;

/// The first message of a process, field by field.
#[derive(Clone)]
struct Hello {
    version: u32,
    purpose: u8,
    numbers: [u16; 3],
    digest: [u8; 32],
}

impl Hello {
    /// Returns the hello of process `from` to process `to`.
    fn true_one(addresses: &[String], from: u16, to: u16) -> Self {
        let digest = digest(std::iter::once(b"hosts".as_slice()).chain(addresses.iter().map(String::as_bytes)));
        Hello { version: VERSION, purpose: 1, numbers: [from, to, addresses.len() as u16], digest }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Hello { version, purpose, numbers, digest } = self;
        let numbers = numbers.map(u16::to_le_bytes);
        [b"gradus \n", &version.to_le_bytes()[..], &[*purpose], numbers.as_flattened(), digest, &[7; 32]].concat()
    }
}

fn bytes(rng: &mut Philox, most: u64) -> Vec<u8> {
    (0..=rng.below(most)).map(|_| rng.word() as u8).collect()
}

/// Draws a stranger: the bytes it sends, the verdict it may receive if known, and whether it keeps the connection open.
fn knock(rng: &mut Philox, addresses: &[String], to: u16) -> (Vec<u8>, Option<u8>, bool) {
    let hello = Hello::true_one(addresses, to + 1 + rng.below(2 - u64::from(to)) as u16, to);
    let (stays, random) = (rng.below(2) == 0, bytes(rng, 4000));
    let half = |rng: &mut Philox| hello.to_bytes()[..1 + rng.below(80) as usize].to_vec();
    let wrong_number = [to, PROCESSES as u16, u16::MAX, rng.word() as u16 | 1 << 15][rng.below(4) as usize];
    match rng.below(14) {
        0 => (vec![], None, stays),
        1 => (random, None, stays),
        2 => (vec![0xff; random.len()], None, stays),
        3 => (b"GET / HTTP/1.1\r\nHost: gradus\r\n\r\n".repeat(9), None, stays),
        4 => (half(rng), None, stays),
        5 => ([b"gradus \n".as_slice(), &random].concat(), Some(1), stays),
        6 => (Hello { version: VERSION + 1 + rng.word() / 2, ..hello }.to_bytes(), Some(1), stays),
        7 => (Hello { purpose: 2 + rng.below(254) as u8, ..hello }.to_bytes(), Some(2), stays),
        8 => (Hello { digest: digest([&random[..]]), ..hello }.to_bytes(), Some(2), stays),
        9 => (Hello { numbers: [hello.numbers[0], to, 4 + rng.word() as u16 / 2], ..hello }.to_bytes(), Some(2), stays),
        10 => (Hello { numbers: [wrong_number, to, PROCESSES as u16], ..hello }.to_bytes(), Some(3), stays),
        11 => (Hello { numbers: [hello.numbers[0], to + 1, PROCESSES as u16], ..hello }.to_bytes(), Some(3), stays),
        12 => (hello.to_bytes(), Some(0), stays),
        _ => ([hello.to_bytes(), (0..32).map(|_| rng.word() as u8).collect()].concat(), Some(4), false),
    }
}

/// Connects strangers until the door is closed or `most` have connected, and counts them in `knocked`.
fn strangers(mut rng: Philox, addresses: &[String], knocked: &AtomicUsize, closed: &AtomicUsize, most: usize) {
    let mut silent = Vec::new();
    let until = Instant::now() + DEADLINE;
    for _ in 0..most {
        // Process 1 accepts others only after all have connected to process 0.
        let to = u16::from(rng.below(4) == 0);
        let (bytes, verdict, stays) = knock(&mut rng, addresses, to);
        let address: SocketAddr = addresses[usize::from(to)].parse().unwrap();
        let Some(mut socket) = connect(address, closed, until) else { return };
        knocked.fetch_add(1, Relaxed);
        if socket.write_all(&bytes).is_err() {
            continue; // closed to make room for others
        }
        socket.set_read_timeout(Some(Duration::from_millis(if to == 0 { 30 } else { 1 }))).unwrap();
        if rng.below(3) == 0 {
            let _ = socket.shutdown(Shutdown::Write);
        }
        let mut answer = Vec::new();
        let _ = (&mut socket).take(1000).read_to_end(&mut answer);
        assert_reveals_nothing(&answer, verdict);
        if stays {
            silent.push(socket);
        }
    }
}

/// Asserts that a refused stranger receives at most a verdict, a nonce and a verdict: no proof.
fn assert_reveals_nothing(answer: &[u8], verdict: Option<u8>) {
    let fits = match (answer, verdict) {
        ([], _) => true,
        ([code], Some(expected @ 1..=3)) => *code == expected || *code == 2,
        ([0, nonce @ ..], Some(0)) => nonce.len() == 32,
        // The second verdict is missing if the connection was closed before.
        ([0, rest @ ..], Some(4)) => rest.len() == 32 || rest.len() == 33 && rest[32] == 4,
        // The digest must be the session's once all processes have connected to process 0.
        ([2], _) => verdict.is_some(),
        _ => false,
    };
    assert!(fits && answer.len() <= LONGEST_ANSWER, "{answer:?} for {verdict:?}");
}

/// Connects to an address. Returns `None` once the door is closed.
fn connect(address: SocketAddr, closed: &AtomicUsize, until: Instant) -> Option<TcpStream> {
    while Instant::now() < until && closed.load(Relaxed) == 0 {
        match TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            Ok(socket) => return Some(socket),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    None
}

/// Trains a small model for one step and returns it.
fn trained(collective: Option<Arc<dyn Collective<f32>>>) -> Model<Tensor> {
    let mut trainer: Trainer = Trainer::new(Recipe { seed: 5, ..Recipe::new(2, 4) }, Model::init(&tiny_gpt(), 1));
    trainer.collective = collective.unwrap_or_else(|| Arc::clone(&trainer.collective));
    let context = tiny_gpt().sizes.context;
    let weights = Objective::TokenMean.weights(&vec![1.0; 4 * context], 4);
    trainer.step(&random_batch(&mut Philox::new(1), tiny_gpt().sizes.vocab, 4, weights)).unwrap();
    trainer.params
}

/// Joins the run as a true process, trains, and returns the model.
fn joined(addresses: &[String], me: usize, secret: &Secret) -> Model<Tensor> {
    let hosts = Hosts { addresses: addresses.to_vec(), me };
    true_process(Cluster::join(&hosts, secret, DEADLINE, LIMITS).unwrap())
}

/// Trains as a true process and leaves without a fault.
fn true_process(cluster: Cluster) -> Model<Tensor> {
    let cluster = Arc::new(cluster);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let model = pool.install(|| trained(Some(Arc::clone(&cluster) as _)));
    assert_eq!(cluster.verdict(), None);
    cluster.leave(None);
    model
}

/// Runs a rendezvous while strangers connect, and returns the number of their connections.
fn round(seed: u64, number: u64, expected: &Model<Tensor>) -> usize {
    let (addresses, secret) = (local_addresses(PROCESSES).unwrap(), Secret::random().unwrap());
    let (knocked, closed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (addresses, secret, knocked, closed) = (&addresses, &secret, &knocked, &closed);
        for i in 0..STRANGERS as u64 {
            let rng = Philox::with_stream(seed, number * 100 + i);
            scope.spawn(move || strangers(rng, addresses, knocked, closed, 1000));
        }
        let start = |me| scope.spawn(move || joined(addresses, me, secret));
        let first = [start(0), start(1)];
        let until = Instant::now() + DEADLINE;
        while knocked.load(Relaxed) < BEFORE && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let last = start(2);
        for process in first.into_iter().chain([last]) {
            let model = process.join();
            closed.store(1, Relaxed);
            assert!(model.unwrap() == *expected, "round {number}");
        }
    });
    knocked.into_inner()
}

#[test]
fn processes_connect_and_train_despite_strangers() {
    let _others = with_others();
    let (seed, before, expected, started) = (seed(), panics(), trained(None), Instant::now());
    let (mut knocked, mut rounds) = (0, 0);
    while knocked < tries() {
        knocked += round(seed, rounds, &expected);
        rounds += 1;
    }
    eprintln!("{knocked} knocked while {rounds} runs of {PROCESSES} processes met, in {:?}", started.elapsed());
    assert_eq!(panics(), before);
}

#[test]
fn strangers_do_not_extend_the_wait_for_a_missing_process() {
    let _others = with_others();
    let (seed, addresses, secret) = (seed(), local_addresses(PROCESSES).unwrap(), Secret::random().unwrap());
    let (knocked, closed, within) = (AtomicUsize::new(0), AtomicUsize::new(0), Duration::from_secs(2));
    let meets = |me| meet(&Hosts { addresses: addresses.clone(), me }, &secret, within).unwrap_err();
    let errors = std::thread::scope(|scope| {
        for i in 0..STRANGERS as u64 {
            let (addresses, knocked, closed) = (&addresses, &knocked, &closed);
            scope.spawn(move || strangers(Philox::with_stream(seed, i), addresses, knocked, closed, 1000));
        }
        let errors = [0, 1].map(|me| scope.spawn(move || meets(me))).map(|process| process.join());
        closed.store(1, Relaxed);
        errors.map(Result::unwrap)
    });
    assert!(knocked.into_inner() > 0);
    assert!(matches!(&errors[0], RendezvousError::Missing { missing, refused: 1.., .. } if *missing == [2]), "{}", errors[0]);
    assert!(matches!(errors[1], RendezvousError::Unreached { process: 0, .. }), "{}", errors[1]);
}

/// Only one of two processes with number 2 is accepted.
#[test]
fn a_duplicate_process_number_is_rejected() {
    let _others = with_others();
    let (addresses, secret, expected) = (local_addresses(PROCESSES).unwrap(), Secret::random().unwrap(), trained(None));
    std::thread::scope(|scope| {
        let (addresses, secret) = (&addresses, &secret);
        let (refused, was_refused) = mpsc::channel();
        let twin = move || {
            let hosts = Hosts { addresses: addresses.clone(), me: 2 };
            match Cluster::join(&hosts, secret, DEADLINE, LIMITS) {
                Ok(cluster) => Some(true_process(cluster)),
                Err(e) => {
                    refused.send(e.to_string()).unwrap();
                    None
                }
            }
        };
        let start = |me| scope.spawn(move || Some(joined(addresses, me, secret)));
        let mut all = vec![start(0), scope.spawn(twin.clone()), scope.spawn(twin)];
        let error = was_refused.recv_timeout(DEADLINE).unwrap();
        assert!(error.contains("refused: another process with this number is connected"), "{error}");
        all.push(start(1));
        let models: Vec<_> = all.into_iter().filter_map(|process| process.join().unwrap()).collect();
        assert!(models == [(); PROCESSES].map(|()| expected.clone()));
    });
}

/// Process 2 dies while process 0 waits for others, and is restarted.
#[test]
fn a_process_that_died_early_may_reconnect() {
    let _others = with_others();
    let (addresses, secret, expected) = (local_addresses(PROCESSES).unwrap(), Secret::random().unwrap(), trained(None));
    std::thread::scope(|scope| {
        let (addresses, secret) = (&addresses, &secret);
        let start = |me| scope.spawn(move || joined(addresses, me, secret));
        let mut all = vec![start(0)];
        let address = addresses[0].parse().unwrap();
        let mut socket = connect(address, &AtomicUsize::new(0), Instant::now() + DEADLINE).unwrap();
        let hello = Hello::true_one(addresses, 2, 0).to_bytes();
        socket.write_all(&hello).unwrap();
        let mut answer = [0; 33];
        socket.read_exact(&mut answer).unwrap();
        socket.write_all(&secret.prove("connects", &hello, answer[1..].try_into().unwrap())).unwrap();
        socket.read_exact(&mut answer).unwrap();
        assert!(secret.is_proven(answer[1..].try_into().unwrap(), "listens", &hello, &[7; 32]), "process 0 proves it too");
        drop(socket);
        all.extend([start(2), start(1)]);
        for process in all {
            assert!(process.join().unwrap() == expected);
        }
    });
}

/// Impersonates process 0: sends `content` in portions of `portion` bytes.
fn false_process(listener: &TcpListener, content: &[u8], portion: usize, closed: &AtomicUsize) {
    listener.set_nonblocking(true).unwrap();
    let mut kept = Vec::new();
    let drip = |mut socket: TcpStream| {
        for bytes in content.chunks(portion) {
            if closed.load(Relaxed) > 0 || socket.write_all(bytes).is_err() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(if portion == 1 { 700 } else { 0 }));
        }
        Some(socket)
    };
    while closed.load(Relaxed) == 0 {
        if let Ok((socket, _)) = listener.accept() {
            socket.set_nonblocking(false).unwrap();
            kept.extend(drip(socket));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_impostor_of_process_0_does_not_delay_others() {
    let _others = with_others();
    let (secret, within) = (Secret::random().unwrap(), Duration::from_secs(2));
    let proven_by_nobody = [vec![0; 1 + 32 + 1], vec![9; 32]].concat();
    let cases = [
        (vec![], 1, "not reached within 2 s"),
        (vec![0xff; 5000], 5000, "another program listens there"),
        (vec![3], 1, "refused: another process with this number"),
        (vec![0; 66], 1, "not reached within 2 s"),
        (proven_by_nobody, 66, "refused: it has another secret"),
    ];
    std::thread::scope(|scope| {
        for (content, portion, words) in cases {
            let secret = &secret;
            scope.spawn(move || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let addresses = vec![listener.local_addr().unwrap().to_string(), "127.0.0.1:1".into()];
                let (closed, started) = (AtomicUsize::new(0), Instant::now());
                let error = std::thread::scope(|scope| {
                    scope.spawn(|| false_process(&listener, &content, portion, &closed));
                    let error = meet(&Hosts { addresses, me: 1 }, secret, within).unwrap_err().to_string();
                    closed.store(1, Relaxed);
                    error
                });
                assert!(error.starts_with("process 0 at ") && error.contains(words), "{error}");
                // Regression: the handshake once had no deadline while bytes arrived.
                assert!(started.elapsed() < within * 8, "{words}: {:?}", started.elapsed());
            });
        }
    });
}
