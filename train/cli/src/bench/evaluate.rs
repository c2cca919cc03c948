//! `gradus bench evaluate`.

use gradus_bench::{Workload, evaluate};
use gradus_io::numbers::figure;
use gradus_io::progress::Job;

use crate::common::{On, Talk, within};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// Time evaluation against only the forward pass.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Time evaluation against the forward pass alone, in turns over the same random tokens, 4,096 per pass.\n\n\
        tokens_per_second is evaluation as `gradus evaluate` does it: windows, forward pass, the loss of every token. \
        forward_tokens_per_second is the forward pass to the logits, hidden_tokens_per_second to the last hidden states, without \
        the output's product. All are medians over the passes, after a warm-up pass; of_forward is the first over the second. gflops counts \
        24·L·d² + 2·d·V + 4·L·T·d FLOPs per token, a third of training's; gemm_gflops is that of `gradus bench train`.",
    after_long_help = "Examples:\n  \
        gradus bench evaluate --workload small --passes 5 --threads 2 --json\n  \
        gradus bench evaluate --workload small --device gpu"
)]
pub struct Evaluate {
    /// Workload to measure: a model and a vocabulary, as in `gradus bench train`.
    #[arg(long, value_parser = Workload::NAMES, default_value = "tiny")]
    workload: String,
    /// Number of passes to time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    passes: usize,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Evaluate) -> Result<(), CliError> {
    args.talk.start()?;
    within("passes", args.passes, 1..=super::MOST_ROUNDS, "")?;
    let workload = Workload::named(&args.workload).expect("clap lets these names pass").on(args.on.open_for_training()?);
    let job = Job::new(workload.name, args.passes as u64 + 1, "passes");
    let report = Display::choose(args.talk.quiet).during(job, |reach| Ok(evaluate(&workload, args.passes, reach)?))?;
    if args.talk.json {
        return output::json(&report);
    }
    let [rate, forward, hidden] =
        [report.tokens_per_second, report.forward_tokens_per_second, report.hidden_tokens_per_second].map(figure);
    let [gflops, gemm] = [report.gflops, report.gemm_gflops].map(figure);
    output::line(&format!(
        "{rate} tokens/s, {:.0} % of the forward pass alone ({forward} tokens/s; {hidden} without the output), {gflops} \
         GFLOP/s of {gemm} in a matrix product",
        100.0 * report.of_forward
    ))
}
