//! Claims of a paper, with their results.

use serde::Serialize;

use crate::mean::Mean;
use crate::rule::statistics::DUST;
use crate::rule::{DecisionRule, Judgement, Unit};

/// A claim of a paper, with its result here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The name of the claim in the plan.
    pub name: String,
    /// The claim, in terms of the measurement here.
    pub statement: String,
    /// The paper's sentence.
    pub sentence: &'static str,
    /// The section of the paper.
    pub section: &'static str,
    /// The paper's figure.
    pub paper: String,
    /// The figure here, mean ± deviation over seeds.
    pub ours: String,
    /// The unit of the differences.
    pub unit: Unit,
    /// The differences by which the claim is judged, one per seed.
    pub differences: Vec<f64>,
    /// The judgement.
    #[serde(flatten)]
    pub judgement: Judgement,
}

/// A sentence of a paper, and its section.
#[derive(Clone, Copy, Debug)]
pub struct Quote {
    /// The section of the sentence.
    pub section: &'static str,
    /// The sentence.
    pub text: &'static str,
}

/// A claim that is measured but not judged.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as in a claim")]
pub struct Measured {
    pub name: String,
    pub statement: String,
    pub quote: Quote,
    pub paper: &'static str,
    pub unit: Unit,
    /// A description of the differences.
    pub words: String,
    pub differences: Vec<f64>,
}

impl Measured {
    /// Judges all claims of a study.
    pub fn judged(all: Vec<Self>, rule: &DecisionRule) -> Vec<Claim> {
        let differences = all.iter().map(|claim| (claim.name.as_str(), claim.unit, &claim.differences[..]));
        let judgements = rule.judge(&differences.collect::<Vec<_>>());
        all.into_iter().zip(judgements).map(|(claim, judgement)| claim.claim(judgement)).collect()
    }

    fn claim(self, judgement: Judgement) -> Claim {
        let Measured { name, statement, quote, paper, unit, words, differences } = self;
        let ours = Mean::of(&differences).map_or("–".into(), |mean| format!("{} {words}", signed(mean, unit)));
        let Quote { section, text: sentence } = quote;
        Claim { name, statement, sentence, section, paper: paper.into(), ours, unit, differences, judgement }
    }
}

/// Formats a difference with its sign.
fn signed(difference: Mean, unit: Unit) -> String {
    let told = difference.told(unit.times(), unit.digits());
    let is_zero =
        Mean { deviation: None, ..difference }.told(unit.times(), unit.digits()).bytes().all(|b| matches!(b, b'0' | b'.'));
    let sign = if difference.mean < 0.0 || is_zero { "" } else { "+" };
    format!("{sign}{told}")
}

impl Claim {
    /// Returns the number of seeds whose difference has the sign of the mean, out of all seeds, which indicates how reliable one
    /// seed is. Returns `–` if the mean is about zero.
    pub fn agreeing(&self) -> String {
        let way = self.judgement.mean.unwrap_or_default();
        let agree = self.differences.iter().filter(|&&d| d * way > 0.0).count();
        if way.abs() <= DUST { "–".into() } else { format!("{agree} of {}", self.differences.len()) }
    }

    /// Returns whether the mean difference has the claim's sign; `None` if nothing was measured, or the mean is about zero.
    pub fn points(&self) -> Option<bool> {
        self.judgement.mean.filter(|mean| mean.abs() > DUST).map(|mean| mean > 0.0)
    }

    /// Formats the interval by which the claim is judged, and δ; `–` if there are too few seeds.
    pub fn interval(&self, rule: &DecisionRule) -> String {
        let end = |mean| signed(Mean { mean, deviation: None }, self.unit);
        let delta = Mean { mean: rule.delta[&self.unit], deviation: None }.told(self.unit.times(), self.unit.digits());
        let Judgement { interval, confidence, .. } = self.judgement;
        let percent = format!("{:.1}", 100.0 * confidence);
        let percent = percent.trim_end_matches(".0");
        interval
            .filter(|_| self.differences.len() >= rule.least_seeds)
            .map_or("–".into(), |[low, high]| format!("{} to {} ({percent} %; δ {delta})", end(low), end(high)))
    }
}

/// Returns the number of measured claims whose mean difference has the claim's sign, in words.
pub fn pointing(claims: &[Claim]) -> String {
    let measured = claims.iter().filter(|claim| claim.judgement.mean.is_some()).count();
    let points = claims.iter().filter(|claim| claim.points() == Some(true)).count();
    format!("points the paper's way: {points} of {measured}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_the_direction_of_its_mean() {
        let claim = |name: &str, differences: &[f64]| Measured {
            name: name.into(),
            statement: String::new(),
            quote: Quote { section: "", text: "" },
            paper: "",
            unit: Unit::Score,
            words: String::new(),
            differences: differences.into(),
        };
        let all = [claim("a", &[0.2]), claim("b", &[-0.3, 0.1]), claim("c", &[0.0]), claim("d", &[])];
        let all = Measured::judged(all.into(), &DecisionRule::of(&[]));
        assert_eq!(all.iter().map(Claim::points).collect::<Vec<_>>(), [Some(true), Some(false), None, None]);
        assert_eq!(pointing(&all), "points the paper's way: 1 of 3");
    }

    #[test]
    fn differences_are_printed_with_a_sign() {
        let printed = [&[0.012][..], &[-0.012], &[-0.01, -0.03]].map(|d| signed(Mean::of(d).unwrap(), Unit::Score));
        assert_eq!(printed, ["+1.2", "−1.2", "−2.0 ± 1.4"]);
        let zero = [&[0.0001][..], &[-0.0001], &[0.0]].map(|d| signed(Mean::of(d).unwrap(), Unit::Score));
        assert_eq!(zero, ["0.0"; 3], "what is rounded to 0 has no sign");
    }
}
