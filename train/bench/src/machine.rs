//! What this machine can do, to measure work against.

use std::time::Instant;

use gradus_tensor::Tensor;
use gradus_tensor::rng::Philox;
use rayon::prelude::*;

use crate::workload::Workload;

/// The seconds that a piece of work takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// The median, the upper of two in the middle; 0 for none.
pub fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// 10⁹ FLOP/s of the fastest product A (m, k) · B (k, n) of 1024³ and of a workload's own shapes, a block's and the output's.
pub fn gemm_gflops(workload: &Workload) -> f64 {
    let (n, d, v) = (workload.tokens() / workload.accumulate, workload.config.width, workload.config.vocab);
    let gradient_of_weights = (d, n, 4 * d);
    let output = [(n.min(256), d, v), (n.min(256), v, d)];
    fastest_product(block_products(n, d).into_iter().chain([gradient_of_weights]).chain(output))
}

/// The shapes (m, k, n) of a block's products over n tokens.
pub fn block_products(n: usize, d: usize) -> [(usize, usize, usize); 4] {
    [(n, d, 3 * d), (n, d, d), (n, d, 4 * d), (n, 4 * d, d)]
}

/// 10⁹ FLOP/s of the fastest of some products (m, k, n), 1024³ among them.
pub fn fastest_product(shapes: impl IntoIterator<Item = (usize, usize, usize)>) -> f64 {
    std::iter::once((1024, 1024, 1024)).chain(shapes).map(product_gflops).fold(0.0, f64::max)
}

fn product_gflops((m, k, n): (usize, usize, usize)) -> f64 {
    let mut rng = Philox::new(0);
    let (a, b) = (Tensor::<f32>::normal([m, k], 1.0, &mut rng), Tensor::<f32>::normal([k, n], 1.0, &mut rng));
    let (mut best, begin) = (f64::INFINITY, Instant::now());
    while best.is_infinite() || begin.elapsed().as_millis() < 300 {
        best = best.min(seconds(|| drop(a.matmul(&b))));
    }
    2.0 * (m * k * n) as f64 / best / 1e9
}

/// Bytes that a pass through memory reads: far more than a cache holds.
pub const PASS_BYTES: usize = 1 << 28;

/// The seconds that it takes all threads to read `memory` once and to add it up in vectors.
pub fn read_through(memory: &[f32]) -> f64 {
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

/// Bytes per second that all threads read from memory, only adding them up.
pub fn bandwidth() -> f64 {
    let memory = vec![1.0; PASS_BYTES / size_of::<f32>()];
    PASS_BYTES as f64 / median(&mut [(); 5].map(|()| read_through(&memory)))
}

/// The most bytes of memory this process has held: Linux's `VmHWM`.
pub fn peak_rss() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
