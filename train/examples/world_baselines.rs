//! The cost of a short memory in the micro-world: Kneser–Ney n-grams compared with the limit.
//!
//! `cargo run --release -p gradus-train --example world_baselines -- [stories to train on] [held-out stories]`

use std::collections::HashMap;

use gradus_model::KneserNey;
use gradus_world::{Measure, Story, World};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The ids of words and marks, in order of appearance.
#[derive(Default)]
struct Words(HashMap<String, u32>);

impl Words {
    fn ids(&mut self, text: &str) -> Vec<u32> {
        let spaced: String = text.chars().flat_map(|c| if c.is_alphabetic() { vec![c] } else { vec![' ', c, ' '] }).collect();
        spaced
            .to_lowercase()
            .split_whitespace()
            .map(|word| {
                let fresh = self.0.len() as u32;
                *self.0.entry(word.to_owned()).or_insert(fresh)
            })
            .collect()
    }
}

fn main() {
    let mut sizes = std::env::args().skip(1).map_while(|arg| arg.parse().ok());
    let train = sizes.next().unwrap_or(60_000);
    let held_out = sizes.next().unwrap_or(2_000);

    let world = World::default();
    println!("{}\n", world.describe());
    let mut words = Words::default();
    let mut encode = |stories: &[Story]| -> Vec<Vec<u32>> { stories.iter().map(|story| words.ids(&story.text)).collect() };
    let train = encode(&world.corpus(&mut Xoshiro256PlusPlus::seed_from_u64(1), train));
    let held_out = world.corpus(&mut Xoshiro256PlusPlus::seed_from_u64(2), held_out);
    for story in &held_out[..held_out.len().min(3)] {
        println!("{}\n", story.text);
    }
    let limit = Measure::of(&held_out).nats_per_story;
    println!("limit          {}", Measure::of(&held_out));
    let held_out = encode(&held_out);
    for order in [2, 3, 5, 8] {
        let model = KneserNey::train(order, train.iter().map(Vec::as_slice), words.0.len());
        let nats = held_out.iter().map(|ids| model.nll(ids)).sum::<f64>() / held_out.len() as f64;
        let excess = 100.0 * (nats / limit - 1.0);
        println!("Kneser–Ney {order:2}  {nats:.2} nats per story, {excess:+.1} % above the limit");
    }
}
