//! The thread of the engine, the only one that holds the channels: it sends the outbox and delivers received messages.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use timely_communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely_communication::allocator::zero_copy::stream::Stream;
use timely_communication::allocator::{Allocator, ProcessBuilder};
use timely_communication::{Hooks, Pull, Push};

use crate::frames::Frames;
use crate::inbox::Inbox;
use crate::line::Line;
use crate::message::{Kind, Message};

/// The longest wait for messages before the verdict is checked.
const TICK: Duration = Duration::from_millis(20);
/// The number of bytes taken from the outbox before received messages are handled.
const AT_ONCE: usize = 1 << 22;

/// Starts the engine on these connections, indexed by process (`None` for this one). Each carries a message per `beats`.
pub fn start<S: Stream + 'static>(
    sockets: Vec<Option<S>>,
    line: Arc<Line>,
    inbox: Arc<Inbox>,
    outbox: Receiver<(usize, Message)>,
    beats: Duration,
) -> io::Result<JoinHandle<()>> {
    let framed = |(peer, socket): (usize, Option<S>)| Some(Frames::new(socket?, line.me, peer, line.fault.clone()));
    line.others().for_each(|peer| line.fault.hears(peer));
    let sockets = sockets.into_iter().enumerate().map(framed).collect();
    let hooks = Hooks::default();
    let inner = ProcessBuilder::new_typed_vector(1, hooks.refill.clone(), None);
    let (builders, guard) = initialize_networking_from_sockets(inner, sockets, line.me, 1, hooks)?;
    let builder = builders.into_iter().next().ok_or_else(|| io::Error::other("the engine has no worker"))?;
    std::thread::Builder::new().name("gradus:engine".into()).spawn(move || {
        line.serve();
        let ends_well = run(Allocator::Tcp(builder.build()), &line, &inbox, &outbox, beats);
        if ends_well {
            drop(guard); // waits until all is sent and all other processes have ended
        } else {
            std::mem::forget(guard); // its threads are parked, or wait for a process that will not end
        }
    })
}

/// Runs the engine and returns whether it ended without a fault.
///
/// Each process sends on the channel of its number, so a channel identifies the sender.
fn run(mut engine: Allocator, line: &Line, inbox: &Inbox, outbox: &Receiver<(usize, Message)>, beats: Duration) -> bool {
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for process in 0..line.processes {
        let (to, from) = engine.allocate::<Message>(process);
        if process == line.me {
            senders = to;
        }
        receivers.push(from);
    }
    let mut beaten = Instant::now();
    loop {
        let (mut bytes, mut is_idle, mut is_closed) = (0, true, false);
        // Read before the outbox: messages queued before the close are still sent.
        let closing = line.is_closing();
        while bytes < AT_ONCE {
            let Ok((to, message)) = outbox.try_recv() else {
                is_closed = closing;
                break;
            };
            bytes += timely_communication::Bytesable::length_in_bytes(&message);
            senders[to].send(message);
            is_idle = false;
        }
        if beaten.elapsed() > beats {
            beaten = Instant::now();
            line.others().for_each(|to| senders[to].send(Message::Bytes(line.head(0, Kind::Beat), [].into())));
        }
        senders.iter_mut().for_each(Push::done);
        engine.release();
        engine.receive();
        engine.events().borrow_mut().clear();
        for (process, receiver) in receivers.iter_mut().enumerate() {
            while let Some(message) = receiver.recv() {
                inbox.receive(process, message);
                is_idle = false;
            }
        }
        if line.fault.verdict().is_some() {
            std::mem::forget((engine, senders, receivers));
            return false;
        }
        if is_closed {
            return true;
        }
        if is_idle {
            engine.await_events(Some(TICK));
        }
    }
}
