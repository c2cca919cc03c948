//! # `dropout`
//!
//! ```text
//! y = x ∘ m,   mᵢⱼ = [kept]/(1 − p),   E[m] = 1        x̄ = ȳ ∘ m                            (Srivastava et al. 2014)
//! ```
//!
//! m is a function of the key and the place alone, so it is computed again backward, never stored; with the key fixed the op
//! is linear and its own adjoint. Place: the row over all leading axes, the column on the last.

use gradus_tensor::rng::DropoutKey;
use gradus_tensor::{Real, Shape, ShapeError, Tensor};

use super::{numel, same};
use crate::{Declared, Evaluated, Op, Samples, Saved, Saves, Var, Want};

/// Some elements 0, the others scaled so that the mean stays.
#[derive(Debug)]
pub struct Dropout {
    /// What the mask depends on.
    pub key: DropoutKey,
}

impl<T: Real> Op<T> for Dropout {
    fn name(&self) -> &'static str {
        <Self as Declared<T>>::NAME
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        same("dropout", ins)
    }
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        numel(out)
    }
    fn saves(&self) -> Saves {
        Saves::NONE
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].dropout(&self.key).into()
    }
    fn vjp<'t>(&self, _: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.dropout(self.key))]
    }
}

impl<T: Real> Declared<T> for Dropout {
    const NAME: &'static str = "dropout";
    const MATH: &'static str = "y = x ∘ m, m = [kept]/(1 − p);  x̄ = ȳ ∘ m";
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (m, n) = (g.extent(), 8 + g.extent());
        let mut dropout = |p| Dropout { key: DropoutKey::new(p, [g.seed() as u32, g.seed() as u32], 3, g.seed()) };
        let (half, tenth, none, empty) = (dropout(0.5), dropout(0.1), dropout(0.0), dropout(0.5));
        let x = g.normal([2, m, n]);
        vec![
            (half, vec![g.strided(&x)]),
            (tenth, vec![g.normal([n])]),
            (none, vec![g.normal([])]),
            (empty, vec![g.normal([m, 0])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Dropout with the mask of `key`; rows are all leading axes together.
    #[track_caller]
    pub fn dropout(&self, key: DropoutKey) -> Self {
        self.tape().apply(Dropout { key }, &[self])
    }
}
