//! `gradus bench scaling`.

use gradus_bench::{Growth, SWEEPS, Sweep, scaling};
use gradus_io::numbers::figure;
use gradus_io::progress::Job;
use serde::Serialize;

use crate::common::{Talk, within};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// Measure how time and memory grow with context, width, depth and vocabulary.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Measure how time and memory grow with context, width, depth and vocabulary: each alone is doubled four times, \
        around a small model (2 blocks, d 128, heads of 64, 4 × 128 tokens, a vocabulary of 500, no dropout; 1 sequence for the \
        context, 1 sequence and 1 block for the vocabulary), and a power law is fitted to the cost by least squares in log–log. `attention` is that op alone, forward and backward, 2 heads of 64.\n\n\
        ms is the fastest repetition of a whole training step, or of the op. The power of the FLOPs, masked scores counted too, is \
        what the power of the time would be if every FLOP were equally fast. Powers of memory are those of its increments from point to \
        point, in which a constant drops out. saved is what the forward pass keeps for the derivative, peak the most that buffers \
        held at once, parameters and moments included (MB are 10⁶ bytes). Prints Markdown.",
    after_long_help = "Examples:\n  \
        gradus bench scaling --threads 2\n  \
        gradus bench scaling --sweep attention --sweep width --repeats 10 --json"
)]
pub struct Scaling {
    /// Size to double; may be given several times; by default all.
    #[arg(long, value_name = "NAME", value_parser = SWEEPS.map(|s| s.name))]
    sweep: Vec<String>,
    /// Number of repetitions of each point; the fastest counts.
    #[arg(long, value_name = "N", default_value_t = 7)]
    repeats: usize,
    #[command(flatten)]
    talk: Talk,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    threads: usize,
    sweeps: Vec<Growth>,
}

pub fn run(args: &Scaling) -> Result<(), CliError> {
    args.talk.start()?;
    within("repeats", args.repeats, 1..=super::MOST_ROUNDS, "")?;
    let chosen = |sweep: &Sweep| args.sweep.is_empty() || args.sweep.iter().any(|name| name == sweep.name);
    let mut sweeps = Vec::new();
    for sweep in SWEEPS.into_iter().filter(chosen) {
        let job = Job::new(sweep.name, sweep.values.len() as u64, "points");
        sweeps.push(Display::choose(args.talk.quiet).during(job, |reach| Ok(scaling(sweep, args.repeats, reach)?))?);
    }
    let report = Report { threads: rayon::current_num_threads(), sweeps };
    if args.talk.json { output::json(&report) } else { output::write(&markdown(&report.sweeps)) }
}

fn markdown(sweeps: &[Growth]) -> String {
    let mut text = String::from("| | size | ms | GFLOP | saved, MB | peak, MB |\n|-|-|-|-|-|-|\n");
    for sweep in sweeps {
        let mut label = sweep.of;
        for p in &sweep.points {
            let [saved, peak] = [p.saved_bytes, p.peak_bytes].map(|bytes| figure(bytes as f64 / 1e6));
            text += &format!("| {label} | {} | {} | {} | {saved} | {peak} |\n", p.value, figure(p.ms), figure(p.gflop));
            label = "";
        }
    }
    text += "\n| power of | time | FLOPs | saved | peak | expected for large sizes |\n|-|-|-|-|-|-|\n";
    for s in sweeps {
        text += &format!("| {} | {:.2} | {:.2} | {:.2} | {:.2} | {} |\n", s.name, s.time, s.flops, s.saved, s.peak, s.expected);
    }
    text
}
