//! # `max`
//!
//! ```text
//! y = max x along one axis, which stays with extent 1        x̄ᵢ = ȳ where i is the first of the largest, else 0
//! ```
//!
//! Where several are largest max has no derivative; we decide that the first of them gets all of ȳ, a subgradient.

use gradus_tensor::{Real, Shape, ShapeError, Tensor};

use crate::{Declared, Evaluated, Op, Samples, Saved, Saves, Var, Want};

/// The largest along `axis`, kept as an extent of 1; NaN is passed over unless it comes first.
#[derive(Debug)]
pub struct Max {
    /// The axis.
    pub axis: usize,
}

/// Of each line along `axis` of dense values of shape `s`: where the first of its largest stands.
fn first_largest<T: Real>(x: &[T], s: &Shape, axis: usize) -> Vec<usize> {
    let (outer, n, inner) = s.around(axis);
    let starts = (0..outer).flat_map(|o| (0..inner).map(move |i| o * n * inner + i));
    let first = |start| (1..n).map(|k| start + k * inner).fold(start, |best, at| if x[at] > x[best] { at } else { best });
    starts.map(first).collect()
}

impl<T: Real> Op<T> for Max {
    fn name(&self) -> &'static str {
        <Self as Declared<T>>::NAME
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        match ins[0].get(self.axis) {
            Some(1..) => Ok(ins[0].with(self.axis, 1)),
            _ => Err(ShapeError::new("max", format!("an axis {} of extent at least 1", self.axis), ins)),
        }
    }
    fn flops(&self, _: &[&Shape], _: &Shape) -> u64 {
        0
    }
    fn saves(&self) -> Saves {
        Saves::INPUTS
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let x = ins[0].dense();
        let first = first_largest(x.as_slice(), x.shape(), self.axis);
        Tensor::new(x.shape().with(self.axis, 1), first.into_iter().map(|i| x.as_slice()[i]).collect()).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let x = saved.x(0).value().dense();
        let mut largest = vec![false; x.len()];
        first_largest(x.as_slice(), x.shape(), self.axis).into_iter().for_each(|i| largest[i] = true);
        let zero = gy.tape().constant(Tensor::zeros(*x.shape()));
        vec![Some(gy.expand(*x.shape()).select(largest, &zero))]
    }
}

impl<T: Real> Declared<T> for Max {
    const NAME: &'static str = "max";
    const MATH: &'static str = "y = max x along an axis;  x̄ᵢ = ȳ where i is the first of the largest, else 0";
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (a, b, c) = (g.extent(), g.extent(), g.extent());
        let x = g.distinct([a, b, c]);
        vec![
            (Max { axis: 2 }, vec![g.strided(&x)]),
            (Max { axis: 1 }, vec![g.distinct([a, b, c])]),
            (Max { axis: 0 }, vec![g.distinct([a])]),
            (Max { axis: 1 }, vec![g.distinct([0, b])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// The largest along `axis`, which stays with extent 1; of ties the first gets the gradient.
    #[track_caller]
    pub fn max(&self, axis: usize) -> Self {
        self.tape().apply(Max { axis }, &[self])
    }
}
