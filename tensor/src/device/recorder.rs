//! Commands, recorded and submitted in groups.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::DeviceError;
use super::gpu::{Gpu, lock};
use super::memory::Buffer;
use super::pipeline::Shader;
use super::profile::Profile;
use super::{Counts, Runs};

/// The most bytes of parameters that are sent with one submission.
const ARENA: usize = 4 << 20;
/// The bytes of one command's parameters.
const PARAMS: usize = 256;
/// The number of commands in the first submission after a wait. Each later submission has twice as many. The device is thus busy
/// while the rest is recorded, and a step takes few submissions.
const FIRST: usize = 64;
/// The most bytes of data that are sent with the parameters.
const SMALL: usize = 256 << 10;

/// The commands recorded since the last submission.
#[derive(Debug)]
pub(super) struct Recorder {
    /// The current pass, which ends before its encoder does.
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: Option<wgpu::CommandEncoder>,
    /// The parameters and small data, in the order of the commands.
    arena: Vec<u8>,
    /// The buffer that receives the arena.
    uniforms: wgpu::Buffer,
    alignment: usize,
    /// The number of commands since the last submission, and (`due`) the number at which the next one is made.
    commands: usize,
    due: usize,
    counts: Counts,
    /// The runs of each shader, by its name.
    runs: BTreeMap<String, Runs>,
    /// The profile that times each run, if it was begun.
    pub(super) profile: Option<Profile>,
}

impl Recorder {
    pub(super) fn new(device: &wgpu::Device, limits: &wgpu::Limits) -> Self {
        use wgpu::BufferUsages as Usage;
        let uniforms = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("parameters"),
            size: ARENA as u64,
            usage: Usage::UNIFORM | Usage::COPY_SRC | Usage::COPY_DST,
            mapped_at_creation: false,
        });
        let alignment = (limits.min_uniform_buffer_offset_alignment as usize).max(PARAMS);
        Recorder {
            pass: None,
            encoder: None,
            arena: Vec::new(),
            uniforms,
            alignment,
            commands: 0,
            due: FIRST,
            counts: Counts::default(),
            runs: BTreeMap::new(),
            profile: None,
        }
    }

    /// Appends `bytes` to the arena. Returns their offset.
    fn place(&mut self, bytes: &[u8]) -> usize {
        let at = self.arena.len();
        self.arena.extend_from_slice(bytes);
        self.arena.resize((at + bytes.len()).next_multiple_of(self.alignment), 0);
        at
    }

    /// Counts a run of the shader `name` with this many bytes of buffers.
    fn count(&mut self, name: &str, bytes: u64) {
        self.counts.dispatches += 1;
        if !self.runs.contains_key(name) {
            self.runs.insert(name.to_owned(), Runs::default());
        }
        let runs = self.runs.get_mut(name).expect("just made, if it was not there");
        runs.dispatches += 1;
        runs.bytes += bytes;
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.arena.len() + bytes.next_multiple_of(self.alignment) <= ARENA
    }
}

impl Gpu {
    /// Runs `groups` workgroups of a shader. The bindings are `params`, the buffers to write, and the buffers to read. No buffer
    /// is in both.
    pub(crate) fn dispatch(&self, shader: &Shader<'_>, params: &[u32], writes: &[&Buffer], reads: &[&Buffer], groups: usize) {
        // After a fault, buffers may be shorter than their tensors, or hold no indices.
        if groups == 0 || self.fault.check().is_err() {
            return;
        }
        assert!(size_of_val(params) <= PARAMS, "{}: parameters of at most {PARAMS} bytes", shader.name());
        let windows = [writes, reads].map(|buffers| buffers.iter().map(|buffer| buffer.windows().len()).collect::<Vec<_>>());
        let bound: usize = windows.iter().flatten().sum();
        let most = self.limits.max_storage_buffers_per_shader_stage as usize;
        if bound > most {
            let (shader, bytes) = (shader.name().to_owned(), self.window());
            return self.fault.raise(|name| DeviceError::TooManyWindows { name, shader, bytes, bound, most });
        }
        let pipeline = self.pipeline(shader, windows.each_ref().map(|of| &of[..]));
        let mut recorder = lock(&self.recorder);
        if !recorder.has_room(PARAMS) || recorder.profile.as_ref().is_some_and(Profile::is_full) {
            self.submit(&mut recorder);
        }
        let mut words = [0; PARAMS / 4];
        words[..params.len()].copy_from_slice(params);
        let at = recorder.place(bytemuck::cast_slice(&words));
        let uniform = wgpu::BufferBinding { buffer: &recorder.uniforms, offset: 0, size: wgpu::BufferSize::new(PARAMS as u64) };
        let bindings = std::iter::once(uniform).chain(writes.iter().chain(reads).flat_map(|buffer| buffer.windows()));
        let resources = bindings.map(wgpu::BindingResource::Buffer).enumerate();
        let entries: Vec<_> = resources.map(|(i, resource)| wgpu::BindGroupEntry { binding: i as u32, resource }).collect();
        let bound = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.layout,
            entries: &entries,
        });
        let [x, y] = folded(groups, self.limits.max_compute_workgroups_per_dimension as usize);
        let bytes = writes.iter().chain(reads).map(|buffer| buffer.raw().size()).sum();
        let pass = self.pass(&mut recorder, shader.name(), bytes);
        pass.set_pipeline(&pipeline.compiled);
        pass.set_bind_group(0, &bound, &[at as u32]);
        pass.dispatch_workgroups(x, y, 1);
        recorder.count(shader.name(), bytes);
        recorder.commands += 1;
        if recorder.commands == recorder.due {
            recorder.due *= 2;
            self.submit(&mut recorder);
        }
    }

    /// Returns a buffer with these numbers, `f32` or `u32`.
    pub(crate) fn send<W: bytemuck::NoUninit>(self: &Arc<Self>, numbers: &[W]) -> Buffer {
        let buffer = Buffer::recycled(self, numbers.len());
        let bytes: &[u8] = bytemuck::cast_slice(numbers);
        let staged = (bytes.len() > SMALL).then(|| self.staged(bytes));
        let mut recorder = lock(&self.recorder);
        recorder.counts.sent_bytes += bytes.len() as u64;
        if let Some(staged) = staged {
            self.encoder(&mut recorder).copy_buffer_to_buffer(&staged, 0, buffer.raw(), 0, Some(bytes.len() as u64));
            self.submit(&mut recorder); // frees the memory of `staged` before more is sent
        } else if !bytes.is_empty() {
            if !recorder.has_room(bytes.len()) {
                self.submit(&mut recorder);
            }
            let at = recorder.place(bytes);
            let from = recorder.uniforms.clone();
            self.encoder(&mut recorder).copy_buffer_to_buffer(&from, at as u64, buffer.raw(), 0, Some(bytes.len() as u64));
        }
        buffer
    }

    /// Records a copy of `bytes` of a buffer from `at` on, and submits it.
    pub(super) fn copy_and_submit(&self, from: &Buffer, at: u64, to: &wgpu::Buffer, bytes: u64) {
        let mut recorder = lock(&self.recorder);
        self.encoder(&mut recorder).copy_buffer_to_buffer(from.raw(), at, to, 0, Some(bytes));
        recorder.counts.read_bytes += bytes;
        self.submit(&mut recorder);
    }

    /// Submits the recorded commands, and waits until the device has run them.
    pub(crate) fn wait(&self) {
        let mut recorder = lock(&self.recorder);
        self.submit(&mut recorder);
        recorder.due = FIRST;
        recorder.counts.waits += 1;
        drop(recorder);
        self.poll(wgpu::PollType::wait_indefinitely());
    }

    /// Polls the device for finished commands, without waiting.
    pub(super) fn ask(&self) {
        self.poll(wgpu::PollType::Poll);
    }

    fn poll(&self, how: wgpu::PollType) {
        // wgpu panics if a device was lost other than by a call to wgpu.
        let polled = panic::catch_unwind(AssertUnwindSafe(|| self.device.poll(how)));
        let reason = match polled {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its driver reported a failure (see above)".into(),
        };
        self.fault.raise(|name| DeviceError::Lost { name, reason });
    }

    /// Returns the runs of each shader since the GPU was opened, by name.
    pub fn runs(&self) -> BTreeMap<String, Runs> {
        lock(&self.recorder).runs.clone()
    }

    /// Returns the counters since the GPU was opened.
    pub fn counts(&self) -> Counts {
        let mut counts = lock(&self.recorder).counts;
        self.fill_counts(&mut counts);
        counts
    }

    pub(super) fn submit(&self, recorder: &mut Recorder) {
        recorder.pass = None;
        if let Some(mut encoder) = recorder.encoder.take() {
            if let Some(profile) = &mut recorder.profile {
                profile.keep(&self.device, &mut encoder);
            }
            self.queue.write_buffer(&recorder.uniforms, 0, &recorder.arena);
            self.queue.submit([encoder.finish()]);
            recorder.arena.clear();
            recorder.commands = 0;
            recorder.counts.submissions += 1;
        }
    }

    /// Returns the encoder, after ending the current pass.
    fn encoder<'a>(&self, recorder: &'a mut Recorder) -> &'a mut wgpu::CommandEncoder {
        recorder.pass = None;
        recorder.encoder.get_or_insert_with(|| self.device.create_command_encoder(&Default::default()))
    }

    /// Returns the pass of a run of `shader`: one pass for many runs, or one pass per run if runs are timed.
    fn pass<'a>(&self, recorder: &'a mut Recorder, shader: &str, bytes: u64) -> &'a mut wgpu::ComputePass<'static> {
        if recorder.pass.is_none() || recorder.profile.is_some() {
            self.encoder(recorder);
            let encoder = recorder.encoder.as_mut().expect("just made");
            let timestamp_writes = recorder.profile.as_mut().map(|profile| profile.note(shader, bytes));
            let pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes });
            recorder.pass = Some(pass.forget_lifetime());
        }
        recorder.pass.as_mut().expect("just begun")
    }
}

/// Returns two axes of at most `limit` with `groups` workgroups or a few more. Group (x, y) is number y·X + x.
fn folded(groups: usize, limit: usize) -> [u32; 2] {
    let rows = groups.div_ceil(limit);
    assert!(rows <= limit, "{groups} workgroups are more than a device takes, {limit}²");
    [groups.div_ceil(rows) as u32, rows as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workgroups_beyond_an_axis_are_folded() {
        assert_eq!([1, 65_535].map(|n| folded(n, 65_535)), [[1, 1], [65_535, 1]]);
        for groups in [65_536, 65_537, 131_070, 1 << 20, 123_456_789] {
            let [x, y] = folded(groups, 65_535).map(|n| n as usize);
            assert!(x <= 65_535 && y <= 65_535 && (groups..groups + y).contains(&(x * y)), "{groups}: {x} × {y}");
        }
    }
}
