//! Equal terms: as many parameters and as many floating-point operations for each system.

use gradus_model::{BackboneConfig, LstmConfig};
use gradus_train::pretrain::{self, Length, PretrainError, PretrainOptions, PretrainSettings, VOCABULARY};
use gradus_train::systems::Card;

/// Steps over which the operations of one are averaged.
const COUNTED: u64 = 16;

/// How a system of the survey is trained, but for the number of its steps.
///
/// # Errors
/// None for the systems there are.
pub fn settings(card: &Card, seed: u64, lr: f64) -> Result<PretrainSettings, PretrainError> {
    let options =
        PretrainOptions { system: Some(card.name.into()), lr: Some(lr), seed: Some(seed), ..PretrainOptions::micro_world() };
    let gpt = PretrainOptions::micro_world().settle()?;
    let mut settings = options.settle()?;
    settings.model = levelled(&settings, with_words(&gpt).model_config().parameters());
    settings.eval_tokens = 8000; // on the way they show that it learns; the last evaluation reads all
    Ok(settings)
}

/// The vocabulary is the tokenizer's; the world's BPE fills it.
fn with_words(settings: &PretrainSettings) -> PretrainSettings {
    PretrainSettings { model: settings.model.clone().with_vocab(VOCABULARY), ..settings.clone() }
}

/// The body of as many parameters in all, heads included: by the width inside its feed-forward networks, or by its units.
fn levelled(settings: &PretrainSettings, parameters: usize) -> BackboneConfig {
    let vocab = settings.model.vocab();
    let of = |model: BackboneConfig| with_words(&PretrainSettings { model, ..settings.clone() }).model_config().parameters();
    let nearest = |models: &mut dyn Iterator<Item = BackboneConfig>| {
        models.min_by_key(|model| of(model.clone()).abs_diff(parameters)).expect("one at least")
    };
    let found = match &settings.model {
        BackboneConfig::Gpt(gpt) => nearest(&mut (1..=8 * gpt.width).map(|inner| gpt.clone().with_inner(inner).into())),
        BackboneConfig::Lstm(lstm) => nearest(&mut (1..=8 * lstm.width).map(|units| LstmConfig { units, ..lstm.clone() }.into())),
    };
    found.with_vocab(vocab)
}

/// As many steps as `budget` steps of GPT compute, at least one, and the operations of one.
///
/// # Errors
/// None for the settings of a survey.
pub fn steps(settings: &PretrainSettings, budget: u64) -> Result<(u64, f64), PretrainError> {
    let mut gpt = PretrainOptions::micro_world().settle()?;
    gpt.seed = settings.seed;
    let of_gpt = pretrain::flops_per_step(&gpt, COUNTED)?;
    let same = gpt.model == settings.model && gpt.view == settings.view;
    let own = if same { of_gpt } else { pretrain::flops_per_step(settings, COUNTED)? };
    Ok((((budget as f64 * of_gpt / own).round() as u64).max(1), own))
}

/// The settings with this number of steps.
pub fn with_steps(settings: PretrainSettings, steps: u64) -> PretrainSettings {
    PretrainSettings { length: Length::Steps(steps), eval_every: Some((steps / 5).max(1)), ..settings }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_train::systems::ALL;

    #[test]
    fn all_systems_have_as_many_parameters() {
        let gpt = with_words(&PretrainOptions::micro_world().settle().unwrap()).model_config().parameters() as f64;
        for card in ALL {
            let settings = with_words(&settings(card, 1, 1e-3).unwrap());
            let own = settings.model_config().parameters() as f64;
            assert!((own / gpt - 1.0).abs() < 0.02, "{}: {own} of {gpt}", card.name);
            assert_eq!(settings.system(), Some(card), "only sizes differ");
        }
    }

    #[test]
    fn another_system_computes_as_much() {
        let gpt = settings(ALL[0], 1, 1e-3).unwrap();
        let (n, of_gpt) = steps(&gpt, 500).unwrap();
        assert_eq!(n, 500);
        for card in ALL.into_iter().filter(|card| card.name == "bert") {
            let (n, own) = steps(&settings(card, 1, 1e-3).unwrap(), 500).unwrap();
            let off = (n as f64 * own / (500.0 * of_gpt) - 1.0).abs();
            assert!(off < 0.0011, "half a step of 500: {}: {n} steps of {own}", card.name);
        }
    }
}
