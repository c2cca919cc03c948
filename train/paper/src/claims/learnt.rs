//! Tasks that are learnt suddenly or never: a mean says little of them, the share of seeds that learnt them all.

use std::fmt;

use super::chance;
use crate::results::{Results, Variant, base};
use crate::tasks::bayes;
use gradus_study::ruler::statistics::shares;

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

    /// The middle of that gap among the parts of the way that the seeds went; `None` unless there are three or more, on both sides.
    fn gap(mut ways: Vec<f64>) -> Option<f64> {
        ways.sort_by(f64::total_cmp);
        let mut pairs = ways.windows(2).filter(|pair| pair[1] - pair[0] >= Self::GAP);
        pairs.next_back().filter(|_| ways.len() >= 3).map(|pair| pair[0].midpoint(pair[1]))
    }

    /// The seeds that came further than `gap`.
    fn of(ways: &[f64], gap: f64) -> Self {
        let (seeds, of) = (ways.iter().filter(|&&way| way > gap).count(), ways.len());
        Learnt { seeds, of, share: shares(seeds, of, 0.95) }
    }
}

impl fmt::Display for Learnt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.share.map(|share| 100.0 * share);
        write!(f, "{} of {} ({low:.0}–{high:.0} %)", self.seeds, self.of)
    }
}

/// How many seeds learnt the task of a column, where it is learnt suddenly or never: by this variant, or else by one it is compared with.
pub fn learnt(results: &Results, column: &str, variant: Variant) -> Option<Learnt> {
    use Variant::{Full, Lstm, NoAux, NoPretraining};
    let task = base(column);
    let (least, most) = (chance(task), bayes(task)?);
    if column.ends_with("-accuracy") {
        return None; // beside the task's metric, it has other limits
    }
    let ways = |variant| results.each(|seed| Some((results.one(seed, column, variant)? - least) / (most - least)));
    let gap = [variant, Full, NoPretraining, NoAux, Lstm].into_iter().find_map(|variant| Learnt::gap(ways(variant)))?;
    Some(ways(variant)).filter(|ways| !ways.is_empty()).map(|ways| Learnt::of(&ways, gap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_on_both_sides_of_a_gap_are_counted() {
        let of = |ways: &[f64]| Learnt::gap(ways.to_vec()).map(|gap| Learnt::of(ways, gap).to_string());
        let [two, sudden] = [of(&[0.0, 1.0]), of(&[0.9, 0.1, 0.05, 1.0, 0.97, 0.0, 0.93, 1.0])];
        assert_eq!([two, sudden], [None, Some("5 of 8 (24–91 %)".into())]);
        assert_eq!([of(&[0.1, 0.3, 0.6, 0.95]), of(&[0.9, 0.95, 1.0]), of(&[])], [None, None, None], "no gap");
        assert_eq!(of(&[0.0, 0.5, 1.0]), Some("1 of 3 (1–91 %)".into()), "above the highest");
        // All or none, beside others that are divided: 1 − 0.025^(1/8) = 0.369.
        assert_eq!([0.1, 0.9].map(|way| Learnt::of(&[way; 8], 0.5).to_string()), ["0 of 8 (0–37 %)", "8 of 8 (63–100 %)"]);
    }
}
