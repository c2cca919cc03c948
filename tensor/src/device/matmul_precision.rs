//! The precision of matrix products.

use std::fmt;
use std::str::FromStr;

/// The precision of the factors of a matrix product. All sums and all stored values are in `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatmulPrecision {
    /// Factors in `f32`.
    #[default]
    F32,
    /// Factors rounded to half precision when they are read: 11 significant bits, magnitudes up to 65,504. Larger magnitudes
    /// become ∞. Only GPUs have such products.
    F16,
    /// Factors rounded to bf16: 8 significant bits, the range of `f32`. Only CPUs have such products.
    BF16,
}

impl MatmulPrecision {
    /// Every precision.
    pub const ALL: [MatmulPrecision; 3] = [MatmulPrecision::F32, MatmulPrecision::F16, MatmulPrecision::BF16];
}

/// Formats the precision as [`MatmulPrecision::from_str`] parses it.
impl fmt::Display for MatmulPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MatmulPrecision::F32 => "f32",
            MatmulPrecision::F16 => "f16",
            MatmulPrecision::BF16 => "bf16",
        })
    }
}

impl FromStr for MatmulPrecision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|it| it.to_string() == name);
        found.ok_or_else(|| format!("expected f32, f16 or bf16, found {name:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_parses_from_its_own_text() {
        for precision in MatmulPrecision::ALL {
            assert_eq!(precision.to_string().parse(), Ok(precision));
        }
        assert_eq!("f8".parse::<MatmulPrecision>(), Err("expected f32, f16 or bf16, found \"f8\"".into()));
    }
}
