//! ```text
//! y = the elements of x, in row-major order, under another shape        x̄ = ȳ under the shape of x
//! ```

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The elements of x in another shape.
#[derive(Debug)]
pub struct Reshape {
    /// The shape of y.
    pub to: Shape,
}

impl<T: Real> Op<T> for Reshape {
    const NAME: &'static str = "reshape";
    const MATH: &'static str = "y = x under another shape;  x̄ = ȳ under the shape of x";
    const SAVES: Saves = Saves::NONE;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let fits = ins[0].numel() == self.to.numel();
        if fits { Ok(self.to) } else { Err(format!("as many elements as {}", self.to)) }
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].reshape(self.to).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.reshape(*saved.shape(0)))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (m, n) = (g.extent(), g.extent());
        let x = g.normal([m, n]);
        vec![
            (Reshape { to: [n * m].into() }, vec![g.strided(&x)]),
            (Reshape { to: [1, 1].into() }, vec![g.normal([])]),
            (Reshape { to: [2, 0].into() }, vec![g.normal([0])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the same elements in the shape `shape`, or x itself if it has that shape.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Self {
        let to = shape.into();
        if *self.shape() == to { self.clone() } else { self.tape().apply(Reshape { to }, &[self]) }
    }

    /// Returns the same value as a separate node.
    pub(crate) fn alias(&self) -> Self {
        self.tape().apply(Reshape { to: *self.shape() }, &[self])
    }
}
