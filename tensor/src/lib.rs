//! Numbers in memory and the kernels over them.
//!
//! A [`Tensor`] is a [`Shape`] over a shared, recycled [`buffer`]; what computes on it in bulk stands in the table
//! [`kernels::Kernels`], which every scalar ([`Real`]) can give: naive loops for any, fast ones for `f32` and `f64`.

// Vector instructions, disjoint writes from several threads, and mapped files need `unsafe`: here alone, each with its reason.
#![allow(unsafe_code)]

pub mod buffer;
pub mod cpu;
pub mod kernels;
pub mod mmap;
mod real;
pub mod rng;
pub mod shape;
mod simd;
mod tensor;

pub use real::Real;
pub use shape::{Shape, ShapeError};
pub use tensor::Tensor;
