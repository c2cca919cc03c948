//! The last hidden states, and what a language model makes of them.

use gradus_autograd::Var;
use gradus_tensor::{Real, Tensor};

use crate::batch::Batch;

/// The hidden states of a batch, and the matrix that turns them into logits.
#[derive(Debug)]
pub struct Hidden<'t, T: Real> {
    /// hₙ (B, T, d).
    pub states: Var<'t, T>,
    /// Wₑ (rows, d), after its dropout in the joint form.
    pub output: Var<'t, T>,
}

impl<'t, T: Real> Hidden<'t, T> {
    /// Σᵢ wᵢ·(−log P(targetᵢ)) of a batch, given its hidden states.
    pub fn loss(&self, batch: &Batch) -> Var<'t, T> {
        let rows = self.states.reshape([batch.inputs.len(), self.states.shape()[2]]);
        let tape = rows.tape();
        tape.scope("lm", || rows.linear_cross_entropy(&self.output, None, batch.targets.clone(), batch.weights.clone()))
    }

    /// −log P(targetᵢ) of each prediction (B·T): no gradient, and at most 1,024 rows of logits are held.
    pub fn token_losses(&self, targets: &[u32]) -> Tensor<T> {
        let (h, w) = (self.states.value().flat(), self.output.value());
        h.linear_cross_entropy(w, None, targets, &h.full_like([targets.len()], T::one()))
    }

    /// hₙ Wₑᵀ, (B, T, rows).
    pub fn logits(&self) -> Var<'t, T> {
        let (b, t, d) = (self.states.shape()[0], self.states.shape()[1], self.states.shape()[2]);
        let rows = self.output.shape()[0];
        self.states.reshape([b * t, d]).matmul(&self.output.t()).reshape([b, t, rows])
    }
}
