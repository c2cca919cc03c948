//! Tasks that are learnt suddenly or never: a mean says little of them, the share of seeds that learnt them all.

use std::fmt;

use super::chance;
use crate::results::{Results, Variant, base};
use crate::tasks::bayes;
use gradus_study::rule::statistics::shares;

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
    /// A seed has learnt a task that it came more than half of the way from guessing to the best possible score in.
    const HALF: f64 = 0.5;
    /// The part of the way about its middle in which no seed may be: 30 to 70 %.
    const GAP: f64 = 0.4;

    /// Were the parts of the way that the seeds went either small or large, each in two seeds or more?
    fn divides(ways: &[f64]) -> bool {
        let few = |of: &dyn Fn(f64) -> bool| ways.iter().filter(|&&way| of(way)).count();
        let (below, above) = (few(&|way| way <= Self::HALF - Self::GAP / 2.0), few(&|way| way >= Self::HALF + Self::GAP / 2.0));
        below >= 2 && above >= 2 && below + above == ways.len()
    }

    fn of(ways: &[f64]) -> Self {
        let (seeds, of) = (ways.iter().filter(|&&way| way > Self::HALF).count(), ways.len());
        Learnt { seeds, of, share: shares(seeds, of, 0.95) }
    }
}

impl fmt::Display for Learnt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.share.map(|share| 100.0 * share);
        write!(f, "{} of {} ({low:.0}–{high:.0} %)", self.seeds, self.of)
    }
}

/// How many seeds learnt the task of a column, where this variant, or one it is compared with, learns it suddenly or never.
pub fn learnt(results: &Results, column: &str, variant: Variant) -> Option<Learnt> {
    use Variant::{Full, Lstm, NoAux, NoPretraining};
    let task = base(column);
    let (least, most) = (chance(task), bayes(task)?);
    if column.ends_with("-accuracy") {
        return None; // beside the task's metric, it has other limits
    }
    let ways = |variant| results.each(|seed| Some((results.one(seed, column, variant)? - least) / (most - least)));
    let divides = [variant, Full, NoPretraining, NoAux, Lstm].into_iter().any(|variant| Learnt::divides(&ways(variant)));
    Some(ways(variant)).filter(|ways| divides && !ways.is_empty()).map(|ways| Learnt::of(&ways))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_on_both_sides_of_the_middle_are_counted() {
        let of = |ways: &[f64]| Learnt::divides(ways).then(|| Learnt::of(ways).to_string());
        assert_eq!(of(&[0.9, 0.1, 0.05, 1.0, 0.97, 0.0, 0.93, 0.7]), Some("5 of 8 (24–91 %)".into()));
        assert_eq!(of(&[-0.1, 0.3, 0.71, 1.0]), Some("2 of 4 (7–93 %)".into()));
        let [continuous, one_alone, none, few] =
            [&[0.0, 0.1, 0.45, 0.9, 1.0][..], &[0.05, 0.8, 0.9, 1.0], &[0.1; 8], &[0.0, 1.0]];
        assert_eq!([continuous, one_alone, none, few, &[]].map(of), [(); 5].map(|()| None));
        // All or none, beside others that are divided: 1 − 0.025^(1/8) = 0.369.
        assert_eq!([0.1, 0.9].map(|way| Learnt::of(&[way; 8]).to_string()), ["0 of 8 (0–37 %)", "8 of 8 (63–100 %)"]);
    }
}
