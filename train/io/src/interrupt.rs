//! A stop request, set by Ctrl-C and checked by every loop that can stop with a checkpoint.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Requests that this process stop after the current step. Returns whether it was already requested.
pub fn request() -> bool {
    REQUESTED.swap(true, Ordering::Relaxed)
}

/// Returns whether a stop was requested.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
