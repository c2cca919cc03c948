//! The peak rates of this machine, with which other rates are compared.

use std::time::Instant;

use gradus_io::numbers::median;
use gradus_tensor::buffer::{self, PoolStats};
use gradus_tensor::rng::Philox;
use gradus_tensor::{Device, Tensor};
use rayon::prelude::*;

use crate::workload::Workload;

/// Returns the duration of a piece of work, in seconds.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// Returns the duration of a piece of work in seconds, including the wait for `device`. Panics if the device fails.
pub fn seconds_on(device: &Device, work: impl FnOnce()) -> f64 {
    seconds(|| {
        work();
        device.wait().unwrap_or_else(|error| panic!("{error}"));
    })
}

/// Returns the rate of the fastest product A (m, k) · B (k, n) in 10⁹ FLOP/s, over 1024³ and the shapes of a workload's blocks and
/// output.
pub fn gemm_gflops(workload: &Workload) -> f64 {
    let (n, d, v) = (workload.tokens() / workload.accumulate, workload.sizes.width, workload.sizes.vocab);
    let gradient_of_weights = (d, n, 4 * d);
    let rows = workload.rows_of_logits();
    let output = [(rows, d, v), (rows, v, d)];
    fastest_product(&workload.device, block_products(n, d).into_iter().chain([gradient_of_weights]).chain(output))
}

/// Returns the shapes (m, k, n) of a block's products over n tokens.
pub fn block_products(n: usize, d: usize) -> [(usize, usize, usize); 4] {
    [(n, d, 3 * d), (n, d, d), (n, d, 4 * d), (n, 4 * d, d)]
}

/// Returns the rate of the fastest of some products (m, k, n) in 10⁹ FLOP/s, 1024³ included.
pub fn fastest_product(device: &Device, shapes: impl IntoIterator<Item = (usize, usize, usize)>) -> f64 {
    let gflops = |(m, k, n)| {
        let [a, b] = [[m, k], [k, n]].map(|shape| random(device, shape));
        2.0 * (m * k * n) as f64 / fastest(device, || drop(a.matmul(&b))) / 1e9
    };
    std::iter::once((1024, 1024, 1024)).chain(shapes).map(gflops).fold(0.0, f64::max)
}

/// Returns independent draws from N(0, 1) on a device. Panics if the device fails.
pub fn random(device: &Device, shape: [usize; 2]) -> Tensor<f32> {
    Tensor::normal(shape, 1.0, &mut Philox::new(0)).to(device).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the shortest time of `work` in seconds, over repetitions of 0.3 s in total. Work on a GPU is measured in groups of about
/// 20 ms, after a warm-up, since starting a group and waiting for it takes time.
pub fn fastest(device: &Device, work: impl Fn()) -> f64 {
    let (mut best, mut group) = (f64::INFINITY, 1);
    if !device.is_cpu() {
        seconds_on(device, &work);
        best = seconds_on(device, &work);
        group = (0.02 / best).clamp(1.0, 1000.0) as usize;
    }
    let begin = Instant::now();
    while best.is_infinite() || best < 0.3 && begin.elapsed().as_millis() < 300 {
        best = best.min(seconds_on(device, || (0..group).for_each(|_| work())) / group as f64);
    }
    best
}

/// The bytes that a pass reads: far more than a cache holds.
const PASS_BYTES: usize = 1 << 28;

/// Returns the time in seconds in which all threads read `memory` once and add it up in vectors.
fn read_through(memory: &[f32]) -> f64 {
    let sum = |piece: &[f32]| {
        let mut lanes = [0.0; 64];
        for line in piece.as_chunks::<64>().0 {
            lanes.iter_mut().zip(line).for_each(|(lane, x)| *lane += x);
        }
        lanes.iter().sum::<f32>()
    };
    seconds(|| {
        std::hint::black_box(memory.par_chunks(1 << 20).map(sum).sum::<f32>());
    })
}

/// Memory that is read repeatedly to measure bandwidth.
pub enum Passes {
    /// Memory read by the CPU's threads.
    Host(Vec<f32>),
    /// Memory read twice by a GPU: a tensor of the whole size may exceed the GPU's limit.
    Device(Device, Tensor<f32>),
}

impl Passes {
    /// Allocates the memory on a device. Panics if the device fails.
    pub fn on(device: &Device) -> Self {
        let n = PASS_BYTES / size_of::<f32>();
        if device.is_cpu() {
            return Passes::Host(vec![1.0; n]);
        }
        Passes::Device(device.clone(), random(device, [1, 1]).full_like([n / 2], 1.0))
    }

    /// Returns the bytes per second of one pass, which only adds up the numbers.
    pub fn bandwidth(&self) -> f64 {
        let seconds = match self {
            Passes::Host(memory) => read_through(memory),
            Passes::Device(device, memory) => seconds_on(device, || (0..2).for_each(|_| drop(memory.sum_all()))),
        };
        PASS_BYTES as f64 / seconds
    }
}

/// Returns the bytes per second that a device reads from its memory: the median of five passes.
pub fn bandwidth(device: &Device) -> f64 {
    let passes = Passes::on(device);
    median(&mut [(); 5].map(|()| passes.bandwidth()))
}

/// Returns the memory in a device's buffers. A GPU's working space is in buffers, too.
pub fn memory(device: &Device) -> PoolStats {
    match device.counts() {
        None => buffer::stats(),
        Some(counts) => {
            let [live_bytes, held_bytes, peak_bytes] =
                [counts.live_bytes, counts.held_bytes, counts.peak_bytes].map(|bytes| bytes as usize);
            PoolStats { slabs: 0, held_bytes, live_bytes, peak_bytes, scratch_bytes: 0 }
        }
    }
}

/// Returns the peak of this process's memory in bytes: Linux's `VmHWM`.
pub fn peak_rss() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
