//! # `linear_cross_entropy`
//!
//! ```text
//! Z = H Wᵀ        ℓᵢ = log Σⱼ e^zᵢⱼ − z_{i,tᵢ}        y = Σᵢ wᵢ ℓᵢ            (GPT-1 §3.1: P(u) = softmax(h Wₑᵀ), equations 1 and 2)
//! z̄ᵢⱼ = ȳ wᵢ (softmax(zᵢ)ⱼ − [j = tᵢ])
//! H̄ = Z̄ W        W̄ = Z̄ᵀ H
//! ```
//!
//! The logits of a batch are never held: a chunk of rows at a time yields its losses and its part of both gradients at
//! once, for ȳ = 1; the VJP only scales them.

use std::sync::Arc;

use gradus_tensor::{Real, Shape, ShapeError, Tensor};

use crate::{Declared, Evaluated, Op, Samples, Saved, Saves, Var, Want};

/// H (n, d), W (V, d) → Σᵢ wᵢ ℓᵢ, without axes.
#[derive(Clone, Debug)]
pub struct LinearCrossEntropy {
    /// Each row's class, below V.
    pub targets: Arc<[u32]>,
    /// Each row's weight wᵢ: 1/n for a mean, 0 for a row that does not count.
    pub weights: Arc<[f64]>,
}

impl<T: Real> Op<T> for LinearCrossEntropy {
    fn name(&self) -> &'static str {
        <Self as Declared<T>>::NAME
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        let (h, w) = (ins[0], ins[1]);
        let n = self.targets.len();
        let fits = h.len() == 2 && w.len() == 2 && h[1] == w[1] && h[1] > 0 && h[0] == n && self.weights.len() == n;
        let below = self.targets.iter().all(|&t| (t as usize) < w[0]);
        if fits && below {
            return Ok([].into());
        }
        let rule = format!("h (n,d) · w (V,d) with {n} targets below V and {} weights", self.weights.len());
        Err(ShapeError::new("linear_cross_entropy", rule, ins))
    }
    fn flops(&self, ins: &[&Shape], _: &Shape) -> u64 {
        let (n, d, v) = (ins[0][0] as u64, ins[0][1] as u64, ins[1][0] as u64);
        n * (2 * d * v + 3 * v + 3) + 2 * n
    }
    fn saves(&self) -> Saves {
        Saves::INPUTS
    }
    fn eval(&self, ins: &[&Tensor<T>], want: Want) -> Evaluated<T> {
        let (h, w) = (ins[0].dense(), ins[1].dense());
        let n = self.targets.len();
        let weights = Tensor::new([n], self.weights.iter().map(|&w| T::lit(w)).collect());
        let weights = weights.as_slice();
        let mut losses = Tensor::unwritten([n]);
        let mut residuals = match want {
            Want::Value => vec![],
            Want::Vjp => vec![Tensor::unwritten(*h.shape()), Tensor::unwritten(*w.shape())],
        };
        let grads = match &mut residuals[..] {
            [gh, gw] => Some((gh.get_mut().expect("just made"), gw.get_mut().expect("just made"))),
            _ => None,
        };
        let loss = losses.get_mut().expect("just made");
        T::kernels().linear_cross_entropy(h.as_slice(), w.as_slice(), h.shape()[1], &self.targets, weights, loss, grads);
        let weighted = Tensor::write([n], |y| T::kernels().mul(losses.as_slice(), weights, y));
        let out =
            Tensor::write([], |y| if n == 0 { y.fill(T::zero()) } else { T::kernels().sum_cols(weighted.as_slice(), y, n) });
        Evaluated { out, residuals }
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let gy_value = gy.value().item();
        let scaled = |i: usize| {
            let g = saved.residual(i);
            let is_one = gy_value == T::one(); // 1·g has the bits of g
            let g = if is_one {
                g.clone()
            } else {
                Tensor::write(*g.shape(), |y| T::kernels().affine(g.as_slice(), gy_value, T::zero(), y))
            };
            gy.tape().constant(g)
        };
        vec![saved.grad(0, || scaled(0)), saved.grad(1, || scaled(1))]
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        let (h, w) = (&ins[0], &ins[1]);
        let (n, v) = (h.shape()[0], w.shape()[0]);
        let z = h.matmul(&w.t()); // (n, V)
        let most = z.max(1).detach();
        let lse = most.clone() + (&z - &most).exp().sum(&[1]).log(); // (n, 1)
        let hit: Vec<bool> = (0..n * v).map(|at| self.targets[at / v] as usize == at % v).collect();
        let none = h.tape().constant(Tensor::zeros([n, v]));
        let target = z.select(hit, &none).sum(&[1]);
        let weights = h.tape().constant(Tensor::new([n, 1], self.weights.iter().map(|&w| T::lit(w)).collect()));
        Some(((lse - target) * weights).sum_all())
    }
}

impl<T: Real> Declared<T> for LinearCrossEntropy {
    const NAME: &'static str = "linear_cross_entropy";
    const MATH: &'static str = "y = Σᵢ wᵢ(log Σⱼ e^zᵢⱼ − z_{i,tᵢ}), Z = HWᵀ;  Z̄ = ȳ w(softmax Z − [t]),  H̄ = Z̄W,  W̄ = Z̄ᵀH";
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (n, d, v) = (g.extent(), g.extent(), 1 + g.extent());
        let op = |targets: Vec<u32>, weights: Vec<f64>| LinearCrossEntropy { targets: targets.into(), weights: weights.into() };
        let weights = (0..n).map(|_| g.number(0.2, 1.0)).collect();
        let (h, w) = (g.normal([n, d]), g.normal([v, d]));
        vec![
            (op(g.ids(n, v), weights), vec![g.strided(&h), g.strided(&w)]),
            (op(g.ids(2, v), vec![0.0, 1.0]), vec![g.normal([2, d]), g.normal([v, d])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Σᵢ weightᵢ·(−log softmax(h wᵀ)[i, targetᵢ]) of these hidden states (n, d) and a tied embedding `w` (V, d).
    #[track_caller]
    pub fn linear_cross_entropy(&self, w: &Self, targets: Arc<[u32]>, weights: Arc<[f64]>) -> Self {
        self.tape().apply(LinearCrossEntropy { targets, weights }, &[self, w])
    }
}
