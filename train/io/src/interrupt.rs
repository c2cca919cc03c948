//! A request to stop: made by Ctrl-C, honoured by every loop that can stop with a checkpoint.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Asks the work of this process to end after the current step; true if that was asked before.
pub fn request() -> bool {
    REQUESTED.swap(true, Ordering::Relaxed)
}

/// Should the work end?
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
