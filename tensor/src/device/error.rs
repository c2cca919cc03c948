//! What can go wrong with a device.

/// Why a device cannot be had, or no longer computes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DeviceError {
    /// No such kind of device.
    #[error("a device is cpu, gpu or gpu:NAME, got {0:?}")]
    Unknown(String),
    /// The feature `wgpu` is off.
    #[error("this build computes on the CPU alone; `cargo build --release --features wgpu` makes one that also drives GPUs")]
    NotBuilt,
    /// No driver offers a GPU.
    #[error("no GPU was found: Linux needs a driver for Vulkan (`vulkaninfo --summary` lists what it finds), macOS has Metal, Windows DX12{}", software(.0))]
    NoGpu(Vec<String>),
    /// A number that may be meant as an index.
    #[error("a GPU is chosen by its name or a part of it, not by a number, got {name:?}; there {}", listed(.found))]
    Number {
        /// What was asked for.
        name: String,
        /// All names.
        found: Vec<String>,
    },
    /// No name has this part.
    #[error("no GPU is named {name:?}; there {}", listed(.found))]
    NoSuchName {
        /// What was asked for.
        name: String,
        /// All names.
        found: Vec<String>,
    },
    /// More than one name has this part.
    #[error("{name:?} may be any of {}; give more of the name", quoted(.matching))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// The names that have it.
        matching: Vec<String>,
    },
    /// The driver would not open the device.
    #[error("{name} cannot be opened: {reason}")]
    Refused {
        /// Of the GPU.
        name: String,
        /// The driver's words.
        reason: String,
    },
    /// Other numbers than `f32` on a GPU.
    #[error("a GPU computes in f32, not in {0}: use f32, or the device cpu")]
    NotF32(&'static str),
    /// Factors of products cannot be rounded there.
    #[error("the CPU multiplies in full precision: products in {0} are for a GPU (--device gpu)")]
    ProductsOnCpu(super::Products),
    /// The driver offers no numbers of 16 bits.
    #[error("{name} has no arithmetic in f16: use --products f32")]
    NoF16 {
        /// Of the GPU.
        name: String,
    },
    /// The system has no memory left for the CPU.
    #[error("the system has no memory left for {0} more bytes: use a smaller batch, context or model, or --recompute")]
    NoMemory(usize),
    /// The driver has no memory left.
    #[error(
        "{name} has no memory left for {bytes} more bytes, beside {held} that are in use: use a smaller batch, context or model"
    )]
    OutOfMemory {
        /// Of the GPU.
        name: String,
        /// What was asked for.
        bytes: u64,
        /// In buffers of tensors.
        held: u64,
    },
    /// What is to be sent needs more memory than the device has.
    #[error(
        "{name} has {there} bytes of free memory, and {needed} are needed: {what}; what is computed on the way comes on top: use a \
         smaller model, or the device cpu"
    )]
    NoRoom {
        /// Of the GPU.
        name: String,
        /// Of its memory, as far as its driver says.
        there: u64,
        /// In all.
        needed: u64,
        /// Bytes, and what they are for.
        what: String,
    },
    /// A tensor longer than any buffer.
    #[error("{name} takes tensors of at most {most} bytes, got one of {bytes}: use a smaller batch, context or vocabulary")]
    TooLarge {
        /// Of the GPU.
        name: String,
        /// Of the tensor.
        bytes: u64,
        /// What its driver allows.
        most: u64,
    },
    /// Tensors that a shader would have to be given in too many pieces.
    #[error(
        "{name} gives a shader at most {most} pieces of memory of {bytes} bytes, and {shader:?} needs {bound} for tensors of this \
         size: use a smaller batch, context or vocabulary"
    )]
    TooManyWindows {
        /// Of the GPU.
        name: String,
        /// By its name.
        shader: String,
        /// The most in a piece.
        bytes: u64,
        /// Pieces that all its tensors have.
        bound: usize,
        /// What its driver allows.
        most: usize,
    },
    /// The device is gone.
    #[error("{name} was lost: {reason}")]
    Lost {
        /// Of the GPU.
        name: String,
        /// The driver's words.
        reason: String,
    },
    /// A command was refused: a mistake of this library.
    #[error("{name} refused a command, which is a bug in this program: {reason}")]
    Invalid {
        /// Of the GPU.
        name: String,
        /// The reason given.
        reason: String,
    },
}

impl DeviceError {
    /// Was the device asked for in a way that cannot be granted, as opposed to one that failed?
    pub fn is_of_usage(&self) -> bool {
        use DeviceError::*;
        let is_of_name = matches!(self, Unknown(_) | Number { .. } | NoSuchName { .. } | Ambiguous { .. });
        is_of_name || matches!(self, NotBuilt | NotF32(_) | ProductsOnCpu(_) | NoF16 { .. })
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
    fn errors_name_what_there_is() {
        let names = ["A 1".to_string(), "A 2".to_string()].to_vec();
        let error = |e: DeviceError| e.to_string();
        let name = String::from("A");
        assert_eq!(
            error(DeviceError::Ambiguous { name: name.clone(), matching: names.clone() }),
            r#""A" may be any of "A 1", "A 2"; give more of the name"#
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
