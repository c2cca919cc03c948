//! The connection setup of a run: each process connects to all with a smaller number, and both sides prove that they know the
//! secret before either reads anything else.
//!
//! ```text
//! connects → listens     hello: version, purpose, sender, receiver, number of processes, digest, nonce
//! listens → connects     accepted or refused, its nonce
//! connects → listens     proof
//! listens → connects     accepted or refused, its proof
//! ```
//!
//! First each process connects to process 0, for [`control`](crate::control). Then process 0 sends the session, random bytes. The
//! data connections use it as their digest, to reject stale processes. An unauthenticated peer receives at most verdicts and a
//! nonce, and blocks nobody: each connection has a thread and a deadline, and if too many are pending, the oldest is closed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gradus_io::exit::{self, Exit};
use gradus_io::interrupt;
use gradus_io::numbers::count_of;

use crate::plan::MOST_PROCESSES;
use crate::secret::{Nonce, Proof, Secret, digest, nonce};

const MAGIC: [u8; 8] = *b"gradus \n";
/// The version of the protocol: of the handshake and of all messages.
pub const VERSION: u32 = 1;
/// The length of a hello, in bytes.
const HELLO: usize = 83;
/// The longest wait for the other side in a handshake.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum number of pending connections.
const WAITING: usize = 32;
/// The interval at which a request to stop is checked.
const SOON: Duration = Duration::from_millis(100);
/// The pause between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(50);

/// The addresses of the processes of a run, and the number of this one.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The address of each process, as `host:port`.
    pub addresses: Vec<String>,
    /// The number of this process.
    pub me: usize,
}

/// The reason why the connection setup failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum RendezvousError {
    #[error("cannot listen on {address} ({source}); it must be an address of this machine, with a free port")]
    Listen { address: String, source: io::Error },
    #[error("process {process} at {address} was not reached within {} s ({problem}); start it, or give a longer --wait", .within.as_secs_f64())]
    Unreached { process: usize, address: String, within: Duration, problem: String },
    #[error(
        "process {process} at {address} ended before all processes had connected ({problem}): see its error message; start all again"
    )]
    Gone { process: usize, address: String, problem: io::Error },
    #[error("process {process} at {address} refused: {refusal}")]
    Refused { process: usize, address: String, refusal: Refusal },
    #[error("these processes did not connect within {} s: {}; start them, or give a longer --wait{}{}", .within.as_secs_f64(), list(.missing), strangers(*.refused), unheard(.problem))]
    Missing { missing: Vec<usize>, within: Duration, refused: usize, problem: Option<io::Error> },
    #[error("interrupted while waiting for other processes")]
    Interrupted,
    #[error("a connection failed: {0}")]
    Connection(#[from] io::Error),
}

impl Exit for RendezvousError {
    fn exit_code(&self) -> u8 {
        if matches!(self, RendezvousError::Interrupted) { exit::INTERRUPTED } else { exit::FAILED }
    }
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn strangers(refused: usize) -> String {
    let (others, were) = (count_of(refused, "connection"), if refused == 1 { "was" } else { "were" });
    let why = "by another version of gradus, with another secret or another list of hosts, or by another program";
    if refused > 0 { format!("; {others} {were} rejected: made {why}") } else { String::new() }
}

fn unheard(problem: &Option<io::Error>) -> String {
    problem.as_ref().map_or(String::new(), |e| format!("; connections could not be accepted: {e}"))
}

/// The reason why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// The protocol versions differ.
    Version = 1,
    /// The lists of hosts or the sessions differ.
    Digest = 2,
    /// The sender or receiver is not the expected process, or the sender is connected already.
    Number = 3,
    /// The peer does not know the secret.
    Secret = 4,
}

impl Refusal {
    const ALL: [Refusal; 4] = [Refusal::Version, Refusal::Digest, Refusal::Number, Refusal::Secret];
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Version => "it is another version of gradus; use one version on all machines",
            Refusal::Digest => "it belongs to another run, or has another list of hosts: give the same --hosts to all",
            Refusal::Number => "another process with this number is connected, or its own number differs: check --process",
            Refusal::Secret => "it has another secret: give the same --secret to all",
        })
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Purpose {
    Control = 1,
    Data = 2,
}

/// The authenticated connections of this process.
#[derive(Debug)]
pub struct Met {
    /// The control connections: one to process 0, or those of process 0 to all others.
    pub control: Vec<(usize, TcpStream)>,
    /// The data connections, by process; `None` for this one.
    pub data: Vec<Option<TcpStream>>,
    /// Random bytes shared by all processes of the run.
    pub session: [u8; 32],
}

/// The first message of a handshake.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hello {
    version: u32,
    purpose: u8,
    from: u16,
    to: u16,
    processes: u16,
    digest: [u8; 32],
    nonce: Nonce,
}

impl Hello {
    fn to_bytes(self) -> [u8; HELLO] {
        let mut bytes = Vec::with_capacity(HELLO);
        bytes.extend(MAGIC);
        bytes.extend(self.version.to_le_bytes());
        bytes.push(self.purpose);
        bytes.extend([self.from, self.to, self.processes].map(u16::to_le_bytes).as_flattened());
        bytes.extend(self.digest);
        bytes.extend(self.nonce);
        bytes.try_into().expect("as many bytes")
    }

    fn from_bytes(bytes: &[u8; HELLO]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (&purpose, rest) = rest.split_first()?;
        let (numbers, rest) = rest.split_first_chunk::<6>()?;
        let (digest, nonce) = rest.split_first_chunk::<32>()?;
        let [from, to, processes] = *numbers.as_chunks::<2>().0 else { unreachable!("three numbers") };
        let [from, to, processes] = [from, to, processes].map(u16::from_le_bytes);
        Some(Hello {
            version: u32::from_le_bytes(*version),
            purpose,
            from,
            to,
            processes,
            digest: *digest,
            nonce: nonce.try_into().ok()?,
        })
    }
}

/// The connection setup of one process.
struct Meeting<'h> {
    hosts: &'h Hosts,
    secret: &'h Secret,
    within: Duration,
    until: Instant,
}

/// Connects to all other processes.
///
/// # Errors
/// Returns an error if a process does not connect before `within` has passed, or belongs to another run.
///
/// # Panics
/// Panics if there are more than [`MOST_PROCESSES`] addresses, or if `hosts.me` is not the index of one.
pub fn meet(hosts: &Hosts, secret: &Secret, within: Duration) -> Result<Met, RendezvousError> {
    let (me, n) = (hosts.me, hosts.addresses.len());
    assert!(me < n && n <= MOST_PROCESSES, "process {me} of {n}");
    let meeting = Meeting { hosts, secret, within, until: Instant::now() + within };
    let listener = if me + 1 < n { Some(meeting.listen()?) } else { None };
    let own = digest(std::iter::once(b"hosts".as_slice()).chain(hosts.addresses.iter().map(String::as_bytes)));
    let mut data: Vec<Option<TcpStream>> = (0..n).map(|_| None).collect();
    if me == 0 {
        let Some(listener) = listener else { return Ok(Met { control: vec![], data, session: nonce()? }) };
        let mut control = meeting.admit(&listener, Purpose::Control, own)?;
        let session = nonce()?;
        for (_, socket) in &mut control {
            socket.write_all(&session)?;
        }
        for (number, socket) in meeting.admit(&listener, Purpose::Data, session)? {
            data[number] = Some(socket);
        }
        return Ok(Met { control, data, session });
    }
    let mut control = meeting.connect(0, Purpose::Control, own)?;
    let mut session = [0; 32];
    let missing = |e: io::Error| {
        if interrupt::requested() {
            return RendezvousError::Interrupted;
        }
        let address = hosts.addresses[0].clone();
        match e.kind() {
            io::ErrorKind::TimedOut => {
                RendezvousError::Unreached { process: 0, address, within, problem: "it is still waiting for others".into() }
            }
            _ => RendezvousError::Gone { process: 0, address, problem: e },
        }
    };
    read(&mut control, &mut session, Instant::now() + meeting.left()).map_err(missing)?;
    let control = ready(control)?;
    for (number, socket) in data.iter_mut().enumerate().take(me) {
        *socket = Some(meeting.connect(number, Purpose::Data, session)?);
    }
    if let Some(listener) = listener {
        for (number, socket) in meeting.admit(&listener, Purpose::Data, session)? {
            data[number] = Some(socket);
        }
    }
    Ok(Met { control: vec![(0, control)], data, session })
}

impl Meeting<'_> {
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
    }

    /// Listens at the address of this process, and retries for a while if it is in use: the socket of a process that has just
    /// ended may still hold it.
    fn listen(&self) -> Result<TcpListener, RendezvousError> {
        let address = &self.hosts.addresses[self.hosts.me];
        let until = Instant::now() + self.left().min(PATIENCE);
        let listener = loop {
            unless_interrupted()?;
            match TcpListener::bind(address) {
                Err(e) if e.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => std::thread::sleep(AGAIN),
                listener => break listener,
            }
        };
        let listener = listener.and_then(|it| it.set_nonblocking(true).map(|()| it));
        listener.map_err(|source| RendezvousError::Listen { address: address.clone(), source })
    }

    /// Connects to another process, with retries until the deadline.
    fn connect(&self, to: usize, purpose: Purpose, digest: [u8; 32]) -> Result<TcpStream, RendezvousError> {
        let address = &self.hosts.addresses[to];
        loop {
            unless_interrupted()?;
            let problem = match self.try_connect(to, purpose, digest) {
                Ok(socket) => return Ok(socket),
                // A data connection retries: a process left over from an earlier run may still listen there.
                Err(Failure::Refused(refusal)) if purpose == Purpose::Control || Instant::now() >= self.until => {
                    return Err(RendezvousError::Refused { process: to, address: address.clone(), refusal });
                }
                Err(Failure::Refused(refusal)) => refusal.to_string(),
                Err(Failure::Io(e)) => e.to_string(),
            };
            if Instant::now() >= self.until {
                return Err(RendezvousError::Unreached { process: to, address: address.clone(), within: self.within, problem });
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn try_connect(&self, to: usize, purpose: Purpose, digest: [u8; 32]) -> Result<TcpStream, Failure> {
        let patience = self.left().min(PATIENCE);
        let (until, mut socket) = (Instant::now() + patience, dial(&self.hosts.addresses[to], patience)?);
        let [from, to, processes] = [self.hosts.me, to, self.hosts.addresses.len()].map(|n| n as u16);
        let hello = Hello { version: VERSION, purpose: purpose as u8, from, to, processes, digest, nonce: nonce()? };
        let said = hello.to_bytes();
        socket.write_all(&said)?;
        verdict(&mut socket, until)?;
        let mut theirs = Nonce::default();
        read(&mut socket, &mut theirs, until)?;
        socket.write_all(&self.secret.prove("connects", &said, &theirs))?;
        verdict(&mut socket, until)?;
        let mut proof = Proof::default();
        read(&mut socket, &mut proof, until)?;
        let proven = self.secret.is_proven(&proof, "listens", &said, &hello.nonce);
        if proven { Ok(ready(socket)?) } else { Err(Failure::Refused(Refusal::Secret)) }
    }

    /// Accepts one connection from each process with a larger number.
    fn admit(
        &self,
        listener: &TcpListener,
        purpose: Purpose,
        digest: [u8; 32],
    ) -> Result<Vec<(usize, TcpStream)>, RendezvousError> {
        let Hosts { addresses, me } = self.hosts;
        let door = Arc::new(Door {
            secret: self.secret.clone(),
            me: *me as u16,
            processes: addresses.len() as u16,
            purpose,
            digest,
            inside: Mutex::new(Some(BTreeMap::new())),
            refused: AtomicUsize::new(0),
        });
        let (mut waiting, mut problem) = (VecDeque::new(), None);
        loop {
            unless_interrupted()?;
            let is_idle = match listener.accept() {
                Ok((socket, _)) => {
                    knock(socket, &door, &mut waiting);
                    false
                }
                Err(e) => {
                    // No connection is pending, or the peer has gone; any other error may be temporary.
                    let is_empty = matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted);
                    problem = problem.or((!is_empty).then_some(e));
                    true
                }
            };
            let missing = door.missing();
            if missing.is_empty() {
                return Ok(door.close());
            }
            if Instant::now() >= self.until {
                let refused = door.refused.load(Ordering::Relaxed);
                return Err(RendezvousError::Missing { missing, within: self.within, refused, problem });
            }
            if is_idle {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// The reason why one attempt to connect failed.
enum Failure {
    Refused(Refusal),
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Failure::Io(e)
    }
}

/// Reads whether the other side accepts or refuses this connection.
fn verdict(socket: &mut TcpStream, until: Instant) -> Result<(), Failure> {
    let mut verdict = [0];
    read(socket, &mut verdict, until)?;
    match Refusal::ALL.into_iter().find(|refusal| *refusal as u8 == verdict[0]) {
        Some(refusal) => Err(Failure::Refused(refusal)),
        None if verdict[0] == 0 => Ok(()),
        None => Err(io::Error::other("another program listens there").into()),
    }
}

fn dial(address: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name of the host has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(socket) => {
                patient(&socket)?;
                return Ok(socket);
            }
            Err(e) => failure = e,
        }
    }
    Err(failure)
}

fn patient(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))
}

/// Removes the time limits of the handshake: afterwards a connection may be silent.
fn ready(socket: TcpStream) -> io::Result<TcpStream> {
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)?;
    Ok(socket)
}

/// A pending connection, and whether its outcome is settled.
type Waiting = (TcpStream, Arc<AtomicBool>);

/// Starts the handshake of an accepted connection. If too many are pending, closes the oldest.
fn knock(socket: TcpStream, door: &Arc<Door>, waiting: &mut VecDeque<Waiting>) {
    waiting.retain(|(_, settled)| !settled.load(Ordering::Acquire));
    if waiting.len() >= WAITING
        && let Some((oldest, settled)) = waiting.pop_front()
        && !settled.swap(true, Ordering::AcqRel)
    {
        let _ = oldest.shutdown(std::net::Shutdown::Both);
    }
    let (Ok(handle), settled) = (socket.try_clone(), Arc::<AtomicBool>::default()) else { return };
    waiting.push_back((handle, Arc::clone(&settled)));
    let door = Arc::clone(door);
    let work = move || {
        if door.open(socket, &settled).is_err() {
            door.refused.fetch_add(1, Ordering::Relaxed);
        }
        settled.store(true, Ordering::Release);
    };
    // If no thread can be started, the connection is dropped; a process of this run retries.
    let _ = std::thread::Builder::new().name("gradus:door".into()).stack_size(1 << 17).spawn(work);
}

/// The listening side of the handshake.
struct Door {
    secret: Secret,
    me: u16,
    processes: u16,
    purpose: Purpose,
    digest: [u8; 32],
    /// The authenticated connections by process; `None` after [`close`](Door::close).
    inside: Mutex<Option<BTreeMap<u16, TcpStream>>>,
    /// The number of refused connections.
    refused: AtomicUsize,
}

impl Door {
    fn inside(&self) -> MutexGuard<'_, Option<BTreeMap<u16, TcpStream>>> {
        self.inside.lock().expect("nothing here panics")
    }

    /// Returns the processes that are not connected yet.
    fn missing(&self) -> Vec<usize> {
        let inside = self.inside();
        let is_in = |number: &u16| inside.as_ref().is_some_and(|inside| inside.contains_key(number));
        (self.me + 1..self.processes).filter(|number| !is_in(number)).map(usize::from).collect()
    }

    /// Refuses all further connections and returns the authenticated ones, by process.
    fn close(&self) -> Vec<(usize, TcpStream)> {
        self.inside().take().into_iter().flatten().map(|(number, socket)| (number.into(), socket)).collect()
    }

    /// Runs the handshake of a connection, and keeps the connection if the peer proves that it belongs to the run.
    fn open(&self, mut socket: TcpStream, settled: &AtomicBool) -> Result<(), Failure> {
        patient(&socket)?;
        let mut said = [0; HELLO];
        read(&mut socket, &mut said, Instant::now() + PATIENCE)?;
        let hello = Hello::from_bytes(&said).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        if let Some(refusal) = self.refusal(&hello) {
            return refuse(&mut socket, refusal);
        }
        let own = nonce()?;
        socket.write_all(&[&[0][..], &own].concat())?;
        let mut proof = Proof::default();
        read(&mut socket, &mut proof, Instant::now() + PATIENCE)?;
        if !self.secret.is_proven(&proof, "connects", &said, &own) {
            return refuse(&mut socket, Refusal::Secret);
        }
        // From here on `knock` no longer closes this connection to make room.
        let (mut inside, is_closed) = (self.inside(), settled.swap(true, Ordering::AcqRel));
        let Some(inside) = inside.as_mut().filter(|_| !is_closed) else { return Err(io::Error::other("too late").into()) };
        if inside.get(&hello.from).is_some_and(is_open) {
            return refuse(&mut socket, Refusal::Number);
        }
        socket.write_all(&[&[0][..], &self.secret.prove("listens", &said, &hello.nonce)].concat())?;
        inside.insert(hello.from, ready(socket)?);
        Ok(())
    }

    fn refusal(&self, hello: &Hello) -> Option<Refusal> {
        let Hello { version, purpose, from, to, processes, digest, .. } = *hello;
        if version != VERSION {
            Some(Refusal::Version)
        } else if processes != self.processes || purpose != self.purpose as u8 || digest != self.digest {
            Some(Refusal::Digest)
        } else if to != self.me || from <= self.me || from >= self.processes {
            Some(Refusal::Number)
        } else {
            None
        }
    }
}

fn refuse(socket: &mut TcpStream, refusal: Refusal) -> Result<(), Failure> {
    socket.write_all(&[refusal as u8])?;
    Err(Failure::Refused(refusal))
}

/// Returns whether the other side is still connected. If not, a restarted process may take its place.
fn is_open(socket: &TcpStream) -> bool {
    let peek = || {
        socket.set_nonblocking(true)?;
        let peeked = socket.peek(&mut [0]);
        socket.set_nonblocking(false)?;
        peeked
    };
    match peek() {
        Ok(bytes) => bytes > 0,
        Err(e) => e.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Returns an error if the user has requested a stop.
fn unless_interrupted() -> Result<(), RendezvousError> {
    if interrupt::requested() { Err(RendezvousError::Interrupted) } else { Ok(()) }
}

/// Fills `bytes` before `until`, even if they arrive one at a time.
fn read(socket: &mut TcpStream, bytes: &mut [u8], until: Instant) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
        }
        if interrupt::requested() {
            return Err(io::Error::other("interrupted"));
        }
        socket.set_read_timeout(Some(left.min(SOON)))?;
        let n = match socket.read(rest) {
            // The next iteration checks the deadline.
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => continue,
            read => read?,
        };
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        rest = &mut rest[n..];
    }
    Ok(())
}

/// Returns a free local address for each process. Never returns an address twice: its process may not listen there yet.
///
/// # Errors
/// Returns an error if the system has no free port.
pub fn local_addresses(processes: usize) -> io::Result<Vec<String>> {
    static RETURNED: Mutex<BTreeSet<SocketAddr>> = Mutex::new(BTreeSet::new());
    let mut returned = RETURNED.lock().expect("no panic while the lock is held");
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    while addresses.len() < processes {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        listeners.push(listener);
        if returned.insert(address) {
            addresses.push(address.to_string());
        }
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests;
