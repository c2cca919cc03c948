//! The papers' claims on the systems, as stated on their cards, with the results of the survey.

use gradus_io::numbers::count;
use gradus_study::rule::Unit;
use gradus_study::{Claim, Measured, Quote};
use gradus_train::systems::{Card, Comparison, Sentence};

use crate::plan::Survey;
use crate::results::Results;

/// The quote of a claim that no paper makes.
pub const OURS: Quote = Quote { section: "–", text: "a question of ours" };

/// Returns all claims about the systems of the survey; the primary ones are judged at the largest budget.
pub fn all(results: &Results, survey: &Survey) -> Vec<Claim> {
    let is_there = |(_, it): &(&Card, &Comparison)| survey.systems.iter().any(|name| name == it.other);
    let compared = survey.cards().flat_map(|card| card.compared.iter().map(move |it| (card, it))).filter(is_there);
    let measured = compared
        .flat_map(|(card, it)| survey.budgets.iter().rev().map(move |&budget| measured(results, survey, card, it, budget)));
    Measured::judged(measured.collect(), &survey.rule)
}

fn measured(results: &Results, survey: &Survey, card: &Card, it: &Comparison, budget: u64) -> Measured {
    let is_most = budget == survey.most();
    Measured {
        name: if is_most { it.name.into() } else { format!("{}-{budget}", it.name) },
        statement: if is_most { it.statement.into() } else { format!("… after {} steps", count(budget)) },
        quote: it.sentence.map_or(OURS, |Sentence { section, text }| Quote { section, text }),
        paper: "no figure",
        unit: Unit::Nats,
        words: "nats per word".into(),
        differences: results.differences(budget, (it.other, it.other_figure), (card.name, it.figure)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gradus_study::rule::Verdict;
    use gradus_train::systems::{ALL, Figure};

    use super::*;
    use crate::measure::{Estimate, Generation, Understanding};
    use crate::results::Asked;

    fn set(evaluated: &mut Asked, figure: Figure, mean: f64) {
        let estimate = Estimate { mean, error: 0.0, places: 9 };
        match figure {
            Figure::Understanding => evaluated.understanding.given_all = estimate,
            Figure::UnderstandingFar => evaluated.understanding.by_distance[3] = estimate, // last mentioned 20 words ago or more
            Figure::UnderstandingLeftOnly => evaluated.generation.left_only = estimate,
            Figure::Generation => evaluated.generation.before = estimate,
        }
    }

    /// Returns a system's results on a seed: one figure is `mean`, all others are `rest`.
    fn evaluated(survey: &Survey, system: &str, seed: u64, (figure, mean): (Figure, f64), rest: f64) -> Asked {
        let (understanding, generation) = (Understanding::none(), Generation::none());
        let (system, world, budget) = (system.to_owned(), survey.world.clone(), survey.most());
        let everywhere = None;
        let mut evaluated =
            Asked { system, world, seed, budget, understanding, everywhere, generation, told: (0, 1), seconds: 1.0 };
        for figure in [Figure::Understanding, Figure::UnderstandingFar, Figure::UnderstandingLeftOnly, Figure::Generation] {
            set(&mut evaluated, figure, rest);
        }
        set(&mut evaluated, figure, mean);
        evaluated
    }

    /// The claim is that a card's system is nearer to exact, by the figures that its comparison names and no others.
    #[test]
    fn the_claim_goes_to_the_system_nearer_to_exact() {
        let mut names = BTreeSet::new();
        for (card, it) in ALL.iter().flat_map(|card| card.compared.iter().map(move |it| (card, it))) {
            assert!(names.insert(it.name), "{} is the name of one claim", it.name);
            let survey = Survey::new(vec![card.name.into(), it.other.into()], 6, 201, true, 1.0);
            for (own, expected) in [(0.3, Verdict::Shown), (0.5, Verdict::Against)] {
                // By any other figure of either system, the comparison would have the opposite sign.
                let rest = if own < 0.4 { [0.9, 0.2] } else { [0.1, 0.6] };
                let of_seed = |seed| {
                    let own = evaluated(&survey, card.name, seed, (it.figure, own), rest[0]);
                    [own, evaluated(&survey, it.other, seed, (it.other_figure, 0.4), rest[1])]
                };
                let results = Results { asked: survey.all_seeds().flat_map(of_seed).collect(), ..Results::default() };
                let claims = all(&results, &survey);
                let found = claims.iter().find(|claim| claim.name == it.name).expect("the claim of the comparison");
                assert_eq!((found.judgement.verdict, found.judgement.primary), (expected, it.primary), "{} {own}", it.name);
            }
        }
        assert!(names.len() > 4, "{names:?}");
    }
}
