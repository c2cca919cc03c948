//! The storage of a tensor's elements.

use std::ops::Range;
use std::sync::Arc;

use crate::Real;
use crate::buffer::Buffer;
use crate::device::{Device, DeviceError, MatmulPrecision};

/// The elements of tensors, shared by the tensors that view them.
#[derive(Clone, Debug)]
pub(crate) enum Storage<T: Real> {
    /// Elements in the CPU's memory, and the precision of products with them.
    Host(Arc<Buffer<T>>, MatmulPrecision),
    /// Elements on a GPU, in `f32`.
    #[cfg(feature = "wgpu")]
    Gpu(Arc<crate::device::Buffer>),
}

impl<T: Real> Storage<T> {
    /// Returns storage of arbitrary values in the CPU's memory.
    pub(crate) fn recycled(len: usize, precision: MatmulPrecision) -> Self {
        Storage::Host(Arc::new(Buffer::recycled(len)), precision)
    }

    /// Copies these values to a device.
    pub(crate) fn on(device: &Device, values: Vec<T>) -> Result<Self, DeviceError> {
        match device {
            Device::Cpu(precision) => {
                supported::<T>(*precision)?;
                let mut buffer = Buffer::recycled(values.len());
                buffer.copy_from_slice(&values);
                Ok(Storage::Host(Arc::new(buffer), *precision))
            }
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => {
                let values = T::as_f32s(&values).ok_or(DeviceError::NotF32(std::any::type_name::<T>()))?;
                let buffer = gpu.send(values);
                gpu.check()?;
                Ok(Storage::Gpu(Arc::new(buffer)))
            }
        }
    }

    pub(crate) fn device(&self) -> Device {
        match self {
            Storage::Host(_, precision) => Device::Cpu(*precision),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(buffer) => Device::Gpu(buffer.gpu().clone()),
        }
    }

    /// Returns the precision of products on the CPU; F32 for a GPU, which has its own.
    pub(crate) fn matmul_precision(&self) -> MatmulPrecision {
        match self {
            Storage::Host(_, precision) => *precision,
            #[cfg(feature = "wgpu")]
            Storage::Gpu(_) => MatmulPrecision::F32,
        }
    }

    /// Returns the same elements on the CPU with another precision of products, or `None` if they are on a GPU.
    ///
    /// # Errors
    /// Returns an error if the scalar has no such products.
    pub(crate) fn in_precision(&self, precision: MatmulPrecision) -> Result<Option<Self>, DeviceError> {
        match self {
            Storage::Host(buffer, _) => supported::<T>(precision).map(|()| Some(Storage::Host(buffer.clone(), precision))),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(_) => Ok(None),
        }
    }

    /// Returns a copy of the elements in `range`.
    pub(crate) fn read(&self, range: Range<usize>) -> Result<Vec<T>, DeviceError> {
        match self {
            Storage::Host(buffer, _) => Ok(buffer[range].to_vec()),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(buffer) => buffer.read(range).wait().map(|values| T::from_f32s(values).expect("of f32")),
        }
    }

    /// Returns a copy of one element.
    pub(crate) fn read_one(&self, at: usize) -> Result<T, DeviceError> {
        match self {
            Storage::Host(buffer, _) => Ok(buffer[at]),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(_) => self.read(at..at + 1).map(|one| one[0]),
        }
    }

    /// Returns the elements in the CPU's memory. Panics if they are on a GPU.
    #[track_caller]
    pub(crate) fn host(&self) -> &[T] {
        match self {
            Storage::Host(buffer, _) => buffer,
            #[cfg(feature = "wgpu")]
            Storage::Gpu(_) => self.elsewhere(),
        }
    }

    /// Returns the elements in the CPU's memory for writing, or `None` if they are shared. Panics if they are on a GPU.
    #[track_caller]
    pub(crate) fn host_mut(&mut self) -> Option<&mut [T]> {
        match self {
            Storage::Host(buffer, _) => Arc::get_mut(buffer).map(|buffer| &mut buffer[..]),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(_) => self.elsewhere(),
        }
    }

    #[cfg(feature = "wgpu")]
    #[track_caller]
    fn elsewhere(&self) -> ! {
        panic!(
            "the elements are on {}, not in the CPU's memory: bring them with .to(&Device::CPU), or compute with methods",
            self.device()
        )
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Storage::Host(a, _), Storage::Host(b, _)) => Arc::ptr_eq(a, b),
            #[cfg(feature = "wgpu")]
            (Storage::Gpu(a), Storage::Gpu(b)) => Arc::ptr_eq(a, b),
            #[cfg(feature = "wgpu")]
            _ => false,
        }
    }
}

/// Returns an error if the CPU has no products of this precision for a scalar.
fn supported<T: Real>(precision: MatmulPrecision) -> Result<(), DeviceError> {
    let unsupported = || DeviceError::NoProducts { precision, scalar: std::any::type_name::<T>() };
    T::kernels_in(precision).map(|_| ()).ok_or_else(unsupported)
}
