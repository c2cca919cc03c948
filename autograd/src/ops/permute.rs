//! # `permute`
//!
//! ```text
//! y = x with its axes in another order        x̄ = ȳ with them back
//! ```
//!
//! A view: nothing is copied.

use gradus_tensor::{Real, Shape, ShapeError, Tensor};

use crate::{Declared, Evaluated, Op, Samples, Saved, Saves, Var, Want};

/// Axis i of y is axis `axes[i]` of x.
#[derive(Debug)]
pub struct Permute {
    /// A permutation of the axes.
    pub axes: Vec<usize>,
}

impl<T: Real> Op<T> for Permute {
    fn name(&self) -> &'static str {
        <Self as Declared<T>>::NAME
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        let mut sorted = self.axes.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..ins[0].len()) {
            return Err(ShapeError::new("permute", format!("as many axes as the permutation {:?}", self.axes), ins));
        }
        Ok(Shape::new(&self.axes.iter().map(|&a| ins[0][a]).collect::<Vec<_>>()))
    }
    fn flops(&self, _: &[&Shape], _: &Shape) -> u64 {
        0
    }
    fn saves(&self) -> Saves {
        Saves::NONE
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].permute(&self.axes).into()
    }
    fn vjp<'t>(&self, _: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let mut back = vec![0; self.axes.len()];
        self.axes.iter().enumerate().for_each(|(i, &a)| back[a] = i);
        vec![Some(gy.permute(&back))]
    }
}

impl<T: Real> Declared<T> for Permute {
    const NAME: &'static str = "permute";
    const MATH: &'static str = "y = x with axes permuted;  x̄ = ȳ with them back";
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
    /// Axis i of the result is axis `axes[i]`.
    #[track_caller]
    pub fn permute(&self, axes: &[usize]) -> Self {
        self.tape().apply(Permute { axes: axes.to_vec() }, &[self])
    }

    /// The last two axes exchanged.
    #[track_caller]
    pub fn t(&self) -> Self {
        let mut axes: Vec<usize> = (0..self.shape().len()).collect();
        let r = axes.len();
        axes.swap(r - 1, r - 2);
        self.permute(&axes)
    }
}
