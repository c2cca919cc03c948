//! Starting the processes of a run on this machine, waiting for them, and restarting them after one was lost.
//!
//! ```text
//! gradus … --processes 2               starts the others, waits, restarts them
//!  ├─ gradus … --processes 2 --child 0   reads its settings, a line of JSON, on standard input;
//!  └─ gradus … --processes 2 --child 1   `stop` after it, or the end of the input, requests a stop
//! ```

use std::io::{self, BufRead, Read, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gradus_collective::PeerError;
use gradus_io::exit::{self, Exit};
use gradus_io::files::{FileError, quoted};
use gradus_io::{disk, interrupt};
use serde::{Deserialize, Serialize};

use crate::plan::MOST_PROCESSES;
use crate::rendezvous::{Hosts, local_addresses};
use crate::secret::Secret;

/// The request to stop, on the standard input of a process.
const STOP: &[u8] = b"stop";

/// The reason why a launch failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LaunchError {
    /// Wrong usage, or a system that cannot run the processes.
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    File(#[from] FileError),
    /// The failure of a process of the run, which has printed its error unless a signal killed it.
    #[error("a process of the run ended with exit code {code}")]
    Ended { code: u8, lead_was_killed: bool },
}

impl Exit for LaunchError {
    fn exit_code(&self) -> u8 {
        match self {
            LaunchError::Ended { code, .. } => *code,
            LaunchError::Usage(_) => exit::USAGE,
            LaunchError::File(_) => exit::FAILED,
        }
    }
}

/// Reads the addresses of the processes, a line `host:port` each.
///
/// # Errors
/// Returns an error if the file cannot be read, or if it is not the list of a run that has a process `me`.
pub fn read_hosts(path: &Path, me: usize) -> Result<Hosts, LaunchError> {
    let text = disk::read_text(path).map_err(|e| FileError::new("read", path, e))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let addresses: Vec<String> = lines.map(str::to_owned).collect();
    let refused = |problem: String| LaunchError::Usage(format!("--hosts {}: {problem}", path.display()));
    if let Some(line) = addresses.iter().find(|line| !is_address(line)) {
        return Err(refused(format!("expected a line `host:port` for each process, found {line:?}")));
    }
    if let Some(twice) = addresses.iter().enumerate().find_map(|(i, line)| addresses[..i].contains(line).then_some(line)) {
        return Err(refused(format!("{twice} occurs twice; each process needs its own address")));
    }
    match addresses.len() {
        n if me < n && n <= MOST_PROCESSES => Ok(Hosts { addresses, me }),
        n => Err(refused(format!(
            "expected 1 to {MOST_PROCESSES} lines, one for each process, and one of them for --process {me}; found {n}"
        ))),
    }
}

/// Reads the secret of a run, and warns if others can read it.
///
/// # Errors
/// Returns an error if the file cannot be read, or if its length is out of range.
pub fn read_secret(path: &Path, say: fn(&str)) -> Result<Secret, LaunchError> {
    if let Some(mode) = disk::readable_by_others(path) {
        let file = quoted(path);
        say(&format!("warning: --secret {file}: other users can read it (mode {mode}) and join the run: `chmod 600 {file}`"));
    }
    Secret::read(path).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidData => {
            let how = "make one with: head -c 32 /dev/urandom | base64 > FILE, and copy it to all machines";
            LaunchError::Usage(format!("--secret {}: {e}; {how}", path.display()))
        }
        _ => FileError::new("read", path, e).into(),
    })
}

/// The settings of a process started on this machine.
#[derive(Serialize, Deserialize)]
struct ChildSettings {
    addresses: Vec<String>,
    secret: String,
    resumes: bool,
    /// Whether the other processes are on other machines.
    is_apart: bool,
}

/// Reads the settings of process `me` from standard input: the hosts, the secret, and whether to resume a run that has begun.
///
/// From then on the end of the input requests a stop. If the other processes are on other machines and the starter was killed,
/// this process ends instead, as lost: the others detect the loss and can restart.
///
/// # Errors
/// Returns an error if the input is not from a [`Launcher`].
pub fn read_settings(me: usize, say: fn(&str)) -> Result<(Hosts, Secret, bool), LaunchError> {
    let mut line = String::new();
    let none = || LaunchError::Usage("--child: only gradus itself starts such processes; leave it out".into());
    io::stdin().lock().read_line(&mut line).map_err(|_| none())?;
    let ChildSettings { addresses, secret, resumes, is_apart } = serde_json::from_str(&line).map_err(|_| none())?;
    let secret = Secret::from_hex(&secret).ok_or_else(|| LaunchError::Usage("--child: no secret".into()))?;
    std::thread::spawn(move || {
        let mut word = Vec::new();
        let _ = io::stdin().lock().read_to_end(&mut word);
        if is_apart && word != STOP {
            say(&format!("process {me}: error: the process that started it was killed"));
            std::process::exit(PeerError::EXIT_CODE.into());
        }
        interrupt::request();
    });
    Ok((Hosts { addresses, me }, secret, resumes))
}

/// A launcher of processes on this machine, with the command line of this process.
#[derive(Clone, Copy, Debug)]
pub struct Launcher {
    /// The function that prints a message.
    pub say: fn(&str),
    /// The longest time that a process may be silent.
    pub silence: Duration,
    /// The maximum number of restarts from the last checkpoint.
    pub restarts: u32,
}

impl Launcher {
    /// Runs all processes of a run on this machine.
    ///
    /// # Errors
    /// Returns an error if the processes cannot be started, or if one failed and no restart is left.
    pub fn run(self, processes: usize) -> Result<(), LaunchError> {
        let secret = Secret::random().map_err(not_started)?;
        self.launch(|| local_addresses(processes).map_err(not_started), &secret, 0..=processes - 1, false)
    }

    /// Runs one process of a run whose other processes are on other machines.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started, or if it failed and no restart is left.
    pub fn run_one(self, hosts: Hosts, secret: &Secret) -> Result<(), LaunchError> {
        self.launch(|| Ok(hosts.addresses.clone()), secret, hosts.me..=hosts.me, true)
    }

    fn launch(
        self,
        addresses: impl Fn() -> Result<Vec<String>, LaunchError>,
        secret: &Secret,
        ranks: RangeInclusive<usize>,
        is_apart: bool,
    ) -> Result<(), LaunchError> {
        for attempt in 0..=self.restarts {
            let settings = ChildSettings { addresses: addresses()?, secret: secret.to_hex(), resumes: attempt > 0, is_apart };
            let not_waited = |e| LaunchError::Usage(format!("cannot wait for the processes: {e}"));
            let ends = self.wait(start_all(ranks.clone(), &settings)?, is_apart).map_err(not_waited)?;
            // The run is complete if process 0 succeeded, however the others ended.
            let lead = ends.first().filter(|_| *ranks.start() == 0);
            let is_complete = lead.is_some_and(ExitStatus::success);
            let Some(first) = ends.iter().find(|end| !end.success() && !is_complete) else { return Ok(()) };
            let lost = i32::from(PeerError::EXIT_CODE);
            let own = ends.iter().filter_map(ExitStatus::code).find(|&code| code != 0 && code != lost);
            if let Some(code) = own.or_else(|| (attempt == self.restarts).then(|| first.code().unwrap_or(lost))) {
                let lead_was_killed = lead.is_some_and(|end| end.code().is_none());
                return Err(LaunchError::Ended { code: u8::try_from(code).unwrap_or(1), lead_was_killed });
            }
            let left = self.restarts - attempt;
            (self.say)(&format!("warning: a process was lost; starting again from the last checkpoint (attempts left: {left})"));
        }
        unreachable!("the last attempt returns")
    }

    /// Waits until all processes have ended. Once one has failed or process 0 has ended, those that do not end in time are
    /// killed. A process stopped by a signal is then killed at once, or earlier if processes on other machines wait for it.
    fn wait(self, mut all: Vec<RankProcess>, is_apart: bool) -> io::Result<Vec<ExitStatus>> {
        let (mut ending, patience): (Option<Instant>, _) = (None, self.silence * 3 / 2 + Duration::from_millis(500));
        loop {
            for rank in all.iter_mut().filter(|rank| rank.end.is_none()) {
                rank.end = rank.child.try_wait()?;
                if let Some(end) = rank.end.filter(|end| !end.success() || rank.number == 0) {
                    // The process could not print this itself, and the others cannot detect it before the rendezvous.
                    if ending.is_none() && end.code().is_none() {
                        (self.say)(&format!("error: process {} was killed ({end})", rank.number));
                    }
                    ending.get_or_insert(Instant::now());
                }
                if interrupt::requested() {
                    rank.stop();
                }
                // The run has ended, and a stopped process cannot end by itself.
                if ending.is_some() && rank.end.is_none() && is_stopped(rank.child.id()) {
                    let _ = rank.child.kill();
                }
                // The processes on other machines have detected its silence.
                if is_apart && rank.end.is_none() && rank.hangs(patience) {
                    let seconds = patience.as_secs_f64();
                    (self.say)(&format!("error: process {} was suspended for {seconds} s and is killed", rank.number));
                    let _ = rank.child.kill();
                }
            }
            if all.iter().all(|rank| rank.end.is_some()) {
                return Ok(all.into_iter().filter_map(|rank| rank.end).collect());
            }
            if ending.is_some_and(|at| at.elapsed() > patience) {
                all.iter_mut().filter(|rank| rank.end.is_none()).for_each(|rank| drop(rank.child.kill()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn not_started(e: io::Error) -> LaunchError {
    LaunchError::Usage(format!("the processes could not be started: {e}; start fewer --processes"))
}

/// A process that was started.
struct RankProcess {
    number: usize,
    child: Child,
    end: Option<ExitStatus>,
    /// The time at which the process was first seen stopped by a signal, if it still is.
    stopped: Option<Instant>,
}

/// Starts the processes with these numbers. If one cannot be started, kills those already started.
fn start_all(ranks: RangeInclusive<usize>, settings: &ChildSettings) -> Result<Vec<RankProcess>, LaunchError> {
    let (mut all, of) = (Vec::new(), ranks.clone().count());
    for me in ranks {
        match RankProcess::start(me, settings, of) {
            Ok(child) => all.push(child),
            Err(e) => {
                all.iter_mut().for_each(|rank: &mut RankProcess| drop(rank.child.kill()));
                return Err(LaunchError::Usage(format!("process {me} could not be started: {e}; start fewer --processes")));
            }
        }
    }
    Ok(all)
}

impl RankProcess {
    /// Starts the command line of this process as process `me`, with its share of the cores.
    fn start(me: usize, settings: &ChildSettings, of: usize) -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).args(["--child", &me.to_string()]).stdin(Stdio::piped());
        if of > 1 && std::env::var_os("RAYON_NUM_THREADS").is_none() {
            command.env("RAYON_NUM_THREADS", (cores / of).max(1).to_string());
        }
        let mut child = command.spawn()?;
        let line = serde_json::to_string(settings)? + "\n";
        // A process that does not read the line has ended, which `wait` detects.
        let _ = child.stdin.as_mut().map(|stdin| stdin.write_all(line.as_bytes()));
        Ok(RankProcess { number: me, child, end: None, stopped: None })
    }

    /// Requests a stop with a checkpoint.
    fn stop(&mut self) {
        if let Some(mut stdin) = self.child.stdin.take() {
            let _ = stdin.write_all(STOP);
        }
    }

    /// Returns whether a signal (SIGSTOP) has stopped the process for longer than `silence`. The process cannot report it.
    fn hangs(&mut self, silence: Duration) -> bool {
        self.stopped = if is_stopped(self.child.id()) { self.stopped.or_else(|| Some(Instant::now())) } else { None };
        self.stopped.is_some_and(|since| since.elapsed() > silence)
    }
}

/// Returns whether a signal (SIGSTOP) has stopped a process; `false` on systems without `/proc`.
fn is_stopped(process: u32) -> bool {
    let file = disk::open_to_read(Path::new(&format!("/proc/{process}/stat")));
    let state = file.and_then(io::read_to_string).unwrap_or_default();
    // The state follows the name, which is in brackets.
    state.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// Returns whether the text is `host:port`, with the host's name or IP address.
fn is_address(text: &str) -> bool {
    // A host with a colon must be an IPv6 address, with or without brackets; otherwise the line has two addresses.
    let is_host = |host: &str| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_name = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control() || ":,;/[]".contains(c));
        is_name || inner.parse::<std::net::Ipv6Addr>().is_ok()
    };
    text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for text in ["a:1", "10.0.0.1:65535", "[::1]:80", "fe80::1:7000", "machine.local:7000"] {
            assert!(is_address(text), "{text}");
        }
        for text in ["", "a", "a:", ":1", "a:0", "a:65536", "a:b", "a:1 b:2", "a:1,b:2", "a:1\tb:2", "[a]:1", "x:y:1"] {
            assert!(!is_address(text), "{text}");
        }
    }
}
