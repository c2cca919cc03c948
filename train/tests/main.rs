//! The tests of this crate from outside, in one binary: linking is what takes time.

mod bits;
mod pages;
mod trainer;
