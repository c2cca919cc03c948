//! Tests of every failure, one at a time, as in SQLite's own tests: the n-th call on a file fails, or the machine stops there and
//! unsynced data is lost; or the n-th buffer of a tensor is refused. For each n: no panic reaches the user, the error is clear,
//! every file is old or new, and the resumed run ends as an undisturbed one.
//!
//! `cargo test` draws a new sample each time; `GRADUS_FAULTS=all` tests every n, `GRADUS_FAULTS=SEED` repeats a sample.
#![allow(clippy::disallowed_methods)]

mod disk;
mod finetuning;
mod pretraining;
mod scene;
