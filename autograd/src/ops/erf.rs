//! ```text
//! y = erf x = 2/√π ∫₀ˣ e^(−t²) dt        dy = 2/√π e^(−x²) dx        x̄ = ȳ ∘ 2/√π e^(−x²)
//! ```
//!
//! The exact form of GELU uses it: x Φ(x) = ½x (1 + erf(x/√2)) (Hendrycks and Gimpel 2016, §2).

use std::f64::consts::FRAC_2_SQRT_PI;

use super::pointwise::Pointwise;
use crate::{Real, Saved, Saves, Tensor, Var};

/// The op y = erf x.
#[derive(Debug, Default)]
pub struct Erf;

impl<T: Real> Pointwise<T> for Erf {
    const NAME: &'static str = "erf";
    const MATH: &'static str = "y = erf x;  x̄ = ȳ ∘ 2/√π e^(−x²)";
    const SAVES: Saves = Saves::INPUTS;

    fn f(x: &Tensor<T>) -> Tensor<T> {
        Tensor::elementwise([x], "erf(x)", |[x]| x.erf())
    }

    fn vjp<'t>(saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        let x = saved.x(0);
        gy * (FRAC_2_SQRT_PI * (-(x * x)).exp())
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the error function of every element.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn erf(&self) -> Self {
        self.tape().apply(Erf, &[self])
    }
}
