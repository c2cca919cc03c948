//! ```text
//! y = eˣ        dy = y dx        x̄ = ȳ ∘ y
//! ```
//!
//! The derivative is the *output*, so the input need not be saved.

use super::pointwise::Pointwise;
use crate::{Real, Saved, Saves, Tensor, Var};

/// The op y = eˣ.
#[derive(Debug, Default)]
pub struct Exp;

impl<T: Real> Pointwise<T> for Exp {
    const NAME: &'static str = "exp";
    const MATH: &'static str = "y = eˣ;  x̄ = ȳ ∘ y";
    const SAVES: Saves = Saves::OUTPUT;

    fn f(x: &Tensor<T>) -> Tensor<T> {
        x.exp()
    }

    fn vjp<'t>(saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T> {
        gy * saved.y()
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns eˣ of every element.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn exp(&self) -> Self {
        self.tape().apply(Exp, &[self])
    }
}
