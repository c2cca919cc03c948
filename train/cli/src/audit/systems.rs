//! `gradus audit systems`.

use gradus_audit::systems::{AuditedSystem, audit};
use gradus_io::progress::Job;
use gradus_train::systems::{ALL, Card};
use serde_json::json;

use super::{Talk, refuse};
use crate::error::CliError;
use crate::progress::Display;
use crate::{output, systems};

/// Check every system against its card: the inputs that its answers depend on, and the sum of its probabilities
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  gradus audit systems                    # all of them, in a few seconds
  gradus audit systems bert gpt --json

On tiny networks in f64. Each token is changed in turn: the predictions that change must be those that depend on it in the \
card's picture (`gradus systems`). The probabilities of all short texts must sum to 1 if the card's density is joint. If it is \
pseudo, they must sum to 2 after training on texts of two equal words. Exit code 1 if a card is wrong.")]
pub struct Args {
    /// Systems to check [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    args.talk.start()?;
    let named: Vec<&Card> = args.names.iter().map(|name| systems::named(name)).collect::<Result<_, _>>()?;
    let cards = if named.is_empty() { ALL.to_vec() } else { named };
    let job = Job::new("systems", cards.len() as u64, "systems");
    let all: Vec<AuditedSystem> = Display::choose(args.talk.quiet).during(job, |reach: &mut dyn FnMut(usize)| {
        let one = |(done, card): (usize, &&Card)| {
            let audited = audit(card);
            reach(done + 1);
            audited
        };
        Ok::<_, CliError>(cards.iter().enumerate().map(one).collect())
    })?;
    let faults: Vec<String> = all.iter().flat_map(AuditedSystem::faults).collect();
    if args.talk.json {
        output::json(&json!({ "systems": all, "faults": faults }))?;
    } else {
        all.iter().try_for_each(show)?;
    }
    refuse(faults)
}

fn show(system: &AuditedSystem) -> Result<(), CliError> {
    let AuditedSystem { name, sight, density, fresh, learnt } = system;
    let sight: Vec<String> = sight.iter().map(|(asked, _, found)| format!("{asked} ← {found}")).collect();
    output::line(&format!("{name:<8} {}", sight.join("   ")))?;
    output::line(&format!(
        "         texts of five words sum to {fresh:.12} before training, of two to {learnt:.6} after; {}",
        density.words()
    ))
}
