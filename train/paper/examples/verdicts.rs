//! The claims of a finished reproduction by the decision rule and by the rule before it, from the same differences:
//! `cargo run --release -p gradus-paper --example verdicts -- runs/eight`.
//!
//! The rule before it: with three seeds or more, *shown* where the mean is above two sample deviations of a seed; between one and two,
//! or with fewer seeds, *towards it*; within one, *undecided*; and mirrored. It says how far one seed may lie from the next, not how sure
//! the mean is, and neither how large an effect matters nor how many claims are judged.

use std::path::Path;

use gradus_io::progress::Silent;
use gradus_paper::{ReproduceError, Watch, resume};

/// The verdict of the rule before.
fn before(differences: &[f64]) -> &'static str {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let s = (differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let enough = differences.len() >= 3;
    match mean.abs() {
        size if !size.is_finite() => "not measured",
        size if size < 1e-9 || size <= s => "undecided",
        size if enough && size > 2.0 * s => ["against it", "shown"][usize::from(mean > 0.0)],
        _ => ["away from it", "towards it"][usize::from(mean > 0.0)],
    }
}

fn main() -> Result<(), ReproduceError> {
    let dir = std::env::args().nth(1).unwrap_or("runs/eight".into());
    let made = resume(Path::new(&dir), &Watch { monitor: &Silent, samples: false })?;
    println!("| Claim | Here | Before | By the decision rule |\n|-|-|-|-|");
    for claim in &made.claims {
        let (before, now) = (before(&claim.differences), claim.judgement.words());
        let mark = if now.split(';').next() == Some(before) { "" } else { "**" };
        println!("| {} | {} | {before} | {mark}{now}{mark} |", claim.statement, claim.ours);
    }
    Ok(())
}
