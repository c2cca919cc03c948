//! Tests that the same seed gives the same bits, on any number of threads and across a stop.

use gradus_autograd::Tensor;
use gradus_model::check::random_batch;
use gradus_model::{Batch, Model, ModelConfig, Objective, Sizes};
use gradus_tensor::rng::Philox;
use gradus_train::optim::{Optimizer, Schedule};
use gradus_train::pretrain::digest;
use gradus_train::trainer::{Recipe, Trainer};

const STEPS: u64 = 12;

/// Returns sizes at which matrix products, attention, norms, dropout and optimizer all share their work between threads.
fn config() -> ModelConfig {
    ModelConfig::gpt(Sizes { vocab: 700, context: 64, width: 96 }, 2, 4)
}

fn recipe(shards: usize) -> Recipe {
    let schedule = Schedule { warmup: "0.2".parse().unwrap(), ..Schedule::default() };
    Recipe { optimizer: Optimizer { lr: 1e-2, ..Optimizer::default() }, schedule, seed: 9, ..Recipe::new(STEPS, shards) }
}

fn batch(config: &ModelConfig, t: u64) -> Batch {
    let (b, length) = (9, config.sizes.context);
    let weights = Objective::TokenMean.weights(&vec![1.0; b * length], b);
    random_batch(&mut Philox::with_stream(2, t), config.sizes.vocab, b, weights)
}

/// Returns the digest of the parameters after the whole run; with `stop`, the state is saved and loaded after that many steps.
fn run(threads: usize, shards: usize, stop: Option<u64>) -> String {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let config = config();
        let mut trainer: Trainer = Trainer::new(recipe(shards), Model::init(&config, 4));
        while trainer.done() < STEPS {
            trainer.step(&batch(&config, trainer.done() + 1)).unwrap();
            if Some(trainer.done()) == stop {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("state");
                trainer.save(&path, "the caller's").unwrap();
                let (loaded, extra) = Trainer::load(&path, config.clone(), recipe(shards)).unwrap();
                assert_eq!(extra, "the caller's");
                trainer = loaded;
            }
        }
        digest(&trainer.params).unwrap()
    })
}

#[test]
fn threads_and_a_stop_halfway_do_not_change_a_bit() {
    for shards in [1, 2] {
        let one = run(1, shards, None);
        for threads in [2, 3] {
            assert_eq!(run(threads, shards, None), one, "{shards} shards on {threads} threads against one");
        }
        assert_eq!(run(2, shards, Some(STEPS / 2)), one, "{shards} shards, saved and read back halfway");
    }
}

/// The random numbers are the same on every machine: integers of Philox, and functions that round identically everywhere.
/// (Trained parameters may differ between kinds of CPU, which multiply and add in another order.)
#[test]
fn initial_parameters_are_the_same_everywhere() {
    let config = ModelConfig::gpt(Sizes { vocab: 17, context: 6, width: 8 }, 1, 2);
    let model = |seed| -> Model<Tensor<f32>> { Model::init(&config, seed) };
    let params = model(42);
    assert_eq!(digest(&params).unwrap(), "db8b9eb2c530059102d8cb9a347d9f3f190920ddd28ed52dcaeec0c4291c1184");
    assert_ne!(digest(&model(43)), digest(&params), "the seed matters");
}
