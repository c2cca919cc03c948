//! Scalars, and the kernels that compute with them in bulk.

use crate::Scalar;
use crate::device::MatmulPrecision;
use crate::kernels::Kernels;

/// A scalar that tensors store and ops compute with.
///
/// `f32` and `f64` have fast kernels. Any other [`Scalar`] gets the naive loops with an empty `impl Real`:
///
/// ```
/// use gradus_tensor::{Real, Scalar, Tensor};
/// # use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};
/// /// An `f64` by another name.
/// #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
/// struct Mine(f64);
/// # impl Add for Mine { type Output = Self; fn add(self, o: Self) -> Self { Mine(self.0 + o.0) } }
/// # impl Sub for Mine { type Output = Self; fn sub(self, o: Self) -> Self { Mine(self.0 - o.0) } }
/// # impl Mul for Mine { type Output = Self; fn mul(self, o: Self) -> Self { Mine(self.0 * o.0) } }
/// # impl Div for Mine { type Output = Self; fn div(self, o: Self) -> Self { Mine(self.0 / o.0) } }
/// # impl Neg for Mine { type Output = Self; fn neg(self) -> Self { Mine(-self.0) } }
/// # impl AddAssign for Mine { fn add_assign(&mut self, o: Self) { self.0 += o.0 } }
/// impl Scalar for Mine {
///     fn lit(x: f64) -> Self { Mine(x) }
///     fn to_f64(self) -> f64 { self.0 }
///     // … and exp, ln, tanh, sqrt, erf
/// #   fn exp(self) -> Self { Mine(self.0.exp()) }
/// #   fn ln(self) -> Self { Mine(self.0.ln()) }
/// #   fn tanh(self) -> Self { Mine(self.0.tanh()) }
/// #   fn sqrt(self) -> Self { Mine(self.0.sqrt()) }
/// #   fn erf(self) -> Self { Mine(Scalar::erf(self.0)) }
/// }
/// impl Real for Mine {}
///
/// let x = Tensor::new([2, 1], vec![Mine(1.0), Mine(2.0)]);
/// assert_eq!(x.t().matmul(&x).item(), Mine(5.0)); // xᵀx
/// ```
///
/// Every method has a default. Further requirements of a scalar, such as storage on a device, belong in this trait, with a
/// default, so that scalars of other crates keep compiling.
pub trait Real: Scalar {
    /// Returns the kernels that compute with this scalar.
    fn kernels() -> &'static Kernels<Self> {
        &Kernels::NAIVE
    }

    /// Returns the kernels whose matrix products have this precision, or `None` if this scalar has no such kernels. Every scalar
    /// has kernels of its own precision, [`MatmulPrecision::F32`], and `f32` those of [`MatmulPrecision::BF16`].
    fn kernels_in(precision: MatmulPrecision) -> Option<&'static Kernels<Self>> {
        (precision == MatmulPrecision::F32).then(Self::kernels)
    }

    /// Returns these values as a GPU stores them. `None` for all scalars except `f32`, so that they stay in the CPU's memory.
    fn as_f32s(_: &[Self]) -> Option<&[f32]> {
        None
    }

    /// Returns the values that a GPU stored, as values of this type; `None` for all scalars except `f32`.
    fn from_f32s(_: Vec<f32>) -> Option<Vec<Self>> {
        None
    }
}

// These functions are not inlined, so that the tables of the floats and all kernels in them are compiled in this crate alone.
impl Real for f32 {
    #[inline(never)]
    fn kernels() -> &'static Kernels<Self> {
        &Kernels::FAST
    }
    #[inline(never)]
    fn kernels_in(precision: MatmulPrecision) -> Option<&'static Kernels<Self>> {
        match precision {
            MatmulPrecision::F32 => Some(&Kernels::FAST),
            MatmulPrecision::BF16 => Some(&Kernels::BF16),
            MatmulPrecision::F16 => None,
        }
    }
    fn as_f32s(values: &[Self]) -> Option<&[f32]> {
        Some(values)
    }
    fn from_f32s(values: Vec<f32>) -> Option<Vec<Self>> {
        Some(values)
    }
}

impl Real for f64 {
    #[inline(never)]
    fn kernels() -> &'static Kernels<Self> {
        &Kernels::FAST
    }
}
