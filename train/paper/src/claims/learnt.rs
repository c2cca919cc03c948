//! Tasks that are learnt suddenly or never: the share of seeds that learnt them describes them better than a mean score.

use std::fmt;

use super::chance;
use crate::results::{Results, Variant, base};
use crate::tasks::bayes;
use gradus_study::rule::statistics::shares;

/// A task that is learnt suddenly or never: the number of seeds that learnt it, with a confidence interval for the share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learnt {
    /// The number of seeds that learnt the task.
    pub seeds: usize,
    /// The number of all seeds.
    pub of: usize,
    /// The bounds of the confidence interval for the share.
    pub share: [f64; 2],
}

impl Learnt {
    /// The threshold for a learnt task, as a fraction of the way from chance to the best possible score.
    const HALF: f64 = 0.5;
    /// The width of the middle part of the way, here 30 to 70 %, that no seed may end in.
    const GAP: f64 = 0.4;

    /// Returns whether each seed went either a small or a large part of the way, with two seeds or more of each kind.
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

/// Returns the number of seeds that learnt the task of a column, if this variant or one compared with it learns it suddenly or
/// never.
pub fn learnt(results: &Results, column: &str, variant: Variant) -> Option<Learnt> {
    use Variant::{Full, Lstm, NoAux, NoPretraining};
    let task = base(column);
    let (least, most) = (chance(task), bayes(task)?);
    if column.ends_with("-accuracy") {
        return None; // a secondary metric of the task, with other limits
    }
    let ways = |variant| results.each(|seed| Some((results.one(seed, column, variant)? - least) / (most - least)));
    let divides = [variant, Full, NoPretraining, NoAux, Lstm].into_iter().any(|variant| Learnt::divides(&ways(variant)));
    Some(ways(variant)).filter(|ways| divides && !ways.is_empty()).map(|ways| Learnt::of(&ways))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bimodal_outcomes_are_counted_by_seeds() {
        let of = |ways: &[f64]| Learnt::divides(ways).then(|| Learnt::of(ways).to_string());
        assert_eq!(of(&[0.9, 0.1, 0.05, 1.0, 0.97, 0.0, 0.93, 0.7]), Some("5 of 8 (24–91 %)".into()));
        assert_eq!(of(&[-0.1, 0.3, 0.71, 1.0]), Some("2 of 4 (7–93 %)".into()));
        let [continuous, one_alone, none, few] =
            [&[0.0, 0.1, 0.45, 0.9, 1.0][..], &[0.05, 0.8, 0.9, 1.0], &[0.1; 8], &[0.0, 1.0]];
        assert_eq!([continuous, one_alone, none, few, &[]].map(of), [(); 5].map(|()| None));
        // All seeds or none, while another variant is divided: 1 − 0.025^(1/8) = 0.369.
        assert_eq!([0.1, 0.9].map(|way| Learnt::of(&[way; 8]).to_string()), ["0 of 8 (0–37 %)", "8 of 8 (63–100 %)"]);
    }
}
