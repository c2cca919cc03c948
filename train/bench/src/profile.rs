//! What a GPU's time goes to, shader by shader.

use std::collections::BTreeMap;

use gradus_tensor::{Device, DeviceError};
use serde::Serialize;

/// The runs of one shader.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShaderRow {
    /// The shader's name.
    pub name: String,
    /// How often it is run; of several steps the mean.
    pub dispatches: f64,
    /// Bytes of the buffers that it is given: it reads or writes them, perhaps not all.
    pub bytes: f64,
    /// Milliseconds; `None` without timestamps.
    pub ms: Option<f64>,
}

/// A piece of work on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// What it ran, the longest first; `None` where the GPU has no timestamps.
    pub shaders: Option<Vec<ShaderRow>>,
}

impl Profile {
    /// Of `work`, which is not done where the device has no timestamps; `None` of the CPU. Each shader is timed by itself: together
    /// they take longer than what is not profiled.
    ///
    /// # Errors
    /// The first fault of the device.
    pub fn of(device: &Device, work: impl FnOnce()) -> Result<Option<Self>, DeviceError> {
        if *device == Device::Cpu {
            return Ok(None);
        }
        Ok(Some(Profile { shaders: shaders_of(device, work)? }))
    }
}

/// What `work` runs, the longest first; `None`, and no work, where the device has no timestamps.
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

/// By time, or where none was taken by bytes.
pub fn longest_first(rows: impl IntoIterator<Item = ShaderRow>) -> Vec<ShaderRow> {
    let weight = |row: &ShaderRow| row.ms.unwrap_or(row.bytes);
    let mut rows: Vec<ShaderRow> = rows.into_iter().collect();
    rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    rows
}
