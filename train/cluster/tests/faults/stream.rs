//! A connection that breaks at a given byte written to it or read from it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use timely_communication::allocator::zero_copy::stream::Stream;

/// The way in which a connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    Cuts,
    /// Carries nothing more, but stays open.
    Stalls,
    FlipsABit,
    /// Drops the rest of the same read or write.
    DropsBytes,
    DoublesBytes,
    /// Pauses, which is harmless.
    Delays,
}

impl Fault {
    pub const ALL: [Fault; 6] =
        [Fault::Cuts, Fault::Stalls, Fault::FlipsABit, Fault::DropsBytes, Fault::DoublesBytes, Fault::Delays];
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub struct Flow {
    /// The fault, and the byte at which it happens.
    pub breaks: Option<(Fault, u64)>,
    pub has_broken: AtomicBool,
    /// The number of bytes so far.
    pub bytes: AtomicU64,
}

impl Flow {
    /// Counts `n` more bytes. Returns the fault and its position among them, if any.
    fn take(&self, n: usize) -> Option<(Fault, usize)> {
        let before = self.bytes.fetch_add(n as u64, Relaxed);
        let (fault, at) = self.breaks.filter(|(_, at)| (before..before + n as u64).contains(at))?;
        self.has_broken.store(true, Relaxed);
        Some((fault, (at - before) as usize))
    }
}

/// One side of a connection.
pub struct Faulty {
    pub socket: TcpStream,
    pub written: Arc<Flow>,
    pub read: Arc<Flow>,
}

impl Faulty {
    fn cut(&self) -> io::Error {
        let _ = self.socket.shutdown(Shutdown::Both);
        io::ErrorKind::ConnectionReset.into()
    }
}

fn stall() -> ! {
    loop {
        std::thread::park();
    }
}

const DELAY: Duration = Duration::from_millis(200);

impl Write for Faulty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some((fault, at)) = self.written.take(bytes.len()) else {
            self.socket.write_all(bytes)?;
            return Ok(bytes.len());
        };
        let (first, rest) = bytes.split_at(at);
        let mut flipped = rest.to_vec();
        flipped[0] ^= 1 << (at % 8);
        self.socket.write_all(first)?;
        match fault {
            Fault::Cuts => return Err(self.cut()),
            Fault::Stalls => stall(),
            Fault::FlipsABit => self.socket.write_all(&flipped)?,
            Fault::DropsBytes => {}
            Fault::DoublesBytes => self.socket.write_all(&rest.repeat(2))?,
            Fault::Delays => {
                std::thread::sleep(DELAY);
                self.socket.write_all(rest)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Read for Faulty {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.socket.read(into)?;
        let Some((fault, at)) = self.read.take(n) else { return Ok(n) };
        match fault {
            Fault::Cuts => return Err(self.cut()),
            Fault::Stalls => stall(),
            // A read cannot insert bytes, so a bit flip stands in for doubled bytes.
            Fault::FlipsABit | Fault::DoublesBytes => into[at] ^= 1 << (at % 8),
            Fault::DropsBytes if at == 0 => return self.read(into),
            Fault::DropsBytes => return Ok(at),
            Fault::Delays => std::thread::sleep(DELAY),
        }
        Ok(n)
    }
}

impl Stream for Faulty {
    fn try_clone(&self) -> io::Result<Self> {
        let (written, read) = (Arc::clone(&self.written), Arc::clone(&self.read));
        Ok(Faulty { socket: self.socket.try_clone()?, written, read })
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(nonblocking)
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }
}
