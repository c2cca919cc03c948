//! A number with a bound on the result of the same arithmetic in another order.
//!
//! A naive kernel computes in this scalar as in any other. Each element of its result then bounds the fast twin's element. The
//! bound follows from the numbers of the case, while a fixed tolerance would hold only for ordinary numbers.
//!
//! ```text
//! exactly v    a fast kernel returns v to the bit, except the payload and sign of a NaN and the sign of a zero
//! v ± spread   v is finite, and the result of the fast kernel is within `spread` of it
//! anything     an order of the arithmetic overflows, or a rounding decides whether an infinity meets a zero
//! ```
//!
//! With `BF16`, the factors of every product are rounded to bf16 and all results may be flushed to zero. This bounds the kernels
//! whose matrix products are in bf16. Their other products are more precise.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use super::super::testing::epsilon;
use crate::Scalar;
use crate::simd::Float;

/// The rounding errors that an operation may hide, in ε of its operands: the error of either twin, the errors of sums in
/// [`LANES`] partial sums instead of one, and the errors of the exponentials, of up to 2.5.
///
/// [`LANES`]: crate::simd::LANES
const ROUNDINGS: f64 = 8.0;
/// Numbers within this factor of overflow may overflow in another order.
const MARGIN: f64 = 4096.0;

/// The largest relative error of rounding to bf16.
const HALF_ULP: f64 = 1.0 / 256.0;

/// A value with its bound, as defined by the module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ErrorBound<T, const BF16: bool = false> {
    value: T,
    /// The largest distance to the result of another order; infinite if any result is possible.
    spread: f64,
    /// A bound on sums of some of its finite terms.
    reach: f64,
}

/// Returns the largest finite number and the smallest positive one.
fn ends<T: Float>() -> [f64; 2] {
    if size_of::<T>() == 4 { [f32::MAX.into(), f32::from_bits(1).into()] } else { [f64::MAX, f64::from_bits(1)] }
}

impl<T: Float, const BF16: bool> ErrorBound<T, BF16> {
    /// The largest error of a result near zero.
    fn least() -> f64 {
        if BF16 { f32::MIN_POSITIVE.into() } else { ends::<T>()[1] }
    }

    /// Returns this number as a factor of a product.
    fn factor(self) -> Self {
        let size = self.value.to_f64().abs() + self.spread;
        match () {
            () if !BF16 || self.is_infinite() || self.is_exactly_zero() => self,
            () if size > ends::<T>()[0] / MARGIN => Self::anything(), // it may be rounded to infinity
            () => ErrorBound { spread: self.spread + size * HALF_ULP + Self::least(), ..self },
        }
    }

    pub(super) fn exactly(value: T) -> Self {
        let size = value.to_f64().abs();
        ErrorBound { value, spread: 0.0, reach: if size.is_finite() { size } else { 0.0 } }
    }

    fn anything() -> Self {
        ErrorBound { value: T::zero(), spread: f64::INFINITY, reach: 0.0 }
    }

    /// Returns a finite value, or anything if the value or its bounds are near overflow.
    fn within(value: T, spread: f64, reach: f64) -> Self {
        let most = ends::<T>()[0] / MARGIN;
        let fits = value.to_f64().abs() + spread <= most && reach <= most;
        if fits { ErrorBound { value, spread, reach } } else { Self::anything() }
    }

    /// Returns a finite result of one rounding, whose operands' errors change it by at most `spread`.
    fn rounded(value: T, spread: f64) -> Self {
        let size = value.to_f64().abs();
        let spread = spread + ROUNDINGS * (epsilon::<T>() * size + Self::least());
        Self::within(value, spread, size + spread)
    }

    pub(super) fn value(self) -> T {
        self.value
    }

    pub(super) fn is_anything(self) -> bool {
        self.spread == f64::INFINITY
    }

    fn is_nan(self) -> bool {
        !self.is_anything() && self.value.to_f64().is_nan()
    }

    fn is_infinite(self) -> bool {
        !self.is_anything() && self.value.to_f64().is_infinite()
    }

    fn is_exactly_zero(self) -> bool {
        self.value == T::zero() && self.spread == 0.0
    }

    fn may_be_zero(self) -> bool {
        self.value.to_f64().abs() <= self.spread
    }

    /// Returns NaN if an operand is NaN, and anything if an operand may be anything. Every operation begins with this check.
    fn settled<const N: usize>(operands: [Self; N]) -> Option<Self> {
        if operands.iter().any(|x| x.is_nan()) {
            return Some(Self::lit(f64::NAN));
        }
        operands.iter().any(|x| x.is_anything()).then(Self::anything)
    }

    /// Returns whether a fast kernel may return `got`.
    pub(super) fn allows(self, got: T) -> bool {
        let (got, value) = (got.to_f64(), self.value.to_f64());
        self.is_anything() || got == value || got.is_nan() && value.is_nan() || (got - value).abs() <= self.spread
    }
}

impl<T: Float, const BF16: bool> Add for ErrorBound<T, BF16> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        if let Some(settled) = Self::settled([self, other]) {
            return settled;
        }
        let (value, reach) = (self.value + other.value, self.reach + other.reach);
        if !value.to_f64().is_finite() {
            // Finite terms alone may overflow to the opposite infinity, which makes the sum NaN.
            let overflows = reach > ends::<T>()[0] / MARGIN && !value.to_f64().is_nan();
            return if overflows { Self::anything() } else { ErrorBound { value, spread: 0.0, reach } };
        }
        if self.is_exactly_zero() || other.is_exactly_zero() {
            return Self::within(value, self.spread + other.spread, reach);
        }
        let size = self.value.to_f64().abs() + other.value.to_f64().abs();
        let flushed = if BF16 { Self::least() } else { 0.0 };
        Self::within(value, self.spread + other.spread + ROUNDINGS * epsilon::<T>() * size + flushed, reach)
    }
}

impl<T: Float, const BF16: bool> Mul for ErrorBound<T, BF16> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        if let Some(settled) = Self::settled([self, other]) {
            return settled;
        }
        let value = self.value * other.value;
        let [x, y] = [self, other].map(Self::factor);
        if x.is_anything() || y.is_anything() {
            return Self::anything();
        }
        if x.is_infinite() || y.is_infinite() {
            let rounding_decides = [x, y].iter().any(|x| x.may_be_zero() && !x.is_exactly_zero());
            return if rounding_decides { Self::anything() } else { ErrorBound { value, spread: 0.0, reach: 0.0 } };
        }
        if x.is_exactly_zero() || y.is_exactly_zero() {
            return Self::exactly(value);
        }
        let [a, b] = [x, y].map(|x| x.value.to_f64().abs());
        Self::rounded(value, a * y.spread + b * x.spread + x.spread * y.spread)
    }
}

impl<T: Float, const BF16: bool> Div for ErrorBound<T, BF16> {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        if let Some(settled) = Self::settled([self, other]) {
            return settled;
        }
        let value = self.value / other.value;
        if other.is_infinite() {
            return Self::exactly(value);
        }
        if other.may_be_zero() {
            let nothing_by_nothing = self.is_exactly_zero() && other.is_exactly_zero();
            return if nothing_by_nothing { Self::lit(f64::NAN) } else { Self::anything() }; // a zero may have either sign
        }
        if self.is_infinite() {
            return ErrorBound { value, spread: 0.0, reach: 0.0 };
        }
        let by = other.value.to_f64().abs() - other.spread;
        Self::rounded(value, (self.spread + value.to_f64().abs() * other.spread) / by)
    }
}

impl<T: Float, const BF16: bool> Neg for ErrorBound<T, BF16> {
    type Output = Self;
    fn neg(self) -> Self {
        ErrorBound { value: -self.value, ..self }
    }
}

impl<T: Float, const BF16: bool> Sub for ErrorBound<T, BF16> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl<T: Float, const BF16: bool> AddAssign for ErrorBound<T, BF16> {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl<T: Float, const BF16: bool> PartialOrd for ErrorBound<T, BF16> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl<T: Float, const BF16: bool> ErrorBound<T, BF16> {
    /// Applies a function whose slope is at most `slope` in size and which has no infinite values.
    fn gently(self, f: impl Fn(T) -> T, slope: f64) -> Self {
        if let Some(settled) = Self::settled([self]) {
            return settled;
        }
        Self::rounded(f(self.value), slope * self.spread)
    }
}

impl<T: Float, const BF16: bool> Scalar for ErrorBound<T, BF16> {
    fn lit(x: f64) -> Self {
        Self::exactly(T::lit(x))
    }
    fn to_f64(self) -> f64 {
        self.value.to_f64()
    }
    fn exp(self) -> Self {
        if let Some(settled) = Self::settled([self]) {
            return settled;
        }
        let value = self.value.exp();
        let at = self.value.to_f64();
        if at.is_infinite() || at - self.spread > ends::<T>()[0].ln() + 1.0 {
            return ErrorBound { value, spread: 0.0, reach: 0.0 };
        }
        Self::rounded(value, libm::exp(at + self.spread) - libm::exp(at))
    }
    fn ln(self) -> Self {
        let (at, spread) = (self.value.to_f64(), self.spread);
        match Self::settled([self]) {
            Some(settled) => settled,
            None if at.is_infinite() || spread == 0.0 && at <= 0.0 => Self::exactly(self.value.ln()),
            None if at + spread < 0.0 => Self::lit(f64::NAN),
            None if at <= spread => Self::anything(),
            None => Self::rounded(self.value.ln(), -libm::log1p(-spread / at)),
        }
    }
    fn sqrt(self) -> Self {
        let (at, spread) = (self.value.to_f64(), self.spread);
        match Self::settled([self]) {
            Some(settled) => settled,
            None if at.is_infinite() || spread == 0.0 && at <= 0.0 => Self::exactly(self.value.sqrt()),
            None if at + spread < 0.0 => Self::lit(f64::NAN),
            None if at < spread => Self::anything(),
            None => Self::rounded(self.value.sqrt(), at.sqrt() - (at - spread).sqrt()),
        }
    }
    fn tanh(self) -> Self {
        self.gently(Scalar::tanh, 1.0)
    }
    fn erf(self) -> Self {
        self.gently(Scalar::erf, std::f64::consts::FRAC_2_SQRT_PI)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(x: f32) -> ErrorBound<f32> {
        ErrorBound::exactly(x)
    }

    #[test]
    fn a_sum_allows_the_results_of_other_summation_orders() {
        let sum = of(1e30) + of(-1e30) + of(1.0);
        assert!(sum.allows(1.0) && sum.allows(0.0) && !sum.allows(1e26) && !sum.allows(f32::NAN));
        let sum = of(1.0) + of(2.0);
        assert!(sum.allows(3.0) && !sum.allows(3.0001));
    }

    #[test]
    fn a_product_in_bf16_allows_rounded_factors() {
        let of = |x| ErrorBound::<f32, true>::exactly(x);
        // 1 + 2⁻⁸ is rounded to 1, and 3·(1 + 2⁻⁸) to 3 + 2⁻⁶.
        let product = of(1.0 + 1.0 / 256.0) * of(3.0 + 3.0 / 256.0);
        assert!(product.allows(3.0 + 1.0 / 64.0) && !product.allows(2.99) && !product.allows(3.1));
        let tiny = of(1e-39) * of(1.0);
        assert!(tiny.allows(0.0) && tiny.allows(1e-39));
        assert!((of(f32::INFINITY) * of(1e-39)).is_anything() && (of(f32::MAX) * of(1.0)).is_anything());
    }

    #[test]
    fn nan_and_infinity_allow_only_themselves() {
        let infinite = of(f32::INFINITY) + of(-3.0);
        assert!(infinite.allows(f32::INFINITY) && !infinite.allows(f32::NAN) && !infinite.allows(f32::MAX));
        for nan in [of(f32::NAN) + of(1.0), infinite + -infinite, infinite * of(-0.0), of(0.0) / of(0.0), of(-1.0).sqrt()] {
            assert!(nan.allows(-f32::NAN) && !nan.allows(0.0) && !nan.allows(f32::INFINITY), "{nan:?}");
            assert!((nan + (of(f32::MAX) + of(f32::MAX))).is_nan());
        }
    }

    #[test]
    fn results_that_depend_on_the_order_allow_any_value() {
        let rounded_to_zero = of(-200.0).exp();
        let open = [of(f32::MAX) + of(1.0), rounded_to_zero * of(f32::INFINITY), of(1.0) / rounded_to_zero, of(88.0).exp()];
        assert!(open.iter().all(|x| x.is_anything()), "{open:?}");
        // The sum of the finite terms may overflow to the opposite infinity first.
        assert!((of(f32::INFINITY) + of(-1e38) + of(-3e38)).is_anything());
    }
}
