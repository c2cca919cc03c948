//! The integration tests of this crate, in one binary to save linking time.

mod bits;
mod pages;
mod trainer;
