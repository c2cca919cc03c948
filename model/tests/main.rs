//! The integration tests of this crate, in one binary to save linking time.

mod loops;
mod whole_lstm;
mod whole_model;
