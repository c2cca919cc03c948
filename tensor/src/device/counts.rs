//! What a device was asked for.

/// What a GPU was asked for since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Shaders run.
    pub dispatches: u64,
    /// Groups of commands handed to the device.
    pub submissions: u64,
    /// Times that the CPU waited for it.
    pub waits: u64,
    /// Bytes of data sent to it, parameters apart.
    pub sent_bytes: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Buffers made: of tensors, and of what goes there and comes back.
    pub buffers_made: u64,
    /// Bytes in those of tensors.
    pub held_bytes: u64,
    /// Of these, the bytes in use.
    pub live_bytes: u64,
    /// The most bytes in use at one time, since it was opened or since [`Device::reset_peak`](super::Device::reset_peak).
    pub peak_bytes: u64,
}

/// The runs of one shader.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Runs {
    /// How often it was run.
    pub dispatches: u64,
    /// Bytes of the buffers that it was given, parameters apart: it reads or writes them, perhaps not all.
    pub bytes: u64,
}

/// The runs of one shader under one label, timed by the device.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedRuns {
    /// The shader's name.
    pub shader: String,
    /// What [`Device::label`](super::Device::label) was given last when they were recorded.
    pub label: usize,
    /// How many, and the bytes of their buffers.
    pub runs: Runs,
    /// What they took together.
    pub nanoseconds: f64,
}
