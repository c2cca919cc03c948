//! ```text
//! S = QKᵀ/√D + bias        P = softmax S over the keys that mask and lengths allow        O = (P ∘ C) V
//!
//! C: the dropout factors, 0 or 1/(1 − p), a function of a key alone (1 without dropout).
//! V̄ = (P ∘ C)ᵀ Ō           P̄ = C ∘ (Ō Vᵀ)
//! S̄ = P ∘ (P̄ − rowsum(P ∘ P̄)) = P ∘ (P̄ − rowsum(Ō ∘ O))        softmax's VJP; Σₗ pᵢₗ p̄ᵢₗ = ⟨ōᵢ, oᵢ⟩
//! Q̄ = S̄ K/√D               K̄ = S̄ᵀ Q/√D               the bias's gradient is S̄, summed where it was broadcast
//! ```
//!
//! (Vaswani et al. 2017, §3.2.1.) The factor 1/√D may be replaced. A query without keys gives O = 0 and has no gradient. P is not
//! kept, only the log-sum-exp of each row; the VJP recomputes P, a tile at a time.

use std::sync::Arc;

use gradus_tensor::operands::{AttentionSpec, Mask};
use gradus_tensor::rng::DropoutKey;

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// Attention of q (B, H, Tq, D) to k and v (B, H, Tk, D), with an optional score bias (B|1, H|1, Tq, Tk) → (B, H, Tq, D).
///
/// ```
/// use gradus_autograd::ops::Attention;
/// use gradus_tensor::Mask;
///
/// // Two sequences of five keys; the last two keys of the second are padding.
/// let padded = Attention { lengths: Some([5, 3].into()), ..Attention::new(Mask::Full) };
/// # let _ = padded;
/// ```
#[derive(Clone, Debug)]
pub struct Attention {
    /// The mask: the keys that each query may attend to.
    pub mask: Mask,
    /// The number of keys of each sequence (B); later keys are padding, to which no query attends. `None`: all keys.
    pub lengths: Option<Arc<[usize]>>,
    /// The factor on QKᵀ; `None`: 1/√D.
    pub scale: Option<f64>,
    /// The key of dropout on the probabilities: row (b·H + h)·Tq + i, column j.
    pub dropout: Option<DropoutKey>,
}

impl Attention {
    /// Creates the attention of Vaswani et al.: scores times 1/√D; no padding, no dropout.
    pub fn new(mask: Mask) -> Self {
        Attention { mask, lengths: None, scale: None, dropout: None }
    }

    /// Returns the kernel's view of one call, of sizes B, H, Tq, Tk, D.
    pub(super) fn spec(&self, [batch, heads, queries, keys, width]: [usize; 5]) -> AttentionSpec {
        let scale = self.scale.unwrap_or(1.0 / (width as f64).sqrt());
        let (mask, lengths, dropout) = (self.mask.clone(), self.lengths.clone(), self.dropout);
        AttentionSpec { batch, heads, queries, keys, width, scale, mask, lengths, dropout }
    }

    fn spec_of(&self, q: &Shape, k: &Shape) -> AttentionSpec {
        self.spec([q[0], q[1], q[2], k[2], q[3]])
    }

    /// Returns whether mask and lengths fit these sizes.
    pub(super) fn fits(&self, batch: usize, queries: usize, keys: usize) -> bool {
        let masked = match &self.mask {
            Mask::Full => true,
            Mask::Causal => keys >= queries,
            Mask::Allowed(allowed) => [queries * keys, batch * queries * keys].contains(&allowed.len()),
        };
        masked && self.lengths.as_ref().is_none_or(|lengths| lengths.len() == batch && lengths.iter().all(|&n| n <= keys))
    }

    /// Returns the operations of one call; a pair that the mask forbids costs nothing.
    pub(super) fn cost(&self, spec: &AttentionSpec, bias: bool) -> u64 {
        let keys = |b, i| (0..spec.keys).filter(|&j| spec.allows(b, i, j)).count() as u64;
        let query = |seen: u64| seen * (4 * spec.width as u64 + 8 + u64::from(bias)) + if seen > 0 { 2 } else { 0 };
        let sequence = |b| (0..spec.queries).map(|i| query(keys(b, i))).sum::<u64>();
        spec.heads as u64 * (0..spec.batch).map(sequence).sum::<u64>()
    }
}

impl<T: Real> Op<T> for Attention {
    const NAME: &'static str = "attention";
    const MATH: &'static str =
        "O = (softmax(QKᵀ/√D + bias) ∘ C)V;  V̄ = (P∘C)ᵀŌ,  S̄ = P ∘ (C∘ŌVᵀ − rowsum Ō∘O),  Q̄ = S̄K/√D,  K̄ = S̄ᵀQ/√D";
    const SAVES: Saves = Saves::INPUTS.factor(0).factor(1).factor(2);
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let rule = "q (B,H,Tq,D) · k, v (B,H,Tk,D) [· bias (B|1,H|1,Tq,Tk)] with a mask and lengths that fit";
        let (q, k, v, bias) = match ins {
            [q, k, v] => (q, k, v, None),
            [q, k, v, bias] => (q, k, v, Some(bias)),
            _ => return Err(rule.into()),
        };
        let agree = q.len() == 4 && k.len() == 4 && k == v && q[..2] == k[..2] && q[3] == k[3] && q[3] > 0;
        let one_of = |extent: usize, full: usize| extent == 1 || extent == full;
        let biased = |b: &Shape| b.len() == 4 && one_of(b[0], q[0]) && one_of(b[1], q[1]) && b[2..] == [q[2], k[2]];
        if agree && self.fits(q[0], q[2], k[2]) && bias.is_none_or(|b| biased(b)) { Ok(**q) } else { Err(rule.into()) }
    }
    fn flops(&self, ins: &[&Shape], _: &Shape) -> u64 {
        self.cost(&self.spec_of(ins[0], ins[1]), ins.len() == 4)
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let spec = self.spec_of(ins[0].shape(), ins[1].shape());
        let (o, lse) = ins[0].attention(ins[1], ins[2], ins.get(3).copied(), &spec);
        Evaluated { out: o.clone(), residuals: vec![o, lse] }
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let x: Vec<&Tensor<T>> = (0..saved.inputs()).map(|i| saved.x(i).value()).collect();
        let (bias, spec) = (x.get(3).copied(), self.spec_of(x[0].shape(), x[1].shape()));
        let kept = [saved.residual(0), saved.residual(1)];
        let wants_bias = bias.is_some() && saved.needs(3);
        let (grads, gbias) = gy.value().attention_vjp([x[0], x[1], x[2]], bias, &spec, kept, wants_bias);
        let mut out: Vec<_> = grads.into_iter().enumerate().map(|(i, g)| saved.grad(i, || gy.constant(g))).collect();
        if bias.is_some() {
            out.push(gbias.map(|g| gy.constant(g)));
        }
        out
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (q, k, v) = (&ins[0], &ins[1], &ins[2]);
        let spec = self.spec_of(q.shape(), k.shape());
        if spec.keys == 0 {
            return Some(q.affine(0.0, 0.0)); // a query without keys gives 0
        }
        let tape = q.tape();
        let mut s = tape.scope("scores", || q.matmul(&k.t()) * spec.scale); // (B, H, Tq, Tk)
        if let Some(bias) = ins.get(3) {
            s = s + bias;
        }
        let (heads, queries, keys) = (spec.heads, spec.queries, spec.keys);
        let place = |n: usize| (n / (keys * queries * heads), n / keys % queries, n % keys);
        let allowed = (0..s.value().len()).map(place).map(|(b, i, j)| spec.allows(b, i, j));
        let allowed = s.value().indicator(*s.shape(), allowed);
        let never = s.constant(s.value().full_like(*s.shape(), T::lit(f64::NEG_INFINITY)));
        let s = tape.scope("mask", || s.select(&allowed, &never));
        let p = tape.scope("softmax", || {
            let (most, sees) = (s.max(3).detach(), allowed.max(3));
            let blind = 1.0 - &sees;
            if !blind.any_nonzero() {
                let e = (&s - most).exp();
                return &e / e.sum(&[3]);
            }
            // If no key is allowed, every e is 0: the largest score, −∞, is not subtracted, and 0 is divided by 1.
            let e = (&s - most.select(&sees, &most.zeros_like())).exp();
            &e / (e.sum(&[3]) + s.constant(blind))
        });
        let p = match &self.dropout {
            Some(key) => p.dropout(*key),
            None => p,
        };
        Some(p.matmul(v))
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (b, h, t, d) = (g.extent(), g.extent().min(3), 1 + g.extent(), 1 + g.extent());
        let more = t + g.extent();
        let plain = Attention::new;
        // A random mask that allows each query at least the key at its own position.
        let any = (0..t * more).map(|n| n / more == n % more || g.index(2) == 0).collect();
        let packed: Tensor<T> = g.normal([b, t, 3, h, d]);
        let view = |i: usize| packed.slice(2, i..i + 1).reshape([b, t, h, d]).permute(&[0, 2, 1, 3]);
        let dropout = Some(DropoutKey::new(0.3, [g.seed() as u32, 7], 1, 5));
        // A mask per sequence, in which the first query has no keys; lengths from a single key to all.
        let each: Arc<[bool]> =
            (0..b * t * more).map(|n| !(n / more).is_multiple_of(t) && (n / more % t == n % more || g.index(2) == 0)).collect();
        let lengths: Arc<[usize]> = (0..b).map(|b| more - b % more).collect();
        let none: Arc<[usize]> = (0..b).map(|b| if b == 0 { more } else { 0 }).collect();
        let three = |g: &mut Samples, keys| [t, keys, keys].map(|t| g.normal([b, h, t, d])).to_vec();
        vec![
            (plain(Mask::Causal), vec![view(0), view(1), view(2)]),
            (plain(Mask::Full), three(g, more)),
            (plain(Mask::Causal), three(g, more)),
            (Attention { dropout, ..plain(Mask::Allowed(any)) }, [three(g, more), vec![g.normal([1, h, t, more])]].concat()),
            (Attention { dropout, ..plain(Mask::Causal) }, [three(g, t), vec![g.normal([b, 1, t, t])]].concat()),
            (plain(Mask::Causal), vec![g.normal([0, h, t, d]); 3]),
            (Attention { lengths: Some(lengths.clone()), scale: Some(0.7), ..plain(Mask::Full) }, three(g, more)),
            (Attention { lengths: Some(none), dropout, ..plain(Mask::Causal) }, three(g, more)),
            (Attention { lengths: Some(lengths), ..plain(Mask::Allowed(each)) }, three(g, more)),
            (plain(Mask::Full), three(g, 0)),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Computes attention of these queries to keys and values, with an optional bias on the scores.
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn attention(&self, k: &Self, v: &Self, bias: Option<&Self>, op: Attention) -> Self {
        match bias {
            None => self.tape().apply(op, &[self, k, v]),
            Some(bias) => self.tape().apply(op, &[self, k, v, bias]),
        }
    }
}
