//! Signals: Ctrl-C and similar signals end the work after the current step, with a checkpoint.

use std::sync::Once;

use gradus_io::interrupt;

use crate::output;

/// Lets Ctrl-C (SIGINT) end the work with a checkpoint, and a second Ctrl-C end it at once. A termination request (SIGTERM) and a
/// closed terminal (SIGHUP) also end it with a checkpoint, even if repeated. SIGHUP and SIGINT stay ignored if the process began
/// with them ignored, as `nohup` and shells in the background do.
pub fn stop_on_ctrl_c() {
    LISTENS.call_once(|| listen(true));
}

/// Stops on the same signals without a message, since another process of the run prints it.
#[cfg(feature = "distributed")]
pub fn stop_on_ctrl_c_quietly() {
    LISTENS.call_once(|| listen(false));
}

/// The guard of the handler: a second handler would count one signal twice.
static LISTENS: Once = Once::new();

#[cfg(unix)]
fn listen(says_so: bool) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| signal == SIGTERM || !is_ignored(signal));
    // Without a handler, the signal ends the process, as by default.
    let Ok(mut signals) = signal_hook::iterator::Signals::new(signals) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            request(signal == SIGINT, says_so);
        }
    });
}

/// Makes writes beyond the file size limit (`ulimit -f`) return an error, as on a full disk.
#[cfg(unix)]
pub fn let_large_files_fail() {
    let seen = std::sync::Arc::default();
    // Without a handler, the signal ends the process, as by default.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
}

/// Does nothing: other systems have no such limit.
#[cfg(not(unix))]
pub fn let_large_files_fail() {}

/// Listens for Ctrl-C, the only such signal on Windows.
#[cfg(not(unix))]
fn listen(says_so: bool) {
    // An existing handler of another part of the process also serves.
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

/// Returns whether this process began with a signal ignored, as under `nohup`; `false` if the system does not report it.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
