//! Tests of the receive buffers. The processes share one thread, and the test delivers their messages.

use std::sync::mpsc::{self, Receiver};

use super::*;
use crate::fault::Fault;
use crate::message::MOST_BYTES;
use crate::message::tests::sent;

/// The number of the run.
const RUN: u64 = 5;

/// A process without an engine.
pub struct Process {
    pub inbox: Inbox,
    pub line: Arc<Line>,
    outbox: Receiver<(usize, Message)>,
}

impl Process {
    /// Creates process `me` of `processes`. If a message has not been delivered, its waits return an error instead of blocking.
    pub fn new(me: usize, processes: usize) -> Self {
        let (fault, (sender, outbox)) = (Fault::default(), mpsc::channel());
        fault.raise("nothing has come".into());
        let line = Arc::new(Line::new(me, processes, RUN, fault, sender));
        Process { inbox: Inbox::new(Arc::clone(&line)), line, outbox }
    }

    /// Returns the messages that the process has sent since the last call.
    pub fn sends(&self) -> Vec<(usize, Message)> {
        self.outbox.try_iter().map(|(to, message)| (to, sent(&message))).collect()
    }

    /// Receives a message and returns its problem, if any.
    fn finds(&self, from: usize, head: Head, contents: &[u8]) -> Option<String> {
        self.inbox.receive(from, sent(&Message::Bytes(head, contents.into())));
        let found = self.line.fault.suspicions().pop()?;
        Some(found.strip_prefix(&format!("process {from} sent invalid data: ")).expect("a prefix").to_owned())
    }
}

/// Delivers the messages of all processes until none is left.
pub fn deliver(all: &[Process]) {
    loop {
        let sent: Vec<_> = all.iter().map(Process::sends).collect();
        if sent.iter().all(Vec::is_empty) {
            return;
        }
        for (from, messages) in sent.into_iter().enumerate() {
            messages.into_iter().for_each(|(to, message)| all[to].inbox.receive(from, message));
        }
    }
}

fn processes(n: usize) -> Vec<Process> {
    (0..n).map(|me| Process::new(me, n)).collect()
}

fn head(kind: Kind, number: u64) -> Head {
    Head { run: RUN, number, kind, node: 0, piece: 0, pieces: 1 }
}

#[test]
fn all_gather_delivers_in_the_order_of_processes() {
    let all = processes(3);
    for round in 0..3 {
        let words = |me: usize| vec![me as u8 + 10 * round; me * (MOST_BYTES + 1)];
        for (me, process) in all.iter().enumerate() {
            assert_eq!(process.inbox.all_gather(words(me)), u64::from(round));
            assert_eq!(process.inbox.gathered(round.into()).unwrap_err().problem, "nothing has come");
        }
        deliver(&all);
        for process in &all {
            assert!(process.inbox.gathered(round.into()).unwrap() == [words(0), words(1), words(2)]);
            assert!(process.inbox.gathered(round.into()).is_err(), "each is handed over once");
        }
    }
}

#[test]
fn broadcasts_reach_the_others_in_order() {
    let all = processes(3);
    let words = |round: u8| vec![round; usize::from(round) * (MOST_BYTES + 1)];
    for round in 0..3 {
        assert!(all[0].inbox.broadcast(words(round)).unwrap() == words(round));
    }
    assert!(all[1].inbox.broadcast(vec![]).is_err(), "it is under way");
    deliver(&all);
    for round in 0..3 {
        for process in &all[1..] {
            assert!(process.inbox.broadcast(vec![9]).unwrap() == words(round));
        }
    }
    assert!(all[1].inbox.broadcast(vec![]).is_err(), "none is left");
}

#[test]
fn process_0_gathers_from_all() {
    let all = processes(3);
    let words = |me: usize, round: u8| vec![me as u8 + 10 * round; me * (MOST_BYTES + 1)];
    let rounds = MOST_AHEAD as u8; // the number of gathers by which a process may be ahead
    for round in 0..rounds {
        assert_eq!(all[1].inbox.gather(words(1, round)).unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(all[2].inbox.gather(words(2, round)).unwrap(), Vec::<Vec<u8>>::new());
    }
    deliver(&all);
    for round in 0..rounds {
        assert!(all[0].inbox.gather(words(0, round)).unwrap() == [0, 1, 2].map(|me| words(me, round)));
    }
    assert!(all[0].inbox.gather(vec![]).is_err(), "none is left");
}

#[test]
fn messages_that_are_not_due_are_rejected() {
    let process = |me| Process::new(me, 3);
    let one = process(1);
    one.inbox.all_gather(vec![]);
    let words = |number| one.finds(2, head(Kind::Words, number), &[]);
    assert_eq!(words(1), None, "a process may be one all-gather ahead");
    assert_eq!(words(2).as_deref(), Some("all-gather 2; expected 1"));
    one.inbox.all_gather(vec![]);
    assert_eq!(words(0).as_deref(), Some("all-gather 0; expected 2"));
    assert_eq!(words(2), None);
    assert_eq!(one.finds(0, head(Kind::Words, 1), &[]), None, "or one behind");

    let broadcast = |from, number| one.finds(from, head(Kind::Broadcast, number), &[]);
    assert_eq!(broadcast(2, 0).as_deref(), Some("broadcast 0 from process 2; expected 0 from process 0"));
    assert_eq!([0, MOST_AHEAD - 1].map(|number| broadcast(0, number)), [None, None]);
    assert_eq!(broadcast(0, MOST_AHEAD).as_deref(), Some("broadcast 16 from process 0; expected 0 from process 0"));
    one.inbox.broadcast(vec![]).unwrap();
    assert_eq!(broadcast(0, MOST_AHEAD), None);
    assert_eq!(broadcast(0, 0).as_deref(), Some("broadcast 0 from process 0; expected 1 from process 0"));

    let zero = process(0);
    let collected = |number| zero.finds(2, head(Kind::Collected, number), &[]);
    assert_eq!([0, MOST_AHEAD - 1].map(collected), [None, None]);
    assert_eq!(collected(MOST_AHEAD).as_deref(), Some("gather 16; expected 0"));
    (0..2).for_each(|_| drop(zero.inbox.gather(vec![])));
    assert_eq!([1, MOST_AHEAD, MOST_AHEAD + 1].map(collected), [None, None, None]);
    assert_eq!(collected(0).as_deref(), Some("gather 0; expected 2"));
    let misled = one.finds(2, head(Kind::Collected, 0), &[]);
    assert_eq!(misled.as_deref(), Some("gather 0; expected 0"));

    assert_eq!(one.finds(2, Head { run: RUN + 1, ..head(Kind::Beat, 0) }, &[]).as_deref(), Some("a message of another run"));
    assert_eq!(one.finds(2, head(Kind::Beat, 0), &[]), None);
    one.inbox.receive(2, Message::Bytes(head(Kind::Beat, 0), [].into()));
    assert_eq!(one.line.fault.suspicions(), ["process 2 sent invalid data: a message without a valid header"]);
}

#[test]
fn pieces_come_in_order_and_once() {
    let refused = |pieces: &[(u32, u32)], most| {
        let mut parts = Assembly::default();
        let add = |&(piece, pieces)| parts.add(Head { piece, pieces, ..head(Kind::Words, 0) }, &[piece as u8], most);
        let result = pieces.iter().try_for_each(add);
        (result.err(), parts.is_whole(), parts.bytes)
    };
    assert_eq!(refused(&[], 9), (None, false, vec![]));
    assert_eq!(refused(&[(0, 1)], 9), (None, true, vec![0]));
    assert_eq!(refused(&[(0, 3), (1, 3)], 9), (None, false, vec![0, 1]));
    assert_eq!(refused(&[(0, 3), (1, 3), (2, 3)], 3), (None, true, vec![0, 1, 2]));
    for (pieces, problem) in [
        (&[(1, 3)][..], "piece 1 of 3; expected piece 0 of 3"),
        (&[(0, 3), (0, 3)], "piece 0 of 3; expected piece 1 of 3"),
        (&[(0, 3), (1, 2)], "piece 1 of 2; expected piece 1 of 3"),
        (&[(0, 0)], "piece 0 of 0; expected piece 0 of 0"),
        (&[(0, 1), (1, 1)], "piece 1 of 1; expected piece 1 of 1"),
        (&[(0, 4)], "piece 0 of 4; expected piece 0 of 4"),
    ] {
        assert_eq!(refused(pieces, 3).0.as_deref(), Some(problem));
    }
}

#[test]
fn parts_of_the_next_sum_are_kept_within_bounds() {
    let process = Process::new(0, 3);
    let part = |from, number| process.finds(from, head(Kind::Part, number), &[0; 4]);
    assert_eq!(part(1, 0).as_deref(), Some("a part of sum 0, which is not in progress"));
    assert_eq!(part(1, 2).as_deref(), Some("a part of sum 2, which is not in progress"));
    for _ in 0..MOST_EARLY {
        process.inbox.receive(1, sent(&Message::Bytes(head(Kind::Part, 1), [0; 4].into())));
    }
    assert_eq!(process.line.fault.suspicions(), Vec::<String>::new());
    assert_eq!(part(1, 1).as_deref(), Some("more than 32768 parts of sum 1, which has not begun here"));
    assert_eq!(part(2, 1), None, "the bound is that of each process");
}
