//! `gradus audit cost`.

use gradus_bench::Workload;
use gradus_bench::cost;
use gradus_io::numbers::figure;
use gradus_io::progress::Job;

use super::{Page, Talk, columns};
use crate::common::{On, within};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// Measure the cost of a training step, op by op, against the machine's matrix products and memory
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus audit cost                                   # the workload tiny
  gradus audit cost --workload small --threads 2 --html cost.html
  gradus audit cost --workload gpt1 --steps 3 --json
  gradus audit cost --workload small --device gpu

The workloads are those of `gradus bench train`. A step is made on one tape, and its kernels use all threads; training itself \
cuts a batch into shards, so its steps are somewhat faster. FLOPs are those that the ops state (`gradus audit ops` checks them); \
the rate counts forward and backward together as three times the forward FLOPs. The report has a roofline of the ops, and the \
memory held over the step.

With --device gpu, the times of ops are the GPU's own, by timestamps around each shader; if the GPU has none, the CPU waits for \
each op, and the output states this. With timestamps, the output also has the number of shaders run for an op (dispatches) and \
the bytes of the bound buffers. A third
table has both shader by shader. Memory is the GPU's.")]
pub struct Args {
    /// Workload to measure
    #[arg(long, value_name = "NAME", default_value = "tiny", value_parser = Workload::NAMES)]
    workload: String,
    /// Number of sequences per step, instead of the workload's
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Measure a BERT of the same sizes instead of a GPT; it predicts this fraction of its tokens (BERT's: 0.15)
    #[arg(long, value_name = "X")]
    masked: Option<f64>,
    /// Number of steps; times are medians over them
    #[arg(long, value_name = "N", default_value_t = 5)]
    steps: usize,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.start()?;
    within("steps", args.steps, 1..=10_000, "")?;
    args.page.check()?;
    let mut workload = Workload::named(&args.workload).expect("clap knows the names").on(args.on.open_for_training()?);
    if let Some(share) = args.masked {
        workload = workload.masked(share)?;
    }
    workload.sequences = args.batch.unwrap_or(workload.sequences);
    within("batch", workload.sequences, 1..=1 << 20, "")?;
    let job = Job::new("measuring", args.steps as u64, "steps");
    let cost = Display::choose(args.talk.quiet).during(job, |reach| Ok(cost::cost(&workload, args.steps, reach)?))?;
    args.page.write(|| cost.report().render())?;
    if args.talk.json {
        return output::json(&cost);
    }
    columns([22, 17], std::iter::once(cost.heads()).chain(cost.rows(&cost.ops)))?;
    output::line("")?;
    columns([22, 17], std::iter::once(cost.heads()).chain(cost.rows(&cost.places)))?;
    if !cost.shaders.is_empty() {
        let rows = cost.shader_rows();
        let width = rows.iter().map(|row| row[0].chars().count()).max().unwrap_or_default();
        output::line("")?;
        columns([width, 17], [cost::Cost::SHADER_HEADS.map(str::to_owned)].into_iter().chain(rows))?;
        output::line(&format!("\n{}", cost.clock.note().trim_end()))?;
    }
    let [ms, rest, peak, gemm, memory] =
        [cost.step_ms, cost.rest_ms, cost.peak_mb(), cost.gemm_gflops, cost.bandwidth_gb_per_second].map(figure);
    output::line(&format!(
        "\n{ms} ms per step, {rest} ms of it around the ops; at most {peak} MB; the fastest matrix product {gemm} GFLOP/s, \
         memory {memory} GB/s"
    ))
}
