//! Exit codes of the program.

/// The exit code of a failure.
pub const FAILED: u8 = 1;
/// The exit code of wrong usage.
pub const USAGE: u8 = 2;
/// The exit code of an interruption by Ctrl-C, as shells count SIGINT.
pub const INTERRUPTED: u8 = 130;

/// An error with an exit code, which is stated beside the error.
pub trait Exit {
    /// Returns the exit code of a program that ends with this error.
    fn exit_code(&self) -> u8;
}
