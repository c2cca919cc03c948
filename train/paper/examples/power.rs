//! How often the ruler decides, and how often wrongly, with known effects: `cargo run --release -p gradus-paper --example power`.

use gradus_paper::ruler::power::{Spread, rates};
use gradus_paper::ruler::{Ruler, Unit};

fn main() {
    let (ruler, trials) = (Ruler::default(), 4000);
    let delta = ruler.delta[&Unit::Score];
    println!(
        "| differences of a seed | effect | seeds | a claim is shown | any of the five | no difference that matters | against it |"
    );
    println!("|-|-|-|-|-|-|-|");
    let normal = [0.5, 1.0, 2.5].map(|s| (format!("normal, s = {s} δ"), Spread::Normal(s * delta)));
    let bimodal = [5.0, 25.0].map(|w| (format!("learnt or not, worth {w} δ"), Spread::Bimodal(w * delta)));
    for (name, spread) in normal.into_iter().chain(bimodal) {
        for times in [0.0, 0.5, 1.0, 2.0] {
            for seeds in [6, 8, 16] {
                let found = rates(&ruler, times * delta, spread, seeds, trials);
                let [shown, any, none, against] = [found.shown, found.any_shown, found.no_difference, found.against]
                    .map(|rate| format!("{:.1} %", 100.0 * rate));
                println!("| {name} | {times} δ | {seeds} | {shown} | {any} | {none} | {against} |");
            }
        }
    }
}
