//! A run's bits depend on its shards, never on the number of its processes.

use std::sync::Arc;

use gradus_collective::Collective;
use gradus_model::check::{random_batch, tiny_gpt};
use gradus_model::{GradientMode, Model, ModelConfig, Objective, Sizes};
use gradus_tensor::rng::Philox;
use gradus_train::optim::Optimizer;
use gradus_train::trainer::{Recipe, StepSummary, Trainer};

use crate::with_processes;

/// Returns a configuration with dropout and with parameters of more than one piece.
fn config() -> ModelConfig {
    ModelConfig {
        sizes: Sizes { vocab: 2500, context: 6, width: 48 },
        ..tiny_gpt().with_transformer(|c| (c.layers, c.heads) = (2, 4))
    }
    .with_dropout(0.1)
}

/// Returns the summaries of three steps, and the trainer after them.
fn trained(recipe: &Recipe, collective: Option<Arc<dyn Collective<f32>>>, in_parts: bool) -> (Vec<StepSummary>, Trainer) {
    let mut trainer: Trainer = Trainer::new(recipe.clone(), Model::init(&config(), 1));
    trainer.collective = collective.unwrap_or_else(|| Arc::clone(&trainer.collective));
    if in_parts {
        trainer.shard_moments().unwrap();
    }
    let sequences = 12;
    let weights = Objective::TokenMean.weights(&vec![1.0; sequences * 6], sequences);
    let step = |t| {
        let batch = random_batch(&mut Philox::new(t), config().sizes.vocab, sequences, weights.clone());
        trainer.step(&batch).unwrap()
    };
    let summaries = (1..=3).map(step).collect();
    trainer.compare().unwrap();
    trainer.gather_moments().unwrap();
    (summaries, trainer)
}

#[test]
fn any_number_of_processes_gives_the_same_bits() {
    for (shards, backward) in [(8, GradientMode::Whole), (12, GradientMode::Recompute), (5, GradientMode::Whole)] {
        let optimizer = Optimizer { lr: 0.01, ..Optimizer::default() };
        let recipe = Recipe { optimizer, backward, concurrent_shards: 2, seed: 5, ..Recipe::new(10, shards) };
        let (summaries, alone) = trained(&recipe, None, false);
        for processes in [1, 2, 3, 4, 5, 8] {
            if processes > shards {
                continue;
            }
            for in_parts in [false, true] {
                let what = format!("{processes} processes, {shards} shards, in parts: {in_parts}");
                let all = with_processes(processes, |cluster| trained(&recipe, Some(cluster), in_parts));
                assert_eq!(all.len(), processes);
                for (process, (found, trainer)) in all.iter().enumerate() {
                    assert!(*found == summaries && trainer.params == alone.params, "process {process} of {what}");
                    let has_moments = process == 0 || !in_parts;
                    assert_eq!(trainer.moments() == alone.moments(), has_moments, "moments of process {process} of {what}");
                }
            }
        }
    }
}

#[test]
fn all_gather_broadcast_and_gather_reach_all_processes() {
    let received = with_processes(4, |cluster| {
        let me = Collective::process(&*cluster);
        let words = |round: usize| vec![me as u8; round * 150_000];
        let gathered: Vec<_> = (0..4).map(|round| cluster.all_gather(words(round)).wait().unwrap()).collect();
        for (round, gathered) in gathered.into_iter().enumerate() {
            assert!(gathered == (0..4).map(|p| vec![p as u8; round * 150_000]).collect::<Vec<_>>());
        }
        let sent: Vec<u8> = (0..1_000_000).map(|i| (i % 249) as u8).collect();
        assert!(cluster.broadcast(if me == 0 { sent.clone() } else { vec![] }).unwrap() == sent);
        let collected = cluster.gather(words(2)).unwrap();
        assert!(collected == if me == 0 { (0..4).map(|p| vec![p; 300_000]).collect() } else { vec![] });
        cluster.broadcast(vec![me as u8]).unwrap()
    });
    assert_eq!(received, [[0], [0], [0], [0]]);
}
