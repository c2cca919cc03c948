//! Where tensors are: in the CPU's memory, or on a GPU that [wgpu](https://docs.rs/wgpu) drives.
//!
//! Commands for a GPU are recorded and go to it in groups, each twice as large as the one before, and when a result is read. It runs
//! them in order, so a buffer that is no longer needed serves the next command at once. A fault of the device is kept until a
//! result is asked for, and is then an error.

mod arithmetic;
mod counts;
mod error;
mod products;

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
pub use products::Products;
#[cfg(all(test, feature = "wgpu"))]
pub(crate) use testing::{fresh, fresh_with};
#[cfg(feature = "wgpu")]
pub(crate) use {gpu::Units, memory::Buffer, pipeline::Shader, pipeline::shader};

/// What stores tensors and computes with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// A GPU, driven through wgpu.
    #[cfg(feature = "wgpu")]
    Gpu(std::sync::Arc<Gpu>),
}

impl Device {
    /// The device that `choice` names: `cpu`; `gpu`, the fastest kind of GPU there is; or `gpu:NAME`, where NAME is the name of one
    /// GPU or a part of it, in capitals or not. A software renderer, which computes on the CPU, is taken only by its name.
    ///
    /// # Errors
    /// Where `choice` is none of these, this build has no GPUs, none or several have such a name, or the driver refuses.
    pub fn open(choice: &str) -> Result<Self, DeviceError> {
        Self::open_with(choice, Products::F32)
    }

    /// The same device, with products of matrices as precise as `products`.
    ///
    /// # Errors
    /// As of [`Device::open`], and for the CPU or a GPU that do not multiply so.
    pub fn open_with(choice: &str, products: Products) -> Result<Self, DeviceError> {
        match choice.split_once(':') {
            None if choice == "cpu" && products != Products::F32 => Err(DeviceError::ProductsOnCpu(products)),
            None if choice == "cpu" => Ok(Device::Cpu),
            None if choice == "gpu" => Self::open_gpu(None, products),
            Some(("gpu", name)) if !name.trim().is_empty() => Self::open_gpu(Some(name.trim()), products),
            _ => Err(DeviceError::Unknown(choice.into())),
        }
    }

    #[cfg(feature = "wgpu")]
    fn open_gpu(name: Option<&str>, products: Products) -> Result<Self, DeviceError> {
        adapter::open(name, products).map(Device::Gpu)
    }

    #[cfg(not(feature = "wgpu"))]
    fn open_gpu(_: Option<&str>, _: Products) -> Result<Self, DeviceError> {
        Err(DeviceError::NotBuilt)
    }

    /// How precisely it multiplies matrices.
    pub fn products(&self) -> Products {
        match self {
            Device::Cpu => Products::F32,
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.products(),
        }
    }

    /// What its driver says of a GPU; `None` of the CPU.
    pub fn info(&self) -> Option<&GpuInfo> {
        match self {
            Device::Cpu => None,
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => Some(gpu.info()),
        }
    }

    /// Whether a GPU measures, at the first product of a kind, which of its kernels is fastest; otherwise, as at first, a rule
    /// chooses. With factors in `f32` the choice changes no bit of a result.
    pub fn tune(&self, on: bool) {
        #[cfg(feature = "wgpu")]
        if let Device::Gpu(gpu) = self {
            gpu.tune(on);
        }
        #[cfg(not(feature = "wgpu"))]
        let _ = on;
    }

    /// What a GPU measured so far or was told to remember: names of kernels by kinds of products.
    pub fn choices(&self) -> BTreeMap<String, String> {
        match self {
            Device::Cpu => BTreeMap::new(),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.choices(),
        }
    }

    /// Those of them that were measured since it was opened.
    pub fn measured(&self) -> BTreeMap<String, String> {
        match self {
            Device::Cpu => BTreeMap::new(),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.measured(),
        }
    }

    /// Those it was told to remember that name no kernel of this GPU, as far as such products were needed.
    pub fn missing(&self) -> BTreeMap<String, String> {
        match self {
            Device::Cpu => BTreeMap::new(),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.missing(),
        }
    }

    /// Takes the choices of another time on the same GPU, without a measurement. What names none of its kernels is
    /// [missing](Device::missing), and chosen anew.
    pub fn remember(&self, choices: &BTreeMap<String, String>) {
        #[cfg(feature = "wgpu")]
        if let Device::Gpu(gpu) = self {
            gpu.remember(choices.clone());
        }
        #[cfg(not(feature = "wgpu"))]
        let _ = choices;
    }

    /// How a GPU rounds, measured when it was opened; `None` of the CPU, which rounds as Rust does.
    pub fn arithmetic(&self) -> Option<&Arithmetic> {
        match self {
            Device::Cpu => None,
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => Some(gpu.arithmetic()),
        }
    }

    /// The GPUs that are open.
    pub fn opened() -> Vec<Device> {
        #[cfg(feature = "wgpu")]
        return adapter::opened().into_iter().map(Device::Gpu).collect();
        #[cfg(not(feature = "wgpu"))]
        Vec::new()
    }

    /// Waits until everything is computed that was asked for; the CPU has nothing outstanding.
    ///
    /// # Errors
    /// The first fault of a GPU.
    pub fn wait(&self) -> Result<(), DeviceError> {
        match self {
            Device::Cpu => Ok(()),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => {
                gpu.wait();
                gpu.check()
            }
        }
    }

    /// What a GPU was asked for since it was opened; `None` of the CPU.
    pub fn counts(&self) -> Option<Counts> {
        match self {
            Device::Cpu => None,
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => Some(gpu.counts()),
        }
    }

    /// Restarts `peak_bytes`, of [`Device::counts`] or of the CPU's [`stats`](crate::buffer::stats), from the bytes in use now.
    pub fn reset_peak(&self) {
        match self {
            Device::Cpu => crate::buffer::reset_peak(),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.reset_peak(),
        }
    }

    /// The runs of each shader since a GPU was opened, by name; none of the CPU.
    pub fn runs(&self) -> BTreeMap<String, Runs> {
        match self {
            Device::Cpu => BTreeMap::new(),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.runs(),
        }
    }

    /// Begins to time every run of a shader, under label 0, by the GPU's own clock; false of the CPU, and where a GPU has none
    /// that can be read. Each run then is a pass of its own, which is slower.
    pub fn begin_profile(&self) -> bool {
        match self {
            Device::Cpu => false,
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.begin_profile(),
        }
    }

    /// What is computed from now on is timed under this label, where times are taken.
    #[cfg_attr(not(feature = "wgpu"), expect(unused_variables, reason = "a CPU takes none"))]
    pub fn label(&self, label: usize) {
        match self {
            Device::Cpu => {}
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.label(label),
        }
    }

    /// Waits, and gives the times of each shader under each label since [`Device::begin_profile`], which it ends.
    ///
    /// # Errors
    /// The first fault of a GPU.
    pub fn end_profile(&self) -> Result<Vec<TimedRuns>, DeviceError> {
        match self {
            Device::Cpu => Ok(Vec::new()),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.end_profile(),
        }
    }

    /// What went wrong on a GPU, if something did: the cause where a method that returns no error panicked.
    pub fn fault() -> Option<DeviceError> {
        let no_memory = crate::buffer::refused().map(DeviceError::NoMemory);
        #[cfg(feature = "wgpu")]
        return no_memory.or_else(adapter::fault);
        #[cfg(not(feature = "wgpu"))]
        no_memory
    }

    /// Whether it has memory for `needs`, each bytes and what they are for, beside what it holds. A GPU's driver is asked for the
    /// size of its memory, which Vulkan tells, and for as many bytes, which go back at once. What the computation itself will need
    /// is not in `needs`; a driver that lends the memory of the CPU may promise more than there is; of the CPU nothing is asked.
    ///
    /// # Errors
    /// [`DeviceError::NoRoom`], with the bytes.
    #[cfg_attr(not(feature = "wgpu"), allow(unused_variables, reason = "there is only the CPU"))]
    pub fn check_room(&self, needs: &[(&str, u64)]) -> Result<(), DeviceError> {
        match self {
            Device::Cpu => Ok(()),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => gpu.check_room(needs),
        }
    }

    /// The GPUs that [`Device::open`] finds, the fastest kind first; none in a build without GPUs.
    pub fn gpus() -> Vec<GpuInfo> {
        #[cfg(feature = "wgpu")]
        return adapter::list();
        #[cfg(not(feature = "wgpu"))]
        Vec::new()
    }
}

/// As [`Device::open`] takes it.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            #[cfg(feature = "wgpu")]
            Device::Gpu(gpu) => write!(f, "gpu:{}", gpu.info().name),
        }
    }
}

impl GpuInfo {
    /// The kind of a program that renders on the CPU.
    pub const SOFTWARE: &str = "software";
}

/// A GPU by its driver's description.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuInfo {
    /// Its name, unique among those of this machine.
    pub name: String,
    /// `discrete`, `integrated`, `virtual`, `other`, or `software`: a program that renders on the CPU.
    pub kind: &'static str,
    /// The interface to the driver: Vulkan, Metal or DX12.
    pub interface: &'static str,
    /// The driver and its version.
    pub driver: String,
    /// Bytes of the memory that is its own, or that it shares with the CPU; `None` where the interface does not tell.
    pub memory: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_that_is_no_device_says_what_is() {
        assert_eq!(Device::open("cpu"), Ok(Device::Cpu));
        for choice in ["", "CPU", "gpus", "cuda", "gpu:", "gpu: ", "cpu:0", "tpu:x"] {
            let error = Device::open(choice).unwrap_err();
            assert_eq!(error.to_string(), format!("a device is cpu, gpu or gpu:NAME, got {choice:?}"));
        }
        assert_eq!((Device::default().to_string().as_str(), Device::Cpu.rows_of_logits(7)), ("cpu", None));
    }

    #[cfg(not(feature = "wgpu"))]
    #[test]
    fn a_build_without_gpus_names_the_command_that_makes_one_with_them() {
        for choice in ["gpu", "gpu:anything"] {
            let error = Device::open(choice).unwrap_err().to_string();
            assert!(error.contains("`cargo build --release --features wgpu`"), "{error}");
        }
        assert_eq!(Device::gpus(), []);
    }
}
