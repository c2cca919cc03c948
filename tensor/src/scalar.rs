//! The arithmetic of scalars.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// A real number with its arithmetic and elementary functions.
///
/// `f32` is used for training and `f64` for checks. The trait is open: another scalar (a dual number that carries a derivative, a
/// number that counts its operations) implements its arithmetic, and any op can be evaluated in it (see [`Real`](crate::Real)).
/// `Default` is zero.
pub trait Scalar:
    Copy
    + Debug
    + Default
    + PartialEq
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
{
    /// Returns the scalar nearest to a constant.
    fn lit(x: f64) -> Self;
    /// Returns the value as an `f64` (for a dual number, its primal part).
    fn to_f64(self) -> f64;
    /// Returns eˣ.
    fn exp(self) -> Self;
    /// Returns the natural logarithm.
    fn ln(self) -> Self;
    /// Returns ln(1 + x).
    fn ln_1p(self) -> Self {
        (Self::one() + self).ln()
    }
    /// Returns the hyperbolic tangent.
    fn tanh(self) -> Self;
    /// Returns √x.
    fn sqrt(self) -> Self;
    /// Returns the error function, erf x = 2/√π ∫₀ˣ e^(−t²) dt.
    fn erf(self) -> Self;

    /// Returns zero.
    fn zero() -> Self {
        Self::default()
    }
    /// Returns one.
    fn one() -> Self {
        Self::lit(1.0)
    }
}

macro_rules! scalar {
    ($t:ident, $exp:ident, $ln:ident, $ln_1p:ident, $tanh:ident, $erf:ident) => {
        impl Scalar for $t {
            fn lit(x: f64) -> Self {
                x as $t
            }
            fn to_f64(self) -> f64 {
                self.into()
            }
            fn exp(self) -> Self {
                libm::$exp(self)
            }
            fn ln(self) -> Self {
                libm::$ln(self)
            }
            fn ln_1p(self) -> Self {
                libm::$ln_1p(self)
            }
            fn tanh(self) -> Self {
                libm::$tanh(self)
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn erf(self) -> Self {
                libm::$erf(self)
            }
        }
    };
}

scalar!(f32, expf, logf, log1pf, tanhf, erff);
scalar!(f64, exp, log, log1p, tanh, erf);
