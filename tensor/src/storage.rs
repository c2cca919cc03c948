//! The storage of a tensor's elements.

use std::ops::Range;
use std::sync::Arc;

use crate::Real;
use crate::buffer::Buffer;
use crate::device::{Device, DeviceError};

/// The elements of tensors, shared by the tensors that view them.
#[derive(Clone, Debug)]
pub(crate) enum Storage<T: Real> {
    /// Elements in the CPU's memory.
    Host(Arc<Buffer<T>>),
    /// Elements on a GPU, in `f32`.
    #[cfg(feature = "wgpu")]
    Gpu(Arc<crate::device::Buffer>),
}

impl<T: Real> Storage<T> {
    /// Returns storage of arbitrary values in the CPU's memory.
    pub(crate) fn recycled(len: usize) -> Self {
        Storage::Host(Arc::new(Buffer::recycled(len)))
    }

    /// Copies these values to a device.
    pub(crate) fn on(device: &Device, values: Vec<T>) -> Result<Self, DeviceError> {
        match device {
            Device::Cpu => {
                let mut buffer = Buffer::recycled(values.len());
                buffer.copy_from_slice(&values);
                Ok(Storage::Host(Arc::new(buffer)))
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
            Storage::Host(_) => Device::Cpu,
            #[cfg(feature = "wgpu")]
            Storage::Gpu(buffer) => Device::Gpu(buffer.gpu().clone()),
        }
    }

    /// Returns a copy of the elements in `range`.
    pub(crate) fn read(&self, range: Range<usize>) -> Result<Vec<T>, DeviceError> {
        match self {
            Storage::Host(buffer) => Ok(buffer[range].to_vec()),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(buffer) => buffer.read(range).wait().map(|values| T::from_f32s(values).expect("of f32")),
        }
    }

    /// Returns a copy of one element.
    pub(crate) fn read_one(&self, at: usize) -> Result<T, DeviceError> {
        match self {
            Storage::Host(buffer) => Ok(buffer[at]),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(_) => self.read(at..at + 1).map(|one| one[0]),
        }
    }

    /// Returns the elements in the CPU's memory. Panics if they are on a GPU.
    #[track_caller]
    pub(crate) fn host(&self) -> &[T] {
        match self {
            Storage::Host(buffer) => buffer,
            #[cfg(feature = "wgpu")]
            Storage::Gpu(_) => self.elsewhere(),
        }
    }

    /// Returns the elements in the CPU's memory for writing, or `None` if they are shared. Panics if they are on a GPU.
    #[track_caller]
    pub(crate) fn host_mut(&mut self) -> Option<&mut [T]> {
        match self {
            Storage::Host(buffer) => Arc::get_mut(buffer).map(|buffer| &mut buffer[..]),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(_) => self.elsewhere(),
        }
    }

    #[cfg(feature = "wgpu")]
    #[track_caller]
    fn elsewhere(&self) -> ! {
        panic!(
            "the elements are on {}, not in the CPU's memory: bring them with .to(&Device::Cpu), or compute with methods",
            self.device()
        )
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Storage::Host(a), Storage::Host(b)) => Arc::ptr_eq(a, b),
            #[cfg(feature = "wgpu")]
            (Storage::Gpu(a), Storage::Gpu(b)) => Arc::ptr_eq(a, b),
            #[cfg(feature = "wgpu")]
            _ => false,
        }
    }
}
