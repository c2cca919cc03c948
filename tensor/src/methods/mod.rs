//! What tensors compute: each kernel as a method of [`Tensor`](crate::Tensor), a file per family.
//!
//! This is the one seam between the mathematics and a device: code written with these methods alone does not know where the
//! numbers are. Inputs may be views; results are dense unless said otherwise. Shapes that do not fit panic.

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
    /// Values of `shape`, row-major, stored where this tensor is; panics unless `shape` has that many elements.
    #[track_caller]
    pub fn constant(&self, shape: impl Into<Shape>, values: Vec<T>) -> Self {
        self.beside(Self::new(shape, values))
    }

    /// A tensor of `shape` filled with `value`, stored where this one is.
    pub fn full_like(&self, shape: impl Into<Shape>, value: T) -> Self {
        let shape = shape.into();
        on_gpu!(x = self => gpu::fill(x.gpu(), shape, value.to_f64() as f32));
        Self::full(shape, value)
    }

    /// A tensor of `shape` filled with 0, stored where this one is.
    pub fn zeros_like(&self, shape: impl Into<Shape>) -> Self {
        self.full_like(shape, T::zero())
    }

    /// `x`, brought to where this tensor is; panics where a GPU fails.
    #[track_caller]
    fn beside(&self, x: Self) -> Self {
        x.to(&self.device()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// 1 where a condition holds, 0 elsewhere; `holds` in row-major order.
    #[track_caller]
    pub fn indicator(&self, shape: impl Into<Shape>, holds: impl IntoIterator<Item = bool>) -> Self {
        self.constant(shape, holds.into_iter().map(|holds| if holds { T::one() } else { T::zero() }).collect())
    }

    /// The number of rows, over all axes but the last, and their length.
    fn rows(&self) -> (usize, usize) {
        let n = self.shape().last().copied().unwrap_or(1);
        (self.len().checked_div(n).unwrap_or(0), n)
    }

    /// The elements, every one of which is to be written.
    fn write_all(&mut self) -> &mut [T] {
        self.get_mut().expect("just made")
    }
}
