//! ```text
//! y = x with its axes in another order        x̄ = ȳ with the inverse permutation
//! ```
//!
//! The result is a view: nothing is copied.

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// A permutation of axes: axis i of y is axis `axes[i]` of x.
#[derive(Debug)]
pub struct Permute {
    /// The permutation of the axes.
    pub axes: Vec<usize>,
}

impl<T: Real> Op<T> for Permute {
    const NAME: &'static str = "permute";
    const MATH: &'static str = "y = x with axes permuted;  x̄ = ȳ with them back";
    const SAVES: Saves = Saves::NONE;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let mut sorted = self.axes.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..ins[0].len()) {
            return Err(format!("as many axes as the permutation {:?}", self.axes));
        }
        Ok(Shape::new(&self.axes.iter().map(|&a| ins[0][a]).collect::<Vec<_>>()))
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].permute(&self.axes).into()
    }
    fn vjp<'t>(&self, _: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let mut back = vec![0; self.axes.len()];
        self.axes.iter().enumerate().for_each(|(i, &a)| back[a] = i);
        vec![Some(gy.permute(&back))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (a, b, c) = (g.extent(), g.extent(), g.extent());
        vec![
            (Permute { axes: vec![2, 0, 1] }, vec![g.normal([a, b, c])]),
            (Permute { axes: vec![1, 0] }, vec![g.normal([a, 0])]),
            (Permute { axes: vec![] }, vec![g.normal([])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Permutes the axes: axis i of the result is axis `axes[i]` of this value.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn permute(&self, axes: &[usize]) -> Self {
        self.tape().apply(Permute { axes: axes.to_vec() }, &[self])
    }

    /// Exchanges the last two axes.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn t(&self) -> Self {
        self.permute(&self.value().transposition())
    }
}
