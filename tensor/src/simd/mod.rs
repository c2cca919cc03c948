//! Vector arithmetic in plain Rust: loops that the compiler vectorises, compiled once for each level of the CPU.
//!
//! Only exponentials and products fuse a multiplication with an addition, and those wherever there is a vector unit that can;
//! reductions run over [`LANES`] partial sums whatever the width of a register. So all levels that have such a unit give the
//! same bits.

mod elementary;
mod float;
mod level;
mod reduce;
mod vectorized;

pub use elementary::Elementary;
pub use float::Float;
#[cfg(test)]
pub(crate) use level::at_level;
pub use level::{Level, arithmetic, level};
pub use reduce::{LANES, add_lanes, largest_of, sum_of, sum_of_2};
pub(crate) use vectorized::vectorized;
