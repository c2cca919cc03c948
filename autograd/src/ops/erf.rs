//! # `erf`
//!
//! ```text
//! y = erf x = 2/√π ∫₀ˣ e^(−t²) dt        dy = 2/√π e^(−x²) dx        x̄ = ȳ ∘ 2/√π e^(−x²)
//! ```
//!
//! With it GELU has its exact form, x Φ(x) = ½x (1 + erf(x/√2)) (Hendrycks and Gimpel 2016, §2).

use std::f64::consts::FRAC_2_SQRT_PI;

use gradus_tensor::{Real, Tensor};

use super::pointwise::{Elementwise, Pointwise};
use crate::{Samples, Saved, Saves, Var};

/// y = erf x.
#[derive(Clone, Copy, Debug)]
pub struct Erf;

impl<T: Real> Pointwise<T> for Erf {
    const NAME: &'static str = "erf";
    const MATH: &'static str = "y = erf x;  x̄ = ȳ ∘ 2/√π e^(−x²)";
    const SAVES: Saves = Saves::INPUTS;

    fn f(self, x: T) -> T {
        x.erf()
    }

    fn vjp<'t>(self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        let x = saved.x(0);
        gy * (FRAC_2_SQRT_PI * (-(x * x)).exp())
    }

    fn samples(g: &mut Samples) -> Vec<(Self, Tensor<T>)> {
        let (m, n) = (g.extent(), g.extent());
        let x = g.normal([m, n]);
        vec![(Erf, g.strided(&x)), (Erf, g.normal([])), (Erf, g.normal([0]))]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// The error function of every element.
    #[track_caller]
    pub fn erf(&self) -> Self {
        self.tape().apply(Elementwise(Erf), &[self])
    }
}
