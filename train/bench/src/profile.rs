//! The time of work on a GPU, shader by shader.

use std::collections::BTreeMap;

use gradus_tensor::{Device, DeviceError};
use serde::Serialize;

/// The runs of one shader.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShaderRow {
    /// The shader's name.
    pub name: String,
    /// The number of runs; the mean if there are several steps.
    pub dispatches: f64,
    /// The bytes of the buffers bound to the shader, which may read or write only a part of them.
    pub bytes: f64,
    /// The time in milliseconds; `None` without timestamps.
    pub ms: Option<f64>,
}

/// The profile of a piece of work on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// The shaders, the longest first; `None` if the GPU has no timestamps.
    pub shaders: Option<Vec<ShaderRow>>,
}

impl Profile {
    /// Profiles `work`, which is not run if the device has no timestamps. Returns `None` for the CPU. Each shader is timed
    /// separately, so their total is longer than the unprofiled work.
    ///
    /// # Errors
    /// Returns the first fault of the device.
    pub fn of(device: &Device, work: impl FnOnce()) -> Result<Option<Self>, DeviceError> {
        if device.is_cpu() {
            return Ok(None);
        }
        Ok(Some(Profile { shaders: shaders_of(device, work)? }))
    }
}

/// Runs `work` and returns its shaders, the longest first. Returns `None` without running it if the device has no timestamps.
fn shaders_of(device: &Device, work: impl FnOnce()) -> Result<Option<Vec<ShaderRow>>, DeviceError> {
    if !device.begin_profile() {
        return Ok(None);
    }
    work();
    let mut by_name: BTreeMap<String, ShaderRow> = BTreeMap::new();
    for timed in device.end_profile()? {
        let none = || ShaderRow { name: timed.shader.clone(), dispatches: 0.0, bytes: 0.0, ms: Some(0.0) };
        let row = by_name.entry(timed.shader.clone()).or_insert_with(none);
        row.dispatches += timed.runs.dispatches as f64;
        row.bytes += timed.runs.bytes as f64;
        row.ms = row.ms.map(|ms| ms + timed.nanoseconds / 1e6);
    }
    Ok(Some(longest_first(by_name.into_values())))
}

/// Sorts rows by time, or by bytes if there are no times.
pub fn longest_first(rows: impl IntoIterator<Item = ShaderRow>) -> Vec<ShaderRow> {
    let weight = |row: &ShaderRow| row.ms.unwrap_or(row.bytes);
    let mut rows: Vec<ShaderRow> = rows.into_iter().collect();
    rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    rows
}
