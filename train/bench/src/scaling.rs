//! The growth of cost with the model's sizes.
//!
//! One size at a time is doubled from a small base, and a power law is fitted to the cost:
//!
//! ```text
//! y ≈ a·xᵖ        p = Σ (ln x − mean)(ln y − mean) / Σ (ln x − mean)²        least squares in log–log
//! ```
//!
//! A cost of several terms, such as a constant and a linear one, has a p between their powers. So the power of the time is
//! reported next to that of the FLOPs over the same points: if every FLOP were equally fast, the two would be equal. Bytes are
//! exact, so their constant can be removed: p is fitted to the increments from point to point, which over doubling sizes grow as
//!
//! ```text
//! (c + a·(2x)ᵖ) − (c + a·xᵖ) = (2ᵖ − 1)·a·xᵖ
//! ```

use std::time::Instant;

use gradus_autograd::Tape;
use gradus_autograd::ops::Attention;
use gradus_model::{Model, ModelConfig, Sizes, TransformerConfig, Tree};
use gradus_tensor::Mask;
use gradus_tensor::rng::Philox;
use gradus_tensor::{Tensor, buffer};
use gradus_train::trainer::{TrainError, Trainer};
use serde::Serialize;

use crate::workload::{random_windows, recipe};

/// A sweep over one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The sweep's name: `attention`, or the size of the model that grows.
    pub name: &'static str,
    /// A description of the measurement.
    pub of: &'static str,
    /// The sizes.
    pub values: &'static [usize],
    /// The expected growth of time and of the memory saved for the derivative.
    pub expected: &'static str,
}

/// All sweeps.
pub const SWEEPS: [Sweep; 5] = [
    Sweep {
        name: "attention",
        of: "attention alone, against the context",
        values: &[256, 512, 1024, 2048, 4096],
        expected: "time 2; saved 1",
    },
    Sweep {
        name: "context",
        of: "a step of one sequence, against its length",
        values: &[128, 256, 512, 1024, 2048],
        expected: "time 1 (tokens) to 2 (attention); saved 1",
    },
    Sweep {
        name: "width",
        of: "a step, against the width",
        values: &[64, 128, 256, 512, 1024],
        expected: "time 1 (attention, output) to 2 (products); saved 1",
    },
    Sweep {
        name: "depth",
        of: "a step, against the number of blocks",
        values: &[1, 2, 4, 8, 16],
        expected: "time 1 and a constant; saved 1",
    },
    Sweep {
        name: "vocabulary",
        of: "a step, against the vocabulary",
        values: &[4_000, 8_000, 16_000, 32_000, 64_000],
        expected: "time 1 and a constant; saved 1, the gradient of the output's matrix",
    },
];

/// The cost at one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The size.
    pub value: usize,
    /// The fastest repetition, in milliseconds.
    pub ms: f64,
    /// The number of FLOPs in 10⁹, masked scores included.
    pub gflop: f64,
    /// The bytes that the forward pass keeps for the derivative.
    pub saved_bytes: usize,
    /// The peak of bytes in buffers, parameters and moments included.
    pub peak_bytes: usize,
}

/// A sweep's points and the powers fitted to them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// The sweep's name.
    pub name: &'static str,
    /// A description of the measurement.
    pub of: &'static str,
    /// The points, the smallest size first.
    pub points: Vec<Point>,
    /// The power of the time.
    pub time: f64,
    /// The power of the FLOPs.
    pub flops: f64,
    /// The power of the increments of the bytes saved.
    pub saved: f64,
    /// The power of the increments of the bytes in use.
    pub peak: f64,
    /// The expected powers for large sizes.
    pub expected: &'static str,
}

/// Measures one sweep; `after(i)` is called after its i-th point, from 1. Each point is repeated `repeats` times after a warm-up.
///
/// # Errors
/// Returns the trainer's errors.
pub fn scaling(sweep: Sweep, repeats: usize, mut after: impl FnMut(usize)) -> Result<Growth, TrainError> {
    let mut points = Vec::with_capacity(sweep.values.len());
    for &value in sweep.values {
        points.push(if sweep.name == "attention" { attention(value, repeats) } else { step(sweep.name, value, repeats)? });
        after(points.len());
    }
    let power_of = |y: fn(&Point) -> f64| power(points.iter().map(|p| (p.value as f64, y(p))));
    let growth_of =
        |y: fn(&Point) -> usize| power(points.windows(2).map(|p| (p[0].value as f64, y(&p[1]) as f64 - y(&p[0]) as f64)));
    Ok(Growth {
        name: sweep.name,
        of: sweep.of,
        time: power_of(|p| p.ms),
        flops: power_of(|p| p.gflop),
        saved: growth_of(|p| p.saved_bytes),
        peak: growth_of(|p| p.peak_bytes),
        expected: sweep.expected,
        points,
    })
}

/// Returns the least-squares slope of ln y over ln x.
fn power(points: impl Iterator<Item = (f64, f64)>) -> f64 {
    let logs: Vec<(f64, f64)> = points.map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let (mx, my) = logs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    let (top, bottom) = logs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + (x - mx) * (y - my), b + (x - mx).powi(2)));
    top / bottom
}

/// Runs `work` once to warm up, then `repeats` times. Returns the shortest time in milliseconds and the peak of bytes in buffers.
fn measure(repeats: usize, mut work: impl FnMut() -> Result<(), TrainError>) -> Result<(f64, usize), TrainError> {
    work()?;
    buffer::reset_peak();
    let mut best = f64::INFINITY;
    for _ in 0..repeats.max(1) {
        let begin = Instant::now();
        work()?;
        best = best.min(1e3 * begin.elapsed().as_secs_f64());
    }
    Ok((best, buffer::stats().peak_bytes))
}

/// Measures attention: two heads of 64 over a packed [q | k | v] of `context` tokens, forward and backward.
fn attention(context: usize, repeats: usize) -> Point {
    const HEADS: usize = 2;
    const WIDTH: usize = 128;
    let idle = buffer::stats().live_bytes;
    let packed = Tensor::<f32>::normal([1, context, 3 * WIDTH], 1.0, &mut Philox::new(0));
    let mut saved_bytes = 0;
    let work = || {
        let tape = Tape::new();
        let x = tape.leaf(packed.clone());
        let before = buffer::stats().live_bytes;
        let y = x.self_attention(HEADS, Attention::new(Mask::Causal));
        saved_bytes = buffer::stats().live_bytes - before;
        tape.backward(&y.sum_all());
        Ok(())
    };
    let (ms, peak) = measure(repeats, work).expect("nothing here fails");
    // Forward: q·kᵀ and p·v; backward: p again, and four more products. Each 2·T²·D per head.
    let gflop = 14.0 * (context * context * WIDTH) as f64 / 1e9;
    Point { value: context, ms, gflop, saved_bytes, peak_bytes: peak - idle }
}

/// Measures a training step of 4 sequences of 128 tokens, 2 blocks of d 128 and a vocabulary of 500, except for the size that
/// grows. For the vocabulary it has 1 sequence and 1 block, so that the output dominates.
fn step(name: &str, value: usize, repeats: usize) -> Result<Point, TrainError> {
    let mut sizes = Sizes { vocab: 500, context: 128, width: 128 };
    let mut config = TransformerConfig { layers: 2, ..Default::default() }.with_dropout(0.0);
    let mut sequences = 4;
    match name {
        "context" => (sizes.context, sequences) = (value, 1),
        "width" => sizes.width = value,
        "depth" => config.layers = value,
        _ => (sizes.vocab, config.layers, sequences) = (value, 1, 1),
    }
    config.heads = sizes.width / 64;
    let gflop = (config.training_flops(sizes) as usize * sequences * sizes.context) as f64 / 1e9;
    let idle = buffer::stats().live_bytes;
    let mut trainer: Trainer = Trainer::new(recipe(1, 1, false), Model::init(&ModelConfig::new(sizes, config), 0));
    let batch = random_windows(sizes, sequences, 0);
    let (ms, peak) = measure(repeats, || trainer.step(&batch).map(drop))?;
    let tape = Tape::new();
    let leaves = trainer.params.leaves(&tape);
    let before = buffer::stats().live_bytes;
    let _loss = leaves.loss(&batch, None);
    let saved_bytes = buffer::stats().live_bytes - before;
    Ok(Point { value, ms, gflop, saved_bytes, peak_bytes: peak - idle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_of_a_power_law_is_found() {
        let points = |p: f64| (1..6).map(move |i| (f64::from(1 << i), 3.0 * f64::from(1 << i).powf(p)));
        for p in [-1.0, 0.0, 1.0, 1.7, 2.0] {
            assert!((power(points(p)) - p).abs() < 1e-12, "{p}");
        }
        // A constant plus a linear term: between 0 and 1.
        let mixed = power((1..6).map(|i| (f64::from(i), 2.0 + f64::from(i))));
        assert!((0.2..0.8).contains(&mixed), "{mixed}");
    }

    #[test]
    fn every_sweep_doubles_one_size() {
        for sweep in SWEEPS {
            assert!(sweep.values.windows(2).all(|w| w[1] == 2 * w[0]), "{sweep:?}");
        }
    }
}
