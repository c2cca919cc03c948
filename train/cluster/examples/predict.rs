//! The predicted speed-up of training on several machines, by [`gradus_cluster::cost`].
//!
//! ```text
//! predict [TOKENS_PER_SECOND [SEQUENCES [RATE [LATENCY [COPYING]]]]]
//! ```
//!
//! The model is the `gpt1` preset. Each machine trains TOKENS_PER_SECOND, and the global batch is SEQUENCES × 512 tokens. The
//! links carry RATE bytes per second each way, with LATENCY in seconds. COPYING is the seconds of a machine per byte. The
//! defaults are 350, 64, 125e6, 0.001 and 5e-10.

use gradus_cluster::cost::{Link, Work, cost};
use gradus_model::{Model, ModelConfig, Tree};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut given = std::env::args().skip(1);
    let mut next = |default: f64| given.next().map_or(Ok(default), |text| text.parse::<f64>());
    let (rate_of_one, sequences) = (next(350.0)?, next(64.0)?);
    let link = Link { rate: next(125e6)?, latency: next(0.001)?, copying: next(5e-10)? };
    let config = ModelConfig::default();
    let (mut gradient, mut at_the_end) = (0.0, 0.0);
    Model::declare(&config).visit(|name, p| {
        let bytes = 4.0 * p.shape.numel() as f64;
        gradient += bytes;
        at_the_end += if name.contains("embed") { bytes } else { 0.0 };
    });
    let all = sequences * config.sizes.context as f64 / rate_of_one;
    // The optimizer reads four numbers per parameter and writes three, at some 10 GB/s.
    let update = 7.0 * gradient / 10e9;
    println!("machines   seconds a step   waiting   times one machine   of what is possible");
    for machines in [1, 2, 4, 8, 16, 32, 64] {
        let own = all / f64::from(machines);
        // A machine computes two shards at a time, each of one sequence if there are enough sequences.
        let last_backward = 2.0 / 3.0 * own / (sequences / f64::from(machines) / 2.0).max(1.0);
        let work = Work { gradient, at_the_end, own, last_backward, update };
        let predicted = cost(&work, &link, machines as usize);
        let times = (all + update) / predicted.step;
        let share = 100.0 * times / f64::from(machines);
        let waiting = 100.0 * predicted.waiting / predicted.step;
        println!("{machines:>8}   {:>14.2}   {waiting:>5.1} %   {times:>17.2}   {share:>16.0} %", predicted.step);
    }
    Ok(())
}
