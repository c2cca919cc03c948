//! ```text
//! y = x₀, x₁, … one after the other along an axis        x̄ᵢ = ȳ at the positions of xᵢ
//! ```

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The concatenation of the inputs along one axis; all other extents are equal.
#[derive(Debug)]
pub struct Concat {
    /// The axis.
    pub axis: usize,
    /// The inputs' extents along the axis.
    pub extents: Vec<usize>,
}

impl<T: Real> Op<T> for Concat {
    const NAME: &'static str = "concat";
    const MATH: &'static str = "y = x₀, x₁, … along an axis;  x̄ᵢ = ȳ at the positions of xᵢ";
    const SAVES: Saves = Saves::NONE;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let (axis, extents) = (self.axis, &self.extents);
        let fits = |(s, &n): (&&Shape, &usize)| axis < s.len() && **s == ins[0].with(axis, n);
        if !ins.iter().zip(extents).all(fits) {
            return Err(format!("equal extents except on axis {axis}, which has {extents:?}"));
        }
        Ok(ins[0].with(axis, extents.iter().sum()))
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        Tensor::concat(ins, self.axis).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let mut start = 0;
        let part = |(i, &extent): (usize, &usize)| {
            start += extent;
            saved.grad(i, || gy.slice(self.axis, start - extent..start))
        };
        self.extents.iter().enumerate().map(part).collect()
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (a, b, c) = (g.extent(), g.extent(), g.extent());
        let x = g.normal([a, b, c]);
        vec![
            (Concat { axis: 1, extents: vec![b, 0, 2] }, vec![g.strided(&x), g.normal([a, 0, c]), g.normal([a, 2, c])]),
            (Concat { axis: 0, extents: vec![a, b] }, vec![g.normal([a]), g.normal([b])]),
            (Concat { axis: 1, extents: vec![b] }, vec![g.normal([a, b])]),
            (Concat { axis: 1, extents: vec![a, b] }, vec![g.normal([0, a]), g.normal([0, b])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Concatenates `parts` (at least one) along `axis`.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn concat(parts: &[&Self], axis: usize) -> Self {
        let first = parts.first().expect("concat: at least one part, got none");
        let extents = parts.iter().map(|x| x.shape().get(axis).copied().unwrap_or(0)).collect();
        first.tape().apply(Concat { axis, extents }, parts)
    }
}
