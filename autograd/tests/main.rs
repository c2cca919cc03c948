//! The tests of this crate from outside, in one binary: linking is what takes time.

mod derivatives;
mod nets;
mod networks;
mod ops_pins;
mod shapes;
mod tape;
mod witnesses;
