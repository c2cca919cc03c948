//! `gradus audit cost`.

use gradus_bench::Workload;
use gradus_bench::cost::{self, Line};
use gradus_io::numbers::figure;
use gradus_io::progress::{Job, Monitor};

use super::{Page, Talk};
use crate::common::flag;
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// What a training step costs, op by op, against the machine's matrix products and memory
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus audit cost                                   # the workload tiny
  gradus audit cost --workload small --threads 2 --html cost.html
  gradus audit cost --workload gpt1 --steps 3 --json

The workloads are those of `gradus bench train`. A step is made on one tape, whose kernels share its work; training itself cuts a \
batch into shards, so that its steps are somewhat faster. FLOPs are what the ops state, which the audit of ops proves; the rate counts \
both ways as thrice the forward's. The report has the ops under the roof of product and memory, and the memory held over the step.")]
pub struct Cost {
    /// Which piece of work
    #[arg(long, value_name = "NAME", default_value = "tiny", value_parser = Workload::NAMES)]
    workload: String,
    /// Steps, of which medians are taken
    #[arg(long, value_name = "N", default_value_t = 5)]
    steps: usize,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    talk: Talk,
}

impl Cost {
    /// Runs it.
    pub fn run(&self) -> Result<(), CliError> {
        self.talk.threads.start()?;
        if !(1..=10_000).contains(&self.steps) {
            return Err(flag("--steps", self.steps, "a number from 1 to 10000"));
        }
        self.page.check()?;
        let workload = Workload::named(&self.workload).expect("clap knows the names");
        let mut progress = Display::choose(self.talk.quiet).begin(Job::new("measuring", self.steps as u64, "steps"));
        let cost = cost::cost(&workload, self.steps, |step| progress.reach(step as u64))?;
        progress.finish();
        self.page.write(|| cost.report().render())?;
        if self.talk.json {
            return output::json(&cost);
        }
        let print = |lines: &[Line]| {
            let line = |[name, rest @ ..]: [String; 10]| {
                let rest: String = rest.iter().map(|cell| format!("{cell:>17}")).collect();
                output::line(&format!("{name:<22}{rest}"))
            };
            line(cost::Cost::HEADS.map(str::to_owned))?;
            cost.rows(lines).into_iter().try_for_each(line)
        };
        print(&cost.ops)?;
        output::line("")?;
        print(&cost.places)?;
        output::line(&format!(
            "\n{} ms a step, {} ms of it around the ops; at most {} MB; the fastest product {} GFLOP/s, memory {} GB/s",
            figure(cost.step_ms),
            figure(cost.rest_ms),
            figure(cost.peak_mb()),
            figure(cost.gemm_gflops),
            figure(cost.bandwidth_gb_per_second)
        ))
    }
}
