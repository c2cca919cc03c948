//! The positions of a view's elements in a buffer.

use std::ops::Range;

use crate::Shape;
use crate::shape::MAX_RANK;

/// A shape, the stride of each axis in elements, and the position of the first element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Layout {
    pub shape: Shape,
    pub strides: Shape,
    pub offset: usize,
}

impl Layout {
    /// Returns the row-major layout without gaps, from position 0 on.
    pub fn dense(shape: Shape) -> Self {
        Layout { shape, strides: shape.strides(), offset: 0 }
    }

    pub fn len(&self) -> usize {
        self.shape.numel()
    }

    pub fn is_dense(&self) -> bool {
        let dense = self.shape.strides();
        self.len() == 0 || (0..self.shape.len()).all(|i| self.shape[i] == 1 || self.strides[i] == dense[i])
    }

    /// Returns the positions of all elements of a dense layout.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len()
    }

    #[track_caller]
    pub fn permute(&self, axes: &[usize]) -> Self {
        let mut seen = [false; MAX_RANK];
        axes.iter().for_each(|&a| seen[a] = true);
        let whole = axes.len() == self.shape.len() && seen[..axes.len()].iter().all(|&s| s);
        assert!(whole, "permute: a permutation of the {} axes, got {axes:?}", self.shape.len());
        let mut out = *self;
        for (i, &a) in axes.iter().enumerate() {
            out.shape.dims_mut()[i] = self.shape[a];
            out.strides.dims_mut()[i] = self.strides[a];
        }
        out
    }

    #[track_caller]
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Self {
        let extent = self.shape[axis];
        assert!(range.start <= range.end && range.end <= extent, "slice: within 0..{extent} on axis {axis}, got {range:?}");
        let skipped = if range.is_empty() || self.len() == 0 { 0 } else { range.start * self.strides[axis] };
        Layout { shape: self.shape.with(axis, range.len()), offset: self.offset + skipped, ..*self }
    }

    #[track_caller]
    pub fn expand(&self, shape: Shape) -> Self {
        assert_eq!(self.shape.broadcast(&shape), Some(shape), "expand: {} does not broadcast to {shape}", self.shape);
        let lead = shape.len() - self.shape.len();
        let mut strides = shape;
        for i in 0..shape.len() {
            let stretched = i < lead || (self.shape[i - lead] == 1 && shape[i] != 1);
            strides.dims_mut()[i] = if stretched { 0 } else { self.strides[i - lead] };
        }
        Layout { shape, strides, offset: self.offset }
    }
}
