//! How the processes of a run find one another: each connects to all with a smaller number, and both sides prove that they know the
//! secret before anything else is read.
//!
//! ```text
//! connects → listens     hello: version, purpose, who, to whom, of how many, digest, nonce
//! listens → connects     a verdict, its nonce
//! connects → listens     proof
//! listens → connects     a verdict, its proof
//! ```
//!
//! First each connects to process 0, for [`control`](crate::control). Once all have, process 0 sends the session, random bytes; with
//! it as digest come the connections for data, so that who is left of an earlier run is refused. A stranger gets a nonce at most,
//! and holds nothing up: each connection has a thread and a deadline, and where too many wait, the oldest is closed.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use crate::plan::MOST_PROCESSES;
use crate::secret::{Nonce, Proof, Secret, digest, nonce};

const MAGIC: [u8; 8] = *b"gradus \n";
/// Of all that travels between processes.
pub const VERSION: u32 = 1;
/// Bytes of a hello.
const HELLO: usize = 83;
/// How long one side waits for the other in a handshake.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that may wait to be proven.
const WAITING: usize = 32;
/// Between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(50);

/// Where the processes of a run listen, and which of them this one is.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// By number, as `host:port`.
    pub addresses: Vec<String>,
    /// The number of this process.
    pub me: usize,
}

/// Why the processes did not find one another.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum RendezvousError {
    #[error("cannot listen on {address} ({source}); it must be an address of this machine, with a free port")]
    Listen { address: String, source: io::Error },
    #[error("process {process} at {address} was not reached within {} s ({problem}); start it, or give a longer --wait", .within.as_secs())]
    Unreached { process: usize, address: String, within: Duration, problem: String },
    #[error("process {process} at {address} refused: {refusal}")]
    Refused { process: usize, address: String, refusal: Refusal },
    #[error("these processes did not come within {} s: {}; start them, or give a longer --wait{}", .within.as_secs(), list(.missing), strangers(*.refused))]
    Missing { missing: Vec<usize>, within: Duration, refused: usize },
    #[error("a connection failed: {0}")]
    Connection(#[from] io::Error),
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn strangers(refused: usize) -> String {
    let few = "others came and were refused: of another version, with another secret or another list of hosts";
    if refused > 0 { format!(" ({refused} {few})") } else { String::new() }
}

/// Why a process is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// Versions differ.
    Version = 1,
    /// Another list of hosts, or another session.
    Digest = 2,
    /// It is not the process that is expected there.
    Number = 3,
    /// It does not know the secret.
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
            Refusal::Number => "another process with this number is there, or it has another number itself: check --process",
            Refusal::Secret => "it has another secret: give the same --secret to all",
        })
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Purpose {
    Control = 1,
    Data = 2,
}

/// The connections of this process, proven.
#[derive(Debug)]
pub struct Met {
    /// To process 0, or of process 0 to all others.
    pub control: Vec<(usize, TcpStream)>,
    /// By number; none to itself.
    pub data: Vec<Option<TcpStream>>,
    /// Random bytes that all share.
    pub session: [u8; 32],
}

/// What one side says first.
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

/// One process on its way to the others.
struct Meeting<'h> {
    hosts: &'h Hosts,
    secret: &'h Secret,
    within: Duration,
    until: Instant,
}

/// Meets all other processes.
///
/// # Errors
/// Some are not there in time, or belong to another run.
///
/// # Panics
/// With no processes, too many, or a number that is none of theirs.
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
    control.set_read_timeout(Some(meeting.left()))?;
    let missing = |e: io::Error| RendezvousError::Unreached {
        process: 0,
        address: hosts.addresses[0].clone(),
        within,
        problem: format!("it still waits for others: {e}"),
    };
    control.read_exact(&mut session).map_err(missing)?;
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

    fn listen(&self) -> Result<TcpListener, RendezvousError> {
        let address = &self.hosts.addresses[self.hosts.me];
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        listen().map_err(|source| RendezvousError::Listen { address: address.clone(), source })
    }

    /// Connects to another process; again and again, while it is not there yet.
    fn connect(&self, to: usize, purpose: Purpose, digest: [u8; 32]) -> Result<TcpStream, RendezvousError> {
        let address = &self.hosts.addresses[to];
        loop {
            let problem = match self.try_connect(to, purpose, digest) {
                Ok(socket) => return Ok(socket),
                // Of data: a leftover of an earlier run may still be listening there.
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
        let mut socket = dial(&self.hosts.addresses[to], self.left().min(PATIENCE))?;
        let [from, to, processes] = [self.hosts.me, to, self.hosts.addresses.len()].map(|n| n as u16);
        let hello = Hello { version: VERSION, purpose: purpose as u8, from, to, processes, digest, nonce: nonce()? };
        let said = hello.to_bytes();
        socket.write_all(&said)?;
        verdict(&mut socket)?;
        let mut theirs = Nonce::default();
        socket.read_exact(&mut theirs)?;
        socket.write_all(&self.secret.prove("connects", &said, &theirs))?;
        verdict(&mut socket)?;
        let mut proof = Proof::default();
        socket.read_exact(&mut proof)?;
        let proven = self.secret.is_proven(&proof, "listens", &said, &hello.nonce);
        if proven { Ok(ready(socket)?) } else { Err(Failure::Refused(Refusal::Secret)) }
    }

    /// Lets in all others that are to connect to this process, each once.
    fn admit(
        &self,
        listener: &TcpListener,
        purpose: Purpose,
        digest: [u8; 32],
    ) -> Result<Vec<(usize, TcpStream)>, RendezvousError> {
        let Hosts { addresses, me } = self.hosts;
        let mut missing: Vec<usize> = (me + 1..addresses.len()).collect();
        let door =
            Arc::new(Door { secret: self.secret.clone(), me: *me as u16, processes: addresses.len() as u16, purpose, digest });
        let (proven, came): (Sender<Knocked>, Receiver<Knocked>) = mpsc::channel();
        let (mut admitted, mut waiting, mut refused) = (Vec::new(), VecDeque::new(), 0);
        while !missing.is_empty() {
            if Instant::now() >= self.until {
                return Err(RendezvousError::Missing { missing, within: self.within, refused });
            }
            let is_idle = match listener.accept() {
                Ok((socket, _)) => {
                    knock(socket, &door, &proven, &mut waiting);
                    false
                }
                Err(_) => true, // nobody, or who has gone again
            };
            while let Ok(result) = came.try_recv() {
                match result {
                    Ok((number, socket)) if missing.contains(&number) => {
                        missing.retain(|&other| other != number);
                        admitted.push((number, socket));
                    }
                    _ => refused += 1,
                }
            }
            if is_idle {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        admitted.sort_by_key(|(number, _)| *number);
        Ok(admitted)
    }
}

/// A process that was let in, or somebody who was not.
type Knocked = Result<(usize, TcpStream), ()>;

/// Why a connection was not made.
enum Failure {
    Refused(Refusal),
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Failure::Io(e)
    }
}

/// The other side's verdict.
fn verdict(socket: &mut TcpStream) -> Result<(), Failure> {
    let mut verdict = [0];
    socket.read_exact(&mut verdict)?;
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

/// After the handshake a connection may be silent.
fn ready(socket: TcpStream) -> io::Result<TcpStream> {
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)?;
    Ok(socket)
}

/// Takes a connection that came; where too many wait already, the oldest is closed.
fn knock(socket: TcpStream, door: &Arc<Door>, proven: &Sender<Knocked>, waiting: &mut VecDeque<(TcpStream, Arc<()>)>) {
    waiting.retain(|(_, open)| Arc::strong_count(open) > 1);
    if waiting.len() >= WAITING
        && let Some((oldest, _)) = waiting.pop_front()
    {
        let _ = oldest.shutdown(std::net::Shutdown::Both);
    }
    let (Ok(handle), open) = (socket.try_clone(), Arc::new(())) else { return };
    waiting.push_back((handle, Arc::clone(&open)));
    let (door, proven) = (Arc::clone(door), proven.clone());
    let work = move || {
        let result = door.open(socket).map_err(drop);
        drop(open);
        let _ = proven.send(result); // nobody waits for it any more
    };
    // Without a thread it is as if nobody had come: who belongs here tries again.
    let _ = std::thread::Builder::new().name("gradus:door".into()).stack_size(1 << 17).spawn(work);
}

/// Whom a process lets in.
struct Door {
    secret: Secret,
    me: u16,
    processes: u16,
    purpose: Purpose,
    digest: [u8; 32],
}

impl Door {
    /// The number of the process behind a connection, once it has proven that it belongs here.
    fn open(&self, mut socket: TcpStream) -> Result<(usize, TcpStream), Failure> {
        patient(&socket)?;
        let mut said = [0; HELLO];
        within(&mut socket, &mut said)?;
        let hello = Hello::from_bytes(&said).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        if let Some(refusal) = self.refusal(&hello) {
            socket.write_all(&[refusal as u8])?;
            return Err(Failure::Refused(refusal));
        }
        let own = nonce()?;
        socket.write_all(&[&[0][..], &own].concat())?;
        let mut proof = Proof::default();
        within(&mut socket, &mut proof)?;
        if !self.secret.is_proven(&proof, "connects", &said, &own) {
            socket.write_all(&[Refusal::Secret as u8])?;
            return Err(Failure::Refused(Refusal::Secret));
        }
        socket.write_all(&[&[0][..], &self.secret.prove("listens", &said, &hello.nonce)].concat())?;
        Ok((hello.from.into(), ready(socket)?))
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

/// Reads all these bytes within [`PATIENCE`], however slowly they come.
fn within(socket: &mut TcpStream, bytes: &mut [u8]) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut rest = bytes;
    while !rest.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let n = socket.read(rest)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        rest = &mut rest[n..];
    }
    Ok(())
}

/// Free addresses of this machine for so many processes.
///
/// # Errors
/// The system has none.
pub fn local_addresses(processes: usize) -> io::Result<Vec<String>> {
    let listeners = (0..processes).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<io::Result<Vec<_>>>()?;
    listeners.iter().map(|it| it.local_addr().map(|address: SocketAddr| address.to_string())).collect()
}
