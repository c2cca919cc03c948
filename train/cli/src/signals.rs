//! Ctrl-C and its relatives: the work ends after the step under way, with a checkpoint.

use std::sync::Once;

use gradus_io::interrupt;

use crate::output;

/// Lets Ctrl-C (SIGINT) end the work with a checkpoint, and a second Ctrl-C end it at once. A termination request (SIGTERM) and a
/// closed terminal (SIGHUP) also end it with a checkpoint, even if repeated. SIGHUP and SIGINT stay ignored if the process began
/// with them ignored, as `nohup` and shells in the background do.
pub fn stop_on_ctrl_c() {
    LISTENS.call_once(|| listen(true));
}

/// The same where other processes of the run say so.
#[cfg(feature = "distributed")]
pub fn stop_on_ctrl_c_quietly() {
    LISTENS.call_once(|| listen(false));
}

/// A second handler would take one signal for two.
static LISTENS: Once = Once::new();

#[cfg(unix)]
fn listen(says_so: bool) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| signal == SIGTERM || !is_ignored(signal));
    // Without a handler the system ends the process: no worse than before.
    let Ok(mut signals) = signal_hook::iterator::Signals::new(signals) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            request(signal == SIGINT, says_so);
        }
    });
}

/// Makes a file that grows beyond the most the process may write (`ulimit -f`) an error of its write, as a full disk is.
#[cfg(unix)]
pub fn let_large_files_fail() {
    let seen = std::sync::Arc::default();
    // Without a handler the system ends the process: no worse than before.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
}

/// Other systems know no such bound.
#[cfg(not(unix))]
pub fn let_large_files_fail() {}

/// Windows tells of Ctrl-C alone.
#[cfg(not(unix))]
fn listen(says_so: bool) {
    // A handler that another part of the process has set already serves as well.
    let _ = ctrlc::set_handler(move || request(true, says_so));
}

fn request(by_ctrl_c: bool, says_so: bool) {
    match (interrupt::request(), by_ctrl_c) {
        (false, _) if !says_so => {}
        (false, _) => output::say("\nstopping at the end of the step under way (Ctrl-C again stops at once)"),
        (true, true) => std::process::exit(130),
        (true, false) => {}
    }
}

/// Was this process told to ignore a signal by the one that began it, as `nohup` does? Where the system does not tell: no.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
