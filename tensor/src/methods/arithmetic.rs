//! Element by element.

use crate::rng::DropoutKey;
use crate::{Real, Tensor};

impl<T: Real> Tensor<T> {
    /// f of corresponding elements, for tensors of one shape: the route of functions without a kernel.
    ///
    /// ```
    /// # use gradus_tensor::Tensor;
    /// let (a, b) = (Tensor::new([2], vec![6.0, 8.0]), Tensor::new([2], vec![3.0, 2.0]));
    /// assert_eq!(Tensor::elementwise([&a, &b], |[a, b]| a / b).to_vec(), [2.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn elementwise<const N: usize>(ins: [&Self; N], f: impl Fn([T; N]) -> T) -> Self {
        let shape = *ins[0].shape();
        assert!(ins.iter().all(|x| *x.shape() == shape), "elementwise: tensors of one shape, got {:?}", ins.map(|x| *x.shape()));
        let dense = ins.map(Tensor::dense);
        let values = dense.each_ref().map(|x| &x.as_slice()[..shape.numel()]);
        Self::write(shape, |y| y.iter_mut().enumerate().for_each(|(i, y)| *y = f(values.map(|x| x[i]))))
    }

    /// y = eˣ of every element: any shape → the same.
    pub fn exp(&self) -> Self {
        self.unary(T::kernels().exp)
    }

    /// y = tanh x of every element: any shape → the same.
    pub fn tanh(&self) -> Self {
        self.unary(T::kernels().tanh)
    }

    /// y = 1/(1 + e⁻ˣ) of every element: any shape → the same.
    pub fn sigmoid(&self) -> Self {
        self.unary(T::kernels().sigmoid)
    }

    /// y = ½x(1 + tanh(√(2/π)(x + 0.044715x³))) of every element: any shape → the same.
    pub fn gelu(&self) -> Self {
        self.unary(T::kernels().gelu)
    }

    /// ȳ ∘ gelu′(x), for this x; both of one shape, the result's.
    #[track_caller]
    pub fn gelu_vjp(&self, gy: &Self) -> Self {
        self.binary(gy, T::kernels().gelu_vjp)
    }

    /// x + y; both of one shape, the result's.
    #[track_caller]
    pub fn add(&self, y: &Self) -> Self {
        self.binary(y, T::kernels().add)
    }

    /// x − y; both of one shape, the result's.
    #[track_caller]
    pub fn sub(&self, y: &Self) -> Self {
        self.binary(y, T::kernels().sub)
    }

    /// x ∘ y; both of one shape, the result's.
    #[track_caller]
    pub fn mul(&self, y: &Self) -> Self {
        self.binary(y, T::kernels().mul)
    }

    /// scale · x + shift of every element: any shape → the same.
    pub fn affine(&self, scale: f64, shift: f64) -> Self {
        self.scaled(T::lit(scale), T::lit(shift))
    }

    /// This tensor times a tensor of one element: any shape → the same. Where the factor is 1, this tensor itself: on the
    /// CPU the factor is read, which costs nothing.
    #[track_caller]
    pub fn scale_by(&self, factor: &Self) -> Self {
        let factor = factor.item();
        if factor == T::one() { self.clone() } else { self.scaled(factor, T::zero()) }
    }

    /// This tensor where `mask` is not 0, `other` elsewhere; all of one shape. What is not selected never reaches the result.
    #[track_caller]
    pub fn select(&self, mask: &Self, other: &Self) -> Self {
        Self::elementwise([mask, self, other], |[mask, x, other]| if mask != T::zero() { x } else { other })
    }

    /// y = x ∘ m of x (…, n), mᵢⱼ = \[kept\]/(1 − p): a function of the key, of the row i over all leading axes, and of the column j.
    pub fn dropout(&self, key: &DropoutKey) -> Self {
        let n = self.rows().1;
        self.unary(|x, y| (T::kernels().dropout)(key, x, y, n))
    }

    fn scaled(&self, scale: T, shift: T) -> Self {
        self.unary(|x, y| (T::kernels().affine)(x, scale, shift, y))
    }

    /// The kernel applied to all elements.
    pub(super) fn unary(&self, kernel: impl FnOnce(&[T], &mut [T])) -> Self {
        let x = self.dense();
        Self::write(*self.shape(), |y| kernel(x.as_slice(), y))
    }

    /// The same for two tensors of one shape.
    #[track_caller]
    pub(super) fn binary(&self, other: &Self, kernel: impl FnOnce(&[T], &[T], &mut [T])) -> Self {
        assert_eq!(self.shape(), other.shape(), "tensors of one shape");
        let (x, y) = (self.dense(), other.dense());
        Self::write(*self.shape(), |z| kernel(x.as_slice(), y.as_slice(), z))
    }
}
