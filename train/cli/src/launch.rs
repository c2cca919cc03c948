//! The flags of a run in several processes, and the role of each process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gradus_collective::{Collective, SingleProcess};
use gradus_tensor::Device;

use crate::error::CliError;

/// The number of processes of a run, and their connections.
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
    /// Time to wait for the other processes at the start, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0, requires = "several")]
    wait: f64,
    /// Longest silence of a process, in seconds, before all processes end with an error that names it
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, requires = "several")]
    timeout: f64,
    /// Longest time of one step in any process, in seconds, before all processes end with an error that names it
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0, requires = "several")]
    step_timeout: f64,
    /// Maximum number of restarts from the last checkpoint after the loss of a process
    #[arg(long, value_name = "K", default_value_t = 0, requires = "several")]
    restart: u32,
    /// Keep in each process only the optimizer's moments of its part of the parameters (ZeRO-1): less memory per process,
    /// identical results and checkpoints
    #[arg(long, requires = "several")]
    shard_moments: bool,
    /// Number of this process on this machine; the rest is read from standard input
    #[arg(long, value_name = "I", hide = true)]
    child: Option<usize>,
}

/// The run of several processes.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "distributed"), expect(dead_code, reason = "one process starts no others"))]
pub struct Work<'r> {
    /// The command of the run.
    pub command: &'static str,
    /// The directory of the run.
    pub out: Option<&'r Path>,
    /// Whether only errors are printed.
    pub quiet: bool,
}

/// One process among the processes of a run.
pub struct Group {
    /// The collective operations of all processes.
    pub collective: Arc<dyn Collective<f32>>,
    /// Whether to continue a run that has begun.
    pub goes_on: bool,
}

impl Group {
    /// Returns whether another process leads.
    pub fn follows(&self) -> bool {
        self.collective.process() > 0
    }

    /// Checks that several processes compute on CPUs.
    pub fn check_device(&self, device: &Device) -> Result<(), CliError> {
        let fits = self.collective.processes() == 1 || device.is_cpu();
        let problem = || CliError::Usage(format!("--device {device}: several processes compute on CPUs alone"));
        fits.then_some(()).ok_or_else(problem)
    }
}

impl Launch {
    /// The names of these flags, which a resumed run also takes.
    pub const FLAGS: [&'static str; 10] =
        ["processes", "hosts", "process", "secret", "wait", "timeout", "step_timeout", "restart", "shard_moments", "child"];

    /// Returns whether each process keeps only the moments of its part of the parameters.
    pub fn shards_moments(&self) -> bool {
        self.shard_moments
    }

    /// Runs the work in this process, or starts the processes of --processes.
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
    use std::time::Duration;

    use gradus_cluster::cluster::Cluster;
    use gradus_cluster::control::Limits;
    use gradus_cluster::launch::{LaunchError, Launcher, read_hosts, read_secret, read_settings};
    use gradus_cluster::plan::MOST_PROCESSES;
    use gradus_cluster::rendezvous::Hosts;
    use gradus_cluster::secret::Secret;
    use gradus_collective::PeerError;

    use super::{Arc, CliError, Group, Launch, Work};
    use crate::common::within;
    use crate::{error, output, panics, signals};

    impl Launch {
        pub(super) fn run_several(
            &self,
            what: Work<'_>,
            work: impl FnOnce(Group) -> Result<(), CliError>,
        ) -> Result<(), CliError> {
            for (flag, seconds) in [("wait", self.wait), ("timeout", self.timeout), ("step-timeout", self.step_timeout)] {
                within(flag, seconds, 0.1..=1e6, " (seconds)")?;
            }
            if let Some(me) = self.child {
                let (hosts, secret, goes_on) = read_settings(me, output::say)?;
                return self.join(hosts, &secret, goes_on, work);
            }
            let launched = match (&self.hosts, self.process, &self.secret) {
                (Some(hosts), Some(me), Some(secret)) => {
                    let (hosts, secret) = (read_hosts(hosts, me)?, read_secret(secret, output::say)?);
                    if self.restart == 0 {
                        if !what.quiet && hosts.addresses.len() > 1 {
                            let (at, wait) = (&hosts.addresses[me], self.wait);
                            output::say(&format!("process {me} at {at}: waiting for the others, at most {wait} s (--wait)"));
                        }
                        return self.join(hosts, &secret, false, work);
                    }
                    self.launcher().run_one(hosts, &secret)
                }
                _ => {
                    let n = self.processes.unwrap_or(1);
                    within("processes", n, 1..=MOST_PROCESSES, "")?;
                    self.launcher().run(n)
                }
            };
            // Otherwise process 0 prints this.
            if let Err(LaunchError::Ended { lead_was_killed: true, .. }) = launched
                && let Some(next) = what.out.and_then(|out| error::next(what.command, out))
            {
                output::say(&format!("to go on with the run: `{next}`, with the flags of several processes as before"));
            }
            Ok(launched?)
        }

        fn launcher(&self) -> Launcher {
            signals::stop_on_ctrl_c_quietly();
            Launcher { say: output::say, silence: Duration::from_secs_f64(self.timeout), restarts: self.restart }
        }

        /// Joins the run as one of its processes.
        fn join(
            &self,
            hosts: Hosts,
            secret: &Secret,
            goes_on: bool,
            work: impl FnOnce(Group) -> Result<(), CliError>,
        ) -> Result<(), CliError> {
            let [wait, silence, step] = [self.wait, self.timeout, self.step_timeout].map(Duration::from_secs_f64);
            let me = hosts.me;
            // Only one process of this machine prints this.
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
            // Process 0 prints the error, in this terminal or in its own.
            let is_said = |e: &CliError| e.is_common() || self.processes.is_some() && e.told().starts_with("process 0 stopped: ");
            match result {
                Err(e) if me > 0 && (is_said(&e) || is_quiet && e.exit_code() == 130) => {
                    Err(LaunchError::Ended { code: e.exit_code(), lead_was_killed: false }.into())
                }
                other => other,
            }
        }
    }

    /// Ends a process that does not end by itself, because it computes, or waits for a disk.
    fn end(verdict: &PeerError) {
        output::say(&format!("{}error: {verdict}", error::speaker()));
        std::process::exit(PeerError::EXIT_CODE.into());
    }
}
