//! Long short-term memory, with gates in the order i, f, g, o.

use crate::tensor::{Cpu, on_gpu};
use crate::{Real, Tensor};

impl<T: Real> Tensor<T> {
    /// Computes one step from these pre-activations z (B, 4H) and the cell c (B, H). Returns [h; c′] (2, B, H) and the gates (B,
    /// 4H).
    #[track_caller]
    pub fn lstm_cell(&self, c: &Self) -> (Self, Self) {
        on_gpu!(z = self, c = c => {
            let (out, gates) = gpu::lstm_cell(&z, &c);
            (Self::from(out), Self::from(gates))
        });
        let (c, units) = (c.dense(), c.shape()[1]);
        let cpu = Cpu::of([self, &c]);
        let mut gates = cpu.write(*self.shape(), |gates| gates.copy_from_slice(self.dense().as_slice()));
        let out = cpu.write([2, c.shape()[0], units], |out| {
            let (h, c_new) = out.split_at_mut(c.len());
            (cpu.kernels.lstm_cell)(units, gates.write_all(), c.as_slice(), c_new, h);
        });
        (out, gates)
    }

    /// Computes z̄ (B, 4H) and c̄ (B, H) from this result [h; c′] of [`Tensor::lstm_cell`], its gates, its initial cell c, and [h̄;
    /// c̄′].
    #[track_caller]
    pub fn lstm_cell_vjp(&self, gates: &Self, c: &Self, gy: &Self) -> [Self; 2] {
        on_gpu!(out = self, gates = gates, c = c, gy = gy => gpu::lstm_cell_vjp(&out, &gates, &c, &gy).map(Self::from));
        let (c, c_new, gy) = (c.dense(), self.slice(0, 1..2).dense(), gy.dense());
        let (gh, gc_new) = gy.as_slice().split_at(c.len());
        let cpu = Cpu::of([self, &c, &gy]);
        let mut gc = cpu.write(*c.shape(), |gc| gc.copy_from_slice(gc_new));
        let gz = cpu.write(*gates.shape(), |gz| {
            let (gates, c, c_new) = (gates.as_slice(), c.as_slice(), c_new.as_slice());
            (cpu.kernels.lstm_cell_vjp)(self.shape()[2], gates, c, c_new, gh, gc.write_all(), gz);
        });
        [gz, gc]
    }

    /// Computes all steps from a state of zeros. x (T, B, 4H) is the inputs' share of the pre-activations, and w is (H, 4H).
    /// Returns the outputs h (T, B, H), and the gates (T, B, 4H) and cells (T, B, H).
    #[track_caller]
    pub fn lstm(&self, w: &Self) -> (Self, [Self; 2]) {
        on_gpu!(x = self, w = w => {
            let (h, kept) = gpu::lstm(&x, &w);
            (Self::from(h), kept.map(Self::from))
        });
        let (x, w) = (self.dense(), w.dense());
        let (units, out) = (w.shape()[0], self.shape().with(2, w.shape()[0]));
        let cpu = Cpu::of([&x, &w]);
        let (mut gates, mut cells) = (cpu.unwritten(*self.shape()), cpu.unwritten(out));
        let h = cpu.write(out, |h| {
            (cpu.kernels.lstm)(x.as_slice(), w.as_slice(), [out[1], units], gates.write_all(), cells.write_all(), h);
        });
        (h, [gates, cells])
    }

    /// Computes x̄ (T, B, 4H) and, if `wants_w`, w̄ (H, 4H), from these outputs h of [`Tensor::lstm`], w, the gates and cells, and
    /// h̄.
    #[track_caller]
    pub fn lstm_vjp(&self, w: &Self, [gates, cells]: [&Self; 2], gy: &Self, wants_w: bool) -> (Self, Option<Self>) {
        on_gpu!(h = self, w = w, gates = gates, cells = cells, gy = gy => {
            let (gx, gw) = gpu::lstm_vjp(&h, &w, [&gates, &cells], &gy, wants_w);
            (Self::from(gx), gw.map(Self::from))
        });
        let (h, w, gy) = (self.dense(), w.dense(), gy.dense());
        let sizes = [self.shape()[1], self.shape()[2]];
        let cpu = Cpu::of([&h, &w, &gy]);
        let mut gw = wants_w.then(|| cpu.unwritten(*w.shape()));
        let gx = cpu.write(*gates.shape(), |gx| {
            let (w, gates, cells) = (w.as_slice(), gates.as_slice(), cells.as_slice());
            (cpu.kernels.lstm_vjp)(w, sizes, gates, cells, h.as_slice(), gy.as_slice(), gx, gw.as_mut().map(Tensor::write_all));
        });
        (gx, gw)
    }
}
