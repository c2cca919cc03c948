//! Tensors, and the kernels that compute with them.
//!
//! A [`Tensor`] is a [`Shape`] over a shared, recycled [`buffer`]. Its methods compute through the table [`kernels::Kernels`],
//! which every scalar ([`Real`]) provides: naive loops for any scalar, fast kernels for `f32` and `f64`.
//!
//! ```
//! use gradus_tensor::Tensor;
//!
//! let a = Tensor::new([2, 3], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! let at = a.t(); // a view: the same buffer through other strides
//! assert!(at.shares_buffer(&a) && !at.is_dense());
//! assert_eq!(a.matmul(&at).to_vec(), [14.0, 32.0, 32.0, 77.0]); // the kernel reads through strides, without a copy
//! ```
//!
//! - `cpu`: the kernels, one file each. Each file begins with the naive twin, which defines the kernel.
//! - [`device`]: the CPU and, with the feature `wgpu`, GPUs. [`Tensor::to`] copies a tensor to a device.
//! - [`rng`]: Philox, a counter-based generator: each number can be drawn without the previous ones.
//! - [`mmap`]: read-only files, mapped as slices.

// Vector instructions, disjoint writes from several threads, and mapped files need `unsafe`. Only this crate and the allocator of
// tests use it, always with a reason.
#![allow(unsafe_code)]
// Only this crate reads and writes elements directly.
#![allow(clippy::disallowed_methods)]

#[cfg(target_arch = "x86")]
compile_error!("32-bit x86 is not supported: products would fuse where single rows do not, and bits would differ");

#[cfg(not(target_family = "wasm"))]
pub mod allocator;
pub mod buffer;
mod cpu;
pub mod device;
mod forms;
#[cfg(feature = "wgpu")]
mod gpu;
pub mod kernels;
mod layout;
mod methods;
pub mod mmap;
pub mod operands;
mod real;
pub mod rng;
mod scalar;
pub mod shape;
mod simd;
mod storage;
mod tensor;

pub use cpu::parallel::on_pool;
pub use cpu::reduce::halves;
pub use device::{Device, DeviceError};
pub use methods::global_norm::{GlobalNorm, Norms};
pub use operands::Mask;
pub use real::Real;
pub use scalar::Scalar;
pub use shape::{Shape, ShapeError};
pub use simd::arithmetic;
pub use tensor::{Tensor, TooManyAxes};
