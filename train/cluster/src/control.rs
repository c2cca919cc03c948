//! Who lives: a connection of each process to process 0, with threads of their own, so that a process that computes for minutes is
//! told from one that hangs.
//!
//! ```text
//! process p → 0    a beat, several in each time that silence may last      0 → p    a beat; the last word, which names who is at fault
//!                  what it noted; that it has failed; farewell
//! ```
//!
//! A connection for data may fail on its own, and just carry nothing any more: something travels on each as often as a beat does, and
//! where nothing has come for half as long again as silence may last, that is noted.
//!
//! A process that dies takes its connections along, and others end because of it: they note only that a connection closed. Process
//! 0 hears of all that and finds the cause: who ended without a word comes before who is silent, and both before a bad connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use gradus_train::collective::PeerError;

use crate::fault::Fault;

/// Most bytes of a word's text.
const MOST_TEXT: usize = 4000;
/// Beats in the time that silence may last.
const BEATS: u32 = 5;
/// How long a cause is waited for that explains a bad connection, at most.
const GRACE: Duration = Duration::from_secs(2);
/// How soon what was noted is looked at.
const TICK: Duration = Duration::from_millis(20);

/// How patient a process is.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a process may be silent.
    pub silence: Duration,
    /// How long a step may take a process that others wait for.
    pub step: Duration,
    /// Called where the run has ended, but this process has not after as long as silence may last.
    pub stuck: Option<fn(&PeerError)>,
}

impl Limits {
    /// How often a process says something, so that it is not taken to be silent.
    pub fn beats(&self) -> Duration {
        self.silence / BEATS
    }
}

/// What a process does, for its beats.
#[derive(Debug, Default)]
pub struct Doing {
    /// Steps that it has finished.
    steps: AtomicU64,
    /// Does it compute one?
    computes: AtomicBool,
}

impl Doing {
    /// A step begins or has ended.
    pub fn step(&self, computes: bool) {
        self.computes.store(computes, Ordering::Relaxed);
        if !computes {
            self.steps.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The connections to process 0, or of process 0 to all others.
pub struct Control {
    events: Sender<Event>,
    watch: Option<std::thread::JoinHandle<()>>,
}

enum Event {
    Heard(usize, Word),
    /// A connection has ended: by nonsense?
    Lost(usize, bool),
    /// This process leaves; it has failed with these words.
    Leave(Option<String>),
}

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Beat {
        steps: u64,
        computes: bool,
    },
    /// A bad connection.
    Noted(String),
    /// The process itself has failed.
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

    /// The next word of a connection.
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

/// A text's beginning, as long as a word may be, with what says how it is meant.
fn cut(text: &str) -> Vec<u8> {
    text[..text.floor_char_boundary(MOST_TEXT - 1)].into()
}

/// The verdict on a process that has told its own error.
fn told(process: usize, error: &str) -> PeerError {
    PeerError { problem: format!("process {process} stopped: {error}"), is_told: true }
}

impl Control {
    /// Begins to watch these connections: those of process 0 to all others, or the one of another to process 0.
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
                // Who receives no more has left.
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

    /// Leaves: with a farewell, or by telling all others why this process has failed.
    pub fn leave(mut self, failed: Option<String>) {
        let _ = self.events.send(Event::Leave(failed));
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
    }
}

fn named(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(work)
}

struct Peer {
    number: usize,
    socket: TcpStream,
    /// When it was last heard.
    heard: Instant,
    /// Steps that it had finished then, and since when.
    steps: u64,
    computes: bool,
    moved: Instant,
    /// Its connection has ended.
    gone: bool,
    /// It has said farewell.
    left: bool,
}

struct Watch {
    me: usize,
    peers: Vec<Peer>,
    fault: Fault,
    limits: Limits,
    doing: Arc<Doing>,
    /// The first bad connection, and when it was noted.
    noted: Option<(Instant, String)>,
    /// When the last beat was sent.
    beaten: Option<Instant>,
    /// When the verdict was passed on.
    ended: Option<Instant>,
}

impl Watch {
    fn run(mut self, inbox: &Receiver<Event>) {
        let mut awake = Instant::now();
        loop {
            // Its own silence is not that of the others.
            let slept = awake.elapsed();
            awake = Instant::now();
            if slept > self.limits.silence {
                let (me, seconds) = (self.me, slept.as_secs_f64());
                self.fault
                    .raise(format!("process {me} itself was stopped, or its machine slept, for {seconds:.1} s (--timeout)"));
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
        self.peers.iter_mut().find(|peer| peer.number == number).expect("only peers are heard")
    }

    fn say(&mut self, word: &Word) {
        let bytes = word.to_bytes();
        // Who cannot be told is found to be gone or silent.
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
                self.noted.get_or_insert((now, format!("as process {number} noted, {text}")));
            }
            Word::Failed(text) => self.fault.end(told(number, &text)),
            Word::Last(verdict) if number == 0 => self.fault.end(verdict),
            Word::Farewell => self.peer(number).left = true,
            Word::Noted(_) | Word::Last(_) => self.fault.raise(format!("process {number} speaks out of turn")),
        }
    }

    fn lose(&mut self, number: usize, by_nonsense: bool) {
        let peer = self.peer(number);
        peer.gone = true;
        if by_nonsense {
            self.fault.raise(format!("process {number} sent nonsense, or it was damaged on its way"));
        } else if !peer.left {
            let how = "was killed, or its machine or network failed";
            self.fault.raise(format!("process {number} ended without a word: it {how}"));
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
                self.fault.raise(format!("process {} has been silent for {seconds} s (--timeout): it {how}", peer.number));
            }
            if peer.computes && peer.moved.elapsed() > step {
                let seconds = step.as_secs_f64();
                let waits = "has not finished a step in";
                self.fault.raise(format!("process {} {waits} {seconds} s (--step-timeout), though it lives", peer.number));
            }
        }
        // Who is silent everywhere is judged above, before this.
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

    /// The verdict of process 0 is everybody's; who does not end by it is ended.
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

    /// Says so, and stays until the others have heard it, or are gone.
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
