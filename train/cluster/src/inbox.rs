//! The receive buffers of a process: messages assembled from their pieces, and the all-reduce in progress.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use gradus_collective::PeerError;

use crate::line::Line;
use crate::message::{Head, Kind, Message, cut};
use crate::sums::Running;

/// The maximum number of pieces of a broadcast: 256 GiB.
const MOST_PIECES: u32 = 1 << 20;
/// The maximum number of pieces of an all-gather message, sent with each step: 16 MiB.
const MOST_OF_WORDS: u32 = 1 << 6;
/// The maximum number of parts buffered from each process before this process begins their sum: 8 GiB.
const MOST_EARLY: usize = 1 << 15;
/// The maximum number of broadcasts, or of gathers, by which another process may be ahead; they are buffered.
const MOST_AHEAD: u64 = 16;

/// The inbox of a process: it sorts received messages and hands them to the threads that wait for them.
pub struct Inbox {
    line: Arc<Line>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// All-gather messages, by number and process.
    words: BTreeMap<(u64, usize), Assembly>,
    broadcasts: BTreeMap<u64, Assembly>,
    /// The number of all-gathers that this process has begun.
    told: u64,
    /// The number of broadcasts that this process has sent or received.
    heard: u64,
    /// Messages gathered by process 0, by number and process.
    to_collect: BTreeMap<(u64, usize), Assembly>,
    /// The number of gathers that this process has begun.
    collected: u64,
    /// The number of sums begun.
    begun: u64,
    /// The sum in progress.
    sum: Option<Arc<Running>>,
    /// The buffered parts of the next sum, by process.
    early: BTreeMap<usize, Vec<Message>>,
}

/// The pieces of a message received so far, in order.
#[derive(Default)]
struct Assembly {
    came: u32,
    of: u32,
    bytes: Vec<u8>,
}

impl Assembly {
    fn add(&mut self, head: Head, contents: &[u8], most: u32) -> Result<(), String> {
        let expected = (self.came, if self.of == 0 { head.pieces } else { self.of });
        if (head.piece, head.pieces) != expected || head.piece >= head.pieces || head.pieces > most {
            return Err(format!("piece {} of {}; expected piece {} of {}", head.piece, head.pieces, expected.0, expected.1));
        }
        (self.came, self.of) = (self.came + 1, head.pieces);
        self.bytes.extend(contents);
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.of > 0 && self.came == self.of
    }
}

impl Inbox {
    pub fn new(line: Arc<Line>) -> Self {
        Inbox { line, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing here panics")
    }

    /// Handles a received message. An invalid one becomes a suspicion.
    pub fn receive(&self, from: usize, message: Message) {
        let result = match message.read() {
            Some((head, _)) if !self.line.is_own(head) => Err("a message of another run".into()),
            Some((head, contents)) => match head.kind {
                Kind::Words => self.add_words(from, head, contents),
                Kind::Broadcast => self.add_broadcast(from, head, contents),
                Kind::Collected => self.add_collected(from, head, contents),
                Kind::Part | Kind::Total => self.add_part(from, head, &message),
                Kind::Beat => Ok(()),
            },
            None => Err("a message without a valid header".into()),
        };
        if let Err(problem) = result {
            self.line.fault.suspect(format!("process {from} sent invalid data: {problem}"));
        }
        self.line.wake();
    }

    fn add_words(&self, from: usize, head: Head, contents: &[u8]) -> Result<(), String> {
        let mut state = self.state();
        // No process is more than one all-gather ahead, since each waits for all.
        if head.number > state.told || head.number + 1 < state.told {
            return Err(format!("all-gather {}; expected {}", head.number, state.told));
        }
        state.words.entry((head.number, from)).or_default().add(head, contents, MOST_OF_WORDS)
    }

    fn add_broadcast(&self, from: usize, head: Head, contents: &[u8]) -> Result<(), String> {
        let mut state = self.state();
        if from != 0 || !(state.heard..state.heard + MOST_AHEAD).contains(&head.number) {
            return Err(format!("broadcast {} from process {from}; expected {} from process 0", head.number, state.heard));
        }
        state.broadcasts.entry(head.number).or_default().add(head, contents, MOST_PIECES)
    }

    fn add_collected(&self, from: usize, head: Head, contents: &[u8]) -> Result<(), String> {
        let mut state = self.state();
        if self.line.me != 0 || !(state.collected.saturating_sub(1)..state.collected + MOST_AHEAD).contains(&head.number) {
            return Err(format!("gather {}; expected {}", head.number, state.collected));
        }
        state.to_collect.entry((head.number, from)).or_default().add(head, contents, MOST_PIECES)
    }

    fn add_part(&self, from: usize, head: Head, message: &Message) -> Result<(), String> {
        let sum = {
            let mut state = self.state();
            if head.number == state.begun + 1 {
                let early = state.early.entry(from).or_default();
                if early.len() >= MOST_EARLY {
                    return Err(format!("more than {MOST_EARLY} parts of sum {}, which has not begun here", head.number));
                }
                early.push(message.clone());
                return Ok(());
            }
            state.sum.clone().filter(|_| head.number == state.begun)
        };
        match (sum, message.read()) {
            (Some(sum), Some((head, contents))) => sum.receive(from, head, contents),
            _ => Err(format!("a part of sum {}, which is not in progress", head.number)),
        }
    }

    /// Begins the next sum and processes its buffered parts.
    pub fn begin(&self, make: impl FnOnce(u64) -> Running) -> Arc<Running> {
        let (sum, early) = {
            let mut state = self.state();
            state.begun += 1;
            let sum = Arc::new(make(state.begun));
            state.sum = Some(Arc::clone(&sum));
            (sum, std::mem::take(&mut state.early))
        };
        for (from, messages) in early {
            messages.into_iter().for_each(|message| self.receive(from, message));
        }
        sum
    }

    /// Drops the finished sum.
    pub fn end(&self) {
        self.state().sum = None;
    }

    /// Sends `bytes` to all other processes and returns the number of this all-gather.
    pub fn all_gather(&self, bytes: Vec<u8>) -> u64 {
        let number = {
            let mut state = self.state();
            state.told += 1;
            state.told - 1
        };
        let messages = cut(self.line.head(number, Kind::Words), &bytes);
        self.line.send(self.line.others().flat_map(|to| messages.iter().map(move |message| (to, message.clone()))));
        let own = Assembly { came: 1, of: 1, bytes };
        self.state().words.insert((number, self.line.me), own);
        number
    }

    /// Waits for the messages of an all-gather and returns them in the order of processes.
    pub fn gathered(&self, number: u64) -> Result<Vec<Vec<u8>>, PeerError> {
        self.line.wait(|| {
            let words = &mut self.state().words;
            let is_whole = |p: usize| words.get(&(number, p)).is_some_and(Assembly::is_whole);
            let all = (0..self.line.processes).all(is_whole);
            all.then(|| (0..self.line.processes).filter_map(|p| words.remove(&(number, p))).map(|parts| parts.bytes).collect())
        })
    }

    /// Broadcasts `bytes` from process 0 and returns them. The other processes wait for them.
    pub fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>, PeerError> {
        if self.line.me == 0 {
            let number = {
                let mut state = self.state();
                state.heard += 1;
                state.heard - 1
            };
            for message in cut(self.line.head(number, Kind::Broadcast), &bytes) {
                self.line.send(self.line.others().map(|to| (to, message.clone())));
            }
            return Ok(bytes);
        }
        self.line.wait(|| {
            let mut state = self.state();
            let number = state.heard;
            state.broadcasts.get(&number).filter(|parts| parts.is_whole())?;
            state.heard += 1;
            state.broadcasts.remove(&number).map(|parts| parts.bytes)
        })
    }

    /// Gathers the bytes of all processes on process 0, which gets them in order. The others get an empty vector.
    pub fn gather(&self, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, PeerError> {
        let number = {
            let mut state = self.state();
            state.collected += 1;
            state.collected - 1
        };
        if self.line.me > 0 {
            let messages = cut(self.line.head(number, Kind::Collected), &bytes);
            self.line.send(messages.into_iter().map(|message| (0, message)));
            return Ok(Vec::new());
        }
        let others = self.line.wait(|| {
            let came = &mut self.state().to_collect;
            let all = self.line.others().all(|p| came.get(&(number, p)).is_some_and(Assembly::is_whole));
            all.then(|| self.line.others().filter_map(|p| came.remove(&(number, p))).map(|it| it.bytes).collect::<Vec<_>>())
        })?;
        Ok(std::iter::once(bytes).chain(others).collect())
    }
}

#[cfg(test)]
pub mod tests;
