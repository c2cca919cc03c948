//! What the papers claim of the systems, as their cards say it, with what came out.

use gradus_study::ruler::Unit;
use gradus_study::{Claim, Measured, Quote};
use gradus_train::systems::{Card, Comparison, Sentence};

use crate::plan::Survey;
use crate::results::Results;

/// Instead of a sentence, where no paper makes the claim.
pub const OURS: Quote = Quote { section: "–", text: "a question of ours" };

/// All claims about the systems that were surveyed; the primary ones at the largest budget.
pub fn all(results: &Results, survey: &Survey) -> Vec<Claim> {
    let is_there = |(_, it): &(&Card, &Comparison)| survey.systems.iter().any(|name| name == it.other);
    let compared = survey.cards().flat_map(|card| card.compared.iter().map(move |it| (card, it))).filter(is_there);
    let measured = compared
        .flat_map(|(card, it)| survey.budgets.iter().rev().map(move |&budget| measured(results, survey, card, it, budget)));
    Measured::judged(measured.collect(), &survey.ruler)
}

fn measured(results: &Results, survey: &Survey, card: &Card, it: &Comparison, budget: u64) -> Measured {
    let is_most = budget == survey.most();
    Measured {
        name: if is_most { it.name.into() } else { format!("{}-{budget}", it.name) },
        statement: if is_most { it.statement.into() } else { format!("… after {budget} steps") },
        quote: it.sentence.map_or(OURS, |Sentence { section, text }| Quote { section, text }),
        paper: "no figure",
        unit: Unit::Nats,
        words: "nats per word".into(),
        differences: results.differences(budget, (it.other, it.other_figure), (card.name, it.figure)),
    }
}
