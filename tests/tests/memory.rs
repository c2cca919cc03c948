//! Training's use of the system's allocator: after the first steps it allocates no memory for tensors, and it holds no more
//! memory after step 2,000 than after step 200.

use gradus_autograd::{Tape, Tensor};
use gradus_model::GradientMode::{self, Recompute, Whole};
use gradus_model::check::random_batch;
use gradus_model::{Batch, Model, ModelConfig, Objective, Sizes, checkpoint};
use gradus_tensor::buffer;
use gradus_tensor::rng::Philox;
use gradus_tests::allocations::{Counting, alone, blocks, held, most_held};
use gradus_train::trainer::{Recipe, Trainer};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn trainer(config: &ModelConfig, shards: usize, backward: GradientMode) -> Trainer {
    Trainer::new(Recipe { concurrent_shards: 1, backward, seed: 9, ..Recipe::new(10_000, shards) }, Model::init(config, 4))
}

fn batch(config: &ModelConfig, sequences: usize) -> Batch {
    let n = sequences * config.sizes.context;
    random_batch(&mut Philox::new(2), config.sizes.vocab, sequences, Objective::TokenMean.weights(&vec![1.0; n], sequences))
}

/// Runs `f` on one rayon thread, so that nothing depends on the order of threads.
fn on_one_thread(f: impl FnOnce() + Send) {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread").install(f);
}

fn step(trainer: &mut Trainer, batch: &Batch) {
    trainer.step(batch).expect("finite");
}

/// In each way of computing a gradient (whole, in parts, recomputed), the third and later steps reuse the buffers of the steps
/// before.
#[test]
fn later_steps_allocate_no_tensor_memory() {
    let _alone = alone();
    let config = ModelConfig::gpt(Sizes { vocab: 500, context: 32, width: 64 }, 3, 4);
    on_one_thread(|| {
        for (shards, backward) in [(1, Whole), (1, Recompute), (4, Whole), (4, Recompute)] {
            let (mut trainer, batch) = (trainer(&config, shards, backward), batch(&config, 4));
            (0..3).for_each(|_| step(&mut trainer, &batch));
            let before = blocks();
            let pool = buffer::stats();
            const STEPS: usize = 10;
            (0..STEPS).for_each(|_| step(&mut trainer, &batch));
            let after = blocks();
            let what = format!("{shards} shards, {backward:?}");
            assert_eq!(buffer::stats(), pool, "{what}: the pool has changed");
            // The remaining allocations are the tapes' lists of nodes, which double as they grow, and small objects.
            let [blocks, large] = [after[0] - before[0], after[1] - before[1]].map(|n| n / STEPS);
            let tapes = shards * if backward == Recompute { config.body.layers() + 2 } else { 1 };
            assert!(large <= 12 * tapes, "{what}: {large} large blocks per step for {tapes} tapes");
            assert!(blocks <= 2000 * shards, "{what}: {blocks} blocks per step");
        }
    });
}

/// The logits of 8,192 predictions over 20,000 tokens are 655 MB, of which an eighth is held at a time.
#[test]
fn the_logits_are_never_stored_whole() {
    let _alone = alone();
    let (rows, classes, d) = (8192, 20_000, 4);
    let (h, w) = (Tensor::<f32>::full([rows, d], 0.1), Tensor::full([classes, d], 0.2));
    buffer::reset_peak();
    let before = buffer::stats();
    let tape = Tape::new();
    let (h, w) = (tape.leaf(h), tape.leaf(w));
    let loss = h.linear_cross_entropy(&w, None, vec![7; rows].into(), vec![1.0; rows].into());
    assert!((loss.value().item() / rows as f32 - (classes as f32).ln()).abs() < 1e-3);
    tape.backward(&loss);
    let held = buffer::stats().peak_bytes - before.live_bytes;
    assert!(held < rows * classes * size_of::<f32>() / 7, "{held} bytes");
}

/// The VJP of bias, product and GELU no longer needs ȳ and u once it has ū: the rest of the VJP reuses their memory.
#[test]
fn a_fused_layer_needs_no_more_backward_memory_than_its_parts() {
    let _alone = alone();
    let [x, w, b] = [&[512, 16][..], &[16, 64], &[64]].map(|shape| Tensor::<f32>::full(shape, 0.1));
    let held = |fused: bool| {
        let tape = Tape::new();
        let [x, w, b] = [&x, &w, &b].map(|leaf| tape.leaf(leaf.clone()));
        let y = if fused { x.linear_gelu(&w, &b) } else { x.linear(&w, &b).gelu() };
        let (gy, y_len) = (Tensor::full([512, 64], 1.0), y.value().len());
        buffer::reset_peak();
        let before = buffer::stats().live_bytes;
        let grads = tape.backward_from(&y, gy);
        assert!(grads.of(&w).is_some());
        (buffer::stats().peak_bytes - before, y_len * size_of::<f32>())
    };
    let [(parts, of_u), (fused, _)] = [false, true].map(held);
    assert!(fused <= parts && fused >= of_u, "{fused} bytes, {parts} in parts");
}

#[test]
fn two_thousand_steps_hold_no_more_than_two_hundred() {
    let _alone = alone();
    let config = ModelConfig::gpt(Sizes { vocab: 11, context: 8, width: 8 }, 2, 2);
    on_one_thread(|| {
        let (mut trainer, batch) = (trainer(&config, 2, Whole), batch(&config, 2));
        let held_after = |steps: usize, trainer: &mut Trainer| {
            (0..steps).for_each(|_| step(trainer, &batch));
            (held(), buffer::stats())
        };
        let early = held_after(200, &mut trainer);
        assert_eq!(held_after(1800, &mut trainer), early);
    });
}

/// A file of weights is mapped, and its numbers are copied to their final place: the allocator provides less than a tenth of its
/// size.
#[test]
fn loading_a_model_takes_no_second_copy_of_it() {
    let _alone = alone();
    let config = ModelConfig::gpt(Sizes { vocab: 20_000, context: 32, width: 128 }, 1, 4);
    let folder = tempfile::tempdir().unwrap();
    let model: Model<Tensor> = Model::init(&config, 4);
    checkpoint::save(folder.path(), &model).unwrap();
    let mut loaded = None;
    let most = most_held(|| loaded = Some(checkpoint::load(folder.path()).unwrap()));
    assert!(loaded == Some(model));
    assert!(most < config.parameters() * 4 / 10, "{most} bytes beside {} parameters", config.parameters());
}
