//! ```text
//! y = Σ x over some axes, which stay with extent 1        x̄ = ȳ repeated along them
//! ```
//!
//! The op is the adjoint of `expand`. A mean is a sum divided by the number of its terms n: x̄ = ȳ/n.

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The sum over `axes`, kept with extent 1.
#[derive(Debug)]
pub struct Sum {
    /// The axes summed over, ascending.
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
    /// Returns the sum over `axes` (ascending), which are kept with extent 1.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn sum(&self, axes: &[usize]) -> Self {
        self.tape().apply(Sum { axes: axes.to_vec() }, &[self])
    }

    /// Returns the sum over all axes: a value without axes.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn sum_all(&self) -> Self {
        self.sum(&(0..self.shape().len()).collect::<Vec<_>>()).reshape([])
    }

    /// Returns the mean over `axes` (ascending), which are kept with extent 1: the [`sum`](Var::sum) divided by the number of
    /// elements added. NaN if that number is 0.
    ///
    /// ```
    /// use gradus_autograd::{Tape, Tensor};
    /// let tape = Tape::new();
    /// let x = tape.leaf(Tensor::new([2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 9.0]));
    /// assert_eq!(x.mean(&[1]).value(), &Tensor::new([2, 1], vec![2.0, 6.0]));
    /// assert_eq!(x.mean_all().value().item(), 4.0);
    /// ```
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn mean(&self, axes: &[usize]) -> Self {
        let sum = self.sum(axes); // rejects axes that do not exist
        let added: usize = axes.iter().map(|&axis| self.shape()[axis]).product();
        sum.affine(1.0 / added as f64, 0.0)
    }

    /// Returns the mean over all axes: a value without axes.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn mean_all(&self) -> Self {
        self.sum_all().affine(1.0 / self.value().len() as f64, 0.0)
    }

    /// Returns the mean over the last axis, which is kept with extent 1.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn mean_last(&self) -> Self {
        self.mean(&[self.shape().len() - 1])
    }
}
