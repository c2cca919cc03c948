//! The GPUs of this machine, and the choice of one by name.

use std::sync::{Arc, LazyLock, Mutex, TryLockError};

use super::gpu::Gpu;
use super::{DeviceError, GpuInfo, MatmulPrecision};

fn is_vulkan(info: &wgpu::AdapterInfo) -> bool {
    info.backend == wgpu::Backend::Vulkan
}

const SOFTWARE: &str = GpuInfo::SOFTWARE;

/// The graphics drivers of this machine.
static INSTANCE: LazyLock<wgpu::Instance> = LazyLock::new(|| {
    wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12,
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    })
});

/// The open GPUs. A GPU has one context per precision of its products, shared by all callers.
static OPEN: Mutex<Vec<Arc<Gpu>>> = Mutex::new(Vec::new());

/// Returns all GPUs, the fastest kind first.
pub(crate) fn list() -> Vec<GpuInfo> {
    adapters().into_iter().map(|(_, info)| info).collect()
}

/// Opens the GPU of this name, or the first that is not a software renderer.
pub(crate) fn open(name: Option<&str>, precision: MatmulPrecision) -> Result<Arc<Gpu>, DeviceError> {
    let mut adapters = adapters();
    let infos: Vec<&GpuInfo> = adapters.iter().map(|(_, info)| info).collect();
    let (adapter, info) = adapters.swap_remove(choose(&infos, name)?);
    let mut open = OPEN.lock().unwrap_or_else(|e| e.into_inner());
    open.retain(|gpu| gpu.check().is_ok());
    if let Some(gpu) = open.iter().find(|gpu| *gpu.info() == info && gpu.matmul_precision() == precision) {
        return Ok(gpu.clone());
    }
    let gpu = Gpu::open(&adapter, info, precision, adapter.limits(), shader_checks()?)?;
    gpu.measure()?;
    open.push(gpu.clone());
    Ok(gpu)
}

/// Returns whether the environment selects shaders with runtime checks.
pub(super) fn shader_checks() -> Result<bool, DeviceError> {
    let value = std::env::var_os("GRADUS_SHADER_CHECKS").unwrap_or_default();
    is_set(&value.to_string_lossy())
}

fn is_set(value: &str) -> Result<bool, DeviceError> {
    match value {
        "" | "0" => Ok(false),
        "1" => Ok(true),
        found => Err(DeviceError::ShaderChecks { found: found.into() }),
    }
}

/// Returns the open GPUs.
pub(crate) fn opened() -> Vec<Arc<Gpu>> {
    OPEN.lock().unwrap_or_else(|e| e.into_inner()).clone()
}

/// Returns the first fault of the open GPUs.
pub(crate) fn fault() -> Option<DeviceError> {
    // While a GPU is being opened, the caller may be the panic hook of the thread that opens it.
    let open = match OPEN.try_lock() {
        Ok(open) => open,
        Err(TryLockError::Poisoned(open)) => open.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    open.iter().find_map(|gpu| gpu.check().err())
}

pub(super) fn adapters() -> Vec<(wgpu::Adapter, GpuInfo)> {
    let mut adapters = pollster::block_on(INSTANCE.enumerate_adapters(wgpu::Backends::all()));
    adapters.sort_by_key(|adapter| rank(adapter.get_info().device_type));
    let mut named: Vec<(wgpu::Adapter, GpuInfo)> = Vec::new();
    let vulkan: Vec<String> = adapters.iter().map(wgpu::Adapter::get_info).filter(is_vulkan).map(|it| it.name).collect();
    for adapter in adapters {
        let it = adapter.get_info();
        if it.backend == wgpu::Backend::Dx12 && vulkan.contains(&it.name) {
            continue; // on Windows both interfaces list the same card
        }
        let same = named.iter().filter(|(other, _)| other.get_info().name == it.name).count();
        let name = if same == 0 { it.name } else { format!("{} #{}", it.name, same + 1) };
        let (kind, interface, memory) = (kind(it.device_type), interface(it.backend), memory(&adapter));
        let driver = format!("{} {}", it.driver, it.driver_info).trim().into();
        named.push((adapter, GpuInfo { name, kind, interface, driver, memory }));
    }
    named
}

/// Returns the index of the GPU whose name equals or contains `name`; without a name, of the first that is no software renderer.
fn choose(gpus: &[&GpuInfo], name: Option<&str>) -> Result<usize, DeviceError> {
    let names = |at: &[usize]| at.iter().map(|&i| gpus[i].name.clone()).collect::<Vec<_>>();
    let all: Vec<usize> = (0..gpus.len()).collect();
    let Some(name) = name.filter(|_| !gpus.is_empty()) else {
        return gpus.iter().position(|gpu| gpu.kind != SOFTWARE).ok_or_else(|| DeviceError::NoGpu(names(&all)));
    };
    // A number is rejected, because most names contain some number.
    if name.len() < 3 && name.parse::<u8>().is_ok() {
        return Err(DeviceError::Number { name: name.into(), found: names(&all) });
    }
    let wanted = name.to_lowercase();
    let having =
        |is: &dyn Fn(&str) -> bool| all.iter().copied().filter(|&i| is(&gpus[i].name.to_lowercase())).collect::<Vec<_>>();
    let whole = having(&|name| name == wanted);
    let matching = if whole.is_empty() { having(&|name| name.contains(&wanted)) } else { whole };
    match matching[..] {
        [one] => Ok(one),
        [] => Err(DeviceError::NoSuchName { name: name.into(), found: names(&all) }),
        _ => Err(DeviceError::Ambiguous { name: name.into(), matching: names(&matching) }),
    }
}

fn rank(of: wgpu::DeviceType) -> usize {
    use wgpu::DeviceType::*;
    [DiscreteGpu, IntegratedGpu, VirtualGpu, Other, Cpu].iter().position(|&kind| kind == of).unwrap_or(usize::MAX)
}

fn kind(of: wgpu::DeviceType) -> &'static str {
    match of {
        wgpu::DeviceType::DiscreteGpu => "discrete",
        wgpu::DeviceType::IntegratedGpu => "integrated",
        wgpu::DeviceType::VirtualGpu => "virtual",
        wgpu::DeviceType::Other => "other",
        wgpu::DeviceType::Cpu => SOFTWARE,
    }
}

fn interface(of: wgpu::Backend) -> &'static str {
    match of {
        wgpu::Backend::Vulkan => "Vulkan",
        wgpu::Backend::Metal => "Metal",
        wgpu::Backend::Dx12 => "DX12",
        _ => "other",
    }
}

/// Returns the bytes of all heaps that Vulkan marks as device-local: an upper bound on the bytes of buffers.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn memory(adapter: &wgpu::Adapter) -> Option<u64> {
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: only constant properties of the handle are read, and nothing of it is destroyed.
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = vulkan.shared_instance().raw_instance();
    // SAFETY: the physical device is one of this instance, which lives as long as `vulkan`.
    let found = unsafe { instance.get_physical_device_memory_properties(vulkan.raw_physical_device()) };
    let heaps = found.memory_heaps.iter().take(found.memory_heap_count as usize);
    Some(heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL > 0).map(|heap| heap.size).sum())
}

#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn memory(_: &wgpu::Adapter) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(name: &str, kind: &'static str) -> GpuInfo {
        GpuInfo { name: name.into(), kind, interface: "Vulkan", driver: String::new(), memory: None }
    }

    #[test]
    fn checks_of_shaders_are_0_or_1() {
        assert_eq!(["", "0", "1"].map(is_set), [Ok(false), Ok(false), Ok(true)]);
        let error = is_set("yes").unwrap_err().to_string();
        assert_eq!(error, "GRADUS_SHADER_CHECKS=yes: expected 1 (shaders with runtime checks) or 0");
    }

    #[test]
    fn a_gpu_is_selected_by_name_and_software_only_by_name() {
        let gpus =
            [gpu("Big 9000", "discrete"), gpu("Big 9000 #2", "discrete"), gpu("Small", "integrated"), gpu("llvmpipe", SOFTWARE)];
        let gpus: Vec<&GpuInfo> = gpus.iter().collect();
        assert_eq!(choose(&gpus, None), Ok(0));
        assert_eq!(choose(&gpus, Some("small")), Ok(2));
        assert_eq!(choose(&gpus, Some("LLVM")), Ok(3));
        assert_eq!(choose(&gpus, Some("big 9000")), Ok(0), "a whole name goes before a part");
        assert_eq!(choose(&gpus, Some("#2")), Ok(1));
        let names = |all: &[&str]| all.iter().map(|&name| name.into()).collect::<Vec<String>>();
        let ambiguous = DeviceError::Ambiguous { name: "Big".into(), matching: names(&["Big 9000", "Big 9000 #2"]) };
        assert_eq!(choose(&gpus, Some("Big")), Err(ambiguous));
        let found = names(&["Big 9000", "Big 9000 #2", "Small", "llvmpipe"]);
        assert_eq!(choose(&gpus, Some("9001")), Err(DeviceError::NoSuchName { name: "9001".into(), found }));
        assert_eq!(choose(&gpus[3..], None), Err(DeviceError::NoGpu(names(&["llvmpipe"]))));
        assert_eq!([None, Some("Big")].map(|name| choose(&[], name)), [const { Err(DeviceError::NoGpu(vec![])) }; 2]);
        let error = choose(&gpus[2..3], Some("0")).unwrap_err().to_string();
        assert_eq!(error, r#"a GPU is chosen by its name or a part of it, not by a number, got "0"; there is "Small""#);
    }
}
