//! What elementwise functions of one input have in common; a file of such an op states only what differs.

use std::fmt::Debug;

use gradus_tensor::{Real, Shape, ShapeError, Tensor};

use crate::{Declared, Evaluated, Op, Samples, Saved, Saves, Var, Want};

/// y = f(x), element by element.
pub trait Pointwise<T: Real>: Copy + Debug + Send + Sync + 'static {
    /// [`Declared::NAME`].
    const NAME: &'static str;
    /// [`Declared::MATH`].
    const MATH: &'static str;
    /// Operations an element.
    const FLOPS: u64 = 1;
    /// What the VJP reads.
    const SAVES: Saves;

    /// f of one element.
    fn f(self, x: T) -> T;

    /// f of many; a kernel where there is one.
    fn map(self, x: &Tensor<T>) -> Tensor<T> {
        Tensor::elementwise([x], |[x]| self.f(x))
    }

    /// x̄ = ȳ ∘ f′(x).
    fn vjp<'t>(self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Var<'t, T>;

    /// [`Declared::samples`].
    fn samples(g: &mut Samples) -> Vec<(Self, Tensor<T>)>;
}

/// A [`Pointwise`] function as an op.
#[derive(Clone, Copy, Debug)]
pub struct Elementwise<P>(pub P);

impl<T: Real, P: Pointwise<T>> Op<T> for Elementwise<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        super::same(P::NAME, ins)
    }
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        P::FLOPS * super::numel(out)
    }
    fn saves(&self) -> Saves {
        P::SAVES
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        self.0.map(ins[0]).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(self.0.vjp(saved, gy))]
    }
}

impl<T: Real, P: Pointwise<T>> Declared<T> for Elementwise<P> {
    const NAME: &'static str = P::NAME;
    const MATH: &'static str = P::MATH;
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        P::samples(g).into_iter().map(|(op, x)| (Elementwise(op), vec![x])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{erf::Erf, exp::Exp, log::Log, relu::Relu, sigmoid::Sigmoid, sqrt::Sqrt, tanh::Tanh};

    /// `map` is `f` of each, to a few units in the last place.
    fn is_its_function<T: Real, P: Pointwise<T>>(op: P, ulp: f64) {
        let x: Vec<T> = (1..200)
            .map(|i| T::lit(f64::from(i) * 0.037 - if P::NAME == "log" || P::NAME == "sqrt" { 0.0 } else { 4.0 }))
            .collect();
        let y = op.map(&Tensor::new([x.len()], x.clone())).to_vec();
        for (x, y) in x.into_iter().zip(y) {
            let (y, f) = (y.to_f64(), op.f(x).to_f64());
            assert!((y - f).abs() <= 8.0 * ulp * f.abs(), "{} of {x:?}: {y}, {f}", P::NAME);
        }
    }

    #[test]
    fn a_kernel_is_its_function() {
        fn all<T: Real>(ulp: f64) {
            is_its_function::<T, _>(Erf, ulp);
            is_its_function::<T, _>(Exp, ulp);
            is_its_function::<T, _>(Log, ulp);
            is_its_function::<T, _>(Relu, ulp);
            is_its_function::<T, _>(Sigmoid, ulp);
            is_its_function::<T, _>(Sqrt, ulp);
            is_its_function::<T, _>(Tanh, ulp);
        }
        all::<f32>(f32::EPSILON.into());
        all::<f64>(f64::EPSILON);
    }
}
