//! Flags of a run that several processes make, and what a process is among them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gradus_collective::{Collective, SingleProcess};
use gradus_tensor::Device;

use crate::error::CliError;

/// How many processes make a run, and how they find one another.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Several processes", group = clap::ArgGroup::new("several").args(["processes", "hosts"]))]
pub struct Launch {
    /// Train in this many processes on this machine, which share its cores. Results do not depend on their number. --shards must be
    /// at least as large; a multiple of 8 is shared most evenly
    #[arg(long, value_name = "N", conflicts_with = "hosts")]
    processes: Option<usize>,
    /// Run as one of several processes on several machines. The file has a line `host:port` for each process: the address on which
    /// it listens, process 0 first. Give all processes the same flags. The data must be on all machines; the run's directory is on
    /// the machine of process 0
    #[arg(long, value_name = "FILE", requires_all = ["process", "secret"])]
    hosts: Option<PathBuf>,
    /// Number of this process, counted from 0: its line in --hosts
    #[arg(long, value_name = "I", requires = "hosts")]
    process: Option<usize>,
    /// File of 16 to 4096 bytes, the same for all processes of the run. A process proves that it has the secret without sending it.
    /// Messages are checked for damage but not encrypted: on a network that others can read, use a tunnel (`wg`, `ssh -L`)
    #[arg(long, value_name = "FILE", requires = "hosts")]
    secret: Option<PathBuf>,
    /// How long the processes wait for one another at the start, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0, requires = "several")]
    wait: f64,
    /// How long a process may be silent, in seconds, before all end with an error that names it
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, requires = "several")]
    timeout: f64,
    /// How long one step may take any process, in seconds, before all end with an error that names it
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0, requires = "several")]
    step_timeout: f64,
    /// Restart from the last checkpoint after the loss of a process, at most this many times
    #[arg(long, value_name = "K", default_value_t = 0, requires = "several")]
    restart: u32,
    /// Keep in each process only the optimizer's moments of its part of the parameters (ZeRO-1): less memory per process, the same
    /// results and the same checkpoints
    #[arg(long, requires = "several")]
    shard_moments: bool,
    /// What process of this machine it is; the rest is read from standard input
    #[arg(long, value_name = "I", hide = true)]
    child: Option<usize>,
}

/// The run that the processes make.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "distributed"), expect(dead_code, reason = "one process starts no others"))]
pub struct Work<'r> {
    /// The command that makes it.
    pub command: &'static str,
    /// Its directory.
    pub out: Option<&'r Path>,
    /// Is nothing said but errors?
    pub quiet: bool,
}

/// A process among those that make a run.
pub struct Group {
    /// All of them.
    pub collective: Arc<dyn Collective<f32>>,
    /// Shall a run that has begun be continued?
    pub goes_on: bool,
}

impl Group {
    /// Does another process lead?
    pub fn follows(&self) -> bool {
        self.collective.process() > 0
    }

    /// Several processes compute on CPUs.
    pub fn check_device(&self, device: &Device) -> Result<(), CliError> {
        let fits = self.collective.processes() == 1 || *device == Device::Cpu;
        let problem = || CliError::Usage(format!("--device {device}: several processes compute on CPUs alone"));
        fits.then_some(()).ok_or_else(problem)
    }
}

impl Launch {
    /// The names of its flags, which a resumed run takes too.
    pub const FLAGS: [&'static str; 10] =
        ["processes", "hosts", "process", "secret", "wait", "timeout", "step_timeout", "restart", "shard_moments", "child"];

    /// Does each process keep the moments of its part alone?
    pub fn shards_moments(&self) -> bool {
        self.shard_moments
    }

    /// Does the work as one of the processes that are asked for, or starts them.
    pub fn run(&self, what: Work<'_>, work: impl FnOnce(Group) -> Result<(), CliError>) -> Result<(), CliError> {
        if self.processes.is_none() && self.hosts.is_none() {
            return work(Group { collective: Arc::new(SingleProcess), goes_on: false });
        }
        self.run_several(what, work)
    }

    #[cfg(not(feature = "distributed"))]
    fn run_several(&self, _: Work<'_>, _: impl FnOnce(Group) -> Result<(), CliError>) -> Result<(), CliError> {
        let flag = if self.hosts.is_some() { "hosts" } else { "processes" };
        Err(CliError::Usage(format!(
            "--{flag}: this gradus was built for one process; build it with: cargo build --release --features distributed"
        )))
    }
}

#[cfg(feature = "distributed")]
mod several {
    use std::io::{self, BufRead, Read, Write};
    use std::process::{Child, Command, ExitStatus, Stdio};
    use std::time::{Duration, Instant};

    use gradus_cluster::cluster::Cluster;
    use gradus_cluster::control::Limits;
    use gradus_cluster::plan::MOST_PROCESSES;
    use gradus_cluster::rendezvous::{Hosts, local_addresses};
    use gradus_cluster::secret::Secret;
    use gradus_collective::PeerError;
    use gradus_io::interrupt;
    use serde::{Deserialize, Serialize};

    use super::{Arc, CliError, Group, Launch, Work};
    use crate::common::within;
    use crate::error::{self, LOST_PEER};
    use crate::{output, panics, signals};

    /// What a process of this machine is told on standard input, on one line.
    #[derive(Serialize, Deserialize)]
    struct ChildSettings {
        addresses: Vec<String>,
        secret: String,
        goes_on: bool,
        /// Are the others on other machines?
        is_apart: bool,
    }

    /// What it is told there to stop.
    const STOP: &[u8] = b"stop";

    impl Launch {
        pub(super) fn run_several(
            &self,
            what: Work<'_>,
            work: impl FnOnce(Group) -> Result<(), CliError>,
        ) -> Result<(), CliError> {
            for (flag, seconds) in [("wait", self.wait), ("timeout", self.timeout), ("step-timeout", self.step_timeout)] {
                within(flag, seconds, 0.1..=1e6, " (seconds)")?;
            }
            match (self.child, self.process) {
                (Some(me), _) => {
                    let told = ChildSettings::read(me)?;
                    let secret = Secret::from_hex(&told.secret).ok_or_else(|| CliError::Usage("--child: no secret".into()))?;
                    let goes_on = told.goes_on;
                    self.join(Hosts { addresses: told.addresses, me }, &secret, goes_on, work)
                }
                (None, Some(me)) if self.restart == 0 => {
                    let (addresses, secret) = (self.hosts()?, self.secret()?);
                    if !what.quiet && addresses.len() > 1 {
                        let (at, wait) = (&addresses[me], self.wait);
                        output::say(&format!("process {me} at {at}: waiting for the others, at most {wait} s (--wait)"));
                    }
                    self.join(Hosts { addresses, me }, &secret, false, work)
                }
                (None, Some(me)) => self.start(what, &self.hosts()?, &self.secret()?, me..=me),
                (None, None) => {
                    let n = self.processes.unwrap_or(1);
                    within("processes", n, 1..=MOST_PROCESSES, "")?;
                    self.start(what, &addresses_here(n)?, &Secret::random().map_err(not_started)?, 0..=n - 1)
                }
            }
        }

        /// Becomes one of the processes.
        fn join(
            &self,
            hosts: Hosts,
            secret: &Secret,
            goes_on: bool,
            work: impl FnOnce(Group) -> Result<(), CliError>,
        ) -> Result<(), CliError> {
            let [wait, silence, step] = [self.wait, self.timeout, self.step_timeout].map(Duration::from_secs_f64);
            let me = hosts.me;
            // One of this machine's is enough to say it.
            let is_quiet = me > 0 && self.processes.is_some();
            if is_quiet {
                signals::stop_on_ctrl_c_quietly()
            } else {
                signals::stop_on_ctrl_c()
            }
            error::speaks_as(me);
            let cluster = Arc::new(Cluster::join(&hosts, secret, wait, Limits { silence, step, stuck: Some(end) })?);
            let result = panics::caught(|| work(Group { collective: Arc::clone(&cluster) as _, goes_on }));
            let failed = result.as_ref().err().filter(|e| !e.is_common() && e.exit_code() != 130).map(CliError::told);
            cluster.leave(failed);
            // Process 0 says it, here or where all can read it.
            let is_said = |e: &CliError| e.is_common() || self.processes.is_some() && e.told().starts_with("process 0 stopped: ");
            match result {
                Err(e) if me > 0 && (is_said(&e) || is_quiet && e.exit_code() == 130) => {
                    Err(CliError::Members { code: e.exit_code() })
                }
                other => other,
            }
        }

        fn hosts(&self) -> Result<Vec<String>, CliError> {
            let path = self.hosts.as_deref().expect("asked for");
            let text = gradus_io::disk::read_text(path).map_err(|e| gradus_io::files::FileError::new("read", path, e))?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            let addresses: Vec<String> = lines.map(str::to_owned).collect();
            let refused = |problem: String| CliError::Usage(format!("--hosts {}: {problem}", path.display()));
            if let Some(line) = addresses.iter().find(|line| !is_address(line)) {
                return Err(refused(format!("expected a line `host:port` for each process, found {line:?}")));
            }
            if let Some(twice) = addresses.iter().enumerate().find_map(|(i, line)| addresses[..i].contains(line).then_some(line))
            {
                return Err(refused(format!("{twice} is there twice; each process listens on an address of its own")));
            }
            let (n, me) = (addresses.len(), self.process.expect("asked for with it"));
            match me < n && n <= MOST_PROCESSES {
                true => Ok(addresses),
                false => Err(refused(format!(
                    "expected 1 to {MOST_PROCESSES} lines, one for each process, and one of them for --process {me}; found {n}"
                ))),
            }
        }

        fn secret(&self) -> Result<Secret, CliError> {
            let path = self.secret.as_deref().expect("asked for with --hosts");
            if let Some(mode) = gradus_io::disk::readable_by_others(path) {
                let file = gradus_io::files::quoted(path);
                output::say(&format!(
                    "warning: --secret {file}: others can read it (its mode is {mode}), and whoever does can join the run: `chmod 600 {file}`"
                ));
            }
            Secret::read(path).map_err(|e| match e.kind() {
                io::ErrorKind::InvalidData => {
                    let how = "make one with: head -c 32 /dev/urandom | base64 > FILE, and copy it to all machines";
                    CliError::Usage(format!("--secret {}: {e}; {how}", path.display()))
                }
                _ => gradus_io::files::FileError::new("read", path, e).into(),
            })
        }

        /// Starts processes of this machine, and again where one was lost.
        fn start(
            &self,
            what: Work<'_>,
            addresses: &[String],
            secret: &Secret,
            members: std::ops::RangeInclusive<usize>,
        ) -> Result<(), CliError> {
            signals::stop_on_ctrl_c_quietly();
            let (mut addresses, is_apart) = (addresses.to_vec(), self.hosts.is_some());
            for attempt in 0..=self.restart {
                let told =
                    ChildSettings { addresses: addresses.clone(), secret: secret.to_hex(), goes_on: attempt > 0, is_apart };
                let all = start_all(members.clone(), &told)?;
                let ends = wait(all, Duration::from_secs_f64(self.timeout), is_apart).map_err(not_waited)?;
                // Where process 0 has ended well the run is made, whatever became of the others afterwards.
                let made = *members.start() == 0 && ends.first().is_some_and(ExitStatus::success);
                let Some(first) = ends.iter().find(|end| !end.success() && !made) else { return Ok(()) };
                let own = ends.iter().filter_map(ExitStatus::code).find(|&code| code != 0 && code != i32::from(LOST_PEER));
                if let Some(code) = own.or_else(|| (attempt == self.restart).then(|| first.code().unwrap_or(LOST_PEER.into()))) {
                    // Process 0 would have said it.
                    let was_killed = *members.start() == 0 && ends.first().is_some_and(|end| end.code().is_none());
                    if let Some(next) = what.out.filter(|_| was_killed).and_then(|out| error::next(what.command, out)) {
                        output::say(&format!("to go on with the run: `{next}`, with the flags of several processes as before"));
                    }
                    return Err(CliError::Members { code: u8::try_from(code).unwrap_or(1) });
                }
                let times = self.restart - attempt;
                output::say(&format!(
                    "warning: a process was lost; starting again from the last checkpoint (attempts left: {times})"
                ));
                if self.hosts.is_none() {
                    addresses = addresses_here(addresses.len())?;
                }
            }
            unreachable!("the last attempt ends it")
        }
    }

    fn addresses_here(processes: usize) -> Result<Vec<String>, CliError> {
        local_addresses(processes).map_err(not_started)
    }

    fn not_started(e: io::Error) -> CliError {
        CliError::Usage(format!("the processes could not be started: {e}; start fewer --processes"))
    }

    fn not_waited(e: io::Error) -> CliError {
        CliError::Usage(format!("the system does not tell how the processes end: {e}"))
    }

    impl ChildSettings {
        /// Reads it. When the one who started this process goes, the run is to stop; where the others are on other machines they are to
        /// see that a process was lost, and may start again.
        fn read(me: usize) -> Result<Self, CliError> {
            let mut line = String::new();
            let none = || CliError::Usage("--child: gradus itself starts such processes; leave it out".into());
            io::stdin().lock().read_line(&mut line).map_err(|_| none())?;
            let told: ChildSettings = serde_json::from_str(&line).map_err(|_| none())?;
            let is_apart = told.is_apart;
            std::thread::spawn(move || {
                let mut word = Vec::new();
                let _ = io::stdin().lock().read_to_end(&mut word);
                if is_apart && word != STOP {
                    output::say(&format!("process {me}: error: the process that started it was killed"));
                    std::process::exit(LOST_PEER.into());
                }
                interrupt::request();
            });
            Ok(told)
        }
    }

    /// A process that was started.
    struct RankProcess {
        number: usize,
        child: Child,
        end: Option<ExitStatus>,
        /// Since when it has been stopped by a signal, as far as the system tells.
        stopped: Option<Instant>,
    }

    /// Starts processes with these numbers, or none.
    fn start_all(members: std::ops::RangeInclusive<usize>, told: &ChildSettings) -> Result<Vec<RankProcess>, CliError> {
        let (mut all, of) = (Vec::new(), members.clone().count());
        for me in members {
            match RankProcess::start(me, told, of) {
                Ok(child) => all.push(child),
                Err(e) => {
                    all.iter_mut().for_each(|rank: &mut RankProcess| drop(rank.child.kill()));
                    return Err(CliError::Usage(format!("process {me} could not be started: {e}; start fewer --processes")));
                }
            }
        }
        Ok(all)
    }

    impl RankProcess {
        /// This very command as process `me`, with its part of the cores.
        fn start(me: usize, told: &ChildSettings, of: usize) -> io::Result<Self> {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let mut command = Command::new(std::env::current_exe()?);
            command.args(std::env::args_os().skip(1)).args(["--child", &me.to_string()]).stdin(Stdio::piped());
            if of > 1 && std::env::var_os("RAYON_NUM_THREADS").is_none() {
                command.env("RAYON_NUM_THREADS", (cores / of).max(1).to_string());
            }
            let mut child = command.spawn()?;
            let line = serde_json::to_string(told)? + "\n";
            // Who does not read it has ended, and is seen to.
            let _ = child.stdin.as_mut().map(|stdin| stdin.write_all(line.as_bytes()));
            Ok(RankProcess { number: me, child, end: None, stopped: None })
        }

        /// Asks it to stop, with a checkpoint.
        fn stop(&mut self) {
            if let Some(mut stdin) = self.child.stdin.take() {
                let _ = stdin.write_all(STOP);
            }
        }

        /// Has a signal stopped it (SIGSTOP) for so long? It does nothing then, nor can it say so.
        fn hangs(&mut self, silence: Duration) -> bool {
            self.stopped =
                if signals::is_stopped(self.child.id()) { self.stopped.or_else(|| Some(Instant::now())) } else { None };
            self.stopped.is_some_and(|since| since.elapsed() > silence)
        }
    }

    /// Waits for all; those that do not end after one has failed, or after process 0, are ended, and who is stopped while processes of
    /// other machines wait for it.
    fn wait(mut all: Vec<RankProcess>, silence: Duration, is_apart: bool) -> io::Result<Vec<ExitStatus>> {
        let (mut ending, patience): (Option<Instant>, _) = (None, silence * 3 / 2 + Duration::from_millis(500));
        loop {
            for rank in all.iter_mut().filter(|rank| rank.end.is_none()) {
                rank.end = rank.child.try_wait()?;
                if let Some(end) = rank.end.filter(|end| !end.success() || rank.number == 0) {
                    // It could not say so itself, and before they have met the others do not know.
                    if ending.is_none() && end.code().is_none() {
                        output::say(&format!("error: process {} was killed ({end})", rank.number));
                    }
                    ending.get_or_insert(Instant::now());
                }
                if interrupt::requested() {
                    rank.stop();
                }
                // The run has ended, and a stopped process cannot end by itself.
                if ending.is_some() && rank.end.is_none() && signals::is_stopped(rank.child.id()) {
                    let _ = rank.child.kill();
                }
                // The others have found that it is silent.
                if is_apart && rank.end.is_none() && rank.hangs(patience) {
                    output::say(&format!(
                        "error: process {} was stopped for {} s and is ended",
                        rank.number,
                        patience.as_secs_f64()
                    ));
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

    /// Returns whether the text is `host:port`, with the host's name or IP address.
    fn is_address(text: &str) -> bool {
        // A host with a colon must be an IPv6 address, with or without brackets; otherwise the line has two addresses.
        let is_host = |host: &str| {
            let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            let is_name =
                !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control() || ":,;/[]".contains(c));
            is_name || inner.parse::<std::net::Ipv6Addr>().is_ok()
        };
        text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0))
    }

    /// Ends a process that does not end by itself, because it computes, or waits for a disk.
    fn end(verdict: &PeerError) {
        output::say(&format!("{}error: {verdict}", error::speaker()));
        std::process::exit(LOST_PEER.into());
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn an_address_is_a_host_and_a_port() {
            assert!(
                ["a:1", "10.0.0.1:65535", "[::1]:80", "fe80::1:7000", "machine.local:7000"].iter().all(|text| is_address(text))
            );
            assert!(
                !["", "a", "a:", ":1", "a:0", "a:65536", "a:b", "a:1 b:2", "a:1,b:2", "a:1\tb:2", "[a]:1", "x:y:1"]
                    .iter()
                    .any(|text| is_address(text))
            );
        }
    }
}
