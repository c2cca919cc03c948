//! Panics as errors: users do not see Rust's own panic messages.

use std::any::Any;
use std::env;
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;

use gradus_tensor::{Device, DeviceError};

use crate::error::CliError;

/// The place of the first panic, recorded by the hook.
static PLACE: OnceLock<String> = OnceLock::new();

/// Hides Rust's own panic messages, unless `RUST_BACKTRACE` requests them.
pub fn keep_quiet() {
    let report = panic::take_hook();
    let is_asked_for = env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    panic::set_hook(Box::new(move |info| {
        if Device::fault().is_none() {
            let _ = PLACE.set(info.location().map(|at| format!(", at {at}")).unwrap_or_default());
            if is_asked_for {
                report(info);
            }
        }
    }));
}

/// Runs `work` and turns a panic into an error.
pub fn caught(work: impl FnOnce() -> Result<(), CliError>) -> Result<(), CliError> {
    or_fault(work, Device::fault)
}

/// Runs `work`. If it panics because a device failed or is out of memory, returns that `fault`; any other panic is a bug.
fn or_fault(work: impl FnOnce() -> Result<(), CliError>, fault: fn() -> Option<DeviceError>) -> Result<(), CliError> {
    panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panicked| Err(fault().map_or_else(|| bug(&*panicked), Into::into)))
}

/// Returns the error of a panic: its message on one line, and its place.
fn bug(panicked: &(dyn Any + Send)) -> CliError {
    let said = panicked.downcast_ref::<String>().map(String::as_str).or(panicked.downcast_ref::<&str>().copied());
    let said: Vec<&str> = said.unwrap_or("a panic").split_whitespace().collect();
    // The standard library panics if the system refuses to start a thread.
    if said.starts_with(&["failed", "to", "spawn", "thread"]) || said.starts_with(&["failed", "to", "spawn", "thread:"]) {
        return CliError::NoThread;
    }
    CliError::Bug { what: format!("{}{}", said.join(" "), PLACE.get().map_or("", String::as_str)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::with_causes;

    #[test]
    fn a_command_whose_device_fails_ends_with_that_error_and_exit_code_1() {
        let lost = || Some(DeviceError::Lost { name: "Big 9000".into(), reason: "it was pulled out".into() });
        let error = or_fault(|| panic!("a method without a Result"), lost).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.exit_code()), ("Big 9000 was lost: it was pulled out", 1));
        assert!(or_fault(|| Ok(()), lost).is_ok(), "what has ended well has ended well");
    }

    #[test]
    fn a_panic_is_reported_as_a_bug_on_one_line_with_exit_code_1() {
        let message = |work: fn() -> Result<(), CliError>| {
            let error = or_fault(work, || None).unwrap_err();
            assert_eq!(error.exit_code(), 1);
            with_causes(&error)
        };
        let words = "this is a bug in gradus; please report it with the command line";
        let formatted = message(|| panic!("expected {}\n  found  {}", 1, 2));
        assert!(formatted.starts_with("expected 1 found 2") && formatted.ends_with(words), "{formatted}");
        assert!(!formatted.contains('\n'));
        assert!(message(|| panic!("a mistake")).starts_with("a mistake"));
        let refused = message(|| panic!("failed to spawn thread: Os {{ code: 11, kind: WouldBlock }}"));
        assert!(refused.starts_with("the system starts no more threads") && refused.contains("ulimit -u"), "{refused}");
        assert!(!refused.contains("bug"));
        assert!(message(|| panic::panic_any(7)).starts_with("a panic"));
        let within = message(|| {
            rayon::scope(|s| s.spawn(|_| panic!("on another thread")));
            Ok(())
        });
        assert!(within.starts_with("on another thread"), "{within}");
    }
}
