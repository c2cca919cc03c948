//! Elementwise functions.

use crate::rng::DropoutKey;
use crate::tensor::{Cpu, on_gpu};
use crate::{Real, Tensor};

impl<T: Real> Tensor<T> {
    /// Computes f of corresponding elements, for at most three tensors of one shape and an f without a kernel. `wgsl` is f for a
    /// GPU: a WGSL expression of x, y and z.
    ///
    /// ```
    /// # use gradus_tensor::Tensor;
    /// let (a, b) = (Tensor::new([2], vec![6.0, 8.0]), Tensor::new([2], vec![3.0, 2.0]));
    /// assert_eq!(Tensor::elementwise([&a, &b], "x / y", |[a, b]| a / b).to_vec(), [2.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn elementwise<const N: usize>(ins: [&Self; N], wgsl: &str, f: impl Fn([T; N]) -> T) -> Self {
        let shape = *ins[0].shape();
        assert!(ins.iter().all(|x| *x.shape() == shape), "elementwise: tensors of one shape, got {:?}", ins.map(|x| *x.shape()));
        on_gpu!(all ins => gpu::map(&ins, wgsl, &[]));
        let dense = ins.map(Tensor::dense);
        let values = dense.each_ref().map(|x| &x.as_slice()[..shape.numel()]);
        Cpu::of(ins).write(shape, |y| y.iter_mut().enumerate().for_each(|(i, y)| *y = f(values.map(|x| x[i]))))
    }

    /// Computes y = eˣ of every element: any shape → the same shape.
    pub fn exp(&self) -> Self {
        self.unary("exp(x)", self.cpu().kernels.exp)
    }

    /// Computes y = tanh x of every element: any shape → the same shape.
    pub fn tanh(&self) -> Self {
        self.unary("tanh_safe(x)", self.cpu().kernels.tanh)
    }

    /// Computes y = 1/(1 + e⁻ˣ) of every element: any shape → the same shape.
    pub fn sigmoid(&self) -> Self {
        self.unary("sigmoid(x)", self.cpu().kernels.sigmoid)
    }

    /// Computes y = ½x(1 + tanh(√(2/π)(x + 0.044715x³))) of every element: any shape → the same shape.
    pub fn gelu(&self) -> Self {
        self.unary("gelu(x)", self.cpu().kernels.gelu)
    }

    /// Computes ȳ ∘ gelu′(x) for this x. Both operands and the result have one shape.
    #[track_caller]
    pub fn gelu_vjp(&self, gy: &Self) -> Self {
        self.binary(gy, "y * gelu_derivative(x)", self.cpu().kernels.gelu_vjp)
    }

    /// Computes x + y. Both operands and the result have one shape.
    #[track_caller]
    pub fn add(&self, y: &Self) -> Self {
        self.binary(y, "x + y", self.cpu().kernels.add)
    }

    /// Computes x − y. Both operands and the result have one shape.
    #[track_caller]
    pub fn sub(&self, y: &Self) -> Self {
        self.binary(y, "x - y", self.cpu().kernels.sub)
    }

    /// Computes x ∘ y. Both operands and the result have one shape.
    #[track_caller]
    pub fn mul(&self, y: &Self) -> Self {
        self.binary(y, "x * y", self.cpu().kernels.mul)
    }

    /// Computes scale · x + shift of every element: any shape → the same shape.
    pub fn affine(&self, scale: f64, shift: f64) -> Self {
        self.scaled(T::lit(scale), T::lit(shift))
    }

    /// Computes this tensor times a tensor of one element: any shape → the same shape. On the CPU, where reading the factor costs
    /// nothing, a factor of 1 returns this tensor.
    #[track_caller]
    pub fn scale_by(&self, factor: &Self) -> Self {
        assert_eq!(factor.len(), 1, "scale_by: a factor of one element, got shape {}", factor.shape());
        on_gpu!(x = self, factor = &factor.reshape([]).expand(*self.shape()) => gpu::map(&[x, factor], "select(y, x * y, is_number(y))", &[]));
        let factor = factor.item();
        if factor == T::one() { self.clone() } else { self.scaled(factor, T::zero()) }
    }

    /// Returns this tensor where `mask` is not 0, and `other` elsewhere; all of one shape. Elements that are not selected do not
    /// affect the result, not even NaN.
    #[track_caller]
    pub fn select(&self, mask: &Self, other: &Self) -> Self {
        Self::elementwise(
            [mask, self, other],
            "select(z, y, x != 0.0)",
            |[mask, x, other]| if mask != T::zero() { x } else { other },
        )
    }

    /// Computes y = x ∘ m for x (…, n), mᵢⱼ = \[kept\]/(1 − p). The mask depends on the key, the row i over all leading axes, and
    /// the column j.
    pub fn dropout(&self, key: &DropoutKey) -> Self {
        let n = self.rows().1;
        on_gpu!(x = self => gpu::dropout(&x, key, n));
        self.kernel(|x, y| (self.cpu().kernels.dropout)(key, x, y, n))
    }

    fn scaled(&self, scale: T, shift: T) -> Self {
        on_gpu!(x = self => gpu::map(&[x], "fma(a, x, b)", &[scale, shift].map(|x| x.to_f64() as f32)));
        self.kernel(|x, y| (self.cpu().kernels.affine)(x, scale, shift, y))
    }

    /// Computes a function of every element: a WGSL expression of x, and the CPU's kernel.
    fn unary(&self, wgsl: &str, kernel: impl FnOnce(&[T], &mut [T])) -> Self {
        on_gpu!(x = self => gpu::map(&[x], wgsl, &[]));
        self.kernel(kernel)
    }

    /// Computes a function of corresponding elements of two tensors of one shape: a WGSL expression of x and y, and the CPU's
    /// kernel.
    #[track_caller]
    fn binary(&self, other: &Self, wgsl: &str, kernel: impl FnOnce(&[T], &[T], &mut [T])) -> Self {
        assert_eq!(self.shape(), other.shape(), "tensors of one shape");
        on_gpu!(x = self, y = other => gpu::map(&[x, y], wgsl, &[]));
        self.kernel2(other, kernel)
    }

    /// Applies the CPU's kernel to all elements.
    pub(super) fn kernel(&self, kernel: impl FnOnce(&[T], &mut [T])) -> Self {
        let x = self.dense();
        self.cpu().write(*self.shape(), |y| kernel(x.as_slice(), y))
    }

    /// Applies the CPU's kernel to all elements of two tensors of one shape.
    #[track_caller]
    pub(super) fn kernel2(&self, other: &Self, kernel: impl FnOnce(&[T], &[T], &mut [T])) -> Self {
        assert_eq!(self.shape(), other.shape(), "tensors of one shape");
        let (x, y) = (self.dense(), other.dense());
        Cpu::of([self, other]).write(*self.shape(), |z| kernel(x.as_slice(), y.as_slice(), z))
    }
}
