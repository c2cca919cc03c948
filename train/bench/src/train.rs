//! The rate of training on this machine.

use std::time::Instant;

use gradus_autograd::Tape;
use gradus_collective::AdditionTree;
use gradus_io::numbers::median;
use gradus_model::{Batch, DropoutSeed, Model, Tree};
use gradus_tensor::Device;
use gradus_tensor::device::Counts;
use gradus_train::trainer::{TrainError, Trainer};
use serde::Serialize;

use crate::cost::{CostRow, profiled_step};
use crate::machine::{gemm_gflops, memory, peak_rss};
use crate::profile::ShaderRow;
use crate::workload::{Workload, recipe};

/// The results of the benchmark of training.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainReport {
    /// The workload's name.
    pub workload: &'static str,
    /// The device.
    pub device: String,
    /// The precision of the factors of matrix products: f32, f16 or bf16.
    pub products_in: String,
    /// The number of threads.
    pub threads: usize,
    /// The number of parameters.
    pub parameters: usize,
    /// The number of tokens per step.
    pub tokens_per_step: usize,
    /// The number of micro-batches of a step.
    pub accumulate: usize,
    /// The number of logical shards of a micro-batch.
    pub shards: usize,
    /// Whether activations were recomputed, a block at a time.
    pub recompute: bool,
    /// The number of steps measured, after the warm-up.
    pub steps: usize,
    /// The dropout probability in all places.
    pub dropout: f64,
    /// The fraction of masked tokens if the model predicts masked tokens; `None` if it predicts the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masked: Option<f64>,
    /// Tokens per second, by the median step.
    pub tokens_per_second: f64,
    /// The median time of a step, in milliseconds.
    pub step_ms: f64,
    /// The median time of a step that checks for non-finite numbers, if every second one does.
    pub watched_step_ms: Option<f64>,
    /// The peak memory of the process, in MB (10⁶ bytes); `None` if the system does not report it.
    pub peak_rss_mb: Option<f64>,
    /// The rate in 10⁹ FLOP/s by [`Workload::flops`] per token, including FLOPs that a kernel skips.
    pub gflops: f64,
    /// The rate in 10⁹ FLOP/s by [`Workload::needed_flops`], without FLOPs hidden by a causal mask.
    pub needed_gflops: f64,
    /// The rate of the fastest matrix product in 10⁹ FLOP/s, over 1024³ and the workload's shapes.
    pub gemm_gflops: f64,
    /// The loss of the last step, in nats per token.
    pub final_loss: f64,
    /// The breakdown of the memory.
    pub memory: Memory,
    /// The GPU's work in a step; `None` on a CPU.
    pub gpu: Option<GpuStep>,
}

/// The GPU's work in a step, the mean over the measured steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuStep {
    /// The number of shaders run.
    pub dispatches: f64,
    /// The number of submitted command buffers.
    pub submissions: f64,
    /// The number of times that the CPU waited for the GPU.
    pub waits: f64,
    /// The bytes of data sent to the GPU, without parameters of shaders.
    pub sent_bytes: f64,
    /// The bytes read from the GPU.
    pub read_bytes: f64,
    /// The number of buffers created.
    pub buffers_made: f64,
    /// The ops of one more step, of one shard, the longest first; `None` if the GPU has no timestamps.
    pub ops: Option<Vec<CostRow>>,
    /// The shaders of that step, in and outside ops.
    pub shaders: Option<Vec<ShaderRow>>,
}

impl GpuStep {
    fn between(before: &Counts, after: &Counts, steps: usize) -> Self {
        let each = |of: fn(&Counts) -> u64| (of(after) - of(before)) as f64 / steps as f64;
        GpuStep {
            dispatches: each(|c| c.dispatches),
            submissions: each(|c| c.submissions),
            waits: each(|c| c.waits),
            sent_bytes: each(|c| c.sent_bytes),
            read_bytes: each(|c| c.read_bytes),
            buffers_made: each(|c| c.buffers_made),
            ops: None,
            shaders: None,
        }
    }
}

/// The bytes of every class of buffer on the device. Gradients replace activations during a backward pass, so that the peak is less
/// than the sum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// The parameters.
    pub parameters: usize,
    /// The largest total of gradients: one set per shard of a micro-batch, and the sums that wait for other micro-batches.
    pub gradients: usize,
    /// The two moments of each parameter.
    pub moments: usize,
    /// The memory that the forward pass of a micro-batch keeps for its backward pass; when recomputing, the blocks' inputs and the
    /// memory of one block. Measured as the growth of the buffers in use.
    pub activations: usize,
    /// The peak of working space in kernels; `None` on a GPU, where it is in buffers like all others.
    pub scratch: Option<usize>,
    /// The peak of the sum over all classes of buffers.
    pub live_peak: usize,
    /// The memory that the pool keeps at that time between the buffers in use.
    pub idle_at_peak: usize,
    /// The peak memory of the process; `None` if the system does not report it.
    pub peak_rss: Option<usize>,
    /// The rest of the process's memory, without the CPU's buffers: the program, its stacks, the tokens, a GPU's driver.
    pub outside: Option<usize>,
}

impl Memory {
    fn measure(trainer: &Trainer, device: &Device, batch: &Batch, gradients: usize, recompute: bool) -> Self {
        let (stats, peak_rss) = (memory(device), peak_rss());
        let parameters = size_of::<f32>() * trainer.params.config().parameters();
        Memory {
            parameters,
            gradients: parameters * gradients,
            moments: 2 * parameters,
            activations: activation_bytes(trainer, device, batch, recompute),
            scratch: (device.is_cpu()).then_some(stats.scratch_bytes),
            live_peak: stats.peak_bytes,
            idle_at_peak: stats.held_bytes - stats.peak_bytes,
            peak_rss,
            outside: peak_rss.map(|rss| rss.saturating_sub(memory(&Device::CPU).held_bytes)),
        }
    }
}

/// Returns the growth of the buffers in use over a forward pass whose saved tensors are alive.
fn activation_bytes(trainer: &Trainer, device: &Device, batch: &Batch, recompute: bool) -> usize {
    let gpt = trainer.params.transformer().expect("workloads are of Transformers");
    let (sizes, dropout) = (gpt.sizes(), Some(DropoutSeed::new(0, 1)));
    let before = memory(device).live_bytes;
    if !recompute {
        let tape = Tape::new();
        let _loss = trainer.params.leaves(&tape).loss(batch, dropout);
        // The gradient of the output's matrix is computed with the loss; it counts as a gradient.
        return memory(device).live_bytes - before - size_of::<f32>() * gpt.config().output_rows(sizes) * sizes.width;
    }
    let (inputs, _) = gpt.inputs_of_blocks(&Tape::off(), &batch.input, dropout);
    let tape = Tape::new();
    let input = tape.leaf(inputs[0].clone());
    let _output = gpt.leaves(&tape).h.0[0].forward(&input, &batch.input.attention(), dropout);
    memory(device).live_bytes - before
}

/// Trains on random tokens: forward, backward, clipping to norm 1 and Adam in every step; `after(step)` is called after each.
///
/// # Errors
/// Returns the trainer's errors.
pub fn train(workload: &Workload, steps: usize, warm_up: usize, mut after: impl FnMut(usize)) -> Result<TrainReport, TrainError> {
    let &Workload { sequences, accumulate, shards, recompute, ref device, .. } = workload;
    let recipe = recipe(accumulate * shards, shards, recompute);
    let mut trainer: Trainer = Trainer::new(recipe, Model::init(&workload.model(), 0));
    trainer.place(device).map_err(|error| TrainError::Device { step: 1, error })?;
    let (mut times, mut watched) = (Vec::with_capacity(steps), Vec::new());
    let (mut final_loss, mut begun) = (f64::NAN, None);
    for step in 0..warm_up + steps {
        trainer.watches = workload.anomaly && step % 2 == 1;
        let batch = workload.batch(sequences, step as u64);
        if step == warm_up {
            begun = device.counts();
            // The one-time selection of kernels allocates memory that does not count.
            device.reset_peak();
        }
        let begin = Instant::now();
        final_loss = trainer.step(&batch)?.loss;
        if step >= warm_up {
            if trainer.watches { &mut watched } else { &mut times }.push(begin.elapsed().as_secs_f64());
        }
        after(step + 1);
    }
    let mut gpu = begun.zip(device.counts()).map(|(before, after)| GpuStep::between(&before, &after, steps));
    // Measured before the products below allocate memory.
    let part = workload.batch(sequences.div_ceil(accumulate), 0);
    let gradients = AdditionTree::new(accumulate * shards).most_held(shards);
    let memory = Memory::measure(&trainer, device, &part, gradients, recompute);
    if let Some(gpu) = &mut gpu {
        let shard = workload.batch(sequences / (accumulate * shards), 0);
        (gpu.ops, gpu.shaders) = profiled_step(&mut trainer, device, &shard)?.unzip();
    }
    drop(trainer);
    let seconds = median(&mut times);
    let tokens_per_second = workload.tokens() as f64 / seconds;
    Ok(TrainReport {
        workload: workload.name,
        device: device.to_string(),
        products_in: device.matmul_precision().to_string(),
        threads: rayon::current_num_threads(),
        parameters: workload.model().parameters(),
        tokens_per_step: workload.tokens(),
        accumulate,
        shards,
        recompute,
        steps,
        dropout: workload.config.resid_dropout,
        masked: workload.masked,
        tokens_per_second,
        step_ms: 1e3 * seconds,
        watched_step_ms: workload.anomaly.then(|| 1e3 * median(&mut watched)),
        peak_rss_mb: memory.peak_rss.map(|bytes| bytes as f64 / 1e6),
        gflops: workload.flops() * tokens_per_second / 1e9,
        needed_gflops: workload.needed_flops() * tokens_per_second / 1e9,
        gemm_gflops: gemm_gflops(workload),
        final_loss,
        memory,
        gpu,
    })
}
