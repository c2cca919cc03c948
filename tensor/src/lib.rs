//! Numbers in memory and the kernels over them.

pub mod cpu;
pub mod kernels;
pub mod real;
pub mod rng;

pub use real::Real;
