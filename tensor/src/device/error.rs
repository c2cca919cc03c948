//! Errors of devices.

/// The error of a device that cannot be opened or can no longer compute.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DeviceError {
    /// The kind of device is unknown.
    #[error("a device is cpu, gpu or gpu:NAME, got {0:?}")]
    Unknown(String),
    /// The feature `wgpu` is disabled.
    #[error("this build supports only the CPU; build with GPU support: cargo build --release --features wgpu")]
    NotBuilt,
    /// No driver provides a GPU.
    #[error("no GPU was found: Linux needs a driver for Vulkan (`vulkaninfo --summary` lists what it finds), macOS has Metal, Windows DX12{}", software(.0))]
    NoGpu(Vec<String>),
    /// A number was given, which may be meant as an index.
    #[error("a GPU is chosen by its name or a part of it, not by a number, got {name:?}; there {}", listed(.found))]
    Number {
        /// The requested name.
        name: String,
        /// The names of all GPUs.
        found: Vec<String>,
    },
    /// No GPU's name contains the requested name.
    #[error("no GPU is named {name:?}; there {}", listed(.found))]
    NoSuchName {
        /// The requested name.
        name: String,
        /// The names of all GPUs.
        found: Vec<String>,
    },
    /// More than one GPU's name contains the requested name.
    #[error("{name:?} matches {}; give a longer part of the name", quoted(.matching))]
    Ambiguous {
        /// The requested name.
        name: String,
        /// The matching names.
        matching: Vec<String>,
    },
    /// The driver failed to open the device.
    #[error("{name} cannot be opened: {reason}")]
    Refused {
        /// The name of the GPU.
        name: String,
        /// The driver's message.
        reason: String,
    },
    /// A scalar other than `f32` was requested on a GPU.
    #[error("a GPU computes in f32, not in {0}: use f32, or the device cpu")]
    NotF32(&'static str),
    /// Products in f16 were requested on the CPU.
    #[error("--matmul-precision f16 on the CPU: expected f32 or bf16, or a GPU (--device gpu, in a build with the feature wgpu)")]
    F16OnCpu,
    /// Products in bf16 were requested on a GPU.
    #[error("--matmul-precision bf16 on a GPU: expected f32 or f16, or the CPU (--device cpu)")]
    BF16OnGpu,
    /// Products were requested that a scalar does not have.
    #[error("products of {scalar} in {precision}: expected products in {scalar}; only f32 has others")]
    NoProducts {
        /// The requested precision.
        precision: super::MatmulPrecision,
        /// The scalar.
        scalar: &'static str,
    },
    /// The environment variable that selects checked shaders has another value.
    #[error("GRADUS_SHADER_CHECKS={found}: expected 1 (shaders with runtime checks) or 0")]
    ShaderChecks {
        /// The value.
        found: String,
    },
    /// The driver does not support 16-bit floats.
    #[error("{name} has no arithmetic in f16: use --matmul-precision f32")]
    NoF16 {
        /// The name of the GPU.
        name: String,
    },
    /// The memory of the CPU is exhausted.
    #[error("the system has no memory left for {0} more bytes: use a smaller batch, context or model, or --recompute")]
    NoMemory(usize),
    /// The memory of the GPU is exhausted.
    #[error(
        "{name} has no memory left for {bytes} more bytes, beside {held} that are in use: use a smaller batch, context or model"
    )]
    OutOfMemory {
        /// The name of the GPU.
        name: String,
        /// The requested bytes.
        bytes: u64,
        /// The bytes in buffers of tensors.
        held: u64,
    },
    /// The data to send need more memory than the device has left.
    #[error(
        "{name} has {there} bytes of free memory, and {needed} are needed: {what}; intermediate results need more: use a smaller \
         model, or the device cpu"
    )]
    NoRoom {
        /// The name of the GPU.
        name: String,
        /// The bytes of free memory, according to its driver.
        there: u64,
        /// The bytes needed in total.
        needed: u64,
        /// The parts of the total: their bytes and purposes.
        what: String,
    },
    /// A tensor is larger than any buffer.
    #[error("{name} takes tensors of at most {most} bytes, got one of {bytes}: use a smaller batch, context or vocabulary")]
    TooLarge {
        /// The name of the GPU.
        name: String,
        /// The bytes of the tensor.
        bytes: u64,
        /// The most bytes that the driver allows.
        most: u64,
    },
    /// The tensors of a shader have more pieces than can be bound.
    #[error(
        "{name} lets a shader bind at most {most} ranges of {bytes} bytes, and {shader:?} needs {bound} for tensors of this \
         size: use a smaller batch, context or vocabulary"
    )]
    TooManyWindows {
        /// The name of the GPU.
        name: String,
        /// The name of the shader.
        shader: String,
        /// The most bytes in a piece.
        bytes: u64,
        /// The number of pieces of all tensors of the shader.
        bound: usize,
        /// The most pieces that the driver allows.
        most: usize,
    },
    /// The device was lost.
    #[error("{name} was lost: {reason}")]
    Lost {
        /// The name of the GPU.
        name: String,
        /// The driver's message.
        reason: String,
    },
    /// A command was rejected, which is a bug of this library.
    #[error("{name} rejected a command, which is a bug in this program: {reason}")]
    Invalid {
        /// The name of the GPU.
        name: String,
        /// The reported reason.
        reason: String,
    },
}

impl DeviceError {
    /// Returns whether the request was invalid, as opposed to a device that failed.
    pub fn is_of_usage(&self) -> bool {
        use DeviceError::*;
        let is_of_name = matches!(self, Unknown(_) | Number { .. } | NoSuchName { .. } | Ambiguous { .. });
        is_of_name || matches!(self, NotBuilt | NotF32(_) | F16OnCpu | BF16OnGpu | NoProducts { .. } | NoF16 { .. })
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

fn listed(names: &[String]) -> String {
    match names {
        [one] => format!("is {one:?}"),
        _ => format!("are {}", quoted(names)),
    }
}

fn software(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [name, ..] => format!(" ({}, which computes on the CPU, is used only if named: --device 'gpu:{name}')", quoted(names)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_errors_list_the_available_names() {
        let names = ["A 1".to_string(), "A 2".to_string()].to_vec();
        let error = |e: DeviceError| e.to_string();
        let name = String::from("A");
        assert_eq!(
            error(DeviceError::Ambiguous { name: name.clone(), matching: names.clone() }),
            r#""A" matches "A 1", "A 2"; give a longer part of the name"#
        );
        assert_eq!(
            error(DeviceError::NoSuchName { name: name.clone(), found: names.clone() }),
            r#"no GPU is named "A"; there are "A 1", "A 2""#
        );
        let one = DeviceError::NoSuchName { name, found: names[..1].to_vec() };
        assert_eq!(error(one), r#"no GPU is named "A"; there is "A 1""#);
        let none = "no GPU was found: Linux needs a driver for Vulkan (`vulkaninfo --summary` lists what it finds), macOS has Metal, Windows DX12";
        assert_eq!(error(DeviceError::NoGpu(vec![])), none);
        let software = r#" ("A 1", which computes on the CPU, is used only if named: --device 'gpu:A 1')"#;
        assert_eq!(error(DeviceError::NoGpu(names[..1].to_vec())), format!("{none}{software}"));
    }
}
