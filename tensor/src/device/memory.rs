//! A pool that recycles the buffers of a device.
//!
//! A step needs the same buffers every time, and a driver is slow to create one. A dropped buffer is kept, and serves the next
//! request of its size or less. Commands run in order, so a buffer may be reused before the device has run the commands that last
//! used it. Each tensor has a separate buffer, because a command cannot write one part of a buffer and read another. A shader
//! binds a buffer as a whole, or in windows if the buffer is longer than the adapter binds at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use wgpu::BufferUsages as Usage;

use super::DeviceError;
use super::gpu::{Gpu, lock};

/// Sizes are multiples of this many bytes: the alignment of a shader's binding, and a whole number of elements.
const UNIT: u64 = 256;
/// The most elements of a tensor. Shaders count elements in 32 bits, with room for the threads past the last element.
const MOST_ELEMENTS: u64 = (1 << 32) - (1 << 20);

/// An idle buffer may serve a request that is up to this many times smaller, if no buffer of a closer size is idle. In
/// fine-tuning each batch is as long as its longest row: the buffers of long batches then serve batches of a new length. This
/// also leaves less memory idle than separate buffers for each size.
const SPARE: u64 = 8;
/// The bytes that are requested from a driver at once, to measure its free memory.
const PIECE: u64 = 64 << 20;

/// The usages of a tensor's buffer.
const OF_TENSORS: Usage = Usage::STORAGE.union(Usage::COPY_SRC).union(Usage::COPY_DST);

/// The idle buffers, and the counts of buffers and bytes.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The idle buffers of tensors.
    idle: Idle,
    /// The idle buffers of transfers to the CPU.
    staging: Idle,
    made: u64,
    held: u64,
    live: u64,
    peak: u64,
}

/// Idle buffers by size.
#[derive(Debug, Default)]
struct Idle(BTreeMap<u64, Vec<wgpu::Buffer>>);

impl Idle {
    /// Takes the smallest buffer of at least `size` bytes, and of at most `most` bytes and [`SPARE`] times `size`.
    fn take(&mut self, size: u64, most: u64) -> Option<wgpu::Buffer> {
        let (&size, of_size) = self.0.range_mut(size..=(SPARE * size).min(most)).next()?;
        let raw = of_size.pop();
        if of_size.is_empty() {
            self.0.remove(&size);
        }
        raw
    }

    fn give(&mut self, raw: wgpu::Buffer) {
        self.0.entry(raw.size()).or_default().push(raw);
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|(size, all)| size * all.len() as u64).sum()
    }
}

/// The memory of one tensor, returned to the pool when dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    gpu: Arc<Gpu>,
    raw: wgpu::Buffer,
    /// The bytes of the tensor; the buffer may be longer.
    bytes: u64,
}

impl Buffer {
    /// Returns a buffer of `len` elements with arbitrary values.
    pub(crate) fn recycled(gpu: &Arc<Gpu>, len: usize) -> Self {
        let (bytes, most) = (4 * len as u64, gpu.largest());
        if bytes > most {
            gpu.fault.raise(|name| DeviceError::TooLarge { name, bytes, most });
        }
        let bytes = if bytes > most { 0 } else { bytes };
        Buffer { gpu: gpu.clone(), raw: gpu.take(bytes), bytes }
    }

    /// Returns the bindings of the buffer to a shader: one, or consecutive ranges.
    pub(super) fn windows(&self) -> impl ExactSizeIterator<Item = wgpu::BufferBinding<'_>> {
        let (size, window) = (self.bytes.max(1).next_multiple_of(UNIT), self.gpu.window());
        let count = size.div_ceil(window) as usize;
        (0..count).map(move |number| {
            let offset = number as u64 * window;
            wgpu::BufferBinding { buffer: &self.raw, offset, size: wgpu::BufferSize::new(window.min(size - offset)) }
        })
    }

    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    pub(super) fn raw(&self) -> &wgpu::Buffer {
        &self.raw
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.gpu.give(self.raw.clone());
    }
}

impl Gpu {
    /// Returns the most bytes of a tensor.
    fn largest(&self) -> u64 {
        self.limits.max_buffer_size.min(4 * MOST_ELEMENTS) / UNIT * UNIT
    }

    /// Returns the most bytes in one binding of a shader.
    pub(super) fn window(&self) -> u64 {
        self.limits.max_storage_buffer_binding_size / UNIT * UNIT
    }

    /// Returns a buffer of at least `bytes`, idle or new. If `bytes` fit into a window, so does the buffer.
    pub(super) fn take(&self, bytes: u64) -> wgpu::Buffer {
        let most = if bytes <= self.window() { self.window() } else { self.largest().max(bytes) };
        let size = rounded(bytes).min(most);
        let mut memory = lock(&self.memory);
        let raw = memory.idle.take(size, most).unwrap_or_else(|| self.made(&mut memory, size, OF_TENSORS));
        memory.live += raw.size();
        memory.peak = memory.peak.max(memory.live);
        raw
    }

    pub(super) fn give(&self, raw: wgpu::Buffer) {
        let mut memory = lock(&self.memory);
        memory.live -= raw.size();
        memory.idle.give(raw);
    }

    /// Returns a buffer of at least `bytes` for a transfer to the CPU, idle or new.
    pub(super) fn staging(&self, bytes: u64) -> wgpu::Buffer {
        let (size, mut memory) = (rounded(bytes), lock(&self.memory));
        let idle = memory.staging.take(size, u64::MAX);
        idle.unwrap_or_else(|| self.made(&mut memory, size, Usage::MAP_READ | Usage::COPY_DST))
    }

    /// Keeps the buffer for the next transfer to the CPU.
    pub(super) fn unstage(&self, raw: wgpu::Buffer) {
        raw.unmap();
        lock(&self.memory).staging.give(raw);
    }

    /// Returns a buffer with these bytes, for a transfer from the CPU.
    pub(super) fn staged(&self, bytes: &[u8]) -> wgpu::Buffer {
        let raw = self.made(&mut lock(&self.memory), bytes.len() as u64, Usage::MAP_WRITE | Usage::COPY_SRC);
        // If the buffer cannot be mapped, the device has raised its fault.
        if let Ok(mut to) = raw.get_mapped_range_mut(..) {
            to.copy_from_slice(bytes);
        }
        raw.unmap();
        raw
    }

    /// Creates a buffer. If the device is out of memory, frees the idle buffers and tries again. If that fails too, raises the
    /// fault and returns a buffer that every command rejects.
    fn made(&self, memory: &mut Memory, size: u64, usage: Usage) -> wgpu::Buffer {
        let mut made = self.try_make(size, usage);
        if made.is_err() {
            memory.held -= memory.idle.bytes();
            (memory.idle, memory.staging) = Default::default();
            self.wait();
            made = self.try_make(size, usage);
        }
        memory.made += 1;
        memory.held += if usage == OF_TENSORS { size } else { 0 };
        made.unwrap_or_else(|unusable| {
            let held = memory.live;
            self.fault.raise(|name| DeviceError::OutOfMemory { name, bytes: size, held });
            unusable
        })
    }

    /// Creates a buffer, mapped if the CPU writes it. The error is a buffer that every command rejects.
    fn try_make(&self, size: u64, usage: Usage) -> Result<wgpu::Buffer, wgpu::Buffer> {
        let scopes =
            [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Validation].map(|what| self.device.push_error_scope(what));
        let raw = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: usage.contains(Usage::MAP_WRITE),
        });
        let errors = scopes.into_iter().rev().filter_map(|scope| pollster::block_on(scope.pop())).count();
        if errors == 0 { Ok(raw) } else { Err(raw) }
    }

    /// Checks that there is memory for `needs`, each a purpose and its bytes. First compares with the size of the memory, if it
    /// is known. Then allocates as many bytes from the driver, which are freed at once.
    ///
    /// # Errors
    /// Returns an error, [`DeviceError::NoRoom`], if the memory is too small.
    pub(super) fn check_room(&self, needs: &[(&str, u64)]) -> Result<(), DeviceError> {
        let needed: u64 = needs.iter().map(|(_, bytes)| bytes).sum();
        let (live, idle) = {
            let memory = lock(&self.memory);
            (memory.live, memory.idle.bytes())
        };
        let there = match self.info.memory.map(|all| all.saturating_sub(live)) {
            Some(there) if there < needed => there,
            _ => idle + given(needed.saturating_sub(idle), |size| self.try_make(size, OF_TENSORS).ok()),
        };
        if there >= needed {
            return Ok(());
        }
        let of = |(what, bytes): &(&str, u64)| format!("{bytes} for {what}");
        let (name, what) = (self.info.name.clone(), needs.iter().map(of).collect::<Vec<_>>().join(", "));
        Err(DeviceError::NoRoom { name, there, needed, what })
    }

    /// Resets the peak of the bytes in use to the bytes in use now.
    pub(super) fn reset_peak(&self) {
        let mut memory = lock(&self.memory);
        memory.peak = memory.live;
    }

    pub(super) fn fill_counts(&self, counts: &mut super::Counts) {
        let memory = lock(&self.memory);
        (counts.buffers_made, counts.held_bytes, counts.live_bytes) = (memory.made, memory.held, memory.live);
        counts.peak_bytes = memory.peak;
    }
}

/// Returns how many of these bytes `make` allocates, in buffers that are dropped at once.
fn given<B>(bytes: u64, make: impl FnMut(u64) -> Option<B>) -> u64 {
    let pieces = (0..bytes).step_by(PIECE as usize).map(|from| rounded(PIECE.min(bytes - from)));
    let all: Vec<B> = pieces.map_while(make).collect();
    (all.len() as u64 * PIECE).min(bytes)
}

/// Rounds up by at most an eighth, so that nearly equal sizes share buffers.
fn rounded(bytes: u64) -> u64 {
    let step = (bytes.next_power_of_two() / 16).max(UNIT);
    bytes.max(1).next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::device::reading::Reading;
    use crate::device::testing::{Scarce, fresh};

    #[test]
    fn an_allocation_beyond_the_memory_is_an_error_with_its_size() {
        let Some(gpu) = fresh() else { return };
        let there = Buffer::recycled(&gpu, 1000);
        assert_eq!(gpu.check(), Ok(()));
        drop(gpu.take(1 << 50));
        let name = gpu.info().name.clone();
        assert_eq!(gpu.check(), Err(DeviceError::OutOfMemory { name, bytes: 1 << 50, held: there.raw.size() }));
        assert!(there.read(0..1).wait().is_err(), "what is read after a fault is that fault");
    }

    #[test]
    fn a_read_beyond_the_memory_is_an_out_of_memory_error() {
        let Some(gpu) = fresh() else { return };
        let there = Buffer::recycled(&gpu, 1000);
        let (name, held) = (gpu.info().name.clone(), there.raw.size());
        let error = there.read(0..1 << 50).wait().unwrap_err();
        assert_eq!(error, DeviceError::OutOfMemory { name, bytes: 4 << 50, held });
    }

    #[test]
    fn reads_reuse_the_staging_buffer_of_their_size() {
        let Some(gpu) = fresh() else { return };
        let x = gpu.send(&[1.0f32, 2.0, 3.0]);
        let made = || gpu.counts().buffers_made;
        let before = made();
        assert_eq!(x.read(0..3).wait(), Ok(vec![1.0, 2.0, 3.0]));
        assert_eq!(made() - before, 1);
        drop(x.read(0..2)); // never waited for
        assert_eq!((x.read(1..3).wait(), made() - before), (Ok(vec![2.0, 3.0]), 1));
        let both = [x.read(0..1), x.read(1..2)];
        assert_eq!(both.map(Reading::wait), [Ok(vec![1.0]), Ok(vec![2.0])]);
        assert_eq!(made() - before, 2, "two at a time");
    }

    #[test]
    fn data_sent_to_the_gpu_reads_back_in_order() {
        let Some(gpu) = fresh() else { return };
        let numbers = |first: f32| (0..100_000).map(|i| first + i as f32).collect::<Vec<_>>();
        let sent = [1.0, 2.0].map(|first| gpu.send(&numbers(first)));
        assert_eq!(sent[0].read(0..100_000).wait(), Ok(numbers(1.0)));
        assert_eq!(pollster::block_on(sent[1].read(0..100_000)), Ok(numbers(2.0)), "awaited, not waited for");
    }

    #[test]
    fn a_lack_of_memory_is_reported_before_allocation() {
        let scarce = Scarce { memory_bytes: Some(10_000), ..Scarce::default() };
        let Some(device) = Device::fresh(scarce) else { return };
        let Device::Gpu(gpu) = &device else { panic!("a GPU") };
        let x = Buffer::recycled(gpu, 1024);
        assert_eq!(device.check_room(&[("parameters", 5000), ("moments", 904)]), Ok(()));
        let error = device.check_room(&[("parameters", 5000), ("moments", 905)]).unwrap_err();
        let (name, what) = (gpu.info().name.clone(), "5000 for parameters, 905 for moments".into());
        assert_eq!(error, DeviceError::NoRoom { name, there: 10_000 - x.raw.size(), needed: 5905, what });
        assert_eq!((gpu.check(), gpu.counts().live_bytes), (Ok(()), x.raw.size()), "nothing was taken");
    }

    /// Requests more memory than any machine has.
    #[test]
    fn the_driver_reports_its_memory() {
        let Some(gpu) = fresh() else { return };
        let Some(memory) = gpu.info().memory else { return assert_ne!(gpu.info().interface, "Vulkan") };
        let error = gpu.check_room(&[("parameters", 1 << 60)]).unwrap_err();
        assert!(matches!(error, DeviceError::NoRoom { there, .. } if there == memory), "{error}");
        assert_eq!(gpu.check_room(&[("parameters", PIECE + 1)]), Ok(()));
    }

    #[test]
    fn memory_is_probed_in_pieces_until_an_allocation_fails() {
        let mut requested = Vec::new();
        let mut request = |bytes| {
            given(bytes, |size| {
                requested.push(size);
                (requested.len() < 4).then_some(())
            })
        };
        assert_eq!([request(PIECE + 1), request(5 * PIECE), request(0)], [PIECE + 1, PIECE, 0]);
        assert_eq!(requested, [PIECE, UNIT, PIECE, PIECE]);
    }

    #[test]
    fn a_buffer_above_the_device_limit_is_an_error_with_the_limit() {
        let Some(gpu) = fresh() else { return };
        let most = gpu.largest();
        drop(Buffer::recycled(&gpu, (most / 4) as usize + 1));
        let name = gpu.info().name.clone();
        assert_eq!(gpu.check(), Err(DeviceError::TooLarge { name, bytes: most / 4 * 4 + 4, most }));
    }

    #[test]
    fn reading_from_a_destroyed_device_is_an_error() {
        let Some(gpu) = fresh() else { return };
        let x = gpu.send(&[1.0f32, 2.0]);
        assert_eq!(x.read(0..2).wait(), Ok(vec![1.0, 2.0]));
        gpu.device.destroy();
        let error = x.read(0..2).wait().unwrap_err();
        assert!(matches!(error, DeviceError::Lost { .. }), "{error:?}");
    }

    #[test]
    fn a_freed_buffer_is_reused_for_similar_sizes() {
        let Some(gpu) = fresh() else { return };
        let made = || gpu.counts().buffers_made;
        let before = made();
        drop(Buffer::recycled(&gpu, 10_000_000));
        let (first, second) = (Buffer::recycled(&gpu, 1_300_000), Buffer::recycled(&gpu, 10_000_000));
        assert_eq!(made() - before, 2, "one for both that came first, one beside it");
        drop(second);
        let small = Buffer::recycled(&gpu, 1_000_000);
        assert_eq!(made() - before, 3, "one that is more than eight times as large is kept for others");
        drop((first, small));
        drop(Buffer::recycled(&gpu, 10));
        assert!(gpu.counts().live_bytes < gpu.counts().peak_bytes);
        gpu.reset_peak();
        assert_eq!(gpu.counts().live_bytes, gpu.counts().peak_bytes);
    }

    #[test]
    fn sizes_are_rounded_by_an_eighth_at_most() {
        assert_eq!([0, 1, 256, 257, 4096, 4097].map(rounded), [256, 256, 256, 512, 4096, 4608]);
        for bytes in (1..1 << 20).step_by(77) {
            let size = rounded(bytes);
            assert!(size >= bytes && size.is_multiple_of(UNIT) && size <= bytes + bytes / 8 + UNIT, "{bytes} → {size}");
        }
    }
}
