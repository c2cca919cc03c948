//! The computations of tensors: each kernel as a method of [`Tensor`](crate::Tensor), one file per family.
//!
//! These methods are the only interface between the mathematics and a device: code that uses only them does not depend on where
//! the elements are. Inputs may be views. Results are dense unless stated otherwise. The methods panic if shapes do not fit.

#![cfg_attr(not(feature = "wgpu"), allow(unused_variables, reason = "what only a GPU's kernel needs"))]

mod arithmetic;
mod attention;
pub(crate) mod global_norm;
mod in_place;
mod loss;
mod norm;
mod operators;
mod product;
mod recurrent;
mod reduce;
mod rows;

use crate::tensor::on_gpu;
use crate::{Real, Shape, Tensor};

impl<T: Real> Tensor<T> {
    /// Returns a tensor of `shape` with these values, row-major, on the device of this tensor. Panics unless `shape` has that
    /// many elements.
    #[track_caller]
    pub fn constant(&self, shape: impl Into<Shape>, values: Vec<T>) -> Self {
        self.beside(Self::new(shape, values))
    }

    /// Returns a tensor of `shape` filled with `value`, on the device of this one.
    pub fn full_like(&self, shape: impl Into<Shape>, value: T) -> Self {
        let shape = shape.into();
        on_gpu!(x = self => gpu::fill(x.gpu(), shape, value.to_f64() as f32));
        self.cpu().write(shape, |out| out.fill(value))
    }

    /// Returns a tensor of `shape` filled with 0, on the device of this one.
    pub fn zeros_like(&self, shape: impl Into<Shape>) -> Self {
        self.full_like(shape, T::zero())
    }

    /// Copies `x` to the device of this tensor. Panics if a GPU fails.
    #[track_caller]
    fn beside(&self, x: Self) -> Self {
        x.to(&self.device()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns a tensor that is 1 where a condition holds and 0 elsewhere. `holds` is in row-major order.
    #[track_caller]
    pub fn indicator(&self, shape: impl Into<Shape>, holds: impl IntoIterator<Item = bool>) -> Self {
        self.constant(shape, holds.into_iter().map(|holds| if holds { T::one() } else { T::zero() }).collect())
    }

    /// Returns the number of rows, over all axes but the last, and their length.
    fn rows(&self) -> (usize, usize) {
        let n = self.shape().last().copied().unwrap_or(1);
        (self.len().checked_div(n).unwrap_or(0), n)
    }

    /// Returns the elements of a new tensor, all of which the caller must write.
    fn write_all(&mut self) -> &mut [T] {
        self.get_mut().expect("just made")
    }
}
