//! Scaled dot-product attention, over separate heads and over a packed projection.

use crate::operands::{AttentionGrads, AttentionOperands, AttentionSpec, HeadLayout, Heads, ScoreBias};
use crate::tensor::{Cpu, on_gpu};
use crate::{Real, Tensor};

impl<T: Real> Tensor<T> {
    /// Computes attention of these queries (B, H, Tq, D) over keys and values (B, H, Tk, D), with an optional bias (B|1, H|1, Tq,
    /// Tk) on the scores. Returns o (B, H, Tq, D), in memory (B, Tq, H, D), so that joining the heads again needs no copy, and
    /// the log-sum-exp of each row (B, H, Tq).
    #[track_caller]
    pub fn attention(&self, k: &Self, v: &Self, bias: Option<&Self>, spec: &AttentionSpec) -> (Self, Self) {
        let [q, k, v] = [self, k, v].map(Tensor::rows_dense);
        on_gpu!(q = &q, k = &k, v = &v, or_q = bias.unwrap_or(&q) => {
            let attention = gpu::Attention::new([&q, &k, &v], bias.is_some().then_some(or_q), spec);
            let [o, lse] = attention.attend([spec.batch, spec.queries, spec.heads, spec.width]).map(Self::from);
            (o.permute(&[0, 2, 1, 3]), lse)
        });
        let bias = bias.map(Tensor::dense);
        let x = AttentionOperands { spec, q: q.heads(), k: k.heads(), v: v.heads(), bias: bias.as_ref().map(Tensor::score_bias) };
        let cpu = Cpu::of_all(&[&q, &k, &v].into_iter().chain(&bias).collect::<Vec<_>>());
        let (o, lse) = x.attend(&cpu, [spec.batch, spec.queries, spec.heads, spec.width]);
        (o.permute(&[0, 2, 1, 3]), lse)
    }

    /// Computes q̄, k̄ and v̄, of the shapes of q, k and v, and, if `wants_bias`, the bias's gradient, of its shape, from `[o,
    /// lse]` of [`Tensor::attention`] and this ō (B, H, Tq, D).
    #[track_caller]
    pub fn attention_vjp(
        &self,
        [q, k, v]: [&Self; 3],
        bias: Option<&Self>,
        spec: &AttentionSpec,
        [o, lse]: [&Self; 2],
        wants_bias: bool,
    ) -> ([Self; 3], Option<Self>) {
        let [q, k, v, go] = [q, k, v, self].map(Tensor::rows_dense);
        on_gpu!(q = &q, k = &k, v = &v, go = &go, o = &o.rows_dense(), lse = lse, or_q = bias.unwrap_or(&q) => {
            let attention = gpu::Attention::new([&q, &k, &v], bias.is_some().then_some(or_q), spec);
            let (grads, gbias) = attention.vjp([&o, &lse, &go], wants_bias);
            (Self::from(grads).separate(spec), gbias.map(Self::from))
        });
        let (bias, o) = (bias.map(Tensor::dense), o.permute(&[0, 2, 1, 3]).dense());
        let x = AttentionOperands { spec, q: q.heads(), k: k.heads(), v: v.heads(), bias: bias.as_ref().map(Tensor::score_bias) };
        let AttentionSpec { batch, heads, queries, keys, width, .. } = *spec;
        let cpu = Cpu::of_all(&[&q, &k, &v, &go].into_iter().chain(&bias).collect::<Vec<_>>());
        let mut gbias = bias.as_ref().filter(|_| wants_bias).map(|b| cpu.unwritten(*b.shape()));
        let grads = cpu.write([batch * heads * (queries + 2 * keys) * width], |data| {
            let grads = AttentionGrads { data, packed: false, gbias: gbias.as_mut().map(Tensor::write_all) };
            (cpu.kernels.attention_vjp)(&x, o.as_slice(), lse.as_slice(), go.heads(), grads);
        });
        (grads.separate(spec), gbias)
    }

    /// Computes attention within each sequence of a packed [q | k | v] (B, T, 3·H·D), whose parts are read in place. Returns o
    /// (B, T, H·D) and the log-sum-exp of each row (B, H, T).
    #[track_caller]
    pub fn self_attention(&self, spec: &AttentionSpec) -> (Self, Self) {
        let x = self.dense();
        on_gpu!(x = &x => {
            gpu::Attention::packed(&x, spec).attend([spec.batch, spec.queries, spec.heads * spec.width]).map(Self::from)
        });
        x.packed(spec).attend(&x.cpu(), [spec.batch, spec.queries, spec.heads * spec.width])
    }

    /// Computes [q̄ | k̄ | v̄] (B, T, 3·H·D) of this packed [q | k | v], from `[o, lse]` of [`Tensor::self_attention`] and ō.
    #[track_caller]
    pub fn self_attention_vjp(&self, spec: &AttentionSpec, [o, lse]: [&Self; 2], go: &Self) -> Self {
        let (x, o, go, c) = (self.dense(), o.dense(), go.dense(), spec.heads * spec.width);
        on_gpu!(x = &x, o = &o, lse = lse, go = &go => {
            gpu::Attention::packed(&x, spec).packed_vjp([&o, &lse, &go], *self.shape())
        });
        let cpu = Cpu::of([&x, &go]);
        let go = Heads { data: go.as_slice(), strides: [spec.queries * c, spec.width, c] };
        cpu.write(*self.shape(), |data| {
            let grads = AttentionGrads { data, packed: true, gbias: None };
            (cpu.kernels.attention_vjp)(&x.packed(spec), o.as_slice(), lse.as_slice(), go, grads);
        })
    }

    /// Returns the three parts of this dense, packed tensor.
    fn packed<'a>(&'a self, spec: &'a AttentionSpec) -> AttentionOperands<'a, T> {
        let part = |place: HeadLayout| Heads { data: &self.as_slice()[place.offset.min(self.len())..], strides: place.strides };
        let [q, k, v] = spec.places(true).map(part);
        AttentionOperands { spec, q, k, v, bias: None }
    }

    /// Splits q̄, k̄ and v̄, one after the other, (B, T, H, D) each, into three views (B, H, T, D).
    fn separate(&self, spec: &AttentionSpec) -> [Self; 3] {
        let AttentionSpec { batch: b, heads: h, queries: tq, keys: tk, width: d, .. } = *spec;
        let (nq, nk) = (b * h * tq * d, b * h * tk * d);
        let part = |from: usize, n: usize, t: usize| self.slice(0, from..from + n).reshape([b, t, h, d]).permute(&[0, 2, 1, 3]);
        [part(0, nq, tq), part(nq, nk, tk), part(nq + nk, nk, tk)]
    }

    /// Returns this tensor (B, H, T, D), or a copy if its last axis is not dense or it is rounded.
    fn rows_dense(&self) -> Self {
        let has_dense_rows = self.shape()[3] <= 1 || self.strides()[3] == 1;
        if has_dense_rows && self.halves().is_none() { self.clone() } else { self.dense() }
    }

    fn heads(&self) -> Heads<'_, T> {
        let s = self.strides();
        Heads { data: self.from_first(), strides: [s[0], s[1], s[2]] }
    }

    fn score_bias(&self) -> ScoreBias<'_, T> {
        ScoreBias { data: self.as_slice(), batch: self.shape()[0], heads: self.shape()[1] }
    }
}

impl<T: Real> AttentionOperands<'_, T> {
    /// Computes o of this shape, in memory (B, Tq, H, D), and lse (B, H, Tq).
    #[track_caller]
    fn attend<const N: usize>(&self, cpu: &Cpu<T>, shape: [usize; N]) -> (Tensor<T>, Tensor<T>) {
        let mut lse = cpu.unwritten([self.spec.batch, self.spec.heads, self.spec.queries]);
        let o = cpu.write(shape, |o| (cpu.kernels.attention)(self, o, lse.write_all()));
        (o, lse)
    }
}
