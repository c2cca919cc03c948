//! Shapes, strides, and the error of incompatible shapes.

use std::fmt;
use std::ops::Deref;

/// The most axes a tensor may have.
pub const MAX_RANK: usize = 8;

/// The extents of a tensor's axes, outermost first. They are stored inline, so that a shape needs no allocation.
///
/// ```
/// use gradus_tensor::Shape;
/// let s = Shape::from([2, 3]);
/// assert_eq!((s.len(), s.numel(), s[1]), (2, 6, 3));
/// assert_eq!(s.to_string(), "[2, 3]");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: usize,
}

impl Shape {
    /// Returns a shape of these extents. Panics beyond [`MAX_RANK`] axes.
    pub fn new(dims: &[usize]) -> Self {
        assert!(dims.len() <= MAX_RANK, "a shape has at most {MAX_RANK} axes, got {}: {dims:?}", dims.len());
        let mut d = [0; MAX_RANK];
        d[..dims.len()].copy_from_slice(dims);
        Shape { dims: d, rank: dims.len() }
    }

    /// Returns the number of elements, the product of the extents (1 for a scalar).
    ///
    /// # Panics
    /// Panics if the number does not fit into a `usize`.
    #[track_caller]
    pub fn numel(&self) -> usize {
        match self.iter().try_fold(1, |n: usize, &extent| n.checked_mul(extent)) {
            Some(n) => n,
            None if self.contains(&0) => 0,
            None => panic!("a shape of at most {} elements, got {self}", usize::MAX),
        }
    }

    /// Returns the extents, mutable.
    pub fn dims_mut(&mut self) -> &mut [usize] {
        &mut self.dims[..self.rank]
    }

    /// Returns this shape with one extent replaced.
    pub fn with(&self, axis: usize, extent: usize) -> Self {
        let mut s = *self;
        s.dims_mut()[axis] = extent;
        s
    }

    /// Returns the row-major strides, in elements.
    pub fn strides(&self) -> Shape {
        let mut s = *self;
        let mut step = 1;
        for i in (0..self.rank).rev() {
            s.dims[i] = step;
            step *= self.dims[i];
        }
        s
    }

    /// Returns the products of the extents before, along and after an axis: the tensor viewed as (outer, extent, inner).
    pub fn around(&self, axis: usize) -> (usize, usize, usize) {
        (self[..axis].iter().product(), self[axis], self[axis + 1..].iter().product())
    }

    /// Returns the shape both broadcast to: aligned at the last axis, extents equal or one of them 1. Returns `None` if they
    /// disagree.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank.max(other.rank);
        let extent = |s: &Shape, i: usize| if i + s.rank < rank { 1 } else { s[i + s.rank - rank] };
        let mut out = Shape { dims: [0; MAX_RANK], rank };
        for i in 0..rank {
            out.dims[i] = match (extent(self, i), extent(other, i)) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => return None,
            };
        }
        Some(out)
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.dims[..self.rank]
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Shape::new(dims)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Shape::new(&dims)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self[..])
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self[..])
    }
}

/// The error of inputs whose shapes violate an op's rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{op}: {rule}, got {}", list(.got))]
pub struct ShapeError {
    /// The name of the op.
    pub op: &'static str,
    /// The expected shapes, e.g. `[m,k]·[k,n] → [m,n]`.
    pub rule: String,
    /// The shapes of the inputs.
    pub got: Vec<Shape>,
}

impl ShapeError {
    /// Returns the error of `op` for shapes that violate its rule.
    pub fn new(op: &'static str, rule: impl Into<String>, got: &[&Shape]) -> Self {
        ShapeError { op, rule: rule.into(), got: got.iter().map(|s| **s).collect() }
    }
}

fn list(shapes: &[Shape]) -> String {
    shapes.iter().map(Shape::to_string).collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 67280421310721·274177 = 2⁶⁴ + 1: a product that wraps would be 1.
    #[test]
    #[should_panic(expected = "elements, got [67280421310721, 274177]")]
    fn a_number_of_elements_does_not_wrap() {
        assert_eq!(Shape::new(&[usize::MAX, 0, usize::MAX]).numel(), 0);
        Shape::new(&[67_280_421_310_721, 274_177]).numel();
    }

    #[test]
    fn broadcasting_aligns_last_axes() {
        let b = |a: &[usize], b: &[usize]| Shape::new(a).broadcast(&Shape::new(b)).map(|s| s.to_vec());
        assert_eq!(b(&[2, 3], &[3]), Some(vec![2, 3]));
        assert_eq!(b(&[2, 1], &[1, 4]), Some(vec![2, 4]));
        assert_eq!(b(&[], &[5]), Some(vec![5]));
        assert_eq!(b(&[0], &[1]), Some(vec![0]));
        assert_eq!(b(&[2, 3], &[2]), None);
    }

    #[test]
    fn strides_and_axes() {
        let s = Shape::from([2, 3, 4]);
        assert_eq!(s.strides()[..], [12, 4, 1]);
        assert_eq!(s.around(1), (2, 3, 4));
        assert_eq!(s.with(0, 7)[..], [7, 3, 4]);
    }

    #[test]
    fn a_shape_error_states_the_rule_and_the_shapes() {
        let e = ShapeError::new("matmul", "[m,k]·[k,n] → [m,n]", &[&Shape::from([2, 3]), &Shape::from([4, 5])]);
        assert_eq!(e.to_string(), "matmul: [m,k]·[k,n] → [m,n], got [2, 3] · [4, 5]");
    }
}
