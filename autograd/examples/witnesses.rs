//! A table of every op and how near each witness comes: the worst relative error over random inputs, in f64.
//!
//! `cargo run --example witnesses -p gradus-autograd`

use gradus_autograd::check;

/// Draws an op, at sizes 1 to 5.
const SEEDS: u64 = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names: Vec<String> = check::WITNESSES.iter().map(|(name, _)| format!("{name:>13}")).collect();
    println!("{:22}{}", "op", names.concat());
    for op in check::subjects() {
        print!("{:22}", op.name());
        for (_, witness) in check::WITNESSES {
            let mut worst = 0.0f64;
            for case in (0..SEEDS).flat_map(|seed| op.cases(seed, 1 + seed as usize % 5)) {
                worst = worst.max(witness(&case)?.error());
            }
            print!("{worst:>13.1e}");
        }
        println!();
    }
    Ok(())
}
