//! ```text
//! [Q | K | V] = x split in three along its last axis, each into heads
//! y = attention(Q, K, V), the heads joined again        x̄ = [Q̄ | K̄ | V̄]
//! ```
//!
//! The kernel of `attention` on the packed output of `c_attn`: it reads and writes the three parts in place, so that no tensor is
//! split or joined.

use gradus_tensor::operands::{AttentionSpec, Mask};
use gradus_tensor::rng::DropoutKey;

use super::attention::Attention;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// Self-attention of a packed [q | k | v]: (B, T, 3C) → (B, T, C), C = heads · D.
#[derive(Clone, Debug)]
pub struct SelfAttention {
    /// The number of heads.
    pub heads: usize,
    /// The mask, padding, scale and dropout.
    pub attention: Attention,
}

impl SelfAttention {
    fn spec(&self, x: &Shape) -> AttentionSpec {
        self.attention.spec([x[0], self.heads, x[1], x[1], x[2] / 3 / self.heads])
    }
}

impl<T: Real> Op<T> for SelfAttention {
    const NAME: &'static str = "self_attention";
    const MATH: &'static str = "y = attention(Q, K, V), [Q|K|V] = x;  x̄ = [Q̄|K̄|V̄]";
    const SAVES: Saves = Saves::INPUTS.factor(0);
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let x = ins[0];
        let fits = x.len() == 3 && x[2] > 0 && x[2].is_multiple_of(3 * self.heads) && self.attention.fits(x[0], x[1], x[1]);
        let rule = || format!("(B,T,3C) with C a multiple of {} heads, and a mask and lengths that fit", self.heads);
        fits.then(|| x.with(2, x[2] / 3)).ok_or_else(rule)
    }
    fn flops(&self, ins: &[&Shape], _: &Shape) -> u64 {
        self.attention.cost(&self.spec(ins[0]), false)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let (o, lse) = ins[0].self_attention(&self.spec(ins[0].shape()));
        Evaluated { out: o.clone(), residuals: vec![o, lse] }
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let (x, kept) = (saved.x(0).value(), [saved.residual(0), saved.residual(1)]);
        vec![Some(gy.constant(x.self_attention_vjp(&self.spec(x.shape()), kept, gy.value())))]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (b, t, c) = (ins[0].shape()[0], ins[0].shape()[1], ins[0].shape()[2] / 3);
        let cut =
            |i: usize| ins[0].slice(2, i * c..(i + 1) * c).reshape([b, t, self.heads, c / self.heads]).permute(&[0, 2, 1, 3]);
        let part = |name, i| ins[0].tape().scope(name, || cut(i));
        let o = self.attention.reference(&[part("q", 0), part("k", 1), part("v", 2)])?; // (B, H, T, D)
        Some(o.permute(&[0, 2, 1, 3]).reshape([b, t, c]))
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (b, t, heads, d) = (g.extent(), 1 + g.extent(), g.extent().min(3), 1 + g.extent());
        let dropout = Some(DropoutKey::new(0.25, [g.seed() as u32, 3], 0, 2));
        let op = |dropout| SelfAttention { heads, attention: Attention { dropout, ..Attention::new(Mask::Causal) } };
        let lengths = Some((0..b).map(|b| t - b % t).collect());
        let padded = SelfAttention { heads, attention: Attention { lengths, ..Attention::new(Mask::Full) } };
        // Each query attends to its own position and some others.
        let any = (0..t * t).map(|n| n / t == n % t || g.index(2) == 0).collect();
        let scaled = SelfAttention { heads, attention: Attention { scale: Some(0.7), ..Attention::new(Mask::Allowed(any)) } };
        let x = g.normal([b, t, 3 * heads * d]);
        vec![
            (op(None), vec![g.strided(&x)]),
            (op(dropout), vec![g.normal([b, t, 3 * heads * d])]),
            (op(None), vec![g.normal([b, 0, 3 * heads * d])]),
            (padded, vec![g.normal([b, t, 3 * heads * d])]),
            (scaled, vec![g.normal([b, t, 3 * heads * d])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Computes attention within each sequence, of a packed [q | k | v].
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn self_attention(&self, heads: usize, attention: Attention) -> Self {
        self.tape().apply(SelfAttention { heads, attention }, &[self])
    }
}
