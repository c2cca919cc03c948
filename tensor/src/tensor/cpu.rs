//! The CPU as the device of a computation.

use crate::device::MatmulPrecision;
use crate::kernels::Kernels;
use crate::layout::Layout;
use crate::storage::Storage;
use crate::{Real, Shape, Tensor};

/// The CPU in the precision of a computation's operands: its kernels, and new tensors for results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu<T: Real> {
    precision: MatmulPrecision,
    pub(crate) kernels: &'static Kernels<T>,
}

impl<T: Real> Cpu<T> {
    /// Returns the CPU with products of this precision, or of the scalar's own precision if it has no such kernels.
    pub(crate) fn with(precision: MatmulPrecision) -> Self {
        let own = || (MatmulPrecision::F32, T::kernels());
        let (precision, kernels) = T::kernels_in(precision).map_or_else(own, |kernels| (precision, kernels));
        Cpu { precision, kernels }
    }

    /// Returns the CPU in the precision of these operands: bf16 if it is the precision of any of them.
    pub(crate) fn of<const N: usize>(operands: [&Tensor<T>; N]) -> Self {
        Self::of_all(&operands)
    }

    /// Returns [`Cpu::of`] of any number of operands.
    pub(crate) fn of_all(operands: &[&Tensor<T>]) -> Self {
        let rounds = operands.iter().any(|x| x.data.matmul_precision() == MatmulPrecision::BF16);
        Self::with(if rounds { MatmulPrecision::BF16 } else { MatmulPrecision::F32 })
    }

    /// Returns a tensor of arbitrary values. The caller must write every element.
    pub(crate) fn unwritten(&self, shape: impl Into<Shape>) -> Tensor<T> {
        let shape = shape.into();
        Tensor { layout: Layout::dense(shape), data: Storage::recycled(shape.numel(), self.precision) }
    }

    /// Returns a tensor that `fill` writes, as [`Tensor::write`] does.
    pub(crate) fn write(&self, shape: impl Into<Shape>, fill: impl FnOnce(&mut [T])) -> Tensor<T> {
        let mut out = self.unwritten(shape);
        fill(out.get_mut().expect("just made"));
        out
    }
}

impl<T: Real> Tensor<T> {
    /// Returns the CPU in this tensor's precision.
    pub(crate) fn cpu(&self) -> Cpu<T> {
        Cpu::of([self])
    }
}
