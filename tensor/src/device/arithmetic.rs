//! The rounding behaviour of a device.

use std::fmt;

/// The rounding behaviour of a device, which determines which of the CPU's bits it reproduces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arithmetic {
    /// The rounding of a·b + c, written as two operations.
    pub product_sum: Rounding,
    /// The rounding of `fma(a, b, c)`.
    pub fma: Rounding,
    /// The largest error of a quotient, in units in the last place of the nearest `f32`.
    pub division_ulps: u32,
    /// Whether denormals are kept. Otherwise they are flushed to 0.
    pub denormals: bool,
}

/// The number of roundings in a·b + c.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// One rounding, as in `f32::mul_add`.
    Once,
    /// Two roundings: of the product, then of the sum.
    Twice,
    /// Sometimes one rounding, sometimes two.
    #[default]
    Mixed,
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rounding::Once => "once",
            Rounding::Twice => "twice",
            Rounding::Mixed => "sometimes once, sometimes twice",
        })
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Arithmetic { product_sum, fma, division_ulps, denormals } = self;
        let denormals = if *denormals { "kept" } else { "flushed to 0" };
        let division = match division_ulps {
            0 => "exact to the last bit".into(),
            ulps => format!("within {ulps} ulp"),
        };
        write!(f, "a·b + c is rounded {product_sum}, fma(a, b, c) {fma}; division is {division}; denormals are {denormals}")
    }
}
