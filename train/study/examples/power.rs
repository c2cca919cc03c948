//! The power and the error rates of the decision rule on known effects: `cargo run --release -p gradus-study --example power`.

use gradus_study::rule::power::{Rates, Spread, rates};
use gradus_study::rule::{DecisionRule, Unit};

const TRIALS: usize = 4000;

fn main() {
    let rule = DecisionRule::of(&["a", "b", "c", "d", "e"]);
    let delta = rule.delta[&Unit::Score];
    println!(
        "| differences of a seed | effect | seeds | a claim is shown | any of the five | no difference that matters | any of the five | against it |"
    );
    println!("|-|-|-|-|-|-|-|-|");
    let normal = [0.5, 1.0, 2.5, 4.5].map(|s| (format!("normal, s = {s} δ"), Spread::Normal(s * delta)));
    let bimodal = [5.0, 25.0].map(|w| (format!("learnt or not, worth {w} δ"), Spread::Bimodal(w * delta)));
    let rare = ("learnt by one of two alone, worth 5 δ".to_owned(), Spread::Rare(5.0 * delta));
    for (name, spread) in normal.into_iter().chain(bimodal.clone()).chain([rare]) {
        for times in [0.0, 0.5, 1.0, 2.0] {
            for seeds in [6, 8, 16] {
                row(&name, times, seeds, rates(&rule, times * delta, spread, seeds, TRIALS));
            }
        }
    }
    println!("\nIf as few as two seeds could decide:\n");
    println!(
        "| differences of a seed | effect | seeds | shown | any of the five | no difference | any of the five | against it |"
    );
    println!("|-|-|-|-|-|-|-|-|");
    let hasty = DecisionRule { least_seeds: 2, ..rule };
    for (name, spread) in bimodal {
        for times in [0.0, 2.0] {
            for seeds in 2..6 {
                row(&name, times, seeds, rates(&hasty, times * delta, spread, seeds, TRIALS));
            }
        }
    }
}

fn row(name: &str, times: f64, seeds: usize, found: Rates) {
    let Rates { shown, any_shown, no_difference, any_no_difference, against } = found;
    let cells = [shown, any_shown, no_difference, any_no_difference, against].map(|rate| format!("{:.1} %", 100.0 * rate));
    println!("| {name} | {times} δ | {seeds} | {} |", cells.join(" | "));
}
