//! The GPU that tests share, and separate contexts, whose limits a test may lower and whose device it may destroy.

use std::fmt::Display;
use std::sync::{Arc, LazyLock};

use super::gpu::Gpu;
use super::{Device, MatmulPrecision, adapter};

/// Limits below those of the adapter, and checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scarce {
    /// The most bytes in one binding of a shader.
    pub binding_bytes: Option<u64>,
    /// The most bindings of tensors in a shader.
    pub bindings: Option<u32>,
    /// The bytes of memory that are reported.
    pub memory_bytes: Option<u64>,
    /// Whether shaders are checked at run time, instead of by the environment.
    pub checks: Option<bool>,
}

impl Device {
    /// Returns the first GPU, or a software renderer if there is no other. If there is none, or it does not support these
    /// products, prints a warning and returns `None`, or panics if the tests require a GPU.
    pub fn shared(precision: MatmulPrecision) -> Option<Self> {
        static FIRST: LazyLock<Option<String>> = LazyLock::new(|| Device::gpus().into_iter().next().map(|info| info.name));
        let Some(first) = &*FIRST else { return skipped("no GPU was found") };
        Device::open_with(&format!("gpu:{first}"), precision).map_or_else(skipped, Some)
    }

    /// Returns the first GPU in a new context with these limits.
    pub fn fresh(scarce: Scarce) -> Option<Self> {
        open(scarce, MatmulPrecision::F32).map(Device::Gpu)
    }

    /// Destroys the device of a GPU, as a driver does when it restarts.
    pub fn lose(&self) {
        if let Device::Gpu(gpu) = self {
            gpu.device.destroy();
        }
    }
}

/// Returns the first GPU in a new context with the adapter's limits.
#[cfg(test)]
pub(crate) fn fresh() -> Option<Arc<Gpu>> {
    fresh_with(MatmulPrecision::F32)
}

/// Returns the first GPU in a new context with products of this precision.
#[cfg(test)]
pub(crate) fn fresh_with(precision: MatmulPrecision) -> Option<Arc<Gpu>> {
    open(Scarce::default(), precision)
}

/// Returns the number of shaders that were compiled for buffers in windows.
#[cfg(test)]
pub(crate) fn in_windows(device: &Device) -> usize {
    let Device::Gpu(gpu) = device else { panic!("a GPU") };
    super::gpu::lock(&gpu.pipelines).in_windows()
}

fn skipped<T>(why: impl Display) -> Option<T> {
    assert!(std::env::var_os("GRADUS_GPU_REQUIRED").is_none(), "{why}");
    eprintln!("\n    SKIPPED, NOTHING WAS TESTED: {why}\n");
    None
}

fn open(scarce: Scarce, precision: MatmulPrecision) -> Option<Arc<Gpu>> {
    let Some((adapter, mut info)) = adapter::adapters().into_iter().next() else { return skipped("no GPU was found") };
    let checks = scarce.checks.unwrap_or_else(|| adapter::shader_checks().expect("a valid environment"));
    // The rounding is measured under the adapter's limits.
    let whole = Gpu::open(&adapter, info.clone(), precision, adapter.limits(), checks).expect("a context");
    whole.measure().expect("a probe");
    info.memory = scarce.memory_bytes.or(info.memory);
    let mut limits = adapter.limits();
    limits.max_storage_buffer_binding_size = scarce.binding_bytes.unwrap_or(limits.max_storage_buffer_binding_size);
    let bindings = &mut limits.max_storage_buffers_per_shader_stage;
    *bindings = scarce.bindings.unwrap_or(*bindings);
    let gpu = Gpu::open(&adapter, info, precision, limits, checks).expect("a context");
    gpu.arithmetic.get_or_init(|| whole.arithmetic().clone());
    Some(gpu)
}
