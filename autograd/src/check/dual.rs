//! Dual numbers: exact derivatives by forward evaluation.
//!
//! ```text
//! (a, a′) + (b, b′) = (a + b, a′ + b′)        (a, a′)·(b, b′) = (ab, a′b + ab′)        f(a, a′) = (f(a), f′(a)·a′)
//! ```
//!
//! An op evaluated on inputs (x, v) gives (f(x), Jv) without a step size or truncation, and shares no line of code with its VJP.

use std::cmp::Ordering;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use gradus_tensor::{Real, Scalar};

/// A value and its derivative along one direction. Comparisons use only the value, as a program's branches do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dual {
    /// The value.
    pub value: f64,
    /// The derivative.
    pub tangent: f64,
    /// The sum Σ |terms| of the terms that make up the derivative. Its rounding error is proportional to this sum, however far
    /// the terms cancel. It is at least |tangent|, up to rounding.
    pub terms: f64,
}

impl Dual {
    /// Creates a value with derivative `tangent`.
    pub fn new(value: f64, tangent: f64) -> Self {
        Dual { value, tangent, terms: tangent.abs() }
    }
    /// Applies the chain rule: returns f(a), and f′(a) times the derivative.
    fn chain(self, value: f64, slope: f64) -> Self {
        Dual { value, tangent: slope * self.tangent, terms: slope.abs() * self.terms }
    }
}

impl Add for Dual {
    type Output = Self;
    fn add(self, b: Self) -> Self {
        Dual { value: self.value + b.value, tangent: self.tangent + b.tangent, terms: self.terms + b.terms }
    }
}

impl Neg for Dual {
    type Output = Self;
    fn neg(self) -> Self {
        Dual { value: -self.value, tangent: -self.tangent, terms: self.terms }
    }
}

impl Sub for Dual {
    type Output = Self;
    fn sub(self, b: Self) -> Self {
        self + -b
    }
}

impl Mul for Dual {
    type Output = Self;
    fn mul(self, b: Self) -> Self {
        Dual {
            value: self.value * b.value,
            tangent: self.tangent * b.value + self.value * b.tangent,
            terms: self.terms * b.value.abs() + self.value.abs() * b.terms,
        }
    }
}

impl Div for Dual {
    type Output = Self;
    /// Computes (a/b)′ = (a′ − (a/b)·b′)/b.
    fn div(self, b: Self) -> Self {
        let value = self.value / b.value;
        Dual {
            value,
            tangent: (self.tangent - value * b.tangent) / b.value,
            terms: (self.terms + value.abs() * b.terms) / b.value.abs(),
        }
    }
}

impl AddAssign for Dual {
    fn add_assign(&mut self, b: Self) {
        *self = *self + b;
    }
}

impl PartialEq for Dual {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl PartialOrd for Dual {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl Real for Dual {}

impl Scalar for Dual {
    fn lit(x: f64) -> Self {
        Dual::new(x, 0.0)
    }
    fn to_f64(self) -> f64 {
        self.value
    }
    fn exp(self) -> Self {
        let y = Scalar::exp(self.value);
        self.chain(y, y)
    }
    fn ln(self) -> Self {
        self.chain(Scalar::ln(self.value), 1.0 / self.value)
    }
    fn tanh(self) -> Self {
        let y = Scalar::tanh(self.value);
        self.chain(y, 1.0 - y * y)
    }
    fn sqrt(self) -> Self {
        let y = self.value.sqrt();
        self.chain(y, 0.5 / y)
    }
    fn erf(self) -> Self {
        let slope = std::f64::consts::FRAC_2_SQRT_PI * Scalar::exp(-self.value * self.value);
        self.chain(Scalar::erf(self.value), slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares each rule with derivatives known in closed form.
    #[test]
    fn rules() {
        let (a, b) = (Dual::new(0.7, 1.3), Dual::new(-1.9, 0.4));
        let near = |d: Dual, value: f64, tangent: f64| {
            assert!((d.value - value).abs() < 1e-15 && (d.tangent - tangent).abs() < 2e-15, "{d:?}: {value}, {tangent}");
            assert!(d.terms >= d.tangent.abs() * (1.0 - 1e-15));
        };
        near(a + b, -1.2, 1.7);
        near(a - b, 2.6, 0.9);
        near(-a, -0.7, -1.3);
        near(a * b, -1.33, 1.3 * -1.9 + 0.7 * 0.4);
        near(a / b, 0.7 / -1.9, (1.3 * -1.9 - 0.7 * 0.4) / (1.9 * 1.9));
        near(Scalar::exp(a), 0.7f64.exp(), 1.3 * 0.7f64.exp());
        near(Scalar::ln(a), 0.7f64.ln(), 1.3 / 0.7);
        near(Scalar::tanh(a), 0.7f64.tanh(), 1.3 / 0.7f64.cosh().powi(2));
        near(Scalar::sqrt(a), 0.7f64.sqrt(), 1.3 / (2.0 * 0.7f64.sqrt()));
        near(Scalar::erf(a), Scalar::erf(0.7), 1.3 * 2.0 / std::f64::consts::PI.sqrt() * (-0.49f64).exp());
        let mut sum = a;
        sum += b;
        near(sum, -1.2, 1.7);
    }

    #[test]
    fn comparisons_of_duals_ignore_the_tangent() {
        assert_eq!(Dual::new(1.0, 2.0), Dual::new(1.0, -5.0));
        assert!(Dual::new(1.0, 9.0) < Dual::new(2.0, 0.0));
    }

    /// The derivative of x − x is 0, and the terms record what cancelled.
    #[test]
    fn terms_survive_cancellation() {
        let x = Dual::new(3.0, 1.0);
        assert_eq!(((x - x).tangent, (x - x).terms), (0.0, 2.0));
    }
}
