//! Tensors: a shape over a shared, recycled buffer.

#[cfg(feature = "wgpu")]
mod arrays;
mod convert;
mod cpu;

use std::fmt;
use std::ops::Range;

use crate::device::{Device, DeviceError, MatmulPrecision};
use crate::forms::Packed;
use crate::layout::Layout;
use crate::rng::Philox;
use crate::storage::Storage;
use crate::{Real, Shape};
use ndarray::{ArrayViewD, IxDyn, ShapeBuilder};

pub use convert::TooManyAxes;
pub(crate) use cpu::Cpu;

/// An n-dimensional array, in the CPU's memory or on a GPU. Cloning, permuting, slicing and expanding share the buffer. Methods
/// with `&mut self` change the elements, in a copy if the buffer is shared. A result is on the device of its operands; on the CPU,
/// its products are in bf16 if those of an operand are.
///
/// ```
/// use gradus_tensor::Tensor;
/// let x = Tensor::new([2, 3], vec![1., 2., 3., 4., 5., 6.]);
/// assert_eq!(x.permute(&[1, 0]).to_vec(), [1., 4., 2., 5., 3., 6.]);
/// assert_eq!(x.slice(1, 1..3).to_vec(), [2., 3., 5., 6.]);
/// ```
#[derive(Clone)]
pub struct Tensor<T: Real = f32> {
    pub(crate) layout: Layout,
    pub(crate) data: Storage<T>,
}

impl<T: Real> Tensor<T> {
    /// Returns a tensor of these values, row-major. Panics unless the shape has that many elements.
    pub fn new(shape: impl Into<Shape>, values: Vec<T>) -> Self {
        let shape = shape.into();
        assert_eq!(shape.numel(), values.len(), "a tensor of shape {shape} has {} elements, got {}", shape.numel(), values.len());
        Self::write(shape, |out| out.copy_from_slice(&values))
    }

    /// Returns a tensor that `fill` writes. `fill` receives a recycled buffer of arbitrary values and must write every element.
    pub fn write(shape: impl Into<Shape>, fill: impl FnOnce(&mut [T])) -> Self {
        Cpu::with(MatmulPrecision::F32).write(shape, fill)
    }

    /// Returns a tensor of arbitrary values, for kernels that write several results. The caller must write every element.
    pub fn unwritten(shape: impl Into<Shape>) -> Self {
        Cpu::with(MatmulPrecision::F32).unwritten(shape)
    }

    /// Returns a tensor whose elements are `value`.
    pub fn full(shape: impl Into<Shape>, value: T) -> Self {
        Self::write(shape, |out| out.fill(value))
    }

    /// Returns a tensor whose elements are 0.
    pub fn zeros(shape: impl Into<Shape>) -> Self {
        Self::full(shape, T::zero())
    }

    /// Returns a tensor without axes.
    pub fn scalar(value: T) -> Self {
        Self::full([], value)
    }

    /// Returns independent draws from N(0, std²), in row-major order.
    pub fn normal(shape: impl Into<Shape>, std: f64, rng: &mut Philox) -> Self {
        Self::write(shape, |out| rng.fill_normal(std, out))
    }

    /// Returns independent uniform draws from [low, high), in row-major order.
    pub fn uniform(shape: impl Into<Shape>, low: f64, high: f64, rng: &mut Philox) -> Self {
        Self::write(shape, |out| out.iter_mut().for_each(|x| *x = T::lit(low + (high - low) * rng.uniform_f64())))
    }

    /// Returns the extents of the axes.
    pub fn shape(&self) -> &Shape {
        &self.layout.shape
    }

    /// Returns the strides: the elements from one position of an axis to the next.
    pub fn strides(&self) -> &Shape {
        &self.layout.strides
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Returns whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the elements are in row-major order without gaps, and not [rounded for products](Tensor::as_factor).
    pub fn is_dense(&self) -> bool {
        self.layout.is_dense() && self.data.halves().is_none()
    }

    /// Returns the device of the elements.
    pub fn device(&self) -> Device {
        self.data.device()
    }

    /// Returns this tensor on `device`: the same elements if they are in its memory, otherwise a dense copy.
    ///
    /// ```
    /// # use gradus_tensor::{Device, Tensor};
    /// let x = Tensor::new([2], vec![1.0f32, 2.0]);
    /// let device = Device::open("cpu")?; // or "gpu", or "gpu:" and a part of its name
    /// assert_eq!((x.to(&device)? * 3.0).to_vec(), [3.0, 6.0]);
    /// # Ok::<(), gradus_tensor::DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error on a GPU if the scalar is not `f32`, the memory is exhausted, or the device was lost; and on a CPU with
    /// products in bf16 if the scalar is not `f32`.
    pub fn to(&self, device: &Device) -> Result<Self, DeviceError> {
        if self.device() == *device {
            return Ok(self.clone());
        }
        if let Device::Cpu(precision) = device
            && let Some(data) = self.data.in_precision(*precision)?
        {
            return Ok(Tensor { layout: self.layout, data });
        }
        let values = self.try_to_vec()?;
        Ok(Tensor { layout: Layout::dense(*self.shape()), data: Storage::on(device, values)? })
    }

    /// Returns the elements in row-major order. Panics unless they are dense and in the CPU's memory. See [`Tensor::dense`] and
    /// [`Tensor::to`].
    #[track_caller]
    pub fn as_slice(&self) -> &[T] {
        let Layout { shape, strides, .. } = self.layout;
        assert!(self.is_dense(), "as_slice: a dense tensor, got shape {shape} with strides {strides}; call dense() first");
        &self.data.host()[self.layout.range()]
    }

    /// Returns the elements from the first one of this view on, for kernels that read through [`Tensor::strides`]. Panics unless
    /// they are in the CPU's memory.
    #[track_caller]
    pub fn from_first(&self) -> &[T] {
        let elements = self.data.host();
        if self.is_empty() { &[] } else { &elements[self.layout.offset..] }
    }

    /// Returns this tensor in row-major order without gaps: the same tensor, or a copy.
    pub fn dense(&self) -> Self {
        if self.is_dense() {
            return self.clone();
        }
        on_gpu!(x = self => x.dense());
        if self.data.halves().is_some() {
            return Tensor { layout: self.layout, data: self.data.widened() }.dense();
        }
        self.cpu().write(*self.shape(), |out| self.copy_to(out))
    }

    /// Copies the elements in row-major order.
    fn copy_to(&self, out: &mut [T]) {
        let mut to = ndarray::ArrayViewMutD::from_shape(&self.shape()[..], out).expect("as many elements as the shape");
        to.assign(&self.view());
    }

    /// Returns a copy of the elements in row-major order. Panics if a GPU fails.
    #[track_caller]
    pub fn to_vec(&self) -> Vec<T> {
        self.try_to_vec().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns a copy of the elements in row-major order.
    ///
    /// # Errors
    /// Returns an error if the GPU of the elements has had a fault: the first one.
    pub fn try_to_vec(&self) -> Result<Vec<T>, DeviceError> {
        let x = self.dense();
        x.data.read(x.layout.range())
    }

    /// Returns this tensor as an ndarray view. Panics unless the elements are in the CPU's memory.
    #[track_caller]
    pub fn view(&self) -> ArrayViewD<'_, T> {
        let elements = self.from_first();
        if self.is_empty() {
            return ArrayViewD::from_shape(IxDyn(self.shape()), &[]).expect("no elements");
        }
        let shape = IxDyn(self.shape()).strides(IxDyn(self.strides()));
        ArrayViewD::from_shape(shape, elements).expect("strides stay within the buffer")
    }

    /// Returns a copy of the only element. Panics if there are more or none, or if a GPU fails.
    #[track_caller]
    pub fn item(&self) -> T {
        assert_eq!(self.len(), 1, "item: a tensor of one element, got shape {}", self.shape());
        let at = self.layout.offset;
        self.data.read_one(at).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the elements to change in place. They are made dense, and copied if the buffer is shared. Panics unless they are
    /// in the CPU's memory.
    #[track_caller]
    pub fn to_mut(&mut self) -> &mut [T] {
        if !self.is_dense() || self.data.host_mut().is_none() {
            *self = self.cpu().write(*self.shape(), |out| out.copy_from_slice(self.dense().as_slice()));
        }
        self.get_mut().expect("just made dense and unshared")
    }

    /// Returns the elements to change in place, or `None` if this tensor is not dense or its buffer is shared. Panics unless they
    /// are in the CPU's memory.
    #[track_caller]
    pub fn get_mut(&mut self) -> Option<&mut [T]> {
        let (is_dense, range) = (self.is_dense(), self.layout.range());
        let elements = self.data.host_mut()?;
        is_dense.then(|| &mut elements[range])
    }

    /// Computes f of every element. Panics unless the elements are in the CPU's memory.
    #[track_caller]
    pub fn map<U: Real>(&self, f: impl Fn(T) -> U) -> Tensor<U> {
        let x = self.dense();
        let values = x.as_slice();
        Cpu::with(self.data.matmul_precision())
            .write(*self.shape(), |out| out.iter_mut().zip(values).for_each(|(y, &x)| *y = f(x)))
    }

    /// Computes f of every pair of elements. Panics unless the shapes are equal and the elements are in the CPU's memory.
    #[track_caller]
    pub fn zip(&self, other: &Self, f: impl Fn(T, T) -> T) -> Self {
        assert_eq!(self.shape(), other.shape(), "zip: tensors of one shape");
        let (a, b) = (self.dense(), other.dense());
        let pairs = a.as_slice().iter().zip(b.as_slice());
        Cpu::of([self, other]).write(*self.shape(), |out| out.iter_mut().zip(pairs).for_each(|(y, (&a, &b))| *y = f(a, b)))
    }

    /// Converts every element to another scalar, through f64, in the CPU's memory. Panics if a GPU fails.
    #[track_caller]
    pub fn cast<U: Real>(&self) -> Tensor<U> {
        self.on_cpu().map(|x| U::lit(x.to_f64()))
    }

    /// Returns this tensor in the CPU's memory. Panics if a GPU fails.
    #[track_caller]
    fn on_cpu(&self) -> Self {
        self.to(&Device::CPU).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the same elements in row-major order under another shape. Panics if the numbers of elements differ.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        assert_eq!(shape.numel(), self.len(), "reshape: {} → {shape} changes the number of elements", self.shape());
        let x = if self.layout.is_dense() { self.clone() } else { self.dense() };
        Tensor { layout: Layout { offset: x.layout.offset, ..Layout::dense(shape) }, ..x }
    }

    /// Returns a view whose axis i is axis `axes[i]` of this tensor. Panics unless `axes` is a permutation.
    #[track_caller]
    pub fn permute(&self, axes: &[usize]) -> Self {
        Tensor { layout: self.layout.permute(axes), data: self.data.clone() }
    }

    /// Returns a view of the positions `range` of one axis. Panics if the range is outside its extent.
    #[track_caller]
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Self {
        Tensor { layout: self.layout.slice(axis, range), data: self.data.clone() }
    }

    /// Returns this tensor repeated to `shape` (new outer axes, extents of 1 stretched) without a copy. Panics if it does not
    /// broadcast to `shape`.
    #[track_caller]
    pub fn expand(&self, shape: impl Into<Shape>) -> Self {
        Tensor { layout: self.layout.expand(shape.into()), data: self.data.clone() }
    }

    /// Returns this tensor with its elements rounded to bf16, if its products on the CPU are in bf16. A view of a part of its storage
    /// is copied.
    pub(crate) fn rounded(&self) -> Option<Self> {
        let is_part = self.data.packed().is_some_and(|(_, len)| len != self.len());
        let copy = is_part.then(|| self.cpu().write(*self.shape(), |out| self.copy_to(out)));
        let x = copy.as_ref().unwrap_or(self);
        x.data.rounded().map(|data| Tensor { layout: x.layout, data })
    }

    /// Returns the rounded elements from the first one of this view on, if the storage has only these.
    pub(crate) fn halves(&self) -> Option<&[u16]> {
        self.data.halves().map(|halves| if self.is_empty() { &[][..] } else { &halves[self.layout.offset..] })
    }

    /// Returns the packed forms of the elements, if this is the matrix of all of them or its transpose.
    pub(crate) fn packed_forms(&self) -> Option<&Packed> {
        let &[rows, cols] = &self.shape()[..] else { return None };
        let is_whole = [[cols, 1], [1, rows]].iter().any(|strides| self.strides()[..] == strides[..]);
        self.data.packed().filter(|(_, len)| is_whole && *len == self.len()).map(|(packed, _)| packed)
    }

    /// Returns whether both tensors share one buffer.
    pub fn shares_buffer(&self, other: &Self) -> bool {
        self.data.is(&other.data)
    }
}

/// Returns the result of a GPU kernel on these tensors, if they are on a GPU.
macro_rules! on_gpu {
    ($($x:ident = $tensor:expr),+ => $result:expr) => {
        #[cfg(feature = "wgpu")]
        if let Some([$($x),+]) = $crate::tensor::arrays([$($tensor),+]) {
            #[allow(unused_imports)]
            use $crate::gpu;
            return $result.into();
        }
    };
    (all $tensors:ident => $result:expr) => {
        #[cfg(feature = "wgpu")]
        if let Some($tensors) = $crate::tensor::arrays($tensors) {
            use $crate::gpu;
            return $result.into();
        }
    };
    (mut $x:ident = $tensor:expr $(, $y:ident = $other:expr)* => $effect:expr) => {
        on_gpu!(mut [$x = $tensor] $(, $y = $other)* => $effect)
    };
    (mut [$($x:ident = $tensor:expr),+] $(, $y:ident = $other:expr)* => $effect:expr) => {
        #[cfg(feature = "wgpu")]
        if let Some([$($x,)+ $($y),*]) = $crate::tensor::arrays([$(&*$tensor,)+ $($other),*]) {
            use $crate::gpu;
            drop([$($x),+]);
            $(let $x = $tensor.array_mut().expect("on the GPU");)+
            return $effect;
        }
    };
}
#[cfg(feature = "wgpu")]
pub(crate) use arrays::{all_arrays, arrays};
pub(crate) use on_gpu;

impl<T: Real> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor{} ", self.shape())?;
        if self.len() <= 64 { write!(f, "{:?}", self.to_vec()) } else { write!(f, "({} elements)", self.len()) }
    }
}

impl<T: Real> PartialEq for Tensor<T> {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && self.on_cpu().view() == other.on_cpu().view()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(shape: &[usize]) -> Tensor<f64> {
        Tensor::new(Shape::new(shape), (0..shape.iter().product()).map(|i: usize| i as f64).collect())
    }

    #[test]
    fn views_share_the_buffer_and_dense_copies_do_not() {
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
    fn writing_does_not_change_clones() {
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
    fn an_invalid_reshape_panics() {
        count(&[2, 3]).reshape([4]);
    }
}
