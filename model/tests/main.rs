//! The tests of this crate from outside, in one binary: linking is what takes time.

mod loops;
mod whole_lstm;
mod whole_model;
