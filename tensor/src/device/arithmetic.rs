//! How a device rounds.

use std::fmt;

/// Which of the CPU's bits a device keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arithmetic {
    /// Is a·b + c, as it is written, rounded once (as by `f32::mul_add`), twice, or sometimes the one, sometimes the other?
    pub product_sum: Rounding,
    /// The same for `fma(a, b, c)`.
    pub fma: Rounding,
    /// The largest error of a quotient, in units in the last place of the nearest `f32`.
    pub division_ulps: u32,
    /// Are denormals kept? Otherwise they are flushed to 0.
    pub denormals: bool,
}

/// How often a·b + c is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// Once: fused.
    Once,
    /// The product, then the sum.
    Twice,
    /// Neither everywhere.
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
