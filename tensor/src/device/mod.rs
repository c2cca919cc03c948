//! The devices of tensors: the CPU, or a GPU driven through [wgpu](https://docs.rs/wgpu).
//!
//! Commands for a GPU are recorded and submitted in groups, each twice as large as the previous one, and whenever a result is
//! read. The GPU runs them in order, so a buffer that is no longer needed may serve the next command at once. A fault of the
//! device is recorded, and is returned as an error when a result is read.

mod arithmetic;
mod counts;
mod error;
mod matmul_precision;

#[cfg(feature = "wgpu")]
mod adapter;
#[cfg(feature = "wgpu")]
mod fault;
#[cfg(feature = "wgpu")]
mod gpu;
#[cfg(feature = "wgpu")]
mod memory;
#[cfg(feature = "wgpu")]
mod pipeline;
#[cfg(feature = "wgpu")]
mod probe;
#[cfg(feature = "wgpu")]
mod profile;
#[cfg(feature = "wgpu")]
mod reading;
#[cfg(feature = "wgpu")]
mod recorder;
#[cfg(all(feature = "wgpu", any(test, feature = "testing")))]
pub mod testing;
#[cfg(feature = "wgpu")]
mod tuning;
#[cfg(feature = "wgpu")]
mod windows;

use std::collections::BTreeMap;
use std::fmt;

pub use arithmetic::{Arithmetic, Rounding};
pub use counts::{Counts, Runs, TimedRuns};
pub use error::DeviceError;
#[cfg(feature = "wgpu")]
pub use gpu::Gpu;
pub use matmul_precision::MatmulPrecision;

pub use crate::cpu::gemm::Bf16Path;
#[cfg(all(test, feature = "wgpu"))]
pub(crate) use testing::{fresh, fresh_with};
#[cfg(feature = "wgpu")]
pub(crate) use {gpu::Units, memory::Buffer, pipeline::Shader, pipeline::shader};

/// A device that stores tensors and computes with them.
#[derive(Clone, Debug, PartialEq)]
pub enum Device {
    /// The CPU, with matrix products of this precision.
    Cpu(MatmulPrecision),
    /// A GPU, driven through wgpu.
    #[cfg(feature = "wgpu")]
    Gpu(std::sync::Arc<Gpu>),
}

impl Default for Device {
    fn default() -> Self {
        Self::CPU
    }
}

impl Device {
    /// The CPU, with matrix products in the precision of the scalars.
    pub const CPU: Device = Device::Cpu(MatmulPrecision::F32);

    /// Returns whether this is the CPU, in any precision.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Device::Cpu(_))
    }

    /// Opens the device named by `choice`: `cpu`; `gpu`, the fastest kind of GPU; or `gpu:NAME`, where NAME is the name of one
    /// GPU or a part of it, in upper or lower case. A software renderer, which computes on the CPU, is opened only by name.
    ///
    /// # Errors
    /// Returns an error if `choice` is none of these, this build has no GPUs, no GPU or several have such a name, or the driver
    /// fails.
    pub fn open(choice: &str) -> Result<Self, DeviceError> {
        Self::open_with(choice, MatmulPrecision::F32)
    }

    /// Opens the device named by `choice`, with matrix products of this `precision`.
    ///
    /// # Errors
    /// Returns an error in the cases of [`Device::open`], and if the device does not support this precision.
    pub fn open_with(choice: &str, precision: MatmulPrecision) -> Result<Self, DeviceError> {
        let gpu =
            |name| if precision == MatmulPrecision::BF16 { Err(DeviceError::BF16OnGpu) } else { Self::open_gpu(name, precision) };
        match choice.split_once(':') {
            None if choice == "cpu" && precision == MatmulPrecision::F16 => Err(DeviceError::F16OnCpu),
            None if choice == "cpu" => Ok(Device::Cpu(precision)),
            None if choice == "gpu" => gpu(None),
            Some(("gpu", name)) if !name.trim().is_empty() => gpu(Some(name.trim())),
            _ => Err(DeviceError::Unknown(choice.into())),
        }
    }

    #[cfg(feature = "wgpu")]
    fn open_gpu(name: Option<&str>, precision: MatmulPrecision) -> Result<Self, DeviceError> {
        adapter::open(name, precision).map(Device::Gpu)
    }

    #[cfg(not(feature = "wgpu"))]
    fn open_gpu(_: Option<&str>, _: MatmulPrecision) -> Result<Self, DeviceError> {
        Err(DeviceError::NotBuilt)
    }

    /// Returns the precision of matrix products.
    pub fn matmul_precision(&self) -> MatmulPrecision {
        match self {
            Device::Cpu(precision) => *precision,
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.matmul_precision(),
        }
    }

    /// Returns the driver's description of a GPU; `None` for the CPU.
    pub fn info(&self) -> Option<&GpuInfo> {
        match self {
            Device::Cpu(_) => None,
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => Some(gpu.info()),
        }
    }

    /// Sets whether a GPU measures its kernels at the first product of a kind, to choose the fastest. By default it does not, and
    /// a rule chooses. With factors in `f32` the choice changes no bit of a result.
    pub fn tune(&self, on: bool) {
        #[cfg(feature = "wgpu")]
        if let Device::Gpu(gpu) = self {
            gpu.tune(on);
        }
        #[cfg(not(feature = "wgpu"))]
        let _ = on;
    }

    /// Returns the choices of a GPU that were measured or remembered so far: names of kernels by kinds of products.
    pub fn choices(&self) -> BTreeMap<String, String> {
        match self {
            Device::Cpu(_) => BTreeMap::new(),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.choices(),
        }
    }

    /// Returns the choices that were measured since the GPU was opened.
    pub fn measured(&self) -> BTreeMap<String, String> {
        match self {
            Device::Cpu(_) => BTreeMap::new(),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.measured(),
        }
    }

    /// Returns the remembered choices that name no kernel of this GPU, for the kinds of products computed so far.
    pub fn missing(&self) -> BTreeMap<String, String> {
        match self {
            Device::Cpu(_) => BTreeMap::new(),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.missing(),
        }
    }

    /// Adds choices that were measured earlier on the same GPU, so that they are not measured again. A choice that names none of
    /// its kernels is [missing](Device::missing) and is made anew.
    pub fn remember(&self, choices: &BTreeMap<String, String>) {
        #[cfg(feature = "wgpu")]
        if let Device::Gpu(gpu) = self {
            gpu.remember(choices.clone());
        }
        #[cfg(not(feature = "wgpu"))]
        let _ = choices;
    }

    /// Returns the rounding behaviour of a GPU, measured when it was opened; `None` for the CPU, which rounds as Rust does.
    pub fn arithmetic(&self) -> Option<&Arithmetic> {
        match self {
            Device::Cpu(_) => None,
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => Some(gpu.arithmetic()),
        }
    }

    /// Returns the open GPUs.
    pub fn opened() -> Vec<Device> {
        #[cfg(feature = "wgpu")]
        return adapter::opened().into_iter().map(Device::Gpu).collect();
        #[cfg(not(feature = "wgpu"))]
        Vec::new()
    }

    /// Waits until all recorded commands have run. The CPU has no outstanding commands.
    ///
    /// # Errors
    /// Returns an error if the GPU has had a fault: the first one.
    pub fn wait(&self) -> Result<(), DeviceError> {
        match self {
            Device::Cpu(_) => Ok(()),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => {
                gpu.wait();
                gpu.check()
            }
        }
    }

    /// Returns the counters of a GPU since it was opened; `None` for the CPU.
    pub fn counts(&self) -> Option<Counts> {
        match self {
            Device::Cpu(_) => None,
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => Some(gpu.counts()),
        }
    }

    /// Resets `peak_bytes`, of [`Device::counts`] or of the CPU's [`stats`](crate::buffer::stats), to the bytes in use now.
    pub fn reset_peak(&self) {
        match self {
            Device::Cpu(_) => crate::buffer::reset_peak(),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.reset_peak(),
        }
    }

    /// Returns the runs of each shader since the GPU was opened, by name; empty for the CPU.
    pub fn runs(&self) -> BTreeMap<String, Runs> {
        match self {
            Device::Cpu(_) => BTreeMap::new(),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.runs(),
        }
    }

    /// Begins to time every run of a shader by the GPU's clock, under label 0. Returns false for the CPU, and for a GPU without
    /// timestamps. Each run then is a separate pass, which is slower.
    pub fn begin_profile(&self) -> bool {
        match self {
            Device::Cpu(_) => false,
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.begin_profile(),
        }
    }

    /// Sets the label under which the following runs are timed, if a profile was begun.
    #[cfg_attr(not(feature = "wgpu"), expect(unused_variables, reason = "a CPU takes none"))]
    pub fn label(&self, label: usize) {
        match self {
            Device::Cpu(_) => {}
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.label(label),
        }
    }

    /// Waits, ends the profile begun by [`Device::begin_profile`], and returns the times of each shader under each label.
    ///
    /// # Errors
    /// Returns an error if the GPU has had a fault: the first one.
    pub fn end_profile(&self) -> Result<Vec<TimedRuns>, DeviceError> {
        match self {
            Device::Cpu(_) => Ok(Vec::new()),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.end_profile(),
        }
    }

    /// Returns the fault of a GPU, or of the CPU's memory, if there was one. If a method that returns no error panicked, this is
    /// the cause.
    pub fn fault() -> Option<DeviceError> {
        let no_memory = crate::buffer::refused().map(DeviceError::NoMemory);
        #[cfg(feature = "wgpu")]
        return no_memory.or_else(adapter::fault);
        #[cfg(not(feature = "wgpu"))]
        no_memory
    }

    /// Checks that the device has memory for `needs`, each a purpose and its bytes, in addition to the memory in use. A GPU is
    /// checked by the size of its memory, which Vulkan reports, and by allocating as many bytes, which are freed at once. `needs`
    /// do not include the memory of the computation itself. A driver that uses the memory of the CPU may promise more than is
    /// free. The CPU is not checked.
    ///
    /// # Errors
    /// Returns an error, [`DeviceError::NoRoom`] with the bytes, if the memory is too small.
    #[cfg_attr(not(feature = "wgpu"), allow(unused_variables, reason = "there is only the CPU"))]
    pub fn check_room(&self, needs: &[(&str, u64)]) -> Result<(), DeviceError> {
        match self {
            Device::Cpu(_) => Ok(()),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.check_room(needs),
        }
    }

    /// Returns the GPUs that [`Device::open`] finds, the fastest kind first; empty in a build without GPUs.
    pub fn gpus() -> Vec<GpuInfo> {
        #[cfg(feature = "wgpu")]
        return adapter::list();
        #[cfg(not(feature = "wgpu"))]
        Vec::new()
    }
}

/// Formats the device as [`Device::open`] parses it.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu(_) => f.write_str("cpu"),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => write!(f, "gpu:{}", gpu.info().name),
        }
    }
}

impl GpuInfo {
    /// The kind of a software renderer, which computes on the CPU.
    pub const SOFTWARE: &str = "software";
}

/// The driver's description of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuInfo {
    /// The name, unique among the GPUs of this machine.
    pub name: String,
    /// The kind: `discrete`, `integrated`, `virtual`, `other`, or `software` for a program that renders on the CPU.
    pub kind: &'static str,
    /// The interface to the driver: Vulkan, Metal or DX12.
    pub interface: &'static str,
    /// The driver and its version.
    pub driver: String,
    /// The bytes of its dedicated memory, or of the memory it shares with the CPU; `None` if the interface does not report them.
    pub memory: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_device_is_rejected_with_the_accepted_forms() {
        assert_eq!(Device::open("cpu"), Ok(Device::CPU));
        for choice in ["", "CPU", "gpus", "cuda", "gpu:", "gpu: ", "cpu:0", "tpu:x"] {
            let error = Device::open(choice).unwrap_err();
            assert_eq!(error.to_string(), format!("a device is cpu, gpu or gpu:NAME, got {choice:?}"));
        }
        assert_eq!((Device::default().to_string().as_str(), Device::CPU.rows_of_logits(7)), ("cpu", None));
    }

    #[cfg(not(feature = "wgpu"))]
    #[test]
    fn a_build_without_gpus_names_the_build_command() {
        for choice in ["gpu", "gpu:anything"] {
            let error = Device::open(choice).unwrap_err().to_string();
            assert!(error.contains("cargo build --release --features wgpu"), "{error}");
        }
        assert_eq!(Device::gpus(), []);
    }
}
