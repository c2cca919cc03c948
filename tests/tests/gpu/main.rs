//! Comparison of computations on a GPU with the CPU. A software renderer is used if there is no other GPU.

mod faults;
mod finetuning;
mod half;
mod models;
mod ops;
mod random;

use std::ops::Deref;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use gradus_tensor::Device;
use gradus_tensor::device::{Counts, MatmulPrecision};

/// A GPU in use by a test.
struct Lent<G> {
    device: Device,
    _guard: G,
}

impl<G> Deref for Lent<G> {
    type Target = Device;
    fn deref(&self) -> &Device {
        &self.device
    }
}

/// The lock on the GPU. A test takes it for reading, or for writing if it counts the GPU's work.
static USERS: RwLock<()> = RwLock::new(());

/// Returns the GPU that the tests run on. Returns `None` with a message if there is none and none is required.
fn gpu() -> Option<Lent<RwLockReadGuard<'static, ()>>> {
    Some(Lent { device: Device::shared(MatmulPrecision::F32)?, _guard: USERS.read().unwrap_or_else(|e| e.into_inner()) })
}

/// Returns the GPU while no other test uses it.
fn gpu_alone() -> Option<Lent<RwLockWriteGuard<'static, ()>>> {
    Some(Lent { device: Device::shared(MatmulPrecision::F32)?, _guard: USERS.write().unwrap_or_else(|e| e.into_inner()) })
}

/// Returns the counts of the GPU's work since it was opened.
fn counts(device: &Device) -> Counts {
    device.counts().expect("a GPU")
}
