//! ```text
//! y = x repeated along new outer axes and axes of extent 1        x̄ = Σ ȳ over those axes
//! ```
//!
//! The result is a view: nothing is copied. The op is the adjoint of `sum`.

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The repetition of x to a shape it broadcasts to.
#[derive(Debug)]
pub struct Expand {
    /// The shape of y.
    pub to: Shape,
}

impl<T: Real> Op<T> for Expand {
    const NAME: &'static str = "expand";
    const MATH: &'static str = "y = x repeated;  x̄ = Σ ȳ over the repeated axes";
    const SAVES: Saves = Saves::NONE;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let fits = ins[0].broadcast(&self.to) == Some(self.to);
        if fits { Ok(self.to) } else { Err(format!("a shape that broadcasts to {}", self.to)) }
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].expand(self.to).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let from = *saved.shape(0);
        let lead = self.to.len() - from.len();
        let stretched = |&i: &usize| i < lead || from[i - lead] != self.to[i];
        let axes: Vec<usize> = (0..self.to.len()).filter(stretched).collect();
        vec![Some(gy.sum(&axes).reshape(from))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (a, b, c) = (g.extent(), g.extent(), g.extent());
        vec![
            (Expand { to: [a, b, c].into() }, vec![g.normal([b, 1])]),
            (Expand { to: [a, b].into() }, vec![g.normal([])]),
            (Expand { to: [a, b].into() }, vec![g.normal([a, b])]),
            (Expand { to: [a, 1, c].into() }, vec![g.normal([1, c])]),
            (Expand { to: [0, b].into() }, vec![g.normal([1, b])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns x repeated to `shape`, or x itself if it has that shape.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn expand(&self, shape: impl Into<Shape>) -> Self {
        let to = shape.into();
        if *self.shape() == to { self.clone() } else { self.tape().apply(Expand { to }, &[self]) }
    }
}
