//! What elementwise functions of one input have in common; the file of such an op states only what differs.

use std::fmt::Debug;

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// y = f(x), element by element: an [`Op`].
pub trait Pointwise<T: Real>: Debug + Default + Send + Sync + 'static {
    /// [`Op::NAME`].
    const NAME: &'static str;
    /// [`Op::MATH`].
    const MATH: &'static str;
    /// Operations per element.
    const FLOPS: u64 = 1;
    /// [`Op::SAVES`].
    const SAVES: Saves;

    /// f of one element.
    fn f(x: T) -> T;

    /// f of a whole tensor; by a kernel where there is one.
    fn map(x: &Tensor<T>) -> Tensor<T> {
        Tensor::elementwise([x], |[x]| Self::f(x))
    }

    /// x̄ = ȳ ∘ f′(x).
    fn vjp<'t>(saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T>;

    /// Values from f's domain.
    fn domain(g: &mut Samples, shape: Shape) -> Tensor<T> {
        g.normal(shape)
    }

    /// The inputs of [`Op::samples`].
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
        P::map(ins[0]).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(P::vjp(saved, gy))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        P::samples(g).into_iter().map(|x| (P::default(), vec![x])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{exp::Exp, log::Log, relu::Relu, sigmoid::Sigmoid, sqrt::Sqrt, tanh::Tanh};

    /// `map`, which calls a kernel, is `f` of each, to a few units in the last place.
    fn is_its_function<T: Real, P: Pointwise<T>>(ulp: f64) {
        let x: Vec<T> = (1..308).map(|i| T::lit(f64::from(i) * 0.037 - 4.0)).collect();
        let y = P::map(&Tensor::new([x.len()], x.clone())).to_vec();
        for (x, y) in x.into_iter().zip(y) {
            let (y, f) = (y.to_f64(), P::f(x).to_f64());
            let same = (y - f).abs() <= 8.0 * ulp * f.abs() || y.is_nan() && f.is_nan();
            assert!(same, "{} of {x:?}: {y}, {f}", P::NAME);
        }
    }

    #[test]
    fn a_kernel_is_its_function() {
        fn all<T: Real>(ulp: f64) {
            is_its_function::<T, Exp>(ulp);
            is_its_function::<T, Log>(ulp);
            is_its_function::<T, Relu>(ulp);
            is_its_function::<T, Sigmoid>(ulp);
            is_its_function::<T, Sqrt>(ulp);
            is_its_function::<T, Tanh>(ulp);
        }
        all::<f32>(f32::EPSILON.into());
        all::<f64>(f64::EPSILON);
    }
}
