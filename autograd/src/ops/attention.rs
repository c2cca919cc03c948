//! # `attention`
//!
//! ```text
//! S = QKᵀ/√D + bias        P = softmax S over the keys the mask allows        O = (P ∘ C) V
//!
//! C: the dropout factors, 0 or 1/(1 − p), a function of a key alone (1 without dropout).
//! V̄ = (P ∘ C)ᵀ Ō           P̄ = C ∘ (Ō Vᵀ)
//! S̄ = P ∘ (P̄ − rowsum(P ∘ P̄)) = P ∘ (P̄ − rowsum(Ō ∘ O))        softmax's VJP; Σₗ pᵢₗ p̄ᵢₗ = ⟨ōᵢ, oᵢ⟩
//! Q̄ = S̄ K/√D               K̄ = S̄ᵀ Q/√D               the bias's gradient is S̄, summed where it was broadcast
//! ```
//!
//! (Vaswani et al. 2017, §3.2.1.) Of P only each row's log-sum-exp is kept; the VJP makes P again, a tile at a time.

use gradus_tensor::kernels::{AttentionGrads, AttentionSpec, Heads, Mask, Place, ScoreBias};
use gradus_tensor::rng::DropoutKey;
use gradus_tensor::{Real, Shape, ShapeError, Tensor};

use crate::{Declared, Evaluated, Op, Samples, Saved, Saves, Var, Want};

/// q (B, H, Tq, D), k and v (B, H, Tk, D), and perhaps a score bias (B|1, H|1, Tq, Tk) → (B, H, Tq, D).
#[derive(Clone, Debug)]
pub struct Attention {
    /// Which keys a query sees.
    pub mask: Mask,
    /// Dropout on the probabilities: row (b·H + h)·Tq + i, column j.
    pub dropout: Option<DropoutKey>,
}

impl Attention {
    /// The kernel's view of one call.
    pub(super) fn spec(&self, batch: usize, heads: usize, queries: usize, keys: usize, width: usize) -> AttentionSpec {
        let (mask, dropout) = (self.mask.clone(), self.dropout);
        AttentionSpec { batch, heads, queries, keys, width, scale: 1.0 / (width as f64).sqrt(), mask, dropout }
    }

    fn spec_of<T: Real>(&self, q: &Tensor<T>, k: &Tensor<T>) -> AttentionSpec {
        let s = q.shape();
        self.spec(s[0], s[1], s[2], k.shape()[2], s[3])
    }

    /// Does the mask fit these lengths?
    pub(super) fn fits(&self, queries: usize, keys: usize) -> bool {
        match &self.mask {
            Mask::Full => keys > 0 || queries == 0,
            Mask::Causal => keys >= queries,
            Mask::Allowed(allowed) => allowed.len() == queries * keys,
        }
    }

    /// Operations on `sequences` = B·H pairs of q and k; a masked pair costs nothing.
    pub(super) fn cost(&self, sequences: u64, queries: usize, keys: usize, width: u64, bias: bool) -> u64 {
        let seen = |i| (0..keys).filter(|&j| self.mask.allows(i, j, queries, keys)).count() as u64;
        let pairs: u64 = (0..queries).map(seen).sum();
        sequences * (pairs * (4 * width + 8 + u64::from(bias)) + 2 * queries as u64)
    }
}

/// A tensor (B, H, T, D) as the kernel reads it: its last axis dense.
pub(super) fn heads<T: Real>(x: &Tensor<T>) -> Tensor<T> {
    if x.shape()[3] <= 1 || x.strides()[3] == 1 { x.clone() } else { x.dense() }
}

pub(super) fn read<T: Real>(x: &Tensor<T>) -> Heads<'_, T> {
    let s = x.strides();
    Heads { data: x.from_first(), strides: [s[0], s[1], s[2]] }
}

fn read_bias<T: Real>(bias: &Tensor<T>) -> ScoreBias<'_, T> {
    ScoreBias { data: bias.as_slice(), batch: bias.shape()[0], heads: bias.shape()[1] }
}

impl<T: Real> Op<T> for Attention {
    fn name(&self) -> &'static str {
        <Self as Declared<T>>::NAME
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        let rule = "q (B,H,Tq,D) · k, v (B,H,Tk,D) [· bias (B|1,H|1,Tq,Tk)] with a mask that fits";
        let error = || ShapeError::new("attention", rule, ins);
        let (q, k, v, bias) = match ins {
            [q, k, v] => (q, k, v, None),
            [q, k, v, bias] => (q, k, v, Some(bias)),
            _ => return Err(error()),
        };
        let agree = q.len() == 4 && k.len() == 4 && k == v && q[..2] == k[..2] && q[3] == k[3] && q[3] > 0;
        let one_of = |extent: usize, full: usize| extent == 1 || extent == full;
        let biased = |b: &Shape| b.len() == 4 && one_of(b[0], q[0]) && one_of(b[1], q[1]) && b[2..] == [q[2], k[2]];
        if agree && self.fits(q[2], k[2]) && bias.is_none_or(|b| biased(b)) { Ok(**q) } else { Err(error()) }
    }
    fn flops(&self, ins: &[&Shape], _: &Shape) -> u64 {
        let (q, k) = (ins[0], ins[1]);
        self.cost((q[0] * q[1]) as u64, q[2], k[2], q[3] as u64, ins.len() == 4)
    }
    fn saves(&self) -> Saves {
        Saves::INPUTS
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let (q, k, v) = (heads(ins[0]), heads(ins[1]), heads(ins[2]));
        let bias = ins.get(3).map(|b| b.dense());
        let spec = self.spec_of(&q, &k);
        let [b, h, t, d] = [spec.batch, spec.heads, spec.queries, spec.width];
        let mut lse = Tensor::zeros([b, h, t]);
        // In memory (B, Tq, H, D), so that joining the heads again is free.
        let o = Tensor::write([b, t, h, d], |o| {
            let lse = lse.get_mut().expect("just made");
            T::kernels().attention(&spec, read(&q), read(&k), read(&v), bias.as_ref().map(read_bias), o, lse);
        });
        Evaluated { out: o.permute(&[0, 2, 1, 3]), residuals: vec![o, lse] }
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let value = |i: usize| heads(saved.x(i).value());
        let (q, k, v, go) = (value(0), value(1), value(2), heads(gy.value()));
        let bias = (saved.ins.len() == 4).then(|| saved.x(3).value().dense());
        let spec = self.spec_of(&q, &k);
        let [b, h, tq, tk, d] = [spec.batch, spec.heads, spec.queries, spec.keys, spec.width];
        let (nq, nk) = (b * h * tq * d, b * h * tk * d);
        let place = |offset, t: usize| Place { offset, strides: [t * h * d, d, h * d] };
        let places = [place(0, tq), place(nq, tk), place(nq + nk, tk)];
        let mut gbias = bias.as_ref().filter(|_| saved.needs(3)).map(|b| Tensor::zeros(*b.shape()));
        let grads = Tensor::write([nq + 2 * nk], |data| {
            let gbias = gbias.as_mut().map(|g| g.get_mut().expect("just made"));
            let grads = AttentionGrads { data, places, gbias };
            let (o, lse) = (saved.residual(0).as_slice(), saved.residual(1).as_slice());
            T::kernels().attention_vjp(
                &spec,
                read(&q),
                read(&k),
                read(&v),
                bias.as_ref().map(read_bias),
                o,
                lse,
                read(&go),
                grads,
            );
        });
        let part = |from: usize, n: usize, t: usize| grads.slice(0, from..from + n).reshape([b, t, h, d]).permute(&[0, 2, 1, 3]);
        let constant = |t| saved.x(0).tape().constant(t);
        let mut out = vec![
            saved.grad(0, || constant(part(0, nq, tq))),
            saved.grad(1, || constant(part(nq, nk, tk))),
            saved.grad(2, || constant(part(nq + nk, nk, tk))),
        ];
        if bias.is_some() {
            out.push(gbias.map(constant));
        }
        out
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (q, k, v) = (&ins[0], &ins[1], &ins[2]);
        let (tq, tk, d) = (q.shape()[2], k.shape()[2], q.shape()[3]);
        if tk == 0 {
            return Some(q.affine(1.0, 0.0)); // no keys, hence no queries: as empty as q
        }
        let tape = q.tape();
        let mut s = tape.scope("scores", || q.matmul(&k.t()) * (1.0 / (d as f64).sqrt())); // (B, H, Tq, Tk)
        if let Some(bias) = ins.get(3) {
            s = s + bias;
        }
        let shape = *s.shape();
        let allowed: Vec<bool> = (0..shape.numel()).map(|n| self.mask.allows(n / tk % tq, n % tk, tq, tk)).collect();
        let never = tape.constant(Tensor::full(shape, T::lit(f64::NEG_INFINITY)));
        let s = tape.scope("mask", || s.select(allowed, &never));
        let p = tape.scope("softmax", || {
            let e = (&s - s.max(3).detach()).exp();
            &e / e.sum(&[3])
        });
        let p = match &self.dropout {
            Some(key) => p.dropout(*key),
            None => p,
        };
        Some(p.matmul(v))
    }
}

impl<T: Real> Declared<T> for Attention {
    const NAME: &'static str = "attention";
    const MATH: &'static str =
        "O = (softmax(QKᵀ/√D + bias) ∘ C)V;  V̄ = (P∘C)ᵀŌ,  S̄ = P ∘ (C∘ŌVᵀ − rowsum Ō∘O),  Q̄ = S̄K/√D,  K̄ = S̄ᵀQ/√D";
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (b, h, t, d) = (g.extent(), g.extent().min(3), 1 + g.extent(), 1 + g.extent());
        let more = t + g.extent();
        let plain = |mask| Attention { mask, dropout: None };
        let dropping = |g: &mut Samples| Some(DropoutKey::new(0.3, [g.seed() as u32, 7], 1, 5));
        // Any mask, each query allowed at least the key of its own position.
        let any = (0..t * more).map(|n| n / more == n % more || g.index(2) == 0).collect();
        let packed: Tensor<T> = g.normal([b, t, 3, h, d]);
        let view = |i: usize| packed.slice(2, i..i + 1).reshape([b, t, h, d]).permute(&[0, 2, 1, 3]);
        let dropout = dropping(g);
        vec![
            (plain(Mask::Causal), vec![view(0), view(1), view(2)]),
            (plain(Mask::Full), vec![g.normal([b, h, t, d]), g.normal([b, h, more, d]), g.normal([b, h, more, d])]),
            (plain(Mask::Causal), vec![g.normal([b, h, t, d]), g.normal([b, h, more, d]), g.normal([b, h, more, d])]),
            (
                Attention { mask: Mask::Allowed(any), dropout },
                vec![g.normal([b, h, t, d]), g.normal([b, h, more, d]), g.normal([b, h, more, d]), g.normal([1, h, t, more])],
            ),
            (
                Attention { mask: Mask::Causal, dropout },
                vec![g.normal([b, h, t, d]), g.normal([b, h, t, d]), g.normal([b, h, t, d]), g.normal([b, 1, t, t])],
            ),
            (plain(Mask::Causal), vec![g.normal([0, h, t, d]), g.normal([0, h, t, d]), g.normal([0, h, t, d])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Attention of these queries to keys and values, with a bias on the scores or none.
    #[track_caller]
    pub fn attention(&self, k: &Self, v: &Self, bias: Option<&Self>, op: Attention) -> Self {
        match bias {
            None => self.tape().apply(op, &[self, k, v]),
            Some(bias) => self.tape().apply(op, &[self, k, v, bias]),
        }
    }
}
