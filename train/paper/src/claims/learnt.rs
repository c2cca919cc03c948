//! Tasks that are learnt suddenly or never: a mean says little of them, the share of seeds that learnt them all.

use std::fmt;

use super::chance;
use crate::results::{Results, Variant, base};
use crate::ruler::statistics::shares;
use crate::tasks::bayes;

/// A task that was learnt suddenly or never: in how many seeds it was, and the share of all seeds that fits that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learnt {
    /// Seeds that did.
    pub seeds: usize,
    /// All seeds.
    pub of: usize,
    /// From, to.
    pub share: [f64; 2],
}

impl Learnt {
    /// The empty part of the way from guessing to the best possible score that divides those who learnt a task from the rest.
    const GAP: f64 = 0.4;

    /// From the parts of that way that the seeds went; `None` unless there are three or more, on both sides of a gap.
    fn of(mut ways: Vec<f64>) -> Option<Self> {
        ways.sort_by(f64::total_cmp);
        let mut gaps = (1..ways.len()).filter(|&at| ways[at] - ways[at - 1] >= Self::GAP);
        let (at, of) = (gaps.next_back()?, ways.len());
        (of >= 3).then(|| Learnt { seeds: of - at, of, share: shares(of - at, of, 0.95) })
    }
}

impl fmt::Display for Learnt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.share.map(|share| 100.0 * share);
        write!(f, "{} of {} ({low:.0}–{high:.0} %)", self.seeds, self.of)
    }
}

/// How many seeds learnt the task of a column, where it is learnt suddenly or never.
pub fn learnt(results: &Results, column: &str, variant: Variant) -> Option<Learnt> {
    let task = base(column);
    let (least, most) = (chance(task), bayes(task)?);
    // An accuracy beside the task's metric has other limits.
    let way = |seed| Some((results.one(seed, column, variant)? - least) / (most - least));
    if column.ends_with("-accuracy") { None } else { Learnt::of(results.each(way)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_on_both_sides_of_a_gap_are_counted() {
        let of = |ways: &[f64]| Learnt::of(ways.to_vec()).map(|learnt| learnt.to_string());
        let [two, sudden] = [of(&[0.0, 1.0]), of(&[0.9, 0.1, 0.05, 1.0, 0.97, 0.0, 0.93, 1.0])];
        assert_eq!([two, sudden], [None, Some("5 of 8 (24–91 %)".into())]);
        assert_eq!([of(&[0.1, 0.3, 0.6, 0.95]), of(&[0.9, 0.95, 1.0]), of(&[])], [None, None, None], "no gap");
        assert_eq!(of(&[0.0, 0.5, 1.0]), Some("1 of 3 (1–91 %)".into()), "above the highest");
    }
}
