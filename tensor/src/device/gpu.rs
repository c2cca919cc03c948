//! An open GPU.

use std::sync::{Arc, Mutex, OnceLock};

use super::fault::Fault;
use super::memory::Memory;
use super::pipeline::Pipelines;
use super::recorder::Recorder;
use super::tuning::Tuning;
use super::{Arithmetic, DeviceError, GpuInfo, MatmulPrecision, probe};

/// An open GPU, shared by all its users.
#[derive(Debug)]
pub struct Gpu {
    pub(super) info: GpuInfo,
    precision: MatmulPrecision,
    pub(crate) units: Units,
    pub(super) arithmetic: OnceLock<Arithmetic>,
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) limits: wgpu::Limits,
    /// Whether shaders are compiled with wgpu's runtime checks.
    pub(super) checks: bool,
    pub(super) fault: Fault,
    pub(super) memory: Mutex<Memory>,
    pub(super) pipelines: Mutex<Pipelines>,
    pub(super) recorder: Mutex<Recorder>,
    pub(super) tuning: Mutex<Tuning>,
}

/// The optional capabilities of a GPU that kernels may use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Units {
    /// The number of threads of a subgroup, if it is constant.
    pub subgroup: Option<usize>,
    /// The size of the square matrices that a subgroup multiplies at once, with factors in f16 and sums in f32.
    pub cooperative: Option<usize>,
    /// The bytes of memory that a workgroup may share.
    pub workgroup_memory: usize,
}

impl PartialEq for Gpu {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Gpu {
    /// Opens a context with these limits, at most the adapter's, and with runtime checks of shaders or without. Its rounding is not measured yet.
    pub(super) fn open(
        adapter: &wgpu::Adapter,
        info: GpuInfo,
        precision: MatmulPrecision,
        limits: wgpu::Limits,
        checks: bool,
    ) -> Result<Arc<Self>, DeviceError> {
        let (units, required_features) = units(adapter, precision);
        if precision == MatmulPrecision::F16 && !required_features.contains(wgpu::Features::SHADER_F16) {
            return Err(DeviceError::NoF16 { name: info.name });
        }
        let experimental_features = match units.cooperative {
            None => wgpu::ExperimentalFeatures::disabled(),
            // SAFETY: the only experimental feature requested is cooperative matrices. Their only shader is cooperative.wgsl,
            // whose results are compared with those of the ordinary shader before it is chosen.
            Some(_) => unsafe { wgpu::ExperimentalFeatures::enabled() },
        };
        let wanted = wgpu::DeviceDescriptor {
            required_limits: limits.clone(),
            required_features: required_features | adapter.features() & wgpu::Features::TIMESTAMP_QUERY,
            experimental_features,
            ..Default::default()
        };
        let refused = |e: wgpu::RequestDeviceError| DeviceError::Refused { name: info.name.clone(), reason: e.to_string() };
        let (device, queue) = pollster::block_on(adapter.request_device(&wanted)).map_err(refused)?;
        let fault = Fault::watching(&device, &info.name);
        let recorder = Mutex::new(Recorder::new(&device, &limits));
        Ok(Arc::new(Gpu {
            info,
            precision,
            units,
            arithmetic: OnceLock::new(),
            device,
            queue,
            limits,
            checks,
            fault,
            memory: Mutex::default(),
            pipelines: Mutex::default(),
            recorder,
            tuning: Mutex::default(),
        }))
    }

    /// Measures the rounding behaviour of the GPU.
    pub(super) fn measure(self: &Arc<Self>) -> Result<(), DeviceError> {
        self.arithmetic.set(probe::measure(self)?).expect("measured once");
        Ok(())
    }

    /// Returns the driver's description of the GPU.
    pub fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// Returns the precision of matrix products.
    pub fn matmul_precision(&self) -> MatmulPrecision {
        self.precision
    }

    /// Returns the rounding behaviour, measured when the GPU was opened.
    pub fn arithmetic(&self) -> &Arithmetic {
        self.arithmetic.get().expect("measured when it was opened")
    }

    /// Checks that the GPU can still compute.
    ///
    /// # Errors
    /// Returns an error if the GPU has had a fault since it was opened: exhausted memory or a lost device. The error is the first
    /// fault.
    pub fn check(&self) -> Result<(), DeviceError> {
        self.fault.check()
    }
}

/// Returns the capabilities of a GPU for these products, and the features that they need.
fn units(adapter: &wgpu::Adapter, precision: MatmulPrecision) -> (Units, wgpu::Features) {
    use wgpu::{CooperativeScalarType as Scalar, Features};
    let (info, there) = (adapter.get_info(), adapter.features());
    let workgroup_memory = adapter.limits().max_compute_workgroup_storage_size as usize;
    let mut features = there & Features::SUBGROUP;
    let is_one = info.subgroup_min_size == info.subgroup_max_size;
    let subgroup = (is_one && !features.is_empty()).then_some(info.subgroup_max_size as usize);
    if precision == MatmulPrecision::F32 {
        return (Units { subgroup, cooperative: None, workgroup_memory }, features);
    }
    features |= there & Features::SHADER_F16;
    let fits = |it: &wgpu::wgt::CooperativeMatrixProperties| {
        it.m_size == it.n_size && it.n_size == it.k_size && it.ab_type == Scalar::F16 && it.cr_type == Scalar::F32
    };
    let of_matrices = Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
    let sizes = adapter.cooperative_matrix_properties().into_iter().filter(fits).map(|it| it.m_size as usize);
    let cooperative = sizes.max().filter(|_| subgroup.is_some() && there.contains(of_matrices));
    if cooperative.is_some() {
        features |= of_matrices;
    }
    (Units { subgroup, cooperative, workgroup_memory }, features)
}

/// Returns the guard of a lock, even if a thread that held it has panicked: no code panics between two dependent changes.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
