//! The common part of elementwise ops of one input. The file of such an op states only the rest.

use std::fmt::Debug;

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// An [`Op`] y = f(x), element by element.
pub trait Pointwise<T: Real>: Debug + Default + Send + Sync + 'static {
    /// The op's [`Op::NAME`].
    const NAME: &'static str;
    /// The op's [`Op::MATH`].
    const MATH: &'static str;
    /// The operations per element.
    const FLOPS: u64 = 1;
    /// The op's [`Op::SAVES`].
    const SAVES: Saves;

    /// Computes f of every element: a method of [`Tensor`] that has a kernel, or [`Tensor::elementwise`].
    fn f(x: &Tensor<T>) -> Tensor<T>;

    /// Computes x̄ = ȳ ∘ f′(x).
    fn vjp<'t>(saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T>;

    /// Draws values from f's domain.
    fn domain(g: &mut Samples, shape: Shape) -> Tensor<T> {
        g.normal(shape)
    }

    /// Draws the inputs of [`Op::samples`].
    fn samples(g: &mut Samples) -> Vec<Tensor<T>> {
        let shape = [g.extent(), g.extent()].into();
        let x = Self::domain(g, shape);
        vec![g.strided(&x), Self::domain(g, [].into()), Self::domain(g, [0].into())]
    }
}

impl<T: Real, P: Pointwise<T>> Op<T> for P {
    const NAME: &'static str = P::NAME;
    const MATH: &'static str = P::MATH;
    const SAVES: Saves = P::SAVES;
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        P::FLOPS * super::numel(out)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        P::f(ins[0]).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(P::vjp(saved, gy))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        P::samples(g).into_iter().map(|x| (P::default(), vec![x])).collect()
    }
}
