//! Tensors: a shape over a shared, recycled buffer.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::rng::Philox;
use crate::{Real, Shape};
use ndarray::{ArrayViewD, IxDyn, ShapeBuilder};

/// An n-dimensional array. Cloning, permuting, slicing and expanding share the buffer. Methods with
/// `&mut self` change elements, in a copy where the buffer is shared.
///
/// ```
/// use gradus_tensor::Tensor;
/// let x = Tensor::new([2, 3], vec![1., 2., 3., 4., 5., 6.]);
/// assert_eq!(x.permute(&[1, 0]).to_vec(), [1., 4., 2., 5., 3., 6.]);
/// assert_eq!(x.slice(1, 1..3).to_vec(), [2., 3., 5., 6.]);
/// ```
#[derive(Clone)]
pub struct Tensor<T: Real = f32> {
    shape: Shape,
    strides: Shape,
    offset: usize,
    data: Arc<Buffer<T>>,
}

impl<T: Real> Tensor<T> {
    /// A tensor of these values, row-major; panics unless the shape has that many elements.
    pub fn new(shape: impl Into<Shape>, values: Vec<T>) -> Self {
        let shape = shape.into();
        assert_eq!(shape.numel(), values.len(), "a tensor of shape {shape} has {} elements, got {}", shape.numel(), values.len());
        Self::write(shape, |out| out.copy_from_slice(&values))
    }

    /// A tensor that `fill` writes. It is handed a recycled buffer of arbitrary values and must write every element.
    pub fn write(shape: impl Into<Shape>, fill: impl FnOnce(&mut [T])) -> Self {
        let mut out = Self::unwritten(shape);
        fill(out.get_mut().expect("just made"));
        out
    }

    /// A tensor of arbitrary values, for kernels that write several results; every element must be written.
    pub fn unwritten(shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        Tensor { shape, strides: shape.strides(), offset: 0, data: Arc::new(Buffer::recycled(shape.numel())) }
    }

    /// Every element `value`.
    pub fn full(shape: impl Into<Shape>, value: T) -> Self {
        Self::write(shape, |out| out.fill(value))
    }

    /// Every element 0.
    pub fn zeros(shape: impl Into<Shape>) -> Self {
        Self::full(shape, T::zero())
    }

    /// A tensor without axes.
    pub fn scalar(value: T) -> Self {
        Self::full([], value)
    }

    /// Independent draws from N(0, std²), in row-major order.
    pub fn normal(shape: impl Into<Shape>, std: f64, rng: &mut Philox) -> Self {
        Self::write(shape, |out| rng.fill_normal(std, out))
    }

    /// Independent uniform draws from [low, high), in row-major order.
    pub fn uniform(shape: impl Into<Shape>, low: f64, high: f64, rng: &mut Philox) -> Self {
        Self::write(shape, |out| out.iter_mut().for_each(|x| *x = T::lit(low + (high - low) * rng.uniform_f64())))
    }

    /// The extents of the axes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Elements from one position of an axis to the next.
    pub fn strides(&self) -> &Shape {
        &self.strides
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.numel()
    }

    /// Has it no elements?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Do the elements lie in row-major order without gaps?
    pub fn is_dense(&self) -> bool {
        let dense = self.shape.strides();
        self.is_empty() || (0..self.shape.len()).all(|i| self.shape[i] == 1 || self.strides[i] == dense[i])
    }

    /// The elements in row-major order; panics unless dense. See [`Tensor::dense`].
    pub fn as_slice(&self) -> &[T] {
        assert!(
            self.is_dense(),
            "as_slice: a dense tensor, got shape {} with strides {}; call dense() first",
            self.shape,
            self.strides
        );
        &self.data[self.offset..self.offset + self.len()]
    }

    /// The elements from the first one of this view on, for kernels that read through [`Tensor::strides`].
    pub fn from_first(&self) -> &[T] {
        if self.is_empty() { &[] } else { &self.data[self.offset..] }
    }

    /// This tensor in row-major order without gaps: itself, or a copy.
    pub fn dense(&self) -> Self {
        if self.is_dense() {
            return self.clone();
        }
        Self::write(self.shape, |out| {
            let mut to = ndarray::ArrayViewMutD::from_shape(&self.shape[..], out).expect("as many elements as the shape");
            to.assign(&self.view());
        })
    }

    /// The elements in row-major order.
    pub fn to_vec(&self) -> Vec<T> {
        self.dense().as_slice().to_vec()
    }

    /// This tensor as an ndarray view.
    pub fn view(&self) -> ArrayViewD<'_, T> {
        if self.is_empty() {
            return ArrayViewD::from_shape(IxDyn(&self.shape), &[]).expect("no elements");
        }
        let shape = IxDyn(&self.shape).strides(IxDyn(&self.strides));
        ArrayViewD::from_shape(shape, self.from_first()).expect("strides stay within the buffer")
    }

    /// The one element; panics where there are more or none.
    pub fn item(&self) -> T {
        assert_eq!(self.len(), 1, "item: a tensor of one element, got shape {}", self.shape);
        self.data[self.offset]
    }

    /// The elements to change in place: dense, and copied first where the buffer is shared.
    pub fn to_mut(&mut self) -> &mut [T] {
        if !self.is_dense() || Arc::get_mut(&mut self.data).is_none() {
            *self = Self::write(self.shape, |out| out.copy_from_slice(self.dense().as_slice()));
        }
        self.get_mut().expect("just made dense and unshared")
    }

    /// The elements to change in place, if this tensor is dense and its buffer is not shared.
    pub fn get_mut(&mut self) -> Option<&mut [T]> {
        if !self.is_dense() {
            return None;
        }
        let range = self.offset..self.offset + self.len();
        Some(&mut Arc::get_mut(&mut self.data)?[range])
    }

    /// f of every element.
    pub fn map<U: Real>(&self, f: impl Fn(T) -> U) -> Tensor<U> {
        let x = self.dense();
        Tensor::write(self.shape, |out| out.iter_mut().zip(x.as_slice()).for_each(|(y, &x)| *y = f(x)))
    }

    /// f of every pair of elements; panics unless the shapes are equal.
    #[track_caller]
    pub fn zip(&self, other: &Self, f: impl Fn(T, T) -> T) -> Self {
        Self::elementwise([self, other], |[a, b]| f(a, b))
    }

    /// Every element as another scalar, through f64.
    pub fn cast<U: Real>(&self) -> Tensor<U> {
        self.map(|x| U::lit(x.to_f64()))
    }

    /// The same elements in row-major order under another shape; panics where the numbers of elements differ.
    pub fn reshape(&self, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        assert_eq!(shape.numel(), self.len(), "reshape: {} → {shape} changes the number of elements", self.shape);
        let x = self.dense();
        Tensor { shape, strides: shape.strides(), ..x }
    }

    /// Axis i of the result is axis `axes[i]` of this tensor; panics unless `axes` is a permutation.
    pub fn permute(&self, axes: &[usize]) -> Self {
        let mut seen = [false; crate::shape::MAX_RANK];
        axes.iter().for_each(|&a| seen[a] = true);
        let whole = axes.len() == self.shape.len() && seen[..axes.len()].iter().all(|&s| s);
        assert!(whole, "permute: a permutation of the {} axes, got {axes:?}", self.shape.len());
        let (mut shape, mut strides) = (self.shape, self.strides);
        for (i, &a) in axes.iter().enumerate() {
            shape.dims_mut()[i] = self.shape[a];
            strides.dims_mut()[i] = self.strides[a];
        }
        Tensor { shape, strides, offset: self.offset, data: self.data.clone() }
    }

    /// Positions `range` of one axis; panics outside its extent.
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Self {
        let extent = self.shape[axis];
        assert!(range.start <= range.end && range.end <= extent, "slice: within 0..{extent} on axis {axis}, got {range:?}");
        let offset =
            if range.is_empty() || self.is_empty() { self.offset } else { self.offset + range.start * self.strides[axis] };
        Tensor { shape: self.shape.with(axis, range.len()), offset, ..self.clone() }
    }

    /// This tensor repeated to `shape` (new outer axes, extents of 1 stretched) without a copy; panics where it does not broadcast so.
    pub fn expand(&self, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        assert_eq!(self.shape.broadcast(&shape), Some(shape), "expand: {} does not broadcast to {shape}", self.shape);
        let lead = shape.len() - self.shape.len();
        let mut strides = shape;
        for i in 0..shape.len() {
            let stretched = i < lead || (self.shape[i - lead] == 1 && shape[i] != 1);
            strides.dims_mut()[i] = if stretched { 0 } else { self.strides[i - lead] };
        }
        Tensor { shape, strides, offset: self.offset, data: self.data.clone() }
    }

    /// Do both share one buffer?
    pub fn shares_buffer(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.data, &other.data)
    }
}

impl<T: Real> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor{} ", self.shape)?;
        if self.len() <= 64 { write!(f, "{:?}", self.to_vec()) } else { write!(f, "({} elements)", self.len()) }
    }
}

impl<T: Real> PartialEq for Tensor<T> {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.view() == other.view()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(shape: &[usize]) -> Tensor<f64> {
        Tensor::new(Shape::new(shape), (0..shape.iter().product()).map(|i: usize| i as f64).collect())
    }

    #[test]
    fn views_share_and_dense_copies() {
        let x = count(&[2, 3, 4]);
        let t = x.permute(&[2, 0, 1]);
        assert!(t.shares_buffer(&x) && !t.is_dense() && !t.dense().shares_buffer(&x));
        assert_eq!(t.dense().as_slice()[..4], [0., 4., 8., 12.]);
        assert_eq!(t.slice(0, 1..3).slice(2, 2..3).to_vec(), [9., 21., 10., 22.]);
        assert_eq!(x.slice(1, 1..1).to_vec(), Vec::<f64>::new());
        assert_eq!(count(&[0, 3]).slice(1, 1..2).to_vec(), Vec::<f64>::new());
        assert_eq!(count(&[0, 3]), count(&[0, 3]));
        assert_eq!(count(&[3]).expand([2, 3]).to_vec(), [0., 1., 2., 0., 1., 2.]);
        assert_eq!(count(&[2, 1]).expand([2, 2]).to_vec(), [0., 0., 1., 1.]);
        assert_eq!(count(&[1]).expand([0]).len(), 0);
    }

    #[test]
    fn writing_never_shows_through_a_clone() {
        let mut x = count(&[3]);
        let y = x.clone();
        assert!(x.get_mut().is_none());
        x.to_mut()[0] = 9.0;
        assert_eq!((x.to_vec(), y.to_vec()), (vec![9., 1., 2.], vec![0., 1., 2.]));
        assert!(x.get_mut().is_some());
    }

    #[test]
    fn a_row_of_one_is_dense_whatever_its_stride() {
        let x = count(&[4, 3]).slice(0, 1..2);
        assert!(x.is_dense());
        assert_eq!(x.as_slice(), [3., 4., 5.]);
        assert!(count(&[4, 1]).permute(&[1, 0]).is_dense());
    }

    #[test]
    #[should_panic(expected = "reshape: [2, 3] → [4] changes the number of elements")]
    fn a_wrong_reshape_says_so() {
        count(&[2, 3]).reshape([4]);
    }
}
