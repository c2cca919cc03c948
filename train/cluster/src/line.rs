//! The state shared by all threads of a process: its number, its fault, and the queue to the engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use gradus_collective::PeerError;

use crate::fault::Fault;
use crate::message::{Head, Kind, Message};

/// The longest wait before the verdict is checked again.
const TICK: Duration = Duration::from_millis(20);

/// The shared state of a process.
pub struct Line {
    /// The number of this process.
    pub me: usize,
    /// The number of processes.
    pub processes: usize,
    /// The verdict and the suspicions.
    pub fault: Fault,
    /// The number of the run, which marks its messages.
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

    /// Returns a message head of this run.
    pub fn head(&self, number: u64, kind: Kind) -> Head {
        Head { run: self.run, number, kind, node: 0, piece: 0, pieces: 1 }
    }

    /// Returns whether a message with this head belongs to this run.
    pub fn is_own(&self, head: Head) -> bool {
        head.run == self.run
    }

    /// Returns the numbers of the other processes.
    pub fn others(&self) -> impl Iterator<Item = usize> {
        let me = self.me;
        (0..self.processes).filter(move |&p| p != me)
    }

    /// Registers the current thread as the engine's, which [`send`](Line::send) wakes.
    pub fn serve(&self) {
        let _ = self.engine.set(std::thread::current());
    }

    /// Queues messages for the engine.
    pub fn send(&self, messages: impl IntoIterator<Item = (usize, Message)>) {
        // Sending fails only after the engine has stopped, when the run is over.
        messages.into_iter().for_each(|message| drop(self.outbox.send(message)));
        self.engine.get().into_iter().for_each(Thread::unpark);
    }

    /// Lets the engine stop once it has sent all queued messages.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.send([]);
    }

    /// Returns whether the engine is to stop.
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Waits until `take` returns a value. Returns an error if the run ends first.
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

    /// Wakes all waiting threads.
    pub fn wake(&self) {
        drop(self.came.0.lock().expect("nothing here panics"));
        self.came.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Instant;

    use super::*;

    #[test]
    fn sending_wakes_the_engine() {
        let long = Duration::from_secs(30);
        let line = Arc::new(Line::new(0, 2, 5, Fault::default(), mpsc::channel().0));
        let (ready, is_ready) = mpsc::channel();
        let engine = Arc::clone(&line);
        let parked = std::thread::spawn(move || {
            engine.serve();
            ready.send(()).unwrap();
            let started = Instant::now();
            std::thread::park_timeout(long);
            started.elapsed()
        });
        is_ready.recv().unwrap();
        line.send([]);
        assert!(parked.join().unwrap() < long);
    }
}
