//! Everything on a GPU beside the same on the CPU. A software renderer serves where there is no other.

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

/// A GPU while a test has it.
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

/// Held for reading by every test on the GPU, for writing by one that counts what it does.
static USERS: RwLock<()> = RwLock::new(());

/// The GPU that the tests run on; `None`, said loudly, where there is none and none is required.
fn gpu() -> Option<Lent<RwLockReadGuard<'static, ()>>> {
    Some(Lent { device: Device::shared(MatmulPrecision::F32)?, _guard: USERS.read().unwrap_or_else(|e| e.into_inner()) })
}

/// The same, with no other test beside.
fn gpu_alone() -> Option<Lent<RwLockWriteGuard<'static, ()>>> {
    Some(Lent { device: Device::shared(MatmulPrecision::F32)?, _guard: USERS.write().unwrap_or_else(|e| e.into_inner()) })
}

/// What a GPU was asked for since it was opened.
fn counts(device: &Device) -> Counts {
    device.counts().expect("a GPU")
}
