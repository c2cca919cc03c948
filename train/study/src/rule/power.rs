//! The power and the error rates of the decision rule, from simulated differences with a known effect.

use gradus_tensor::rng::Philox;

use super::{DecisionRule, Unit, Verdict};

/// The distribution of the differences over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// A normal distribution with this standard deviation.
    Normal(f64),
    /// A task learnt entirely or never: two models learn it with probability ½ ± effect/(2·worth). The value, worth, is the gain
    /// from learning it.
    Bimodal(f64),
    /// A task that only one of two models ever learns, with probability effect/worth. The value, worth, is the gain from it.
    Rare(f64),
}

/// The fractions of verdicts on a family of claims with one effect.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// The fraction of claims that were shown.
    pub shown: f64,
    /// The fraction of families with at least one such claim.
    pub any_shown: f64,
    /// The fraction of claims judged equivalent (within ±δ).
    pub no_difference: f64,
    /// The fraction of families with at least one such claim.
    pub any_no_difference: f64,
    /// The fraction of claims whose opposite was shown.
    pub against: f64,
}

/// Judges `trials` families of primary claims with this true effect, each measured with `seeds` seeds.
pub fn rates(rule: &DecisionRule, effect: f64, spread: Spread, seeds: usize, trials: usize) -> Rates {
    let mut rng = Philox::new(1);
    let (mut rates, family) = (Rates::default(), rule.primary.len());
    let (each, all) = (1.0 / (trials * family) as f64, 1.0 / trials as f64);
    for _ in 0..trials {
        let samples: Vec<Vec<f64>> = (0..family).map(|_| spread.draw(effect, seeds, &mut rng)).collect();
        let claims = rule.primary.iter().zip(&samples).map(|(name, d)| (name.as_str(), Unit::Score, &d[..]));
        let judged = rule.judge(&claims.collect::<Vec<_>>());
        let count = |verdict| judged.iter().filter(|j| j.verdict == verdict).count() as f64;
        rates.shown += each * count(Verdict::Shown);
        rates.any_shown += all * count(Verdict::Shown).min(1.0);
        rates.no_difference += each * count(Verdict::NoDifference);
        rates.any_no_difference += all * count(Verdict::NoDifference).min(1.0);
        rates.against += each * count(Verdict::Against);
    }
    rates
}

impl Spread {
    /// Draws one difference per seed.
    fn draw(self, effect: f64, seeds: usize, rng: &mut Philox) -> Vec<f64> {
        let one = |is: bool| f64::from(u8::from(is));
        match self {
            Spread::Normal(deviation) => {
                let mut noise = vec![0.0; seeds];
                rng.fill_normal(deviation, &mut noise);
                noise.iter().map(|d| d + effect).collect()
            }
            Spread::Bimodal(worth) => {
                let learns = |rng: &mut Philox, more: f64| one(rng.uniform_f64() < 0.5 + more);
                let more = effect / worth / 2.0;
                (0..seeds).map(|_| worth * (learns(rng, more) - learns(rng, -more))).collect()
            }
            Spread::Rare(worth) => (0..seeds).map(|_| worth * one(rng.uniform_f64() < effect / worth)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELTA: f64 = 0.02;

    /// One in twenty of 4,000 families is 200 ± 14.
    #[test]
    fn false_positives_occur_in_at_most_one_family_of_twenty() {
        let rule = DecisionRule::of(&["a", "b", "c", "d", "e"]);
        for spread in [0.5, 2.0, 10.0].map(|s| Spread::Normal(s * DELTA)).into_iter().chain([0.1, 0.5].map(Spread::Bimodal)) {
            for seeds in [5, 6, 8] {
                let found = rates(&rule, 0.0, spread, seeds, 4000);
                assert!(found.any_shown <= 0.05 + 3.0 * 0.0035, "{spread:?}, {seeds} seeds: {found:?}");
            }
        }
    }

    #[test]
    fn effects_are_detected_and_their_absence_is_reported() {
        let rule = DecisionRule::of(&["a", "b", "c", "d", "e"]);
        let with = |effect, deviation, seeds| rates(&rule, effect * DELTA, Spread::Normal(deviation * DELTA), seeds, 500);
        let large = with(2.0, 1.0, 8);
        assert!(large.shown > 0.9 && large.against == 0.0, "{large:?}");
        assert!(with(2.0, 2.0, 6).shown < with(2.0, 2.0, 16).shown - 0.2, "more seeds show more");
        let none = with(0.0, 0.5, 8);
        assert!(none.no_difference > 0.9, "{none:?}");
        let half = with(0.5, 0.2, 8);
        assert!(half.no_difference > 0.9 && half.shown == 0.0, "an effect too small to matter: {half:?}");
        let against = with(-2.0, 1.0, 8);
        assert!(against.against > 0.9 && against.shown == 0.0, "{against:?}");
        // With probability 0.8⁸ = 0.168, none of eight seeds learns the task, and an effect that matters is not detected.
        let rare = rates(&rule, DELTA, Spread::Rare(5.0 * DELTA), 8, 4000);
        assert!((rare.no_difference - 0.8f64.powi(8)).abs() < 0.01, "{rare:?}");
    }
}
