//! The kernels of a GPU: the counterpart of `cpu`, behind the same methods of [`Tensor`](crate::Tensor).
//!
//! A kernel consists of two files: `NAME.wgsl`, the shader, and `NAME.rs`, which prepares its operands and starts it. Functions
//! that differ only by a constant of the shader share its file.

mod adam;
mod attention;
mod copy;
mod cross_entropy;
mod dropout;
mod elementwise;
mod embedding;
mod layer_norm;
mod linear_cross_entropy;
mod lstm;
mod matmul;
mod max;
mod non_finite;
mod norm;
mod reduce;
mod softmax;
mod squares;
#[cfg(test)]
mod testing;
mod tree;
#[cfg(test)]
mod windows;

use std::ops::Range;
use std::sync::Arc;

pub(crate) use adam::adam;
pub(crate) use attention::Attention;
pub(crate) use copy::{concat, pad, write_rows};
pub(crate) use cross_entropy::{cross_entropy, cross_entropy_vjp};
pub(crate) use dropout::dropout;
pub(crate) use elementwise::{assign, fill, map};
pub(crate) use embedding::{add_rows, gather};
pub(crate) use layer_norm::{layer_norm, layer_norm_vjp, rms_norm, rms_norm_vjp};
pub(crate) use linear_cross_entropy::{linear_cross_entropy, rows_at_once};
pub(crate) use lstm::{lstm, lstm_cell, lstm_cell_vjp, lstm_vjp};
pub(crate) use matmul::{linear, linear_gelu, matmul};
pub(crate) use max::{is_max, max};
pub(crate) use non_finite::mark_non_finite;
pub(crate) use norm::NormTable;
pub(crate) use reduce::{dot, sum};
pub(crate) use softmax::{softmax, softmax_vjp};
pub(crate) use squares::squares;

use crate::Shape;
use crate::device::{Buffer, Gpu};
use crate::layout::Layout;

/// The threads of a workgroup, in shaders in which one thread writes one element.
const THREADS: usize = 64;

/// A view of elements on a GPU.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub layout: Layout,
    pub buffer: Arc<Buffer>,
}

impl Array {
    /// Returns an array of arbitrary values, all of which the caller must write.
    pub fn unwritten(gpu: &Arc<Gpu>, shape: Shape) -> Self {
        Array { layout: Layout::dense(shape), buffer: Arc::new(Buffer::recycled(gpu, shape.numel())) }
    }

    pub fn gpu(&self) -> &Arc<Gpu> {
        self.buffer.gpu()
    }

    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Returns the number of rows, over all axes but the last, and their length.
    fn rows(&self) -> (usize, usize) {
        let n = self.shape().last().copied().unwrap_or(1);
        (self.len().checked_div(n).unwrap_or(0), n)
    }

    /// Returns a copy of these dense elements. Panics if the device fails.
    fn read(&self) -> Vec<f32> {
        self.buffer.read(self.layout.range()).wait().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the offset of the first element, for a shader.
    fn at(&self) -> u32 {
        word(self.layout.offset)
    }

    /// Returns the elements in row-major order without gaps: this array, or a copy.
    pub fn dense(&self) -> Self {
        if self.layout.is_dense() { self.clone() } else { self.copied() }
    }

    /// Returns a dense copy.
    pub fn copied(&self) -> Self {
        let to = Self::unwritten(self.gpu(), self.shape());
        copy::copy(self, &to);
        to
    }

    /// Returns one element of a dense vector.
    pub fn element(&self, at: usize) -> Self {
        self.sliced(0, at..at + 1)
    }

    /// Returns the positions `range` of one axis, as a view.
    fn sliced(&self, axis: usize, range: Range<usize>) -> Self {
        Array { layout: self.layout.slice(axis, range), buffer: self.buffer.clone() }
    }

    /// Returns a view whose axis i is axis `axes[i]` of this array.
    fn permuted(&self, axes: &[usize]) -> Self {
        Array { layout: self.layout.permute(axes), buffer: self.buffer.clone() }
    }

    /// Returns these dense elements under another shape of the same length.
    pub fn reshaped(&self, shape: Shape) -> Self {
        let layout = Layout { offset: self.layout.offset, ..Layout::dense(shape) };
        Array { layout, buffer: self.buffer.clone() }
    }
}

/// Converts a size or position to the 32 bits of a shader: a buffer has fewer than 2³² elements.
fn word(n: usize) -> u32 {
    n.try_into().expect("fewer than 2³² elements in a buffer")
}
