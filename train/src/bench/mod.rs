//! How fast this machine trains, evaluates and generates, against what its matrix products could do.

mod evaluate;
mod scaling;

use std::time::{Duration, Instant};

use gradus_autograd::Tape;
use gradus_model::{Backward, Batch, Decoder, Gpt, GptConfig, Model, Noise, Tree};
use gradus_tensor::buffer;
use gradus_tensor::kernels::{Mat, MatMut, Onto};
use gradus_tensor::rng::Philox;
use gradus_tensor::{Real, Tensor};
use rayon::prelude::*;
use serde::Serialize;

use crate::optim::{Optimizer, Schedule};
use crate::trainer::{Recipe, TrainError, Trainer, default_shards};

pub use evaluate::{EvaluateReport, evaluate};
pub use scaling::{Growth, Point, SWEEPS, Sweep, scaling};

/// A fixed piece of training work, random tokens included.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// The model.
    pub config: GptConfig,
    /// Sequences a batch, each as long as the context.
    pub sequences: usize,
    /// Parts that a batch is computed in, one after the other; at most as many as sequences.
    pub accumulate: usize,
    /// Logical shards of a part, which threads share.
    pub shards: usize,
    /// Whether the activations of one block are held at a time.
    pub recompute: bool,
    /// Whether every second step is watched for numbers that are not finite.
    pub anomaly: bool,
}

impl Workload {
    /// The names, smallest first.
    pub const NAMES: [&'static str; 3] = ["tiny", "small", "gpt1"];

    /// A workload by name: `tiny` 16 × 128 tokens and a vocabulary of 2,000, `small` 8 × 256 and 8,000, `gpt1` 1 × 512 and
    /// 40,478.
    pub fn named(name: &str) -> Option<Self> {
        let (at, sequences, vocab) = match name {
            "tiny" => (0, 16, 2_000),
            "small" => (1, 8, 8_000),
            "gpt1" => (2, 1, 40_478),
            _ => return None,
        };
        let config = GptConfig { vocab, ..GptConfig::preset(name)? };
        Some(Workload {
            name: Self::NAMES[at],
            config,
            sequences,
            accumulate: 1,
            shards: default_shards(sequences),
            recompute: false,
            anomaly: false,
        })
    }

    /// Tokens a batch.
    pub fn tokens(&self) -> usize {
        self.sequences * self.config.context
    }
}

/// What training costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainReport {
    /// The workload's name.
    pub workload: &'static str,
    /// Threads.
    pub threads: usize,
    /// Number of parameters.
    pub parameters: usize,
    /// Tokens a step.
    pub tokens_per_step: usize,
    /// Parts of a step, one after the other.
    pub accumulate: usize,
    /// Logical shards of a part.
    pub shards: usize,
    /// Whether activations were computed again, a block at a time.
    pub recompute: bool,
    /// Steps measured, after the warm-up.
    pub steps: usize,
    /// Dropout everywhere.
    pub dropout: f64,
    /// Tokens a second, by the median step.
    pub tokens_per_second: f64,
    /// The median step, in milliseconds.
    pub step_ms: f64,
    /// The median step that is watched for numbers that are not finite, where every second one is.
    pub watched_step_ms: Option<f64>,
    /// Most memory the process has held, in MB (10⁶ bytes); `None` where the system does not say.
    pub peak_rss_mb: Option<f64>,
    /// 10⁹ FLOP/s at 72·L·d² + 6·d·V + 12·L·T·d a token, whatever a kernel manages to skip.
    pub gflops: f64,
    /// 10⁹ FLOP/s of the fastest matrix product, of 1024³ and of the workload's own shapes.
    pub gemm_gflops: f64,
    /// The loss of the last step, in nats a token.
    pub final_loss: f64,
    /// Where the memory was.
    pub memory: Memory,
}

/// Bytes of every class of buffer, and how they fit into one another: gradients take the place of activations as a backward
/// pass goes on, so that the whole is less than the sum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// The parameters.
    pub parameters: usize,
    /// A gradient of each for every shard of a part, and in a step of several parts the sum so far.
    pub gradients: usize,
    /// Both moments of each.
    pub moments: usize,
    /// What the forward pass of a part left for its backward pass; when recomputing, the blocks' inputs and what one block
    /// leaves. Measured as the growth of the buffers in use.
    pub activations: usize,
    /// Most that was lent to kernels as working space at once.
    pub scratch: usize,
    /// Most that buffers of all classes came to at once.
    pub live_peak: usize,
    /// Beyond that, what the pool keeps between buffers in use.
    pub idle_at_peak: usize,
    /// Most memory the process has held; `None` where the system does not say.
    pub peak_rss: Option<usize>,
    /// The rest of it: the program, its stacks, the tokens.
    pub outside: Option<usize>,
}

impl Memory {
    fn measure(trainer: &Trainer, batch: &Batch, gradients: usize, recompute: bool) -> Self {
        let (stats, peak_rss) = (buffer::stats(), peak_rss());
        let parameters = size_of::<f32>() * trainer.config.parameters();
        Memory {
            parameters,
            gradients: parameters * gradients,
            moments: 2 * parameters,
            activations: activation_bytes(trainer, batch, recompute),
            scratch: stats.scratch_bytes,
            live_peak: stats.peak_bytes,
            idle_at_peak: stats.held_bytes - stats.peak_bytes,
            peak_rss,
            outside: peak_rss.map(|rss| rss.saturating_sub(stats.held_bytes)),
        }
    }
}

/// Growth of the buffers in use over a forward pass with all that is kept of it alive.
fn activation_bytes(trainer: &Trainer, batch: &Batch, recompute: bool) -> usize {
    let (Some(config), Some(params), noise) = (trainer.config.gpt(), trainer.params.gpt(), Some(Noise::new(0, 1))) else {
        unreachable!("workloads are of Transformers");
    };
    let before = buffer::stats().live_bytes;
    if !recompute {
        let tape = Tape::new();
        let _loss = params.leaves(&tape).loss(config, batch, noise.as_ref());
        // The gradient of the output's matrix is made with the loss; it is counted among the gradients.
        return buffer::stats().live_bytes - before - size_of::<f32>() * config.output_rows() * config.width;
    }
    let (inputs, _) = params.inputs_of_blocks(&Tape::off(), config, batch, noise.as_ref());
    let tape = Tape::new();
    let input = tape.leaf(inputs[0].clone());
    let _output = params.leaves(&tape).h.0[0].forward(&input, config, 0, noise.as_ref());
    buffer::stats().live_bytes - before
}

/// Trains on random tokens: forward, backward, clipping to norm 1 and Adam in every step; `after(step)` is called after each.
///
/// # Errors
/// The trainer's.
pub fn train(workload: &Workload, steps: usize, warm_up: usize, mut after: impl FnMut(usize)) -> Result<TrainReport, TrainError> {
    let &Workload { ref config, sequences, accumulate, shards, recompute, .. } = workload;
    let recipe = recipe(accumulate * shards, shards, recompute);
    let mut trainer: Trainer = Trainer::new(config.clone(), recipe, Gpt::init(config, 0));
    let (mut times, mut watched) = (Vec::with_capacity(steps), Vec::new());
    let mut final_loss = f64::NAN;
    for step in 0..warm_up + steps {
        trainer.watches = workload.anomaly && step % 2 == 1;
        let batch = random_batch(config, sequences, step as u64);
        let begin = Instant::now();
        final_loss = trainer.update(&batch)?.loss;
        if step >= warm_up {
            if trainer.watches { &mut watched } else { &mut times }.push(begin.elapsed());
        }
        after(step + 1);
    }
    // Before the products below touch memory of their own.
    let part = random_batch(config, sequences.div_ceil(accumulate), 0);
    let memory = Memory::measure(&trainer, &part, shards + usize::from(accumulate > 1), recompute);
    drop(trainer);
    let seconds = median(&mut times).as_secs_f64();
    let tokens_per_second = workload.tokens() as f64 / seconds;
    Ok(TrainReport {
        workload: workload.name,
        threads: rayon::current_num_threads(),
        parameters: config.parameters(),
        tokens_per_step: workload.tokens(),
        accumulate,
        shards,
        recompute,
        steps,
        dropout: config.resid_dropout,
        tokens_per_second,
        step_ms: 1e3 * seconds,
        watched_step_ms: workload.anomaly.then(|| 1e3 * median(&mut watched).as_secs_f64()),
        peak_rss_mb: memory.peak_rss.map(|bytes| bytes as f64 / 1e6),
        gflops: config.training_flops() as f64 * tokens_per_second / 1e9,
        gemm_gflops: gemm_gflops(workload),
        final_loss,
        memory,
    })
}

/// A run that would never end.
pub(crate) fn recipe(shards: usize, at_once: usize, recompute: bool) -> Recipe {
    Recipe {
        optimizer: Optimizer::default(),
        schedule: Schedule::default(),
        updates: 100_000,
        clip: Some(1.0),
        shards,
        at_once,
        backward: if recompute { Backward::Recompute } else { Backward::Whole },
        seed: 0,
    }
}

/// Uniformly random tokens, each predicting the next.
pub(crate) fn random_batch(config: &GptConfig, sequences: usize, seed: u64) -> Batch {
    let (t, mut rng) = (config.context, Philox::new(seed));
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..sequences {
        let window: Vec<u32> = (0..=t).map(|_| rng.below(config.vocab as u64) as u32).collect();
        inputs.extend_from_slice(&window[..t]);
        targets.extend_from_slice(&window[1..]);
    }
    let weights = vec![1.0 / inputs.len() as f64; inputs.len()];
    Batch { sequences, inputs: inputs.into(), targets: targets.into(), weights: weights.into(), labels: None }
}

/// The rate of the fastest of these products A (m, k) · B (k, n): 1024³, and a block's and the output's at this batch.
pub(crate) fn gemm_gflops(workload: &Workload) -> f64 {
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

fn product_gflops(m: usize, k: usize, n: usize) -> f64 {
    let mut rng = Philox::new(0);
    let (a, b) = (Tensor::<f32>::normal([m, k], 1.0, &mut rng), Tensor::<f32>::normal([k, n], 1.0, &mut rng));
    let mut c = Tensor::<f32>::zeros([m, n]);
    let (a, b) = (a.as_slice(), b.as_slice());
    let (mut best, begin) = (Duration::MAX, Instant::now());
    while best == Duration::MAX || begin.elapsed() < Duration::from_millis(300) {
        let start = Instant::now();
        let a = Mat { data: a, rows: m, cols: k, row_stride: k, col_stride: 1 };
        let b = Mat { data: b, rows: k, cols: n, row_stride: n, col_stride: 1 };
        f32::kernels().matmul(a, b, MatMut { data: c.to_mut(), rows: m, cols: n, row_stride: n }, Onto::Nothing);
        best = best.min(start.elapsed());
    }
    2.0 * (m * k * n) as f64 / best.as_secs_f64() / 1e9
}

/// What generating costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GenerateReport {
    /// Threads.
    pub threads: usize,
    /// Number of parameters.
    pub parameters: usize,
    /// Tokens read at once, before the first is generated.
    pub prompt_tokens: usize,
    /// Reading them, in milliseconds (the median of three times).
    pub prompt_ms: f64,
    /// 10⁹ FLOP/s of that, at 24·L·d² + 4·L·t·d for token t and 2·d·V for the last.
    pub prompt_gflops: f64,
    /// 10⁹ FLOP/s of the fastest matrix product, of 1024³ and of the prompt's own shapes.
    pub gemm_gflops: f64,
    /// Tokens generated.
    pub tokens: usize,
    /// The median token, in milliseconds.
    pub token_ms: f64,
    /// Tokens a second, by the median token.
    pub tokens_per_second: f64,
    /// Bytes of weights that each token reads, keys and values not counted.
    pub weight_bytes_per_token: u64,
    /// 10⁹ bytes of weights a second, by the median token.
    pub weight_gb_per_second: f64,
    /// 10⁹ bytes a second that the same threads read from memory and do no more than add up: the median of passes between
    /// the tokens.
    pub bandwidth_gb_per_second: f64,
    /// The weights' rate as a share of the bandwidth; more than 1 where they stay in cache.
    pub share_of_bandwidth: f64,
}

/// Reads `prompt` random tokens and generates `tokens` more with the cache, which must fit the context.
pub fn generate(config: &GptConfig, params: &Gpt<Tensor<f32>>, prompt: usize, tokens: usize) -> GenerateReport {
    let (model_config, model) = (config.clone().into(), Model::from(params.clone()));
    let mut rng = Philox::new(0);
    let mut random = || rng.below(config.vocab as u64) as u32;
    let ids: Vec<u32> = (0..prompt).map(|_| random()).collect();
    let mut decoder = Decoder::new(&model, &model_config);
    let mut prompt_times = [(); 3].map(|()| {
        decoder = Decoder::new(&model, &model_config);
        let begin = Instant::now();
        decoder.read(&ids);
        begin.elapsed()
    });
    let memory = vec![1.0; PASS_BYTES / size_of::<f32>()];
    let (mut times, mut passes) = (Vec::with_capacity(tokens), Vec::new());
    for at in 0..tokens {
        // A pass empties the caches, but only one token in eight begins so: the median does not see it.
        if at % 8 == 0 {
            passes.push(read_through(&memory));
        }
        let (id, begin) = ([random()], Instant::now());
        decoder.read(&id);
        times.push(begin.elapsed());
    }
    drop(memory);
    let (seconds, prompt_seconds) = (median(&mut times).as_secs_f64(), median(&mut prompt_times).as_secs_f64());
    let bandwidth = PASS_BYTES as f64 / median(&mut passes).as_secs_f64();
    // Every block, and the output's matrix; of the position table a row.
    let mut weights = 0;
    params.as_ref().visit(|path, p| weights += if path.starts_with("positions_embed") { config.width } else { p.len() });
    let weight_bytes_per_token = 4 * weights as u64;
    let rate = weight_bytes_per_token as f64 / seconds;
    let (layers, d) = (config.layers, config.width);
    let flops = layers * (24 * prompt * d * d + 2 * prompt * (prompt + 1) * d) + 2 * d * config.output_rows();
    let shapes = [(1024, 1024, 1024), (prompt, d, 3 * d), (prompt, d, d), (prompt, d, 4 * d), (prompt, 4 * d, d)];
    GenerateReport {
        threads: rayon::current_num_threads(),
        parameters: config.parameters(),
        prompt_tokens: prompt,
        prompt_ms: 1e3 * prompt_seconds,
        prompt_gflops: flops as f64 / prompt_seconds / 1e9,
        gemm_gflops: shapes.into_iter().map(|(m, k, n)| product_gflops(m, k, n)).fold(0.0, f64::max),
        tokens,
        token_ms: 1e3 * seconds,
        tokens_per_second: 1.0 / seconds,
        weight_bytes_per_token,
        weight_gb_per_second: rate / 1e9,
        bandwidth_gb_per_second: bandwidth / 1e9,
        share_of_bandwidth: rate / bandwidth,
    }
}

/// Bytes that a pass through memory reads: far more than a cache holds.
const PASS_BYTES: usize = 1 << 28;

/// Reads all of `memory` once, on all threads, and adds it up in vectors.
fn read_through(memory: &[f32]) -> Duration {
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
pub(crate) fn bandwidth() -> f64 {
    let memory = vec![1.0; PASS_BYTES / size_of::<f32>()];
    let mut passes = [(); 5].map(|()| read_through(&memory));
    PASS_BYTES as f64 / median(&mut passes).as_secs_f64()
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The most bytes of memory this process has held: Linux's `VmHWM`.
fn peak_rss() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
