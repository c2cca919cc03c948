//! Conversions between tensors and the arrays of GPU kernels.

use std::sync::Arc;

use super::Tensor;
use crate::Real;
use crate::gpu::Array;
use crate::storage::Storage;

/// Returns the arrays of all tensors, or `None` if they are in the CPU's memory. Panics if they are on different devices.
#[track_caller]
pub(crate) fn arrays<T: Real, const N: usize>(tensors: [&Tensor<T>; N]) -> Option<[Array; N]> {
    let arrays = tensors.map(Tensor::array);
    if arrays.iter().all(Option::is_none) {
        return None;
    }
    let first = arrays[0].as_ref().map(Array::gpu);
    let together = arrays.iter().all(|x| x.as_ref().map(Array::gpu) == first);
    assert!(
        together,
        "tensors on one device, got {}; bring them together with .to",
        tensors.map(|x| x.device().to_string()).join(", ")
    );
    Some(arrays.map(|x| x.expect("on the GPU, as the first is")))
}

/// Returns the arrays of any number of tensors, as [`arrays`] does.
#[track_caller]
pub(crate) fn all_arrays<T: Real>(tensors: &[&Tensor<T>]) -> Option<Vec<Array>> {
    let first = tensors.first()?;
    tensors.iter().map(|x| arrays([*first, *x]).map(|[_, x]| x)).collect()
}

impl<T: Real> Tensor<T> {
    pub(crate) fn array(&self) -> Option<Array> {
        match &self.data {
            Storage::Host(..) | Storage::Rounded(_) => None,
            Storage::Gpu(buffer) => Some(Array { layout: self.layout, buffer: buffer.clone() }),
        }
    }

    /// Returns the array for writing, dense and not shared. It is copied first if it is not.
    pub(crate) fn array_mut(&mut self) -> Option<Array> {
        if let Storage::Gpu(buffer) = &mut self.data
            && (Arc::get_mut(buffer).is_none() || !self.layout.is_dense())
        {
            let shared = Array { layout: self.layout, buffer: buffer.clone() };
            *self = shared.copied().into();
        }
        self.array()
    }
}

impl<T: Real> From<Array> for Tensor<T> {
    fn from(x: Array) -> Self {
        Tensor { layout: x.layout, data: Storage::Gpu(x.buffer) }
    }
}
