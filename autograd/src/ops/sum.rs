//! ```text
//! y = Σ x over some axes, which stay with extent 1        x̄ = ȳ repeated along them
//! ```
//!
//! Adjoint of `expand`.

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// Σ over `axes`, kept as extents of 1.
#[derive(Debug)]
pub struct Sum {
    /// Axes summed over, ascending.
    pub axes: Vec<usize>,
}

impl<T: Real> Op<T> for Sum {
    const NAME: &'static str = "sum";
    const MATH: &'static str = "y = Σ x over axes;  x̄ = ȳ repeated along them";
    const SAVES: Saves = Saves::NONE;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let rank = ins[0].len();
        if self.axes.iter().any(|&a| a >= rank) || self.axes.windows(2).any(|w| w[0] >= w[1]) {
            return Err(format!("ascending axes below the rank, {:?}", self.axes));
        }
        Ok(self.axes.iter().fold(*ins[0], |s, &a| s.with(a, 1)))
    }
    fn flops(&self, ins: &[&Shape], out: &Shape) -> u64 {
        if self.axes.is_empty() || numel(out) == 0 { 0 } else { numel(ins[0]) }
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].sum(&self.axes).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.expand(*saved.shape(0)))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (a, b, c) = (g.extent(), g.extent(), g.extent());
        let sum = |axes: &[usize]| Sum { axes: axes.to_vec() };
        vec![
            (sum(&[2]), vec![g.normal([a, b, c])]),
            (sum(&[0]), vec![g.normal([a, b, c])]),
            (sum(&[0, 2]), vec![g.normal([a, b, c])]),
            (sum(&[0, 1, 2]), vec![g.normal([a, b, c])]),
            (sum(&[]), vec![g.normal([a])]),
            (sum(&[0]), vec![g.normal([0, b])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Σ over `axes` (ascending), which stay with extent 1.
    #[track_caller]
    pub fn sum(&self, axes: &[usize]) -> Self {
        self.tape().apply(Sum { axes: axes.to_vec() }, &[self])
    }

    /// Σ over all axes: a value without axes.
    #[track_caller]
    pub fn sum_all(&self) -> Self {
        self.sum(&(0..self.shape().len()).collect::<Vec<_>>()).reshape([])
    }

    /// The mean over the last axis, which stays with extent 1.
    #[track_caller]
    pub fn mean_last(&self) -> Self {
        let last = self.shape().len() - 1;
        self.sum(&[last]).affine(1.0 / self.shape()[last] as f64, 0.0)
    }
}
