//! What this machine can do, to measure work against.

use std::time::Instant;

use gradus_io::numbers::median;
use gradus_tensor::buffer::{self, PoolStats};
use gradus_tensor::rng::Philox;
use gradus_tensor::{Device, Tensor};
use rayon::prelude::*;

use crate::workload::Workload;

/// The seconds that a piece of work takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// The same, until `device` is done; panics where it fails, as a method that returns no error does.
pub fn seconds_on(device: &Device, work: impl FnOnce()) -> f64 {
    seconds(|| {
        work();
        device.wait().unwrap_or_else(|error| panic!("{error}"));
    })
}

/// 10⁹ FLOP/s of the fastest product A (m, k) · B (k, n) of 1024³ and of a workload's own shapes, a block's and the output's.
pub fn gemm_gflops(workload: &Workload) -> f64 {
    let (n, d, v) = (workload.tokens() / workload.accumulate, workload.config.width, workload.config.vocab);
    let gradient_of_weights = (d, n, 4 * d);
    let rows = workload.rows_of_logits();
    let output = [(rows, d, v), (rows, v, d)];
    fastest_product(&workload.device, block_products(n, d).into_iter().chain([gradient_of_weights]).chain(output))
}

/// The shapes (m, k, n) of a block's products over n tokens.
pub fn block_products(n: usize, d: usize) -> [(usize, usize, usize); 4] {
    [(n, d, 3 * d), (n, d, d), (n, d, 4 * d), (n, 4 * d, d)]
}

/// 10⁹ FLOP/s of the fastest of some products (m, k, n), 1024³ among them.
pub fn fastest_product(device: &Device, shapes: impl IntoIterator<Item = (usize, usize, usize)>) -> f64 {
    let gflops = |(m, k, n)| {
        let [a, b] = [[m, k], [k, n]].map(|shape| random(device, shape));
        2.0 * (m * k * n) as f64 / fastest(device, || drop(a.matmul(&b))) / 1e9
    };
    std::iter::once((1024, 1024, 1024)).chain(shapes).map(gflops).fold(0.0, f64::max)
}

/// Independent draws from N(0, 1) on a device; panics where it fails.
pub fn random(device: &Device, shape: [usize; 2]) -> Tensor<f32> {
    Tensor::normal(shape, 1.0, &mut Philox::new(0)).to(device).unwrap_or_else(|error| panic!("{error}"))
}

/// The seconds that `work` takes at best, of repetitions that take 0.3 s together. Those on a GPU are measured in groups of about
/// 20 ms, after one to warm up: to start and to await a group takes its own time.
pub fn fastest(device: &Device, work: impl Fn()) -> f64 {
    let (mut best, mut group) = (f64::INFINITY, 1);
    if *device != Device::Cpu {
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

/// Bytes that a pass through memory reads: far more than a cache holds.
const PASS_BYTES: usize = 1 << 28;

/// The seconds that it takes all threads to read `memory` once and to add it up in vectors.
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

/// Memory to be read through again and again.
pub enum Passes {
    /// By the CPU's threads.
    Host(Vec<f32>),
    /// By a GPU: two tensors, since one alone may be more than it takes.
    Device(Device, Tensor<f32>),
}

impl Passes {
    /// On a device; panics where it fails.
    pub fn on(device: &Device) -> Self {
        let n = PASS_BYTES / size_of::<f32>();
        if *device == Device::Cpu {
            return Passes::Host(vec![1.0; n]);
        }
        Passes::Device(device.clone(), random(device, [1, 1]).full_like([n / 2], 1.0))
    }

    /// Bytes per second of one pass, whose elements are only added up.
    pub fn bandwidth(&self) -> f64 {
        let seconds = match self {
            Passes::Host(memory) => read_through(memory),
            Passes::Device(device, memory) => seconds_on(device, || (0..2).for_each(|_| drop(memory.sum_all()))),
        };
        PASS_BYTES as f64 / seconds
    }
}

/// Bytes per second that a device reads from its memory, only adding them up: the median of five passes.
pub fn bandwidth(device: &Device) -> f64 {
    let passes = Passes::on(device);
    median(&mut [(); 5].map(|()| passes.bandwidth()))
}

/// What a device's buffers hold; a GPU's working space is in buffers like all others.
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

/// The most bytes of memory this process has held: Linux's `VmHWM`.
pub fn peak_rss() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
