//! Cross-entropy, in nats.

use crate::operands::{Form, OutputGrads, OutputOperands};
use crate::tensor::{Cpu, on_gpu};
use crate::{Device, Real, Tensor};

impl Device {
    /// Returns the most rows of logits that an output of so many classes and its cross-entropy hold at a time on a GPU; `None`
    /// for the CPU.
    #[cfg_attr(not(feature = "wgpu"), expect(unused_variables, reason = "there is only the CPU"))]
    pub fn rows_of_logits(&self, classes: usize) -> Option<usize> {
        match self {
            Device::Cpu(_) => None,
            #[cfg(feature = "wgpu")]
            Device::Gpu(_) => Some(crate::gpu::rows_at_once(classes)),
        }
    }
}

impl<T: Real> Tensor<T> {
    /// Computes −log softmax at the target of each row of these logits (n, V), and lse = log Σ e^logit; both (n).
    #[track_caller]
    pub fn cross_entropy(&self, targets: &[u32]) -> (Self, Self) {
        on_gpu!(z = self => {
            let (loss, lse) = gpu::cross_entropy(&z, targets);
            (Self::from(loss), Self::from(lse))
        });
        let (z, n) = (self.dense(), [targets.len()]);
        let cpu = self.cpu();
        let mut lse = cpu.unwritten(n);
        let loss = cpu.write(n, |loss| (cpu.kernels.cross_entropy)(z.as_slice(), targets, loss, lse.write_all()));
        (loss, lse)
    }

    /// Computes ȳ ∘ (softmax z − \[target\]) for these logits (n, V) and their lse of [`Tensor::cross_entropy`]; ȳ (n) → (n, V).
    #[track_caller]
    pub fn cross_entropy_vjp(&self, targets: &[u32], lse: &Self, gy: &Self) -> Self {
        on_gpu!(z = self, lse = lse, gy = gy => gpu::cross_entropy_vjp(&z, targets, &lse, &gy));
        let (z, gy) = (self.dense(), gy.dense());
        let cpu = Cpu::of([&z, &gy]);
        cpu.write(*self.shape(), |gz| {
            (cpu.kernels.cross_entropy_vjp)(z.as_slice(), targets, lse.as_slice(), gy.as_slice(), gz);
        })
    }

    /// Computes −log softmax(h wᵀ + bias) at the target of each row (n), for these hidden states h (n, d), w (V, d), bias (V).
    #[track_caller]
    pub fn linear_cross_entropy(&self, w: &Self, bias: Option<&Self>, targets: &[u32], weights: &Self) -> Self {
        on_gpu!(h = self, w = w, b = bias.unwrap_or(w), weights = weights => {
            gpu::linear_cross_entropy(&h, &w, bias.map(|_| &b), targets, &weights, false).0
        });
        self.output_loss(w, bias, targets, weights, None)
    }

    /// Computes [`Tensor::linear_cross_entropy`], and the gradients of Σᵢ weightᵢ·lossᵢ with respect to h (n, d), w (V, d) and,
    /// if present, the bias (V).
    #[track_caller]
    pub fn linear_cross_entropy_and_vjp(
        &self,
        w: &Self,
        bias: Option<&Self>,
        targets: &[u32],
        weights: &Self,
    ) -> (Self, Vec<Self>) {
        on_gpu!(h = self, w = w, b = bias.unwrap_or(w), weights = weights => {
            let (loss, grads) = gpu::linear_cross_entropy(&h, &w, bias.map(|_| &b), targets, &weights, true);
            (Self::from(loss), grads.into_iter().map(Self::from).collect())
        });
        let inputs: Vec<&Self> = [self, w].into_iter().chain(bias).collect();
        let cpu = Cpu::of_all(&inputs);
        let mut grads: Vec<Self> = inputs.iter().map(|x| cpu.unwritten(*x.shape())).collect();
        let mut to = grads.iter_mut().map(Tensor::write_all);
        let (h, gw) = (to.next().expect("of h"), to.next().expect("of w"));
        let loss = self.output_loss(w, bias, targets, weights, Some(OutputGrads { h, w: gw, bias: to.next() }));
        (loss, grads)
    }

    #[track_caller]
    fn output_loss(
        &self,
        w: &Self,
        bias: Option<&Self>,
        targets: &[u32],
        weights: &Self,
        grads: Option<OutputGrads<'_, T>>,
    ) -> Self {
        let (h, w, bias) = (self.dense(), w.dense(), bias.map(Tensor::dense));
        let x = OutputOperands {
            h: h.as_slice(),
            w: w.as_slice(),
            w_form: w.packed_forms().map_or(Form::Elements, Form::Kept),
            bias: bias.as_ref().map(Tensor::as_slice),
            width: w.shape()[1],
            targets,
            weights: weights.as_slice(),
        };
        let cpu = Cpu::of_all(&[&h, &w].into_iter().chain(&bias).collect::<Vec<_>>());
        cpu.write([targets.len()], |loss| (cpu.kernels.linear_cross_entropy)(&x, loss, grads))
    }
}
