//! Verdicts on the claims of a finished reproduction, from the same differences, under the current and the previous decision
//! rule:
//! `cargo run --release -p gradus-paper --example verdicts -- runs/eight`.
//!
//! The previous rule, with three seeds or more: *shown* if the mean exceeds two sample deviations of a seed, *towards it* between
//! one and two, *undecided* within one, and likewise for negative means. With fewer seeds, *shown* becomes *towards it*. The
//! sample deviation measures the spread of single seeds, not the uncertainty of the mean. The previous rule accounts neither for
//! the smallest relevant effect nor for the number of claims.

use std::path::Path;

use gradus_io::progress::Silent;
use gradus_paper::{ReproduceError, Watch, resume};

/// Returns the verdict of the previous rule.
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
