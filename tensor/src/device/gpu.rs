//! A GPU that is open.

use std::sync::{Arc, Mutex, OnceLock};

use super::fault::Fault;
use super::memory::Memory;
use super::pipeline::Pipelines;
use super::recorder::Recorder;
use super::{Arithmetic, DeviceError, GpuInfo, probe};

/// A GPU that is open. All that use it share it.
#[derive(Debug)]
pub struct Gpu {
    pub(super) info: GpuInfo,
    arithmetic: OnceLock<Arithmetic>,
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) limits: wgpu::Limits,
    pub(super) fault: Fault,
    pub(super) memory: Mutex<Memory>,
    pub(super) pipelines: Mutex<Pipelines>,
    pub(super) recorder: Mutex<Recorder>,
}

impl PartialEq for Gpu {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Gpu {
    pub(super) fn open(adapter: &wgpu::Adapter, info: GpuInfo) -> Result<Arc<Self>, DeviceError> {
        let limits = adapter.limits();
        let wanted = wgpu::DeviceDescriptor { required_limits: limits.clone(), ..Default::default() };
        let refused = |e: wgpu::RequestDeviceError| DeviceError::Refused { name: info.name.clone(), reason: e.to_string() };
        let (device, queue) = pollster::block_on(adapter.request_device(&wanted)).map_err(refused)?;
        let fault = Fault::watching(&device, &info.name);
        let recorder = Mutex::new(Recorder::new(&device, &limits));
        let gpu = Arc::new(Gpu {
            info,
            arithmetic: OnceLock::new(),
            device,
            queue,
            limits,
            fault,
            memory: Mutex::default(),
            pipelines: Mutex::default(),
            recorder,
        });
        let measured = probe::measure(&gpu)?;
        gpu.arithmetic.get_or_init(|| measured);
        Ok(gpu)
    }

    /// What its driver says of it.
    pub fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// How it rounds, measured when it was opened.
    pub fn arithmetic(&self) -> &Arithmetic {
        self.arithmetic.get().expect("measured when it was opened")
    }

    /// Does it still compute?
    ///
    /// # Errors
    /// The first fault since it was opened: memory that ran out, or a device that was lost.
    pub fn check(&self) -> Result<(), DeviceError> {
        self.fault.check()
    }
}

/// What a lock guards, whether or not a thread that held it has panicked: nothing panics between two changes that belong together.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::device::adapter;

    /// A context of a test's own, which it may break; `None`, said loudly, where there is no GPU and none is required.
    pub fn fresh() -> Option<Arc<Gpu>> {
        match adapter::adapters().into_iter().next() {
            Some((adapter, info)) => Some(Gpu::open(&adapter, info).expect("a context")),
            None if std::env::var_os("GRADUS_GPU_REQUIRED").is_some() => panic!("no GPU was found"),
            None => {
                eprintln!("\n    SKIPPED, NOTHING WAS TESTED: no GPU was found\n");
                None
            }
        }
    }
}
