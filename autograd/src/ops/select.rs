//! ```text
//! y = a where the mask holds, b elsewhere        ā = ȳ where it holds, else 0        b̄ = 0 where it holds, else ȳ
//! ```
//!
//! Elements that are not selected have no effect: unlike in mask ∘ a, an infinity among them does no harm.

use std::fmt;

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The choice between a and b for each element; both have the shape of the mask.
pub struct Select<T: Real> {
    /// The mask, of the shape of y; non-zero selects a.
    pub mask: Tensor<T>,
}

impl<T: Real> fmt::Debug for Select<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Select {{ mask: {:?} }}", self.mask.cast::<f64>())
    }
}

impl<T: Real> Op<T> for Select<T> {
    const NAME: &'static str = "select";
    const MATH: &'static str = "y = a where mask, else b;  ā = ȳ where mask, else 0,  b̄ = 0 where mask, else ȳ";
    const SAVES: Saves = Saves::NONE;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let of = self.mask.shape();
        if ins.iter().all(|x| *x == of) { Ok(*of) } else { Err(format!("inputs of the mask's shape {of}")) }
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].select(&self.mask, ins[1]).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let (zero, mask) = (gy.zeros_like(), &self.mask);
        vec![saved.grad(0, || gy.select(mask, &zero)), saved.grad(1, || zero.select(mask, gy))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (m, n) = (g.extent(), 1 + g.extent());
        let (a, b) = (g.normal([m, n]), g.normal([m, n]));
        // Each input is selected at least once, so that both gradients are checked.
        let mask = a.indicator([m, n], (0..m * n).map(|i| i == 0 || i > 1 && g.index(2) == 0));
        vec![
            (Select { mask }, vec![g.strided(&a), b]),
            (Select { mask: a.full_like([], T::one()) }, vec![g.normal([]), g.normal([])]),
            (Select { mask: a.zeros_like([0, 2]) }, vec![g.normal([0, 2]), g.normal([0, 2])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns this value where `mask` (of its shape) is not 0, and `other` elsewhere.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn select(&self, mask: &Tensor<T>, other: &Self) -> Self {
        self.tape().apply(Select { mask: mask.clone() }, &[self, other])
    }
}
