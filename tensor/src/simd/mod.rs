//! Vector arithmetic in plain Rust: loops that the compiler vectorises, compiled once for each level of the CPU.
//!
//! Only exponentials and products use fused multiply-adds, on every CPU that has them in vector form. Reductions use [`LANES`]
//! partial sums, whatever the width of a register. All levels with fused multiply-adds therefore give the same bits.

mod elementary;
mod float;
mod level;
mod reduce;
mod vectorized;

pub use elementary::Elementary;
pub use float::Float;
#[cfg(test)]
pub(crate) use level::at_level;
pub(crate) use level::detected;
pub use level::{Level, arithmetic, level};
pub use reduce::{LANES, add_lanes, largest_of, sum_of, sum_of_2};
pub(crate) use vectorized::vectorized;
