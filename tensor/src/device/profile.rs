//! Times of shaders, measured by the GPU's clock.
//!
//! Disabled by default, since each run then is a separate pass between two timestamps.

use std::collections::BTreeMap;

use super::gpu::{Gpu, lock};
use super::{DeviceError, Runs, TimedRuns};

/// The most runs between two submissions: a set has 4,096 timestamps, and a run takes two.
const MOST: usize = wgpu::QUERY_SET_MAX_QUERIES as usize / 2;
/// The bytes of the two timestamps of a run.
const PAIR: u64 = 2 * size_of::<u64>() as u64;

/// The runs since the profile was begun.
#[derive(Debug)]
pub(super) struct Profile {
    timestamps: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    label: usize,
    /// The runs since the last submission. Run i lies between timestamps 2i and 2i + 1.
    recorded: Vec<Run>,
    /// The submitted runs, with their timestamps.
    submitted: Vec<(Vec<Run>, wgpu::Buffer)>,
}

#[derive(Debug)]
struct Run {
    shader: String,
    label: usize,
    bytes: u64,
}

impl Profile {
    fn new(device: &wgpu::Device) -> Self {
        Profile {
            timestamps: device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("timestamps"),
                ty: wgpu::QueryType::Timestamp,
                count: wgpu::QUERY_SET_MAX_QUERIES,
            }),
            resolved: buffer(device, MOST, wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC),
            label: 0,
            recorded: Vec::new(),
            submitted: Vec::new(),
        }
    }

    /// Returns whether the commands so far must be submitted before another run is recorded.
    pub(super) fn is_full(&self) -> bool {
        self.recorded.len() == MOST
    }

    /// Records the next run. Returns the timestamps of its pass.
    pub(super) fn note(&mut self, shader: &str, bytes: u64) -> wgpu::ComputePassTimestampWrites<'_> {
        let at = 2 * self.recorded.len() as u32;
        self.recorded.push(Run { shader: shader.to_owned(), label: self.label, bytes });
        wgpu::ComputePassTimestampWrites {
            query_set: &self.timestamps,
            beginning_of_pass_write_index: Some(at),
            end_of_pass_write_index: Some(at + 1),
        }
    }

    /// Records the command that copies the timestamps of the recorded runs.
    pub(super) fn keep(&mut self, device: &wgpu::Device, encoder: &mut wgpu::CommandEncoder) {
        let runs = std::mem::take(&mut self.recorded);
        if runs.is_empty() {
            return;
        }
        let kept = buffer(device, runs.len(), wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
        encoder.resolve_query_set(&self.timestamps, 0..2 * runs.len() as u32, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &kept, 0, Some(kept.size()));
        self.submitted.push((runs, kept));
    }
}

/// Returns a buffer for the timestamps of this many runs.
fn buffer(device: &wgpu::Device, runs: usize, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    let size = PAIR * runs as u64;
    device.create_buffer(&wgpu::BufferDescriptor { label: Some("timestamps"), size, usage, mapped_at_creation: false })
}

impl Gpu {
    /// Begins to time every run of a shader, under label 0. Returns false if this GPU has no timestamps.
    pub fn begin_profile(&self) -> bool {
        let can = self.device.features().contains(wgpu::Features::TIMESTAMP_QUERY);
        if can {
            let mut recorder = lock(&self.recorder);
            self.submit(&mut recorder);
            recorder.profile = Some(Profile::new(&self.device));
        }
        can
    }

    /// Sets the label under which the following runs are timed.
    pub fn label(&self, label: usize) {
        if let Some(profile) = &mut lock(&self.recorder).profile {
            profile.label = label;
        }
    }

    /// Waits, ends the profile, and returns the times of each shader under each label; empty if no profile was begun.
    ///
    /// # Errors
    /// Returns an error if the device has had a fault: the first one.
    pub fn end_profile(&self) -> Result<Vec<TimedRuns>, DeviceError> {
        let mut recorder = lock(&self.recorder);
        self.submit(&mut recorder);
        let Some(Profile { submitted, .. }) = recorder.profile.take() else { return Ok(Vec::new()) };
        drop(recorder);
        submitted.iter().for_each(|(_, kept)| kept.slice(..).map_async(wgpu::MapMode::Read, |_| {}));
        self.wait();
        self.check()?;
        let period = f64::from(self.queue.get_timestamp_period());
        let mut sums: BTreeMap<(String, usize), (Runs, f64)> = BTreeMap::new();
        for (runs, kept) in submitted {
            let mapped = kept.slice(..).get_mapped_range().map_err(|error| {
                self.fault.raise(|name| DeviceError::Lost { name, reason: error.to_string() });
                self.check().expect_err("just raised")
            })?;
            let times: Vec<u64> = bytemuck::pod_collect_to_vec(&mapped);
            for (run, time) in runs.into_iter().zip(times.as_chunks::<2>().0) {
                let (sum, nanoseconds) = sums.entry((run.shader, run.label)).or_default();
                sum.dispatches += 1;
                sum.bytes += run.bytes;
                // If the clock was set back during the run, its time counts as 0.
                *nanoseconds += period * time[1].saturating_sub(time[0]) as f64;
            }
        }
        let timed = |((shader, label), (runs, nanoseconds))| TimedRuns { shader, label, runs, nanoseconds };
        Ok(sums.into_iter().map(timed).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::testing::fresh;
    use crate::{Device, Tensor};

    #[test]
    fn each_run_is_timed_under_its_label() {
        let Some(gpu) = fresh() else { return };
        let device = Device::Gpu(gpu.clone());
        let x = Tensor::new([3], vec![1.0f32, 2.0, 3.0]).to(&device).unwrap();
        let double = || &x + &x;
        let before = double().to_vec();
        assert_eq!(gpu.end_profile(), Ok(Vec::new()), "none was begun");
        if !gpu.begin_profile() {
            return eprintln!("\n    SKIPPED, NOTHING WAS TESTED: {} has no timestamps\n", gpu.info().name);
        }
        // More runs than one submission holds.
        (0..MOST + 3).for_each(|_| drop(double()));
        gpu.label(7);
        assert_eq!(double().to_vec(), before);
        let timed = gpu.end_profile().unwrap();
        let of = |label| timed.iter().filter(|t| t.label == label).map(|t| t.runs.dispatches).sum::<u64>();
        assert_eq!((of(0), of(7)), (MOST as u64 + 3, 1), "{timed:?}");
        for t in &timed {
            // A sum has three buffers of 256 bytes at least, of which two may be the same.
            assert!(t.runs.bytes >= 512 * t.runs.dispatches && t.nanoseconds.is_finite(), "{t:?}");
        }
        assert!(timed.iter().map(|t| t.nanoseconds).sum::<f64>() > 0.0, "{timed:?}");
        drop(double());
        assert_eq!(gpu.end_profile(), Ok(Vec::new()), "it has ended");
    }
}
