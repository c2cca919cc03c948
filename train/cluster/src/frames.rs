//! Checked frames between a socket and the engine, so that the engine receives only verified bytes.
//!
//! ```text
//! frame     length, 4 bytes · CRC-32 of (number of the frame ‖ contents), 4 bytes · contents, at most 1 MiB
//! contents  the engine's messages: a header of six numbers, then as many bytes as its length states
//! ```
//!
//! The engine trusts lengths and process numbers from the wire, and panics if a connection ends. So invalid data never reaches
//! it: the fault is recorded and the engine's thread is parked for good. The recorded fault then ends the process.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use timely_communication::allocator::zero_copy::stream::Stream;

use crate::fault::Fault;
use crate::message::{Head, MOST_BYTES};

/// The maximum length of a frame's contents, in bytes.
const MOST_FRAME: usize = 1 << 20;
/// The length of the header of an engine message, in bytes.
const HEADER: usize = 48;

/// This side of a connection to another process.
pub struct Frames<S> {
    socket: S,
    fault: Fault,
    /// The number of this process.
    me: usize,
    /// The number of the other process.
    peer: usize,
    /// The number of frames written.
    written: u64,
    /// The number of frames read.
    read: u64,
    /// The contents of the last frame.
    contents: Vec<u8>,
    /// The number of bytes of `contents` that the engine has read.
    taken: usize,
    messages: Messages,
}

impl<S: Stream> Frames<S> {
    /// Creates the frames of a new connection between this process and another.
    pub fn new(socket: S, me: usize, peer: usize, fault: Fault) -> Self {
        let messages = Messages { me: me as u64, peer: peer as u64, ..Messages::default() };
        Frames { socket, fault, me, peer, written: 0, read: 0, contents: Vec::new(), taken: 0, messages }
    }

    /// Records a fault and parks the thread for good: the engine would panic on an error.
    fn park(&self, problem: String) -> ! {
        self.fault.suspect(problem);
        loop {
            std::thread::park();
        }
    }

    fn write_frame(&mut self, contents: &[u8]) -> io::Result<()> {
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(contents.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&checksum(self.written, contents).to_le_bytes());
        self.written += 1;
        self.socket.write_all(&head)?;
        self.socket.write_all(contents)
    }

    /// Reads the next frame. Returns `None` if the connection has ended after the engine's last message.
    fn read_frame(&mut self) -> Result<Option<()>, String> {
        let peer = self.peer;
        let lost = |e: io::Error| match e.kind() {
            io::ErrorKind::UnexpectedEof => format!("process {peer} closed the connection"),
            _ => format!("the connection to process {peer} broke ({e})"),
        };
        let mut head = [0; 8];
        if self.socket.read(&mut head[..1]).map_err(lost)? == 0 {
            let ends = self.messages.is_over();
            if ends {
                self.fault.hears_all(peer);
                return Ok(None);
            }
            return Err(format!("process {peer} closed the connection"));
        }
        self.socket.read_exact(&mut head[1..]).map_err(lost)?;
        let [length, sum] = *head.as_chunks::<4>().0 else { unreachable!("two words") };
        let (length, sum) = (u32::from_le_bytes(length) as usize, u32::from_le_bytes(sum));
        if !(1..=MOST_FRAME).contains(&length) {
            return Err(format!("process {peer} sent a frame of {length} bytes; expected 1 to {MOST_FRAME}"));
        }
        self.contents.resize(length, 0);
        self.socket.read_exact(&mut self.contents).map_err(lost)?;
        if checksum(self.read, &self.contents) != sum {
            return Err(format!("frame {} from process {peer} was damaged in transit: its checksum does not match", self.read));
        }
        self.read += 1;
        self.messages.check(&self.contents).map_err(|problem| format!("process {peer} sent invalid data: {problem}"))?;
        self.taken = 0;
        self.fault.hears(peer);
        Ok(Some(()))
    }
}

fn checksum(number: u64, contents: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&number.to_le_bytes());
    sum.update(contents);
    sum.finalize()
}

impl<S: Stream> Read for Frames<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.contents.len() {
            match self.read_frame() {
                Ok(Some(())) => {}
                Ok(None) => return Ok(0),
                Err(problem) => self.park(problem),
            }
        }
        let n = into.len().min(self.contents.len() - self.taken);
        into[..n].copy_from_slice(&self.contents[self.taken..][..n]);
        self.taken += n;
        Ok(n)
    }
}

impl<S: Stream> Write for Frames<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(MOST_FRAME);
        if n > 0
            && let Err(e) = self.write_frame(&bytes[..n])
        {
            self.park(format!("the connection to process {} broke ({e})", self.peer));
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl<S: Stream> Stream for Frames<S> {
    /// Returns another handle: the engine writes to one and reads from the other.
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Frames::new(self.socket.try_clone()?, self.me, self.peer, self.fault.clone()))
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(nonblocking)
    }

    /// Closes the connection. Ignores errors: the other side may have closed it already.
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let _ = self.socket.shutdown(how);
        Ok(())
    }
}

/// The parser of the engine's messages, which rejects any that would make the engine panic.
#[derive(Default)]
struct Messages {
    me: u64,
    peer: u64,
    /// The part of a header received so far.
    header: Vec<u8>,
    /// The number of bytes of the current message that are missing.
    rest: usize,
    /// Whether the header that ends a stream has arrived.
    is_last: bool,
}

impl Messages {
    /// Returns whether the stream has ended with a whole message.
    fn is_over(&self) -> bool {
        self.is_last && self.rest == 0 && self.header.is_empty()
    }

    /// Parses the next bytes. Returns an error that describes the first invalid message.
    fn check(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            if self.is_last {
                return Err("a message after the last".into());
            }
            let skipped = self.rest.min(bytes.len());
            (self.rest, bytes) = (self.rest - skipped, &bytes[skipped..]);
            let (taken, left) = bytes.split_at(bytes.len().min(HEADER - self.header.len()));
            self.header.extend(taken);
            bytes = left;
            if self.header.len() == HEADER {
                self.begin_message()?;
            }
        }
        Ok(())
    }

    /// Checks a header: channel, sender, first and last receiver, length, number.
    fn begin_message(&mut self) -> Result<(), String> {
        let words: Vec<u64> = self.header.as_chunks::<8>().0.iter().map(|&word| u64::from_be_bytes(word)).collect();
        self.header.clear();
        let Messages { me, peer, .. } = *self;
        let expected = [peer, peer, me, me + 1];
        let length = words[4];
        self.is_last = words.iter().all(|&word| word == 0);
        self.rest = usize::try_from(length).unwrap_or(usize::MAX);
        let fits = words[..4] == expected && (Head::BYTES..=Head::BYTES + MOST_BYTES).contains(&self.rest);
        if fits || self.is_last {
            return Ok(());
        }
        Err(format!("a message of {length} bytes for {:?}; expected at most {MOST_BYTES} for {expected:?}", &words[..4]))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gradus_tests::loopback;

    use super::*;

    /// Returns a message of process 2 to process 5.
    fn message(length: usize) -> Vec<u8> {
        let header = [2, 2, 5, 6, length as u64, 0].map(u64::to_be_bytes);
        [header.as_flattened(), &vec![7; length]].concat()
    }

    /// Returns the suspicions of process 5 after it receives these bytes from process 2.
    fn noted(bytes: &[u8]) -> String {
        let (mut near, far) = loopback();
        let fault = Fault::default();
        let mut frames = Frames::new(far, 5, 2, fault.clone());
        near.write_all(bytes).unwrap();
        drop(near);
        std::thread::spawn(move || frames.read_to_end(&mut Vec::new()));
        fault.wait(Duration::from_secs(10));
        fault.suspicions().concat()
    }

    fn frame(number: u64, contents: &[u8]) -> Vec<u8> {
        let head = [contents.len() as u32, checksum(number, contents)].map(u32::to_le_bytes);
        [head.as_flattened(), contents].concat()
    }

    #[test]
    fn written_messages_are_read_in_portions_of_any_size() {
        let (near, far) = loopback();
        let (mut near, mut far) = (Frames::new(near, 2, 5, Fault::default()), Frames::new(far, 5, 2, Fault::default()));
        let all = [message(100), message(MOST_BYTES + 32), message(32), vec![0; HEADER]].concat();
        let sent = all.clone();
        let writer = std::thread::spawn(move || {
            let (mut rest, mut n) = (&sent[..], 1);
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(n));
                near.write_all(now).unwrap();
                (rest, n) = (later, 3 * n);
            }
            assert_eq!(near.write(&[]).unwrap(), 0, "nothing is no frame");
            near.shutdown(Shutdown::Write).unwrap();
            near
        });
        let mut read = Vec::new();
        far.read_to_end(&mut read).unwrap();
        let _open = writer.join().unwrap();
        assert!(read == all);
    }

    /// A socket that counts the calls of its methods.
    #[derive(Clone, Default)]
    struct Counting(std::sync::Arc<[std::sync::atomic::AtomicUsize; 3]>);

    impl Counting {
        fn count(&self, what: usize) -> io::Result<()> {
            self.0[what].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }
    }

    impl Read for Counting {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
    }

    impl Write for Counting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            self.count(0)
        }
    }

    impl Stream for Counting {
        fn try_clone(&self) -> io::Result<Self> {
            Ok(self.clone())
        }
        fn set_nonblocking(&self, _: bool) -> io::Result<()> {
            self.count(1)
        }
        fn shutdown(&self, _: Shutdown) -> io::Result<()> {
            self.count(2)?;
            Err(io::ErrorKind::NotConnected.into())
        }
    }

    #[test]
    fn socket_operations_of_the_engine_are_forwarded() {
        let socket = Counting::default();
        let mut frames = Frames::new(socket.clone(), 2, 5, Fault::default());
        frames.flush().unwrap();
        frames.set_nonblocking(true).unwrap();
        frames.shutdown(Shutdown::Both).expect("the other side may have gone");
        assert_eq!(socket.0.each_ref().map(|n| n.load(std::sync::atomic::Ordering::Relaxed)), [1, 1, 1]);
    }

    #[test]
    fn damaged_frames_are_rejected() {
        let sound = frame(0, &message(40));
        assert_eq!(noted(&sound), "process 2 closed the connection");
        assert_eq!(noted(&sound[..20]), "process 2 closed the connection");
        for at in 4..sound.len() {
            let mut flipped = sound.clone();
            flipped[at] ^= 1 << (at % 8);
            assert_eq!(noted(&flipped), "frame 0 from process 2 was damaged in transit: its checksum does not match");
        }
        assert!(noted(&[sound.clone(), sound.clone()].concat()).starts_with("frame 1 from process 2 was damaged"), "twice");
        assert!(noted(&frame(1, &message(40))).starts_with("frame 0 from process 2 was damaged"), "one is missing");
        assert_eq!(noted(&[0xff; 30]), "process 2 sent a frame of 4294967295 bytes; expected 1 to 1048576");
        assert_eq!(noted(&[0; 8]), "process 2 sent a frame of 0 bytes; expected 1 to 1048576");
    }

    #[test]
    fn messages_with_invalid_headers_are_rejected() {
        let words = |words: [u64; 6]| noted(&frame(0, words.map(u64::to_be_bytes).as_flattened()));
        assert_eq!(words([2, 2, 5, 6, 40, 0]), "process 2 closed the connection");
        for wrong in [
            [3, 2, 5, 6, 40, 0],
            [2, 3, 5, 6, 40, 0],
            [2, 2, 4, 6, 40, 0],
            [2, 2, 5, 7, 40, 0],
            [2, 2, 5, 6, 31, 0],
            [2, 2, 5, 6, 0, 0],
            [0, 0, 0, 0, 0, 1],
            [2, 2, 5, 6, MOST_BYTES as u64 + 33, 0],
            [2, 2, 5, 6, u64::MAX, 0],
        ] {
            assert!(words(wrong).starts_with("process 2 sent invalid data: a message of "), "{wrong:?}");
        }
        let after = [vec![0; HEADER], message(40)].concat();
        assert_eq!(noted(&frame(0, &after)), "process 2 sent invalid data: a message after the last");
    }
}
