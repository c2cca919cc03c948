//! Equal terms: equal numbers of parameters and of floating-point operations for each system.

use gradus_model::{BodyConfig, ModelConfig};
use gradus_train::pretrain::{self, Length, PretrainError, PretrainOptions, PretrainSettings, VOCABULARY};
use gradus_train::systems::Card;

/// The number of steps over which the operations per step are averaged.
const COUNTED: u64 = 16;

/// Returns the settings of a system's training in the survey, except for the number of steps.
///
/// # Errors
/// Returns no error for the existing systems.
pub fn settings(card: &Card, seed: u64, lr: f64) -> Result<PretrainSettings, PretrainError> {
    let (system, seed) = (Some(card.name.to_owned()), Some(seed));
    if card.axes.body.network().is_none() {
        return Ok(PretrainOptions { system, seed, ..PretrainOptions::default() }.settle()?);
    }
    let options = PretrainOptions { system, lr: Some(lr), seed, ..PretrainOptions::micro_world() };
    let gpt = PretrainOptions::micro_world().settle()?;
    let mut settings = options.settle()?;
    settings.model.body = levelled(&settings, parameters(&gpt));
    settings.eval_tokens = Some(8000); // these evaluations only show progress; the last one reads all held-out text
    Ok(settings)
}

/// Returns the settings with the largest vocabulary of the world's BPE. A run has the vocabulary of its tokenizer, but all
/// systems are compared at this size.
fn with_words(settings: &PretrainSettings) -> PretrainSettings {
    PretrainSettings { model: settings.model.clone().with_vocab(VOCABULARY), ..settings.clone() }
}

/// Returns the body that brings the total number of parameters, heads included, closest to `parameters`, by the width of its
/// feed-forward networks or by its number of LSTM units.
fn levelled(settings: &PretrainSettings, parameters: usize) -> BodyConfig {
    let with = |body| ModelConfig { body, ..settings.model.clone() };
    let width = settings.model.sizes.width;
    let of = |body: &BodyConfig| with(*body).with_vocab(VOCABULARY).parameters();
    let sized = |n| settings.model.body.with_units(n, width);
    (1..=8 * width).map(sized).min_by_key(|body| of(body).abs_diff(parameters)).expect("one at least")
}

/// The amount of training of a system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// The number of steps: at least one, or 0 for counts.
    pub steps: u64,
    /// The number of operations of a step.
    pub flops: f64,
    /// The number of operations that the steps should total.
    pub all: f64,
}

/// Returns the number of steps whose operations are closest to those of `budget` steps of GPT.
///
/// # Errors
/// Returns no error for the settings of a survey.
pub fn work(settings: &PretrainSettings, budget: u64) -> Result<Work, PretrainError> {
    if settings.order.is_some() {
        return Ok(Work { steps: 0, flops: 0.0, all: 0.0 }); // counts read all stories once, whatever the budget
    }
    let mut gpt = PretrainOptions::micro_world().settle()?;
    gpt.seed = settings.seed;
    let of_gpt = pretrain::flops_per_step(&gpt, COUNTED)?;
    let same = gpt.model == settings.model && gpt.view == settings.view;
    let own = if same { of_gpt } else { pretrain::flops_per_step(settings, COUNTED)? };
    let all = budget as f64 * of_gpt;
    Ok(Work { steps: nearest(all / own), flops: own, all })
}

/// Rounds a number of steps; the result is at least one, or 0 for a system without operations, whose number of steps is 0/0.
pub fn nearest(steps: f64) -> u64 {
    if steps.is_nan() { 0 } else { (steps.round() as u64).max(1) }
}

/// Returns the number of parameters of a system, with all heads.
fn parameters(settings: &PretrainSettings) -> usize {
    with_words(settings).model.parameters()
}

/// Returns whether two runs differ only in their tokenizers' vocabularies, if at all.
pub fn are_same(a: &PretrainSettings, b: &PretrainSettings) -> bool {
    with_words(a) == with_words(b)
}

/// Returns the settings with this number of steps.
pub fn with_steps(settings: PretrainSettings, steps: u64) -> PretrainSettings {
    if steps == 0 {
        return settings;
    }
    PretrainSettings { length: Length::Steps(steps), eval_every: Some((steps / 5).max(1)), ..settings }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_train::systems::{ALL, SURVEYED};

    #[test]
    fn all_systems_have_about_the_same_number_of_parameters() {
        let gpt = parameters(&PretrainOptions::micro_world().settle().unwrap()) as f64;
        for card in ALL.iter().filter(|card| card.axes.body.network().is_some()) {
            let settings = settings(card, 1, 1e-3).unwrap();
            let own = parameters(&settings) as f64;
            assert!((own / gpt - 1.0).abs() < 0.02, "{}: {own} of {gpt}", card.name);
            assert_eq!(with_words(&settings).system(), Some(*card), "only sizes differ");
        }
    }

    /// A separate test compares the counted operations of a step with real ones; here, the steps compensate for them.
    #[test]
    fn another_system_gets_the_same_compute() {
        let masked = SURVEYED.into_iter().find(|card| !card.axes.view.is_next()).unwrap();
        let [gpt, own] = [SURVEYED[0], masked].map(|card| work(&settings(card, 1, 1e-3).unwrap(), 500).unwrap());
        assert_eq!((gpt.steps, gpt.all, own.all), (500, 500.0 * gpt.flops, gpt.all));
        assert!((own.steps as f64 * own.flops / own.all - 1.0).abs() <= 0.5 * own.flops / own.all, "{own:?}");
    }
}
