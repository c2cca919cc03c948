//! `gradus bench`.

mod evaluate;
pub mod matmul;
mod scaling;

use std::path::PathBuf;

use clap::Subcommand;
use gradus_bench::cost::CostRow;
use gradus_bench::{GpuStep, ShaderRow, Workload, default_shards_on, generate, train};
use gradus_io::numbers::figure;
use gradus_io::progress::Job;
use gradus_model::Model;
use gradus_train::hyperparameters::{RangeError, require};

use crate::common::{On, Talk, Threads, open_model, within};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// Measure how fast this machine trains, evaluates and generates, and how cost grows with size.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "Examples:\n  \
    gradus bench train --workload small --dropout 0.1 --steps 20\n  \
    gradus bench train --workload small --device gpu\n  \
    gradus bench generate --preset gpt1 --tokens 50 --json\n  \
    gradus bench evaluate --workload small\n  \
    gradus bench matmul --workload small\n  \
    gradus bench scaling")]
pub enum Command {
    Train(Train),
    Generate(Generate),
    Evaluate(evaluate::Evaluate),
    Matmul(matmul::Matmul),
    Scaling(scaling::Scaling),
}

/// The maximum number of timed steps, passes or repetitions.
const MOST_ROUNDS: usize = 10_000;

/// Time whole training steps on random tokens.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Time whole training steps on random tokens: forward, backward, clipping to norm 1 and Adam in every step.\n\n\
        Workloads (sequences × tokens, vocabulary): tiny 16 × 128, 2,000; small 8 × 256, 8,000; gpt1 1 × 512, 40,478; each with \
        the preset of its name.\n\n\
        tokens_per_second and step_ms are those of the median step after the warm-up. gflops counts 72·L·d² + 6·d·V + 12·L·T·d \
        FLOPs per token, including those that a kernel skips (with --masked X the output's 6·d·V, and 6·d² of BERT's layer \
        before it, X times); needed_gflops leaves out what a causal mask hides (6·L·(T + 1)·d for attention), by which a GPT's \
        step and a BERT's are compared. gemm_gflops is the best rate in the same process and precision, with the same threads, of a \
        product of 1024³ and those of the workload's own shapes; it is measured after the peak memory (peak_rss_mb, 10⁶ bytes, \
        null if the system does not report it) is read. memory lists the bytes of every class of buffer: parameters, gradients, \
        moments, activations, the kernels' scratch, and the peak in use at once.\n\n\
        With --device gpu, products and buffers are the GPU's (peak_rss_mb stays the process's memory), and gpu has the means \
        over the timed steps of shaders run (dispatches), groups of commands handed over (submissions), waits for the GPU, bytes \
        sent and read, and buffers made. Then one more step, of one shard, is run, and its shaders are timed one by one by the \
        GPU's own clock: ops lists the ops as `gradus audit cost` does, shaders the shaders with dispatches, bytes bound and ms, \
        both the longest first (null where the GPU has no such clock).",
    after_long_help = "Examples:\n  \
        gradus bench train --workload tiny --dropout 0.1 --steps 20 --threads 2 --json\n  \
        gradus bench train --workload gpt1 --batch 64 --accumulate 64 --warm-up 0 --steps 1     # the paper's batch"
)]
pub struct Train {
    /// Workload to measure.
    #[arg(long, value_parser = Workload::NAMES, default_value = "tiny")]
    workload: String,
    /// Number of sequences per step, instead of the workload's.
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Number of micro-batches per batch (gradient accumulation), to save memory.
    #[arg(long, value_name = "N", default_value_t = 1)]
    accumulate: usize,
    /// Number of logical shards per micro-batch, computed in parallel. Rounding depends on it, not on the number of threads
    /// [default: 2; 1 for a part of one sequence, and on a GPU]
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Keep only each block's input, and recompute its activations in the backward pass: less memory, more time, the same bits.
    #[arg(long)]
    recompute: bool,
    /// Check every second step for non-finite numbers, as training does with --anomaly, and time those steps separately.
    #[arg(long)]
    anomaly: bool,
    /// Probability of dropout on embeddings, attention and residual branches, from 0 to below 1.
    #[arg(long, value_name = "P", default_value_t = 0.1)]
    dropout: f64,
    /// Measure a BERT of the same sizes instead of a GPT; it predicts this fraction of its tokens (BERT's: 0.15).
    #[arg(long, value_name = "X")]
    masked: Option<f64>,
    /// Number of steps to time.
    #[arg(long, value_name = "N", default_value_t = 10)]
    steps: usize,
    /// Number of untimed steps before the first timed step.
    #[arg(long, value_name = "N", default_value_t = 2)]
    warm_up: usize,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
}

/// Time generation with the cache of keys and values.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Time generation with the cache of keys and values: one token at a time, each reading every weight once. \
    weight_gb_per_second (10⁹ bytes) is the rate at which the weights are read, which memory bounds. bandwidth_gb_per_second is \
    the memory's rate: it is measured between the tokens, on the same threads or GPU, by summing numbers from memory. \
    share_of_bandwidth is the ratio of the two (above 1 if the weights stay in cache). The prompt is bounded by its matrix \
    products: prompt_gflops counts 24·L·d² + 4·L·t·d FLOPs for token t and 2·d·V for the last, gemm_gflops is the best rate of a \
    product of 1024³ and those of the prompt's own shapes.\n\n\
    With --device gpu, everything runs once before it is timed. The token in the middle is generated once more afterwards, and \
    `shaders` in `gpu` lists what ran for it, as in `bench train`.",
    after_long_help = "Examples:\n  \
        gradus bench generate --preset small --prompt-tokens 16 --tokens 100 --json\n  \
        gradus bench generate --model runs/novels --device gpu"
)]
pub struct Generate {
    /// Directory of a model; by default a preset with random weights.
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Preset: tiny or small, with the vocabulary of its workload, or gpt1.
    #[arg(long, value_parser = Workload::NAMES, default_value = "tiny", conflicts_with = "model")]
    preset: String,
    /// Number of prompt tokens, processed in one pass (prefill).
    #[arg(long, value_name = "N", default_value_t = 16)]
    prompt_tokens: usize,
    /// Number of tokens to generate.
    #[arg(long, value_name = "N", default_value_t = 64)]
    tokens: usize,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    threads: Threads,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

pub fn run(command: &Command) -> Result<(), CliError> {
    match command {
        Command::Train(args) => bench_train(args),
        Command::Generate(args) => bench_generate(args),
        Command::Evaluate(args) => evaluate::run(args),
        Command::Matmul(args) => matmul::run(args),
        Command::Scaling(args) => scaling::run(args),
    }
}

fn bench_train(args: &Train) -> Result<(), CliError> {
    args.talk.start()?;
    within("steps", args.steps, 1..=MOST_ROUNDS, "")?;
    within("warm-up", args.warm_up, 0..=MOST_ROUNDS, "")?;
    require("dropout", args.dropout, (0.0..1.0).contains(&args.dropout), "a probability from 0 to below 1")?;
    let mut workload = Workload::named(&args.workload).expect("clap lets these names pass").on(args.on.open_for_training()?);
    workload.config = workload.config.with_dropout(args.dropout);
    (workload.recompute, workload.anomaly, workload.accumulate) = (args.recompute, args.anomaly, args.accumulate);
    require("steps", args.steps, !args.anomaly || args.steps >= 2, "at least 2: --anomaly watches every second one")?;
    if let Some(share) = args.masked {
        workload = workload.masked(share)?;
    }
    workload.sequences = args.batch.unwrap_or(workload.sequences);
    within("batch", workload.sequences, 1..=1 << 20, "")?;
    within("accumulate", args.accumulate, 1..=workload.sequences, ", the sequences of a step")?;
    let part = workload.sequences / args.accumulate;
    workload.shards = args.shards.unwrap_or(default_shards_on(&workload.device, part));
    within("shards", workload.shards, 1..=part, ", the sequences of a part")?;
    let is_warm = args.warm_up > 0 || workload.device.is_cpu();
    require("warm-up", args.warm_up, is_warm, "at least 1 on a GPU, which compiles and measures its kernels in the first step")?;
    let steps = (args.warm_up + args.steps) as u64;
    let job = Job::new(workload.name, steps, "steps").counting("tokens", workload.tokens() as f64);
    let report = Display::choose(args.talk.quiet).during(job, |reach| Ok(train(&workload, args.steps, args.warm_up, reach)?))?;
    if args.talk.json {
        return output::json(&report);
    }
    let peak = report.peak_rss_mb.map_or("unknown".into(), |mb| format!("{} MB", figure(mb)));
    let [rate, ms, gflops, gemm] = [report.tokens_per_second, report.step_ms, report.gflops, report.gemm_gflops].map(figure);
    output::line(&format!(
        "{rate} tokens/s ({ms} ms per step), {gflops} GFLOP/s of {gemm} in a matrix product, peak memory {peak}"
    ))?;
    if let Some(watched) = report.watched_step_ms {
        let more = 100.0 * (watched / report.step_ms - 1.0);
        output::line(&format!("watched for non-finite numbers: {} ms per step, {more:+.1} %", figure(watched)))?;
    }
    report.gpu.as_ref().map_or(Ok(()), asked_of_gpu)?;
    let (m, mb) = (report.memory, |bytes: usize| figure(bytes as f64 / 1e6));
    let [parameters, gradients, moments] = [m.parameters, m.gradients, m.moments].map(mb);
    let [activations, peak, idle] = [m.activations, m.live_peak, m.idle_at_peak].map(mb);
    let scratch = m.scratch.map_or(String::new(), |bytes| format!(", scratch {}", mb(bytes)));
    let outside = m.outside.map_or("unknown".into(), mb);
    output::line(&format!(
        "memory in MB: parameters {parameters}, gradients {gradients}, moments {moments}, activations {activations}{scratch}; \
         at most {peak} in use at once, {idle} idle between; outside of buffers {outside}"
    ))
}

fn asked_of_gpu(step: &GpuStep) -> Result<(), CliError> {
    let GpuStep { dispatches, submissions, waits, sent_bytes, read_bytes, buffers_made, ref ops, ref shaders } = *step;
    let [dispatches, submissions, waits, sent, read, buffers] =
        [dispatches, submissions, waits, sent_bytes, read_bytes, buffers_made].map(figure);
    output::line(&format!(
        "GPU work per step: {dispatches} dispatches in {submissions} submissions, {waits} waits, {sent} bytes sent, {read} read, \
         {buffers} buffers made"
    ))?;
    if let Some(ops) = ops {
        let words = |row: &CostRow| format!("{} {} ms", row.name, figure(row.ms()));
        let first: Vec<String> = ops.iter().take(3).map(words).collect();
        output::line(&format!("ops that take longest there: {}", first.join("; ")))?;
    }
    longest(shaders.as_deref())
}

/// Prints the three shaders that take longest.
fn longest(shaders: Option<&[ShaderRow]>) -> Result<(), CliError> {
    let Some(shaders) = shaders else { return Ok(()) };
    let words = |row: &ShaderRow| {
        let ms = row.ms.map_or(String::new(), |ms| format!(" {} ms", figure(ms)));
        format!("{}{ms} in {} dispatches", row.name, row.dispatches)
    };
    let first: Vec<String> = shaders.iter().take(3).map(words).collect();
    output::line(&format!("shaders that take longest: {}", first.join("; ")))
}

fn bench_generate(args: &Generate) -> Result<(), CliError> {
    args.threads.start()?;
    let model = match &args.model {
        Some(path) => open_model(path)?.load()?,
        None => {
            let workload = Workload::named(&args.preset).expect("clap lets these names pass");
            Model::init(&workload.model(), 0)
        }
    };
    let context = model.sizes().context;
    within("prompt-tokens", args.prompt_tokens, 1..=context.saturating_sub(1), ", to leave room in the context")?;
    within("tokens", args.tokens, 1..=context - args.prompt_tokens, ", the rest of the context")?;
    let Some(gpt) = model.transformer() else {
        return Err(RangeError::new("model", args.model.as_deref().unwrap_or("".as_ref()).display(), "a Transformer").into());
    };
    let report = generate(gpt, &args.on.open_for_training()?, args.prompt_tokens, args.tokens)?;
    if args.json {
        return output::json(&report);
    }
    let [rate, ms, weights, memory] =
        [report.tokens_per_second, report.token_ms, report.weight_gb_per_second, report.bandwidth_gb_per_second].map(figure);
    let [prompt_ms, gflops, gemm] = [report.prompt_ms, report.prompt_gflops, report.gemm_gflops].map(figure);
    output::line(&format!(
        "{rate} tokens/s ({ms} ms per token), {weights} GB/s of weights, memory bandwidth {memory}; a prompt of {} tokens in \
         {prompt_ms} ms, {gflops} GFLOP/s of {gemm} in a matrix product",
        report.prompt_tokens
    ))?;
    longest(report.gpu.as_ref().and_then(|gpu| gpu.shaders.as_deref()))
}
