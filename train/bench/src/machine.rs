//! What this machine can do, to measure work against.

use std::time::{Duration, Instant};

use gradus_tensor::Tensor;
use gradus_tensor::rng::Philox;
use rayon::prelude::*;

use crate::workload::Workload;

/// The rate of the fastest of these products A (m, k) · B (k, n): 1024³, and a block's and the output's at this batch.
pub fn gemm_gflops(workload: &Workload) -> f64 {
    let (n, d, v) = (workload.tokens() / workload.accumulate, workload.config.width, workload.config.vocab);
    let shapes = [
        (1024, 1024, 1024),
        (n, d, 3 * d),
        (n, d, d),
        (n, d, 4 * d),
        (n, 4 * d, d),
        (d, n, 4 * d), // a weight's gradient
        (n.min(256), d, v),
        (n.min(256), v, d),
    ];
    shapes.into_iter().map(|(m, k, n)| product_gflops(m, k, n)).fold(0.0, f64::max)
}

pub fn product_gflops(m: usize, k: usize, n: usize) -> f64 {
    let mut rng = Philox::new(0);
    let (a, b) = (Tensor::<f32>::normal([m, k], 1.0, &mut rng), Tensor::<f32>::normal([k, n], 1.0, &mut rng));
    let (mut best, begin) = (Duration::MAX, Instant::now());
    while best == Duration::MAX || begin.elapsed() < Duration::from_millis(300) {
        let start = Instant::now();
        let _product = a.matmul(&b);
        best = best.min(start.elapsed());
    }
    2.0 * (m * k * n) as f64 / best.as_secs_f64() / 1e9
}

/// Bytes that a pass through memory reads: far more than a cache holds.
pub const PASS_BYTES: usize = 1 << 28;

/// Reads all of `memory` once, on all threads, and adds it up in vectors.
pub fn read_through(memory: &[f32]) -> Duration {
    let sum = |piece: &[f32]| {
        let mut lanes = [0.0; 64];
        for line in piece.as_chunks::<64>().0 {
            for (lane, x) in lanes.iter_mut().zip(line) {
                *lane += x;
            }
        }
        lanes.iter().sum::<f32>()
    };
    let begin = Instant::now();
    std::hint::black_box(memory.par_chunks(1 << 20).map(sum).sum::<f32>());
    begin.elapsed()
}

/// Bytes a second that all threads read from memory and do no more than add up.
pub fn bandwidth() -> f64 {
    let memory = vec![1.0; PASS_BYTES / size_of::<f32>()];
    let mut passes = [(); 5].map(|()| read_through(&memory));
    PASS_BYTES as f64 / median(&mut passes).as_secs_f64()
}

pub fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The most bytes of memory this process has held: Linux's `VmHWM`.
pub fn peak_rss() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
