//! Every failure, one at a time, as SQLite tests itself: the n-th call on a file fails, or the machine stops there and what was not
//! synced is lost; the n-th buffer of a tensor is refused. For each n: no panic reaches the user, the error is clear, every file is
//! old or new, and the run that goes on ends as one that was never disturbed.
//!
//! `cargo test` takes a sample, drawn anew each time; `GRADUS_FAULTS=all` takes every n, `GRADUS_FAULTS=SEED` a sample again.
#![allow(clippy::disallowed_methods)]

mod disk;
mod finetuning;
mod pretraining;
mod scene;
