//! Functions of each row along the last axis.

use crate::tensor::{Cpu, on_gpu};
use crate::{Real, Tensor};

impl<T: Real> Tensor<T> {
    /// Computes eˣ/Σ eˣ of each row of x (…, n): (…, n).
    pub fn softmax(&self) -> Self {
        on_gpu!(x = self => gpu::softmax(&x, false));
        let n = self.rows().1;
        self.kernel(|x, y| (self.cpu().kernels.softmax)(x, y, n))
    }

    /// Computes x̄ = y ∘ (ȳ − ⟨ȳ, y⟩) row by row, from this y of [`Tensor::softmax`]; all (…, n).
    #[track_caller]
    pub fn softmax_vjp(&self, gy: &Self) -> Self {
        assert_eq!(self.shape(), gy.shape(), "tensors of one shape");
        on_gpu!(y = self, gy = gy => gpu::softmax_vjp(&y, &gy, false));
        let n = self.rows().1;
        self.kernel2(gy, |y, gy, gx| (self.cpu().kernels.softmax_vjp)(y, gy, gx, n))
    }

    /// Computes x − log Σ eˣ of each row of x (…, n): (…, n).
    pub fn log_softmax(&self) -> Self {
        on_gpu!(x = self => gpu::softmax(&x, true));
        let n = self.rows().1;
        self.kernel(|x, y| (self.cpu().kernels.log_softmax)(x, y, n))
    }

    /// Computes x̄ = ȳ − eʸ Σ ȳ row by row, from this y of [`Tensor::log_softmax`]; all (…, n).
    #[track_caller]
    pub fn log_softmax_vjp(&self, gy: &Self) -> Self {
        assert_eq!(self.shape(), gy.shape(), "tensors of one shape");
        on_gpu!(y = self, gy = gy => gpu::softmax_vjp(&y, &gy, true));
        let n = self.rows().1;
        self.kernel2(gy, |y, gy, gx| (self.cpu().kernels.log_softmax_vjp)(y, gy, gx, n))
    }

    /// Normalises rows (…, n) to mean 0 and variance 1, times gain (n) plus bias (n). Returns y (…, n), and of each row the mean
    /// μ and r = (σ² + ε)^(−1/2), both (rows).
    #[track_caller]
    pub fn layer_norm(&self, gain: &Self, bias: &Self, eps: f64) -> (Self, [Self; 2]) {
        on_gpu!(x = self, gain = gain, bias = bias => {
            let (y, stats) = gpu::layer_norm(&x, &gain, &bias, eps);
            (Self::from(y), stats.map(Self::from))
        });
        let (x, gain, bias, (rows, _)) = (self.dense(), gain.dense(), bias.dense(), self.rows());
        let cpu = Cpu::of([&x, &gain, &bias]);
        let (mut mean, mut rstd) = (cpu.unwritten([rows]), cpu.unwritten([rows]));
        let y = cpu.write(*self.shape(), |y| {
            let (x, gain, bias) = (x.as_slice(), gain.as_slice(), bias.as_slice());
            (cpu.kernels.layer_norm)(x, gain, bias, eps, y, mean.write_all(), rstd.write_all());
        });
        (y, [mean, rstd])
    }

    /// Computes x̄ (…, n), and the gradients of gain and bias (n), for this x and the `stats` of [`Tensor::layer_norm`].
    #[track_caller]
    pub fn layer_norm_vjp(&self, gain: &Self, stats: [&Self; 2], gy: &Self) -> [Self; 3] {
        on_gpu!(x = self, gain = gain, mean = stats[0], rstd = stats[1], gy = gy => {
            gpu::layer_norm_vjp(&x, &gain, [&mean, &rstd], &gy).map(Self::from)
        });
        let (x, gain, gy, [mean, rstd]) = (self.dense(), gain.dense(), gy.dense(), stats.map(Tensor::as_slice));
        let cpu = Cpu::of([&x, &gain, &gy]);
        let (mut ggain, mut gbias) = (cpu.unwritten(*gain.shape()), cpu.unwritten(*gain.shape()));
        let gx = cpu.write(*self.shape(), |gx| {
            let (x, gain, gy) = (x.as_slice(), gain.as_slice(), gy.as_slice());
            (cpu.kernels.layer_norm_vjp)(x, gain, mean, rstd, gy, gx, ggain.write_all(), gbias.write_all());
        });
        [gx, ggain, gbias]
    }

    /// Normalises rows (…, n) to mean square 1, times gain (n). Returns y (…, n), and each row's r = (mean x² + ε)^(−1/2) (rows).
    #[track_caller]
    pub fn rms_norm(&self, gain: &Self, eps: f64) -> (Self, Self) {
        on_gpu!(x = self, gain = gain => {
            let (y, rrms) = gpu::rms_norm(&x, &gain, eps);
            (Self::from(y), Self::from(rrms))
        });
        let (x, gain, (rows, _)) = (self.dense(), gain.dense(), self.rows());
        let cpu = Cpu::of([&x, &gain]);
        let mut rrms = cpu.unwritten([rows]);
        let y = cpu.write(*self.shape(), |y| {
            (cpu.kernels.rms_norm)(x.as_slice(), gain.as_slice(), eps, y, rrms.write_all());
        });
        (y, rrms)
    }

    /// Computes x̄ (…, n) and the gain's gradient (n), for this x and the `rrms` of [`Tensor::rms_norm`].
    #[track_caller]
    pub fn rms_norm_vjp(&self, gain: &Self, rrms: &Self, gy: &Self) -> [Self; 2] {
        on_gpu!(x = self, gain = gain, rrms = rrms, gy = gy => {
            gpu::rms_norm_vjp(&x, &gain, &rrms, &gy).map(Self::from)
        });
        let (x, gain, gy) = (self.dense(), gain.dense(), gy.dense());
        let cpu = Cpu::of([&x, &gain, &gy]);
        let mut ggain = cpu.unwritten(*gain.shape());
        let gx = cpu.write(*self.shape(), |gx| {
            let (x, gain, gy) = (x.as_slice(), gain.as_slice(), gy.as_slice());
            (cpu.kernels.rms_norm_vjp)(x, gain, rrms.as_slice(), gy, gx, ggain.write_all());
        });
        [gx, ggain]
    }
}
