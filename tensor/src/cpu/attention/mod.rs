//! Scaled dot-product attention (Vaswani et al. 2017, §3.2.1) with masks, a score bias and dropout, one (b, h) at a time.
//!
//! ```text
//! sᵢⱼ = scale·⟨qᵢ, kⱼ⟩ + biasᵢⱼ  where allowed        lseᵢ = log Σⱼ e^sᵢⱼ        pᵢⱼ = e^(sᵢⱼ − lseᵢ)
//! oᵢ = Σⱼ cᵢⱼ·pᵢⱼ·vⱼ,   cᵢⱼ = keep/(1 − p) under dropout, else 1
//!
//! v̄ⱼ = Σᵢ cᵢⱼpᵢⱼ·ōᵢ        p̄ᵢⱼ = cᵢⱼ·⟨ōᵢ, vⱼ⟩
//! s̄ᵢⱼ = pᵢⱼ·(p̄ᵢⱼ − Σₗ pᵢₗp̄ᵢₗ) = pᵢⱼ·(p̄ᵢⱼ − ⟨ōᵢ, oᵢ⟩)        since Σₗ pᵢₗcᵢₗ⟨ōᵢ, vₗ⟩ = ⟨ōᵢ, oᵢ⟩
//! q̄ᵢ = scale·Σⱼ s̄ᵢⱼ·kⱼ        k̄ⱼ = scale·Σᵢ s̄ᵢⱼ·qᵢ        the bias's gradient is s̄, summed where it was broadcast
//! ```
//!
//! A query that attends to no key has o = 0, lse = −∞, and gradients of 0.
//!
//! The fast kernels multiply a masked key by a weight of zero if another query of the same step or block reaches it. A NaN or an
//! infinity in q, k, v, ō or the bias may therefore turn any value of its (b, h) into NaN, also for queries that do not attend to
//! it. It does not affect any other (b, h). The keys past a sequence's length are not read.

mod check;
pub mod fast;
pub mod naive;
#[cfg(test)]
mod tests;

use crate::operands::{AttentionSpec, Heads, ScoreBias};

/// Returns the vector at position t of one (b, h).
fn row<T>(x: Heads<'_, T>, width: usize, [b, h, t]: [usize; 3]) -> &[T] {
    &x.data[b * x.strides[0] + h * x.strides[1] + t * x.strides[2]..][..width]
}

/// Returns the offset of element (b, h, i, j) in a broadcast bias.
fn bias_at<T>(spec: &AttentionSpec, bias: ScoreBias<'_, T>, [b, h, i, j]: [usize; 4]) -> usize {
    ((b % bias.batch * bias.heads + h % bias.heads) * spec.queries + i) * spec.keys + j
}
