//! ```text
//! y = x ∘ m,   mᵢⱼ = [kept]/(1 − p),   E[m] = 1        x̄ = ȳ ∘ m                            (Srivastava et al. 2014)
//! ```
//!
//! m is a function of the key and the place alone, so the VJP recomputes it, and it is never stored. A place is a row over all
//! leading axes and a column on the last. With the key fixed the op is linear and its own adjoint.

use gradus_tensor::rng::DropoutKey;

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// Dropout: some elements become 0, and the others are scaled so that the mean stays the same.
#[derive(Debug)]
pub struct Dropout {
    /// The key that determines the mask.
    pub key: DropoutKey,
}

impl<T: Real> Op<T> for Dropout {
    const NAME: &'static str = "dropout";
    const MATH: &'static str = "y = x ∘ m, m = [kept]/(1 − p);  x̄ = ȳ ∘ m";
    const SAVES: Saves = Saves::NONE;
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        numel(out)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].dropout(&self.key).into()
    }
    fn vjp<'t>(&self, _: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.dropout(self.key))]
    }
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
    /// Applies dropout with the mask of `key`; all leading axes together form the rows.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn dropout(&self, key: DropoutKey) -> Self {
        self.tape().apply(Dropout { key }, &[self])
    }
}
