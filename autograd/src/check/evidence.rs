//! The results of all witnesses for an op, over many draws.

use super::{Failure, Report, Subject, WITNESSES};

/// The results of one witness on every draw of an op's samples.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The name of the witness.
    pub witness: &'static str,
    /// The number of samples checked.
    pub cases: usize,
    /// The number of comparisons.
    pub compared: usize,
    /// The report with the error nearest to its tolerance; `None` if nothing was compared.
    pub worst: Option<Report>,
    /// The failure of the first rejected sample.
    pub refused: Option<Box<Failure>>,
}

/// Returns the draws of [`evidence()`]: seeds from 0, sizes from 1 to 5 in turn.
pub fn draws(n: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..n).map(|seed| (seed, 1 + seed as usize % 5))
}

/// Runs every witness on `n` draws of an op's samples.
///
/// ```
/// use gradus_autograd::check;
/// let gelu = check::subjects().into_iter().find(|s| s.name() == "gelu").unwrap();
/// for evidence in check::evidence(&gelu, 8) {
///     assert!(evidence.refused.is_none());
///     println!("{}: {} numbers, worst {:?}", evidence.witness, evidence.compared, evidence.worst.map(|w| w.error()));
/// }
/// ```
pub fn evidence(op: &Subject, n: u64) -> Vec<Evidence> {
    let cases: Vec<_> = draws(n).flat_map(|(seed, size)| op.cases(seed, size)).collect();
    let of = |&(witness, check): &(&'static str, super::Witness)| {
        let mut all = Evidence { witness, cases: cases.len(), compared: 0, worst: None, refused: None };
        for case in &cases {
            match check(case) {
                Err(failure) => {
                    all.refused.get_or_insert(failure);
                }
                Ok(report) => {
                    all.compared += report.compared;
                    let share = |r: &Report| if r.error() == 0.0 { 0.0 } else { r.error() / r.tolerance };
                    if report.worst.is_some() && all.worst.as_ref().is_none_or(|worst| share(&report) > share(worst)) {
                        all.worst = Some(report);
                    }
                }
            }
        }
        all
    };
    WITNESSES.iter().map(of).collect()
}
