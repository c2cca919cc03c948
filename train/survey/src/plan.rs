//! The plan of a survey, fixed before training.

use std::fmt;

use gradus_io::numbers::count_of;
use gradus_study::plan::Plan;
use gradus_study::rule::DecisionRule;
use gradus_tensor::device::MatmulPrecision;
use gradus_train::hyperparameters::{RangeError, require};
use gradus_train::pretrain::HELD_OUT_STORIES;
use gradus_train::systems::{self, Card};
use gradus_train::trainer::precision;
use gradus_world::World;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The seed for the choice of rates; no survey reports it.
pub const SEARCH_SEED: u64 = 1;
/// The version of the recipe. It increases with every change of the world, the sizes, the rates or the measures, because results
/// of two recipes do not mix.
const RECIPE: u32 = 3;

/// Returns the names of the primary claims of a survey.
fn primary() -> Vec<&'static str> {
    let compared = systems::ALL.iter().flat_map(|card| card.compared);
    compared.filter(|compared| compared.primary).map(|compared| compared.name).collect()
}

/// The settings that determine every result of a survey.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Survey {
    recipe: u32,
    /// Whether it is the short survey.
    quick: bool,
    /// The factor on training work, held-out stories and generated stories, from `--scale`.
    scale: f64,
    /// The names of the systems.
    pub(crate) systems: Vec<String>,
    /// The number of seeds.
    pub(crate) seeds: u64,
    /// The first seed.
    pub(crate) first_seed: u64,
    /// The computation of each run, in steps of GPT, smallest first.
    pub(crate) budgets: Vec<u64>,
    /// The peak rates to try first, as multiples of [`usual_rate`] (see [`crate::search`]); with only one, there is no search.
    pub(crate) rates: Vec<f64>,
    /// The number of held-out stories for evaluation.
    pub(crate) stories: usize,
    /// The number of held-out positions at which all models predict a masked word; a masked language model also predicts all
    /// positions.
    pub(crate) places: usize,
    /// The number of stories that each model generates.
    pub(crate) told: usize,
    /// The world's name, with its version.
    pub(crate) world: String,
    /// The precision of products in training (`--matmul-precision`).
    #[serde(default, with = "precision::text", skip_serializing_if = "precision::is_f32")]
    pub(crate) matmul_precision: MatmulPrecision,
    /// The decision rule for the claims.
    #[serde(rename = "ruler")]
    pub(crate) rule: DecisionRule,
}

impl Survey {
    /// Creates the survey of these systems. `quick` reduces it to a sixteenth of the larger budget and fewer stories, without a
    /// search for rates. `scale` multiplies budgets and numbers of stories.
    pub fn new(systems: Vec<String>, seeds: u64, first_seed: u64, quick: bool, scale: f64) -> Self {
        let scaled = |n: f64| ((n * scale).round() as usize).max(2);
        let [short, long] = if quick { [250.0, 250.0] } else { [1000.0, 4000.0] }.map(|steps| scaled(steps) as u64);
        let (stories, told) = if quick { (40.0, 20.0) } else { (200.0, 100.0) };
        Survey {
            recipe: RECIPE,
            quick,
            systems,
            seeds,
            first_seed,
            scale,
            budgets: if quick { vec![short] } else { vec![short, long] },
            rates: if quick { vec![1.0] } else { vec![1.0, 2.0, 0.5] },
            stories: scaled(stories).min(HELD_OUT_STORIES),
            places: 3 * scaled(stories).min(HELD_OUT_STORIES),
            told: scaled(told),
            world: World::default().name(),
            matmul_precision: MatmulPrecision::F32,
            rule: DecisionRule::of(&primary()),
        }
    }

    /// Returns the survey with this precision of products in training.
    pub fn with_products(self, matmul_precision: MatmulPrecision) -> Self {
        Survey { matmul_precision, ..self }
    }

    /// Checks that the settings are valid for a survey.
    ///
    /// # Errors
    /// Returns an error if a flag is out of range; the error states the flag and its range.
    pub fn check(&self) -> Result<(), RangeError> {
        let (seeds, first, scale) = (self.seeds, self.first_seed, self.scale);
        require("scale", scale, (0.01..=100.0).contains(&scale), "a number from 0.01 to 100")?;
        precision::check_on_cpu(self.matmul_precision)?;
        require("seeds", seeds, (1..=100).contains(&seeds), "a number from 1 to 100")?;
        let fresh = format!(
            "a number above {SEARCH_SEED}, the seed that rates are chosen on, that leaves room for the number of seeds in --seeds"
        );
        require("seed", first, first > SEARCH_SEED && first.checked_add(seeds).is_some(), fresh)?;
        require("systems", "", !self.systems.is_empty(), systems::names())?;
        for (i, name) in self.systems.iter().enumerate() {
            let expected = format!("{}; commas between several", systems::names());
            require("systems", name, systems::named(name).is_some(), expected)?;
            require("systems", name, !self.systems[..i].contains(name), "each system once")?;
        }
        Ok(())
    }

    /// Describes the difference from the plan that this version makes for the same options.
    fn unlike(&self, made: &Self) -> String {
        let [found, made] = [self, made].map(|survey| serde_json::to_value(survey).expect("plain values"));
        let fields = made.as_object().expect("an object").iter();
        let differ = fields.filter(|(name, value)| found[name] != **value);
        let told: Vec<String> = differ.map(|(name, value)| format!("{name} {value}, found {}", found[name])).collect();
        format!("expected the plan of this version of gradus for these options, {}", told.join("; "))
    }

    /// Returns sentences on the effects of `--quick` and `--scale`, for the top of a report; `None` without them.
    pub(crate) fn reduced(&self) -> Option<String> {
        let quick = "This is the short survey (`--quick`): one budget, a sixteenth of the larger one of the whole survey; the usual learning rates; and fewer \
                     stories.";
        let scale = format!("Work and numbers of stories are {} times the usual ones (`--scale {0}`).", self.scale);
        let parts = [self.quick.then(|| quick.to_owned()), (self.scale != 1.0).then_some(scale)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    /// Returns the cards of the systems.
    pub(crate) fn cards(&self) -> impl Iterator<Item = &'static Card> + '_ {
        self.systems.iter().map(|name| systems::named(name).expect("checked"))
    }

    /// Returns the seeds.
    pub(crate) fn all_seeds(&self) -> std::ops::Range<u64> {
        self.first_seed..self.first_seed + self.seeds
    }

    /// Returns whether there is a search for a system's rate. Counts have no rate.
    pub(crate) fn searches(&self, card: &Card) -> bool {
        self.rates.len() > 1 && card.axes.body.network().is_some()
    }

    /// Returns the largest budget.
    pub(crate) fn most(&self) -> u64 {
        *self.budgets.last().expect("a budget")
    }
}

impl Plan for Survey {
    const WHAT: &'static str = "survey";
    const COMMAND: &'static str = "survey";

    fn parse(fields: Map<String, Value>) -> Result<Self, String> {
        let survey: Survey = serde_json::from_value(fields.into()).map_err(|e| e.to_string())?;
        survey.check().map_err(|e| e.to_string())?;
        let made = Survey::new(survey.systems.clone(), survey.seeds, survey.first_seed, survey.quick, survey.scale);
        let made = made.with_products(survey.matmul_precision);
        if survey == made { Ok(survey) } else { Err(survey.unlike(&made)) }
    }

    fn joined(&self, asked: &Self) -> Option<Self> {
        (self == asked).then(|| self.clone())
    }

    fn line(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let (Survey { systems, seeds, first_seed, scale, .. }, products) = (self, precision::flag(self.matmul_precision));
        format!(
            "gradus survey{quick} --systems {} --seeds {seeds} --seed {first_seed} --scale {scale}{products} --out DIR",
            systems.join(",")
        )
    }
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let budgets: Vec<String> = self.budgets.iter().map(|&steps| count_of(steps as usize, "step")).collect();
        let search = if self.cards().any(|card| self.searches(card)) {
            format!("; rates chosen on seed {SEARCH_SEED}")
        } else {
            String::new()
        };
        let (systems, seeds, first) = (self.systems.join(", "), count_of(self.seeds as usize, "seed"), self.first_seed);
        write!(
            f,
            "{systems}; {seeds} from {first} on; as much work as {} of gpt in {}{search}",
            budgets.join(" and "),
            self.world
        )
    }
}

/// Returns the peak rate at the centre of a system's search, which suits the miniature's Transformer and LSTM.
pub fn usual_rate(card: &Card) -> f64 {
    if card.axes.body.transformer().is_some() { 1e-3 } else { 1.6e-2 }
}

/// A unit of work that completes as a whole or has no effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Training of a system at several rates, to choose among them.
    Search { card: &'static Card, budget: u64 },
    /// Training of a system at the best rate.
    Train { card: &'static Card, budget: u64, seed: u64 },
    /// Evaluation of a trained system.
    Ask { card: &'static Card, budget: u64, seed: u64 },
    /// Counts of neighbours in the stories of a seed.
    Count { seed: u64 },
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |card: &Card, budget: &u64| match card.axes.body.network() {
            Some(_) => format!("{}, {budget} steps of gpt", card.name),
            None => card.name.into(),
        };
        match self {
            Stage::Search { card, budget } => write!(f, "rates for {}", of(card, budget)),
            Stage::Train { card, budget, seed } => write!(f, "seed {seed}: training {}", of(card, budget)),
            Stage::Ask { card, budget, seed } => write!(f, "seed {seed}: evaluating {}", of(card, budget)),
            Stage::Count { seed } => write!(f, "seed {seed}: counting neighbours"),
        }
    }
}

/// Returns all stages in the order of execution.
pub fn stages(survey: &Survey) -> Vec<Stage> {
    let each = || survey.budgets.iter().flat_map(|&budget| survey.cards().map(move |card| (card, budget)));
    let searched = each().filter(|(card, _)| survey.searches(card));
    let mut all: Vec<Stage> = searched.map(|(card, budget)| Stage::Search { card, budget }).collect();
    for seed in survey.all_seeds() {
        for (card, budget) in each() {
            all.extend([Stage::Train { card, budget, seed }, Stage::Ask { card, budget, seed }]);
        }
        all.push(Stage::Count { seed });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduced_survey_is_described() {
        let reduced = |quick, scale| Survey::new(vec!["gpt".into()], 6, 201, quick, scale).reduced();
        assert_eq!(reduced(false, 1.0), None);
        assert!(reduced(true, 1.0).is_some_and(|words| words.contains("`--quick`") && !words.contains("--scale")));
        let both = reduced(true, 0.05).expect("described");
        assert!(
            both.contains("`--quick`")
                && both.ends_with("Work and numbers of stories are 0.05 times the usual ones (`--scale 0.05`).")
        );
    }
}
