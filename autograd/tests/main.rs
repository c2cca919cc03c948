//! The integration tests of this crate, in one binary, because linking takes most of the time.

mod derivatives;
mod nets;
mod networks;
mod ops_pins;
mod shapes;
mod tape;
mod witnesses;
