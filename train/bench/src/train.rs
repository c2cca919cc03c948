//! How fast this machine trains.

use std::time::Instant;

use gradus_autograd::Tape;
use gradus_io::numbers::median;
use gradus_model::{Batch, DropoutSeed, Gpt, Tree};
use gradus_tensor::Device;
use gradus_tensor::device::Counts;
use gradus_train::collective::AdditionTree;
use gradus_train::trainer::{TrainError, Trainer};
use serde::Serialize;

use crate::cost::{CostRow, profiled_step};
use crate::machine::{gemm_gflops, memory, peak_rss};
use crate::profile::ShaderRow;
use crate::workload::{Workload, recipe};

/// What training costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainReport {
    /// The workload's name.
    pub workload: &'static str,
    /// What computed.
    pub device: String,
    /// The precision of the factors of matrix products: f32 or f16.
    pub products_in: String,
    /// Threads.
    pub threads: usize,
    /// Number of parameters.
    pub parameters: usize,
    /// Tokens per step.
    pub tokens_per_step: usize,
    /// Parts of a step, one after the other.
    pub accumulate: usize,
    /// Logical shards of a part.
    pub shards: usize,
    /// Whether activations were recomputed, a block at a time.
    pub recompute: bool,
    /// Steps measured, after the warm-up.
    pub steps: usize,
    /// Dropout everywhere.
    pub dropout: f64,
    /// The share of tokens asked of a model that fills masks; `None`: each predicts the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masked: Option<f64>,
    /// Tokens per second, by the median step.
    pub tokens_per_second: f64,
    /// The median step, in milliseconds.
    pub step_ms: f64,
    /// The median step that is watched for non-finite numbers, where every second one is.
    pub watched_step_ms: Option<f64>,
    /// Most memory the process has held, in MB (10⁶ bytes); `None` where the system does not say.
    pub peak_rss_mb: Option<f64>,
    /// 10⁹ FLOP/s by [`Workload::flops`] per token, whatever a kernel manages to skip.
    pub gflops: f64,
    /// The same by [`Workload::needed_flops`], without what a causal mask hides.
    pub needed_gflops: f64,
    /// 10⁹ FLOP/s of the fastest matrix product, of 1024³ and of the workload's own shapes.
    pub gemm_gflops: f64,
    /// The loss of the last step, in nats per token.
    pub final_loss: f64,
    /// Where the memory was.
    pub memory: Memory,
    /// What a step asked of a GPU; `None` on a CPU.
    pub gpu: Option<GpuStep>,
}

/// What the mean step of those that were timed asked of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuStep {
    /// Shaders run.
    pub dispatches: f64,
    /// Groups of commands handed to it.
    pub submissions: f64,
    /// Times that the CPU waited for it.
    pub waits: f64,
    /// Bytes of data sent to it, parameters of shaders apart.
    pub sent_bytes: f64,
    /// Bytes read from it.
    pub read_bytes: f64,
    /// Buffers made.
    pub buffers_made: f64,
    /// The ops of one step more, of one shard, the longest first; `None` where the GPU has no timestamps.
    pub ops: Option<Vec<CostRow>>,
    /// Its shaders, timed one by one, in ops and around them.
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

/// Bytes of every class of buffer on the device, and how they overlap: gradients take the place of activations as a backward
/// pass goes on, so that the whole is less than the sum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// The parameters.
    pub parameters: usize,
    /// A gradient of each for every shard of a part, and in a step of several parts the sums that wait for others, at most.
    pub gradients: usize,
    /// Both moments of each.
    pub moments: usize,
    /// What the forward pass of a part left for its backward pass; when recomputing, the blocks' inputs and what one block
    /// leaves. Measured as the growth of the buffers in use.
    pub activations: usize,
    /// Most working space lent to kernels at once; `None` on a GPU, where it is in buffers like all others.
    pub scratch: Option<usize>,
    /// Most that buffers of all classes came to at once.
    pub live_peak: usize,
    /// Beyond that, what the pool keeps between buffers in use.
    pub idle_at_peak: usize,
    /// Most memory the process has held; `None` where the system does not say.
    pub peak_rss: Option<usize>,
    /// The rest of it, without the CPU's buffers: the program, its stacks, the tokens, a GPU's driver.
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
            scratch: (*device == Device::Cpu).then_some(stats.scratch_bytes),
            live_peak: stats.peak_bytes,
            idle_at_peak: stats.held_bytes - stats.peak_bytes,
            peak_rss,
            outside: peak_rss.map(|rss| rss.saturating_sub(memory(&Device::Cpu).held_bytes)),
        }
    }
}

/// Growth of the buffers in use over a forward pass with all that is kept of it alive.
fn activation_bytes(trainer: &Trainer, device: &Device, batch: &Batch, recompute: bool) -> usize {
    let gpt = trainer.params.gpt().expect("workloads are of Transformers");
    let (config, dropout) = (gpt.config(), Some(DropoutSeed::new(0, 1)));
    let before = memory(device).live_bytes;
    if !recompute {
        let tape = Tape::new();
        let _loss = gpt.leaves(&tape).loss(batch, dropout);
        // The gradient of the output's matrix is made with the loss; it is counted among the gradients.
        return memory(device).live_bytes - before - size_of::<f32>() * config.output_rows() * config.width;
    }
    let (inputs, _) = gpt.inputs_of_blocks(&Tape::off(), &batch.side, dropout);
    let tape = Tape::new();
    let input = tape.leaf(inputs[0].clone());
    let _output = gpt.leaves(&tape).h.0[0].forward(&input, &batch.side.sight, dropout);
    memory(device).live_bytes - before
}

/// Trains on random tokens: forward, backward, clipping to norm 1 and Adam in every step; `after(step)` is called after each.
///
/// # Errors
/// The trainer's.
pub fn train(workload: &Workload, steps: usize, warm_up: usize, mut after: impl FnMut(usize)) -> Result<TrainReport, TrainError> {
    let &Workload { ref config, sequences, accumulate, shards, recompute, ref device, .. } = workload;
    let recipe = recipe(accumulate * shards, shards, recompute);
    let mut trainer: Trainer = Trainer::new(recipe, Gpt::init(config, 0));
    trainer.place(device).map_err(|error| TrainError::Device { step: 1, error })?;
    let (mut times, mut watched) = (Vec::with_capacity(steps), Vec::new());
    let (mut final_loss, mut begun) = (f64::NAN, None);
    for step in 0..warm_up + steps {
        trainer.watches = workload.anomaly && step % 2 == 1;
        let batch = workload.batch(sequences, step as u64);
        if step == warm_up {
            begun = device.counts();
            // What measures kernels, once, needs memory of its own.
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
    // Before the products below touch memory of their own.
    let part = workload.batch(sequences.div_ceil(accumulate), 0);
    let gradients = AdditionTree::new(trainer.recipe.addition, accumulate * shards).most_held(shards);
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
        products_in: device.products().to_string(),
        threads: rayon::current_num_threads(),
        parameters: config.parameters(),
        tokens_per_step: workload.tokens(),
        accumulate,
        shards,
        recompute,
        steps,
        dropout: config.resid_dropout,
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
