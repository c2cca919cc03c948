//! Numbers in memory and the kernels over them.
//!
//! A [`Tensor`] is a [`Shape`] over a shared, recycled [`buffer`]; what computes on it in bulk stands in the table
//! [`kernels::Kernels`], which every scalar ([`Real`]) can give: naive loops for any, fast ones for `f32` and `f64`.

pub mod buffer;
pub mod cpu;
pub mod kernels;
mod real;
pub mod rng;
pub mod shape;
mod tensor;

pub use real::Real;
pub use shape::{Shape, ShapeError};
pub use tensor::Tensor;
