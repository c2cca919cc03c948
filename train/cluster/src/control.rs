//! Failure detection: a control connection from each process to process 0, served by dedicated threads. These threads send
//! heartbeats during long computations, which distinguishes a process that computes for minutes from one that hangs.
//!
//! ```text
//! process p → 0    heartbeats, several per silence limit; suspicions;      0 → p    heartbeats; the verdict
//!                  its failure; a farewell
//! ```
//!
//! A data connection may stall without closing. So each data connection also carries a message per heartbeat interval, and a
//! process records a suspicion if nothing has arrived for 1.5 times the silence limit.
//!
//! When a process dies, its connections close, and other processes may fail in consequence. Each of these records only a closed
//! connection. Process 0 receives all such suspicions and finds the cause. A process that ended without a farewell ranks before a
//! silent one, and both rank before a bad connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use gradus_collective::PeerError;

use crate::fault::Fault;

/// The maximum length of a message's text, in bytes.
const MOST_TEXT: usize = 4000;
/// The number of heartbeats in the silence limit.
const BEATS: u32 = 5;
/// The longest wait for a cause that explains a bad connection.
const GRACE: Duration = Duration::from_secs(2);
/// The interval at which suspicions are examined.
const TICK: Duration = Duration::from_millis(20);

/// The time limits of failure detection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest time without a heartbeat.
    pub silence: Duration,
    /// The longest time that a process may compute one step.
    pub step: Duration,
    /// The function called with the verdict if this process still runs when `silence` has passed since the verdict.
    pub stuck: Option<fn(&PeerError)>,
}

impl Limits {
    /// Returns the interval between heartbeats.
    pub fn beats(&self) -> Duration {
        self.silence / BEATS
    }
}

/// The progress that a process reports in its heartbeats.
#[derive(Debug, Default)]
pub struct Doing {
    /// The number of finished steps.
    steps: AtomicU64,
    /// Whether the process is computing a step.
    computes: AtomicBool,
}

impl Doing {
    /// Records that a step begins (`computes`) or has ended.
    pub fn step(&self, computes: bool) {
        self.computes.store(computes, Ordering::Relaxed);
        if !computes {
            self.steps.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The control connections: one to process 0, or those of process 0 to all others.
pub struct Control {
    events: Sender<Event>,
    watch: Option<std::thread::JoinHandle<()>>,
}

enum Event {
    Heard(usize, Word),
    /// The end of a connection; true if malformed data ended it.
    Lost(usize, bool),
    /// The departure of this process from the run, with its error if it has failed.
    Leave(Option<String>),
}

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Beat {
        steps: u64,
        computes: bool,
    },
    /// A suspicion about a data connection.
    Noted(String),
    /// The error with which the sender itself has failed.
    Failed(String),
    /// The verdict.
    Last(PeerError),
    Farewell,
}

impl Word {
    fn to_bytes(&self) -> Vec<u8> {
        let (kind, text) = match self {
            Word::Beat { steps, computes } => (0, [&steps.to_le_bytes()[..], &[u8::from(*computes)]].concat()),
            Word::Noted(text) => (1, cut(text)),
            Word::Failed(text) => (2, cut(text)),
            Word::Last(verdict) => (3, [&[u8::from(verdict.is_told)], &cut(&verdict.problem)[..]].concat()),
            Word::Farewell => (4, vec![]),
        };
        let body = [&[kind][..], &(text.len() as u16).to_le_bytes(), &text].concat();
        [&crc32fast::hash(&body).to_le_bytes()[..], &body].concat()
    }

    /// Reads the next message of a connection.
    fn read(from: &mut impl Read) -> io::Result<Word> {
        let mut head = [0; 7];
        from.read_exact(&mut head)?;
        let [a, b, c, d, kind, low, high] = head;
        let length: usize = u16::from_le_bytes([low, high]).into();
        let nonsense = || io::Error::from(io::ErrorKind::InvalidData);
        if length > MOST_TEXT {
            return Err(nonsense());
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body)?;
        let whole = [&head[4..], &body].concat();
        if crc32fast::hash(&whole) != u32::from_le_bytes([a, b, c, d]) {
            return Err(nonsense());
        }
        let text = || String::from_utf8(body.clone()).map_err(|_| nonsense());
        Ok(match kind {
            0 => {
                let (steps, computes) = body.split_first_chunk::<8>().ok_or_else(nonsense)?;
                Word::Beat { steps: u64::from_le_bytes(*steps), computes: computes == [1] }
            }
            1 => Word::Noted(text()?),
            2 => Word::Failed(text()?),
            3 => {
                let (is_told, problem) = body.split_first().ok_or_else(nonsense)?;
                let problem = str::from_utf8(problem).map_err(|_| nonsense())?.to_owned();
                Word::Last(PeerError { problem, is_told: *is_told == 1 })
            }
            4 => Word::Farewell,
            _ => return Err(nonsense()),
        })
    }
}

/// Returns the beginning of a text that fits a message, with one byte left for the verdict's flag.
fn cut(text: &str) -> Vec<u8> {
    text[..text.floor_char_boundary(MOST_TEXT - 1)].into()
}

/// Returns the verdict on a process that has reported its own error.
fn told(process: usize, error: &str) -> PeerError {
    PeerError { problem: format!("process {process} stopped: {error}"), is_told: true }
}

impl Control {
    /// Starts watching these connections: those of process 0 to all others, or the one of another process to process 0.
    pub fn start(
        me: usize,
        sockets: Vec<(usize, TcpStream)>,
        fault: Fault,
        limits: Limits,
        doing: Arc<Doing>,
    ) -> io::Result<Self> {
        let (events, inbox) = mpsc::channel();
        let mut peers = Vec::new();
        for (number, socket) in sockets {
            socket.set_read_timeout(None)?;
            socket.set_write_timeout(Some(limits.silence))?;
            let (mut from, events) = (socket.try_clone()?, events.clone());
            named("gradus:hear", move || {
                // A closed event channel means that this process has left.
                let by_nonsense = loop {
                    match Word::read(&mut from).map(|word| events.send(Event::Heard(number, word))) {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => return,
                        Err(e) => break e.kind() == io::ErrorKind::InvalidData,
                    }
                };
                let _ = events.send(Event::Lost(number, by_nonsense));
            })?;
            let now = Instant::now();
            peers.push(Peer { number, socket, heard: now, steps: 0, computes: false, moved: now, gone: false, left: false });
        }
        let watch = Watch { me, peers, fault, limits, doing, noted: None, beaten: None, ended: None };
        let watch = Some(named("gradus:watch", move || watch.run(&inbox))?);
        Ok(Control { events, watch })
    }

    /// Leaves the run: with a farewell, or by sending the error `failed` to all others.
    pub fn leave(mut self, failed: Option<String>) {
        let _ = self.events.send(Event::Leave(failed));
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
    }
}

/// Returns the problem if the watch of process `me` slept for longer than the silence limit.
fn paused(me: usize, slept: Duration, silence: Duration) -> Option<String> {
    let seconds = slept.as_secs_f64();
    let problem = || format!("process {me} itself was suspended, or its machine slept, for {seconds:.1} s (--timeout)");
    (slept > silence).then(problem)
}

fn named(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(work)
}

struct Peer {
    number: usize,
    socket: TcpStream,
    /// The time at which the last message of the process arrived.
    heard: Instant,
    /// The number of finished steps, according to the last heartbeat.
    steps: u64,
    computes: bool,
    moved: Instant,
    /// Whether the connection has ended.
    gone: bool,
    /// Whether the process has sent a farewell.
    left: bool,
}

struct Watch {
    me: usize,
    peers: Vec<Peer>,
    fault: Fault,
    limits: Limits,
    doing: Arc<Doing>,
    /// The first suspicion, and the time at which it was recorded.
    noted: Option<(Instant, String)>,
    /// The time at which the last heartbeat was sent.
    beaten: Option<Instant>,
    /// The time at which this process received or sent the verdict.
    ended: Option<Instant>,
}

impl Watch {
    fn run(mut self, inbox: &Receiver<Event>) {
        let mut awake = Instant::now();
        loop {
            // A pause of this process must not be taken for silence of the others.
            let slept = awake.elapsed();
            awake = Instant::now();
            if let Some(problem) = paused(self.me, slept, self.limits.silence) {
                self.fault.raise(problem);
            }
            match inbox.recv_timeout(TICK) {
                Ok(Event::Leave(failed)) => return self.leave(failed, inbox),
                Ok(Event::Heard(number, word)) => self.hear(number, word),
                Ok(Event::Lost(number, by_nonsense)) => self.lose(number, by_nonsense),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.beat();
            self.judge();
            self.pass_on();
        }
    }

    fn peer(&mut self, number: usize) -> &mut Peer {
        self.peers.iter_mut().find(|peer| peer.number == number).expect("only peers send messages")
    }

    fn say(&mut self, word: &Word) {
        let bytes = word.to_bytes();
        // A failed write needs no report: the peer is found to be gone or silent.
        self.peers.iter_mut().filter(|peer| !peer.gone).for_each(|peer| drop(peer.socket.write_all(&bytes)));
    }

    fn hear(&mut self, number: usize, word: Word) {
        let now = Instant::now();
        self.peer(number).heard = now;
        match word {
            Word::Beat { steps, computes } => {
                let peer = self.peer(number);
                if (peer.steps, peer.computes) != (steps, computes) {
                    (peer.steps, peer.computes, peer.moved) = (steps, computes, now);
                }
            }
            Word::Noted(text) if self.me == 0 => {
                self.noted.get_or_insert((now, format!("process {number} reported: {text}")));
            }
            Word::Failed(text) => self.fault.end(told(number, &text)),
            Word::Last(verdict) if number == 0 => self.fault.end(verdict),
            Word::Farewell => self.peer(number).left = true,
            Word::Noted(_) | Word::Last(_) => self.fault.raise(format!("process {number} sent an unexpected message")),
        }
    }

    fn lose(&mut self, number: usize, by_nonsense: bool) {
        let peer = self.peer(number);
        peer.gone = true;
        if by_nonsense {
            self.fault.raise(format!("process {number} sent invalid data, or the data was damaged in transit"));
        } else if !peer.left {
            let how = "was killed, or its machine or network failed";
            self.fault.raise(format!("process {number} ended without reporting an error: it {how}"));
        }
    }

    fn beat(&mut self) {
        if self.beaten.is_none_or(|at| at.elapsed() >= self.limits.beats()) {
            self.beaten = Some(Instant::now());
            let (steps, computes) = (self.doing.steps.load(Ordering::Relaxed), self.doing.computes.load(Ordering::Relaxed));
            self.say(&Word::Beat { steps, computes });
        }
    }

    fn judge(&mut self) {
        let Limits { silence, step, .. } = self.limits;
        for peer in self.peers.iter().filter(|peer| !peer.left) {
            if peer.heard.elapsed() > silence {
                let seconds = silence.as_secs_f64();
                let how = "hangs, or its machine or network failed";
                self.fault.raise(format!("process {} sent nothing for {seconds} s (--timeout): it {how}", peer.number));
            }
            if peer.computes && peer.moved.elapsed() > step {
                let seconds = step.as_secs_f64();
                let waits = "has not finished a step in";
                self.fault
                    .raise(format!("process {} {waits} {seconds} s (--step-timeout), though it still responds", peer.number));
            }
        }
        // The checks above come first: a process whose control connection is also silent is the likelier cause.
        self.fault.listen(silence * 3 / 2);
        for text in self.fault.suspicions() {
            if self.me != 0 && self.noted.is_none() {
                self.say(&Word::Noted(text.clone()));
            }
            self.noted.get_or_insert((Instant::now(), text));
        }
        let patience = if self.me == 0 { GRACE.min(silence / 2) } else { silence };
        if let Some((at, text)) = &self.noted
            && at.elapsed() > patience
        {
            self.fault.raise(text.clone());
        }
    }

    /// Sends the verdict of process 0 to all, and calls `stuck` if this process does not end.
    fn pass_on(&mut self) {
        let Some(verdict) = self.fault.verdict() else { return };
        if self.ended.is_none() {
            self.ended = Some(Instant::now());
            if self.me == 0 {
                self.say(&Word::Last(verdict.clone()));
            }
        }
        if let Some(stuck) = self.limits.stuck
            && self.ended.is_some_and(|at| at.elapsed() > self.limits.silence)
        {
            stuck(&verdict);
        }
    }

    /// Sends the reason for leaving, then waits until every other process has closed its connection.
    fn leave(mut self, failed: Option<String>, inbox: &Receiver<Event>) {
        self.fault.leave();
        let verdict = self.fault.verdict();
        self.pass_on();
        self.say(&match (failed, verdict) {
            (Some(text), None) if self.me == 0 => Word::Last(told(0, &text)),
            (Some(text), None) => Word::Failed(text),
            _ => Word::Farewell,
        });
        self.peers.iter().for_each(|peer| drop(peer.socket.shutdown(Shutdown::Write)));
        let until = Instant::now() + self.limits.silence;
        while self.peers.iter().any(|peer| !peer.gone) {
            match inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Event::Lost(number, _)) => self.peer(number).gone = true,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
