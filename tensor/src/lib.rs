//! Numbers in memory and the kernels over them.
//!
//! A [`Tensor`] is a [`Shape`] over a shared, recycled [`buffer`]; what computes on it in bulk stands in the table
//! [`kernels::Kernels`], which every scalar ([`Real`]) can give: naive loops for any, fast ones for `f32` and `f64`.
//!
//! ```
//! use gradus_tensor::operands::{Mat, MatMut, Onto};
//! use gradus_tensor::{Real, Tensor};
//!
//! let a = Tensor::new([2, 3], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! let at = a.permute(&[1, 0]); // a view: the same buffer through other strides
//! assert!(at.shares_buffer(&a) && !at.is_dense());
//!
//! // A·Aᵀ: the kernel reads both through their strides, so nothing is copied to transpose.
//! let left = Mat { data: a.as_slice(), rows: 2, cols: 3, row_stride: 3, col_stride: 1 };
//! let right = Mat { data: a.as_slice(), rows: 3, cols: 2, row_stride: 1, col_stride: 3 };
//! let product = Tensor::write([2, 2], |out| {
//!     (f32::kernels().matmul)(left, right, MatMut { data: out, rows: 2, cols: 2, row_stride: 2 }, Onto::Nothing);
//! });
//! assert_eq!(product.to_vec(), [14.0, 32.0, 32.0, 77.0]);
//! ```
//!
//! - [`cpu`]: the kernels, one file each, the naive twin that defines a kernel first.
//! - [`rng`]: Philox, a generator by counters: any of its numbers can be had without those before it.
//! - [`mmap`]: read-only files as slices.

// Vector instructions, disjoint writes from several threads, and mapped files need `unsafe`: here alone, each with its reason.
#![allow(unsafe_code)]
// Here elements lie.
#![allow(clippy::disallowed_methods)]

#[cfg(target_arch = "x86")]
compile_error!("32-bit x86 is not supported: products would fuse where single rows do not, and bits would differ");

pub mod buffer;
pub mod cpu;
pub mod kernels;
mod methods;
pub mod mmap;
pub mod operands;
mod real;
pub mod rng;
mod scalar;
pub mod shape;
mod simd;
mod tensor;

pub use cpu::parallel::on_pool;
pub use operands::Mask;
pub use real::Real;
pub use scalar::Scalar;
pub use shape::{Shape, ShapeError};
pub use tensor::Tensor;
