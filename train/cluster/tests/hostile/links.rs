//! A run of three processes over connections created by the test; one of the three is false.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use gradus_cluster::cluster::Cluster;
use gradus_collective::{AdditionTree, Collective, PeerError, Reduction};
use gradus_tensor::{Shape, Tensor};
use gradus_tests::loopback;

use crate::{DEADLINE, LIMITS};

/// The number of processes.
pub const PROCESSES: usize = 3;
/// The number of elements of the only gradient.
pub const NUMBERS: usize = 5;
/// The number that marks the messages of the run.
pub const RUN: u64 = u64::from_le_bytes([0x5a; 8]);

/// The connections of a process.
pub struct Links {
    pub me: usize,
    pub control: Vec<(usize, TcpStream)>,
    pub data: Vec<Option<TcpStream>>,
}

fn pair() -> (TcpStream, TcpStream) {
    let (near, far) = loopback();
    [&near, &far].into_iter().for_each(|socket| socket.set_nodelay(true).unwrap());
    (near, far)
}

fn links() -> Vec<Links> {
    let data = || (0..PROCESSES).map(|_| None).collect();
    let mut all: Vec<Links> = (0..PROCESSES).map(|me| Links { me, control: vec![], data: data() }).collect();
    for i in 0..PROCESSES {
        for j in i + 1..PROCESSES {
            let (near, far) = pair();
            (all[i].data[j], all[j].data[i]) = (Some(near), Some(far));
        }
        if i > 0 {
            let (near, far) = pair();
            all[0].control.push((i, near));
            all[i].control.push((0, far));
        }
    }
    all
}

impl Links {
    /// Returns the numbers of the other processes.
    pub fn others(&self) -> Vec<usize> {
        (0..PROCESSES).filter(|&other| other != self.me).collect()
    }

    /// Writes as much as the other side accepts.
    pub fn send(&mut self, to: usize, bytes: &[u8]) {
        let socket = self.data[to].as_mut().unwrap();
        socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let _ = socket.write_all(bytes);
    }

    /// Writes to all control connections.
    pub fn say(&mut self, bytes: &[u8]) {
        self.control.iter_mut().for_each(|(_, socket)| drop(socket.write_all(bytes)));
    }

    fn try_clone(&self) -> Vec<TcpStream> {
        self.control.iter().map(|(_, socket)| socket.try_clone().unwrap()).collect()
    }

    /// Keeps the control connections open until the others have closed them.
    fn stay(mut self) {
        for (_, socket) in &mut self.control {
            socket.set_read_timeout(Some(DEADLINE)).unwrap();
            let _ = socket.read_to_end(&mut Vec::new());
        }
    }
}

/// Returns a message of the control connection.
pub fn word(kind: u8, text: &[u8]) -> Vec<u8> {
    let body = [&[kind][..], &(text.len() as u16).to_le_bytes(), text].concat();
    [&crc32fast::hash(&body).to_le_bytes()[..], &body].concat()
}

/// Sends heartbeats for the false process until `ends`.
fn beat(sockets: &mut [TcpStream], ends: &AtomicBool) {
    while !ends.load(Relaxed) {
        sockets.iter_mut().for_each(|socket| drop(socket.write_all(&word(0, &[0; 9]))));
        std::thread::sleep(LIMITS.silence / 10);
    }
}

/// Trains until the run ends.
fn train(cluster: &dyn Collective<f32>) -> Result<Infallible, PeerError> {
    let tree = AdditionTree::new(PROCESSES);
    loop {
        let gathered = cluster.all_gather(vec![7; 20]);
        let sum = cluster.sum(tree.clone(), vec![Some(Shape::from([NUMBERS]))], Reduction::AllReduce);
        cluster.shards(&tree)?.for_each(|shard| sum.add(shard, 0, Tensor::new([NUMBERS], vec![1.0; NUMBERS])));
        sum.all_reduce()?;
        gathered.wait()?;
    }
}

/// Returns the errors of the true processes after process `false_one` runs `harm`, with or without heartbeats.
pub fn harmed(false_one: usize, beats: bool, harm: impl FnOnce(&mut Links)) -> Vec<String> {
    let (sender, receiver) = mpsc::channel();
    let mut links = links();
    let mut own = links.remove(false_one);
    for links in links {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let cluster = Cluster::over(links.me, links.control, links.data, [0x5a; 32], LIMITS).unwrap();
            let problem = train(&cluster).unwrap_err().problem;
            assert_eq!(cluster.verdict().unwrap().problem, problem);
            cluster.leave(None);
            let _ = sender.send((links.me, problem));
        });
    }
    let ends = AtomicBool::new(false);
    let mut problems: Vec<_> = std::thread::scope(|scope| {
        let (mut control, ends) = (own.try_clone(), &ends);
        if beats {
            scope.spawn(move || beat(&mut control, ends));
        }
        harm(&mut own);
        own.stay();
        ends.store(true, Relaxed);
        (1..PROCESSES).map(|_| receiver.recv_timeout(DEADLINE).expect("a true process hangs, or has panicked")).collect()
    });
    problems.sort();
    problems.into_iter().map(|(_, problem)| problem).collect()
}
