//! The rule by which claims are judged: the interval of a mean over seeds, and the smallest effect that matters.
//!
//! ```text
//! d     the difference that the claim is about, paired and measured once per seed; d̄ its mean, I its interval
//! δ     the smallest effect that matters, in the unit of d
//!
//! shown                         I lies above 0, and d̄ ≥ δ
//! against it                    I lies below 0, and d̄ ≤ −δ
//! no difference that matters    I lies within ±δ, ends included
//! undecided                     otherwise, and always with fewer than six seeds
//! ```
//!
//! The first rule that applies decides. Numbers that differ only by rounding are equal.
//!
//! The confidence of I is 95 % for an exploratory claim. The primary claims are a family: if there is no effect, the probability
//! that any of them, or the opposite of any, is shown must be at most 5 %. Holm's procedure (1979) therefore sorts them by
//! p-value, smallest first, and judges the k-th of m at confidence 1 − 0.05/(m − k + 1), until the first claim whose null
//! hypothesis is not rejected. The claims after it are judged at the same confidence, at which none of them can be shown.
//!
//! Student's interval is exact if d is normal. If tasks are learnt suddenly or never, d is far from normal, and a few seeds agree
//! by chance too often. Six seeds do not, if half of the seeds learn the task ([`power`] simulates this). A task that is learnt
//! more rarely may be learnt in none of the seeds; the verdict is then "no difference that matters".
//!
//! Seeds, δ and the primary claims are fixed before training ([`crate::plan`]). More seeds require a new run with new seeds.

pub mod power;
pub mod statistics;

use std::collections::BTreeMap;
use std::ops::Range;

use gradus_data::sets::scores::mean_and_deviation;
use serde::{Deserialize, Serialize};

use statistics::{DUST, half_width, p_value};

/// The unit of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Fractions of 1, shown as percentage points.
    Score,
    /// Fractions of the way from the score of guessing to the best possible score.
    Way,
    /// Fractions of the way as in [`Way`](Unit::Way), for the noise of a curve.
    Roughness,
    /// Nats per example, or per word.
    Nats,
}

impl Unit {
    /// Returns the factor that a difference is multiplied by for display.
    pub fn times(self) -> f64 {
        if self == Unit::Nats { 1.0 } else { 100.0 }
    }

    /// Returns the number of decimals for display.
    pub fn digits(self) -> usize {
        if self == Unit::Nats { 3 } else { 1 }
    }
}

/// The parameters of the rule, fixed before training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionRule {
    /// The confidence of the intervals of exploratory claims, and of the family of primary claims.
    pub confidence: f64,
    /// The smallest effect that matters, in each unit.
    pub delta: BTreeMap<Unit, f64>,
    /// The names of the primary claims.
    pub primary: Vec<String>,
    /// The procedure for the family of primary claims.
    pub family: Procedure,
    /// The number of seeds below which nothing is decided.
    pub least_seeds: usize,
}

/// A procedure that bounds the probability of a wrong verdict over a family of claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Procedure {
    /// Holm's procedure (1979); see the module documentation.
    #[default]
    Holm,
}

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The effect exists, and its measured size is large enough to matter.
    Shown,
    /// The effect, if any, is too small to matter.
    NoDifference,
    /// The opposite effect is shown.
    Against,
    /// No decision is possible with these seeds.
    Undecided,
    /// The claim was not measured.
    Open,
}

/// The result of judging a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The outcome.
    pub verdict: Verdict,
    /// The mean of the differences; `None` without differences.
    pub mean: Option<f64>,
    /// The interval of the mean; `None` for fewer than two differences.
    pub interval: Option<[f64; 2]>,
    /// The confidence of that interval.
    pub confidence: f64,
    /// The number of seeds measured.
    pub seeds: usize,
    /// The number of seeds below which the decision rule decides nothing.
    #[serde(skip)]
    pub least_seeds: usize,
    /// Whether the claim is primary.
    pub primary: bool,
    /// The number of seeds that would decide an undecided claim at this mean and deviation. That many new seeds decide it about
    /// every second time. `None` if no number up to [`MOST_SEEDS`] does, or if there are too few seeds to estimate it.
    pub seeds_needed: Option<usize>,
}

/// The rule in words, for the report.
pub const RULE: &str = "A claim is judged by a difference d, measured once per seed, with the interval of its mean (Student's t) and δ, the smallest \
    effect that matters. It is shown where the interval lies above 0 and the mean is at least δ; the result is against it where the \
    interval lies below 0 and the mean is at most −δ; there is no difference that matters where the interval lies within ±δ; else it \
    is undecided, and we give the number of fresh seeds that would decide it about every second time, if the effect and its deviation are as measured. With fewer than six seeds nothing is decided. \
    The primary claims (in bold) are a family: their intervals are wider, by Holm's procedure, so that, where there is no effect, the chance that any of them is shown, or its opposite, is at most 5 %. The others are exploratory, \
    each with an interval of 95 %. Seeds, δ and the primary claims were written down before training.";

/// The footnote below a list in which primary claims have a star.
pub const FOOTNOTE: &str = "* a primary claim: those are judged as a family, so that chance alone shows any of them, or its opposite, at most once in twenty";

/// The number of seeds below which nothing is decided, unless a decision rule sets another.
pub const LEAST_SEEDS: usize = 6;

/// The largest number of seeds that is reported: the most that a reproduction takes.
pub const MOST_SEEDS: usize = 100;

impl DecisionRule {
    /// Creates the decision rule of a study with these primary claims.
    pub fn of(primary: &[&str]) -> Self {
        DecisionRule {
            confidence: 0.95,
            delta: [(Unit::Score, 0.02), (Unit::Way, 0.05), (Unit::Roughness, 0.01), (Unit::Nats, 0.02)].into(),
            primary: primary.iter().map(|&name| name.to_owned()).collect(),
            family: Procedure::Holm,
            least_seeds: LEAST_SEEDS,
        }
    }

    /// Judges claims, each given by its name, unit and differences, one per seed.
    pub fn judge(&self, claims: &[(&str, Unit, &[f64])]) -> Vec<Judgement> {
        let is_primary = |name: &str| self.primary.iter().any(|primary| primary == name);
        let mut family: Vec<(usize, f64)> = Vec::new();
        for (at, (name, _, differences)) in claims.iter().enumerate() {
            if is_primary(name) {
                family.push((at, p_value(differences)));
            }
        }
        family.sort_by(|a, b| a.1.total_cmp(&b.1));
        // Primary claims without measurements count in m too.
        let (m, alpha) = (self.primary.len(), 1.0 - self.confidence);
        let (mut levels, mut k) = (vec![alpha; claims.len()], 1);
        for (at, p) in family {
            levels[at] = alpha / (m - k + 1) as f64;
            // From the first claim that is not rejected, the level stays the same.
            k += usize::from(p <= levels[at] && k < m);
        }
        let judge = |(&(name, unit, differences), level): (&(&str, Unit, &[f64]), f64)| {
            self.one(differences, unit, 1.0 - level, is_primary(name))
        };
        claims.iter().zip(levels).map(judge).collect()
    }

    fn one(&self, differences: &[f64], unit: Unit, confidence: f64, primary: bool) -> Judgement {
        let (mean, deviation) = mean_and_deviation(differences);
        let delta = self.delta[&unit];
        let seeds = differences.len();
        let (verdict, least_seeds) = (Verdict::Open, self.least_seeds);
        let nothing =
            Judgement { verdict, mean: None, interval: None, confidence, seeds, least_seeds, primary, seeds_needed: None };
        if differences.is_empty() || !mean.is_finite() {
            return nothing;
        }
        let Some(s) = deviation else {
            return Judgement { verdict: Verdict::Undecided, mean: Some(mean), ..nothing };
        };
        let with = |n| if n < self.least_seeds { Verdict::Undecided } else { decide(mean, half_width(n, s, confidence), delta) };
        let (verdict, half) = (with(differences.len()), half_width(differences.len(), s, confidence));
        let needed = || first(differences.len() + 1..MOST_SEEDS + 1, |n| with(n) != Verdict::Undecided);
        let foreseen = verdict == Verdict::Undecided && differences.len() >= self.least_seeds;
        let seeds_needed = if foreseen { needed() } else { None };
        Judgement { verdict, mean: Some(mean), interval: Some([mean - half, mean + half]), seeds_needed, ..nothing }
    }
}

/// Returns the first number for which a condition holds, by bisection; the condition must hold from some number on.
fn first(numbers: Range<usize>, holds: impl Fn(usize) -> bool) -> Option<usize> {
    let Range { mut start, end } = numbers;
    let mut last = end;
    while start < last {
        let middle = start.midpoint(last);
        if holds(middle) {
            last = middle;
        } else {
            start = middle + 1;
        }
    }
    (start < end).then_some(start)
}

/// Returns the verdict for a mean whose interval has this half-width.
fn decide(mean: f64, half: f64, delta: f64) -> Verdict {
    let (low, high) = (mean - half, mean + half);
    match () {
        () if low > DUST && mean >= delta - DUST => Verdict::Shown,
        () if high < -DUST && mean <= -delta + DUST => Verdict::Against,
        () if low >= -delta - DUST && high <= delta + DUST => Verdict::NoDifference,
        () => Verdict::Undecided,
    }
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Shown => "shown",
            Verdict::NoDifference => "no difference that matters",
            Verdict::Against => "against it",
            Verdict::Undecided => "undecided",
            Verdict::Open => "not measured",
        }
    }
}

impl Judgement {
    /// Returns the verdict in words, with the number of seeds that would decide.
    pub fn words(&self) -> String {
        match (self.verdict, self.seeds_needed) {
            (Verdict::Undecided, _) if self.seeds < self.least_seeds => {
                format!("undecided: fewer than {} seeds", self.least_seeds)
            }
            (Verdict::Undecided, Some(n)) => format!("undecided; {n} fresh seeds would decide half the time"),
            (Verdict::Undecided, None) => format!("undecided; {MOST_SEEDS} fresh seeds would not"),
            (verdict, ..) => verdict.words().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: [&str; 5] = ["a", "b", "c", "d", "e"];

    fn rule() -> DecisionRule {
        DecisionRule::of(&PRIMARY)
    }

    /// Judges an exploratory claim.
    fn alone(differences: &[f64]) -> Judgement {
        rule().judge(&[("other", Unit::Score, differences)]).remove(0)
    }

    #[test]
    fn verdicts_follow_the_rule() {
        use Verdict::{Against, NoDifference, Open, Shown, Undecided};
        let rounding = (0.1 + 0.2 - 0.3) / 3.0;
        let cases: [(Verdict, &[f64]); 16] = [
            (Open, &[]),
            (Open, &[f64::NAN, 0.1]),
            (Shown, &[0.10, 0.11, 0.12, 0.13, 0.14, 0.10]),
            (Shown, &[0.02; 6]),
            (Shown, &[0.57 - 0.55; 6]), // rounding: 0.01999…
            (Shown, &[0.0199, 0.0202, 0.0199, 0.0202, 0.0199, 0.0202]),
            (NoDifference, &[0.0; 6]),
            (NoDifference, &[rounding; 6]),
            // Above 0, but too small to matter.
            (NoDifference, &[0.01, 0.01, 0.0101, 0.01, 0.01, 0.01]),
            (NoDifference, &[-0.0199; 6]),
            (Undecided, &[0.5]),
            (Undecided, &[0.5; 5]),
            (Undecided, &[0.0, 0.3, 0.1, 0.0, 0.0, 0.1]),
            (Undecided, &[0.01, 0.02, 0.024, 0.02, 0.02, 0.02]),
            (Against, &[-0.10, -0.11, -0.12, -0.13, -0.14, -0.10]),
            (Against, &[-0.02; 6]),
        ];
        for (verdict, differences) in cases {
            assert_eq!(alone(differences).verdict, verdict, "{differences:?}");
        }
    }

    #[test]
    fn an_undecided_claim_names_the_seeds_that_would_decide() {
        let needed = |differences| alone(differences).seeds_needed;
        // s = 0.02: t·s/√n ≤ 0.02 from n = 7 on (2.4469/√7 = 0.925, 2.5706/√6 = 1.049): no difference for the first, shown for
        // the second.
        let spread = [-1.0, 1.0, -1.0, 1.0, 0.5f64.sqrt(), -0.5f64.sqrt()].map(|x| 0.02 * x);
        assert_eq!([needed(&spread), needed(&spread.map(|x| x + 0.02))], [Some(7); 2]);
        assert_eq!(alone(&spread).words(), "undecided; 7 fresh seeds would decide half the time");
        assert_eq!(alone(&[-1.0, 1.01, -1.0, 1.01, -1.0, 1.01]).words(), "undecided; 100 fresh seeds would not");
        // With fewer than six seeds, the number needed is not estimated.
        assert_eq!(
            [alone(&[0.1, 0.1]), alone(&[0.5])].map(|j| (j.words(), j.seeds_needed)),
            [("undecided: fewer than 6 seeds".into(), None), ("undecided: fewer than 6 seeds".into(), None)]
        );
        // Another decision rule decides with fewer, or needs more.
        let of = |least_seeds| {
            DecisionRule { least_seeds, ..rule() }.judge(&[("other", Unit::Score, &[0.0, 0.1, 0.1, 0.0, 0.1])]).remove(0)
        };
        assert_eq!(of(9).words(), "undecided: fewer than 9 seeds");
        assert!(of(4).words().ends_with(" fresh seeds would decide half the time"), "{}", of(4).words());
    }

    /// A family of five claims. The p-values are 0.0028 (rejected at 0.05/5) and 0.0144 (not rejected at 0.05/4), so the third,
    /// 0.0201, is judged at 0.05/4 as well.
    #[test]
    fn the_primary_claims_are_a_family() {
        let rule = rule();
        let [a, b, c, d, e] = PRIMARY;
        let sample = |spread: f64| [0.1 - spread, 0.1, 0.1 - spread, 0.1, 0.1 + spread, 0.1 + spread];
        let (first, second, third) = (sample(0.05), sample(0.0745), sample(0.0815));
        assert_eq!([&first, &second, &third].map(|d| (1e4 * p_value(d)).round()), [28.0, 144.0, 201.0]);
        let found = rule.judge(&[
            (c, Unit::Score, &third),
            ("other", Unit::Score, &third),
            (a, Unit::Score, &first),
            (b, Unit::Score, &second),
            (d, Unit::Score, &[]),
            (e, Unit::Score, &[0.1, -0.1, 0.1, -0.1, 0.1, -0.1]),
        ]);
        let levels = found.iter().map(|j| ((1.0 - j.confidence) * 1e4).round() / 1e4).collect::<Vec<_>>();
        assert_eq!(levels, [0.0125, 0.05, 0.01, 0.0125, 0.0125, 0.0125]);
        let verdicts = found.iter().map(|j| j.verdict).collect::<Vec<_>>();
        use Verdict::{Open, Shown, Undecided};
        assert_eq!(verdicts, [Undecided, Shown, Shown, Undecided, Open, Undecided]);
        assert!(found.iter().map(|j| j.primary).eq([true, false, true, true, true, true]));
    }
}
