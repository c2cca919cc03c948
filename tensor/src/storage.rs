//! The storage of a tensor's elements.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::Real;
use crate::buffer::Buffer;
use crate::cpu::gemm::{round_all, widen};
use crate::device::{Device, DeviceError, MatmulPrecision};
use crate::forms::{Packed, Rounded};

/// The elements of tensors, shared by the tensors that view them.
#[derive(Clone, Debug)]
pub(crate) enum Storage<T: Real> {
    /// Elements in the CPU's memory, and the precision of products with them.
    Host(Arc<Elements<T>>, MatmulPrecision),
    /// Elements in the CPU's memory that products in bf16 read, rounded.
    Rounded(Arc<Rounded>),
    /// Elements on a GPU, in `f32`.
    #[cfg(feature = "wgpu")]
    Gpu(Arc<crate::device::Buffer>),
}

/// Elements, and packed forms of them, which are dropped when the elements change.
#[derive(Debug)]
pub(crate) struct Elements<T: Real> {
    buffer: Buffer<T>,
    packed: Packed,
}

impl<T: Real> From<Buffer<T>> for Elements<T> {
    fn from(buffer: Buffer<T>) -> Self {
        Elements { buffer, packed: Packed::default() }
    }
}

impl<T: Real> Storage<T> {
    /// Returns storage of arbitrary values in the CPU's memory.
    pub(crate) fn recycled(len: usize, precision: MatmulPrecision) -> Self {
        Storage::Host(Arc::new(Buffer::recycled(len).into()), precision)
    }

    /// Copies these values to a device.
    pub(crate) fn on(device: &Device, values: Vec<T>) -> Result<Self, DeviceError> {
        match device {
            Device::Cpu(precision) => {
                supported::<T>(*precision)?;
                let mut buffer = Buffer::recycled(values.len());
                buffer.copy_from_slice(&values);
                Ok(Storage::Host(Arc::new(buffer.into()), *precision))
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
            Storage::Rounded(_) => Device::Cpu(MatmulPrecision::BF16),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(buffer) => Device::Gpu(buffer.gpu().clone()),
        }
    }

    /// Returns the precision of products on the CPU; F32 for a GPU, which has its own.
    pub(crate) fn matmul_precision(&self) -> MatmulPrecision {
        match self {
            Storage::Host(_, precision) => *precision,
            Storage::Rounded(_) => MatmulPrecision::BF16,
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
            Storage::Host(elements, _) => supported::<T>(precision).map(|()| Some(Storage::Host(elements.clone(), precision))),
            Storage::Rounded(_) if precision == MatmulPrecision::BF16 => Ok(Some(self.clone())),
            Storage::Rounded(rounded) => Ok(Some(Storage::Host(Arc::new(widened(rounded).into()), precision))),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(_) => Ok(None),
        }
    }

    /// Returns a copy of the elements in `range`.
    pub(crate) fn read(&self, range: Range<usize>) -> Result<Vec<T>, DeviceError> {
        match self {
            Storage::Host(elements, _) => Ok(elements.buffer[range].to_vec()),
            Storage::Rounded(rounded) => Ok(widened::<T>(rounded)[range].to_vec()),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(buffer) => buffer.read(range).wait().map(|values| T::from_f32s(values).expect("of f32")),
        }
    }

    /// Returns a copy of one element.
    pub(crate) fn read_one(&self, at: usize) -> Result<T, DeviceError> {
        match self {
            Storage::Host(elements, _) => Ok(elements.buffer[at]),
            Storage::Rounded(rounded) => Ok(T::lit(widen(rounded.as_slice()[at]).into())),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(_) => self.read(at..at + 1).map(|one| one[0]),
        }
    }

    /// Returns the elements in the CPU's memory. Panics if they are on a GPU.
    #[track_caller]
    pub(crate) fn host(&self) -> &[T] {
        match self {
            Storage::Host(elements, _) => &elements.buffer,
            Storage::Rounded(_) => panic!("the elements are rounded, for products alone: call dense() first"),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(_) => self.elsewhere(),
        }
    }

    /// Returns the elements in the CPU's memory for writing, or `None` if they are shared. Panics if they are on a GPU.
    #[track_caller]
    pub(crate) fn host_mut(&mut self) -> Option<&mut [T]> {
        match self {
            Storage::Host(elements, _) => Arc::get_mut(elements).map(|elements| {
                elements.packed = Packed::default();
                &mut elements.buffer[..]
            }),
            Storage::Rounded(_) => None,
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
            (Storage::Rounded(a), Storage::Rounded(b)) => Arc::ptr_eq(a, b),
            #[cfg(feature = "wgpu")]
            (Storage::Gpu(a), Storage::Gpu(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Returns the elements rounded to bf16, if they are in the CPU's memory and their products are in bf16.
    pub(crate) fn rounded(&self) -> Option<Self> {
        match self {
            Storage::Host(elements, MatmulPrecision::BF16) => {
                let elements = T::as_f32s(&elements.buffer).expect("products in bf16 are of f32");
                Some(Storage::Rounded(Arc::new(Rounded::write(elements.len(), |to| round_all(elements, to)))))
            }
            Storage::Rounded(_) => Some(self.clone()),
            _ => None,
        }
    }

    /// Returns the rounded elements, if the storage has only these.
    pub(crate) fn halves(&self) -> Option<&[u16]> {
        if let Storage::Rounded(rounded) = self { Some(rounded.as_slice()) } else { None }
    }

    /// Returns rounded elements as storage of elements that kernels read, and other storage unchanged.
    pub(crate) fn widened(&self) -> Self {
        match self {
            Storage::Rounded(rounded) => Storage::Host(Arc::new(widened(rounded).into()), MatmulPrecision::BF16),
            _ => self.clone(),
        }
    }

    /// Returns the packed forms of the elements and their number, if they are in the CPU's memory.
    pub(crate) fn packed(&self) -> Option<(&Packed, usize)> {
        if let Storage::Host(elements, _) = self { Some((&elements.packed, elements.buffer.len())) } else { None }
    }
}

/// Returns rounded elements as a buffer.
fn widened<T: Real>(rounded: &Rounded) -> Buffer<T> {
    let halves = rounded.as_slice();
    let mut buffer = Buffer::recycled(halves.len());
    buffer.par_iter_mut().with_min_len(1 << 14).zip(halves).for_each(|(to, &half)| *to = T::lit(widen(half).into()));
    buffer
}

/// Returns an error if the CPU has no products of this precision for a scalar.
fn supported<T: Real>(precision: MatmulPrecision) -> Result<(), DeviceError> {
    let unsupported = || DeviceError::NoProducts { precision, scalar: std::any::type_name::<T>() };
    T::kernels_in(precision).map(|_| ()).ok_or_else(unsupported)
}
