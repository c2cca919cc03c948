//! Counters of the work of a device.

/// The work of a GPU since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// The number of shaders run.
    pub dispatches: u64,
    /// The number of submissions of commands to the device.
    pub submissions: u64,
    /// The number of times that the CPU waited for the device.
    pub waits: u64,
    /// The bytes of data written to the device, excluding parameters.
    pub sent_bytes: u64,
    /// The bytes read from the device.
    pub read_bytes: u64,
    /// The number of buffers created: for tensors, and for transfers to and from the device.
    pub buffers_made: u64,
    /// The bytes of the buffers of tensors.
    pub held_bytes: u64,
    /// The bytes of `held_bytes` that are in use.
    pub live_bytes: u64,
    /// The most bytes in use at one time, since the GPU was opened or since [`Device::reset_peak`](super::Device::reset_peak).
    pub peak_bytes: u64,
}

/// The runs of one shader.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Runs {
    /// The number of times that the shader was run.
    pub dispatches: u64,
    /// The bytes of the buffers bound to the shader, excluding parameters. The shader may read or write only a part of them.
    pub bytes: u64,
}

/// The runs of one shader under one label, timed by the device.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedRuns {
    /// The shader's name.
    pub shader: String,
    /// The label set by [`Device::label`](super::Device::label) when the runs were recorded.
    pub label: usize,
    /// The number of runs, and the bytes of their buffers.
    pub runs: Runs,
    /// The total time of the runs in nanoseconds.
    pub nanoseconds: f64,
}
