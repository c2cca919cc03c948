//! What all threads of a process share: who it is, what ends the run, and the way to the engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use gradus_train::collective::PeerError;

use crate::fault::Fault;
use crate::message::{Head, Kind, Message};

/// How soon a verdict is seen by who waits for something else.
const TICK: Duration = Duration::from_millis(20);

/// One for all threads of a process.
pub struct Line {
    /// The number of this process.
    pub me: usize,
    /// How many there are.
    pub processes: usize,
    /// What ends the run.
    pub fault: Fault,
    /// Marks its messages.
    run: u64,
    outbox: Sender<(usize, Message)>,
    engine: OnceLock<Thread>,
    is_closing: AtomicBool,
    came: (Mutex<()>, Condvar),
}

impl Line {
    pub fn new(me: usize, processes: usize, run: u64, fault: Fault, outbox: Sender<(usize, Message)>) -> Self {
        let (engine, is_closing, came) = (OnceLock::new(), AtomicBool::new(false), Default::default());
        Line { me, processes, fault, run, outbox, engine, is_closing, came }
    }

    /// A head of this run.
    pub fn head(&self, number: u64, kind: Kind) -> Head {
        Head { run: self.run, number, kind, node: 0, piece: 0, pieces: 1 }
    }

    /// Is a message with this head of this run?
    pub fn is_own(&self, head: Head) -> bool {
        head.run == self.run
    }

    /// The others.
    pub fn others(&self) -> impl Iterator<Item = usize> {
        let me = self.me;
        (0..self.processes).filter(move |&p| p != me)
    }

    /// This thread is the engine's: it is to be woken for what is sent.
    pub fn serve(&self) {
        let _ = self.engine.set(std::thread::current());
    }

    /// Hands messages to the engine.
    pub fn send(&self, messages: impl IntoIterator<Item = (usize, Message)>) {
        // Without an engine the run is over.
        messages.into_iter().for_each(|message| drop(self.outbox.send(message)));
        self.engine.get().into_iter().for_each(Thread::unpark);
    }

    /// Lets the engine stop once all is sent.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.send([]);
    }

    /// Shall the engine stop?
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Waits until `take` gives something.
    pub fn wait<R>(&self, take: impl FnMut() -> Option<R>) -> Result<R, PeerError> {
        self.fault.waits(true);
        let result = self.wait_for(take);
        self.fault.waits(false);
        result
    }

    fn wait_for<R>(&self, mut take: impl FnMut() -> Option<R>) -> Result<R, PeerError> {
        loop {
            let looked = self.came.0.lock().expect("nothing here panics");
            if let Some(result) = take() {
                return Ok(result);
            }
            if let Some(verdict) = self.fault.verdict() {
                return Err(verdict);
            }
            drop(self.came.1.wait_timeout(looked, TICK));
        }
    }

    /// Wakes who waits.
    pub fn wake(&self) {
        drop(self.came.0.lock().expect("nothing here panics"));
        self.came.1.notify_all();
    }
}
