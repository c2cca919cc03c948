//! Whole models: trained, compared with `transformers`, stopped and resumed.

use gradus_autograd::Tape;
use gradus_autograd::anomaly::{Anomaly, Direction};
use gradus_model::check::random_batch;
use gradus_model::{
    Activation, Batch, Decoder, DropoutSeed, GradientMode, LstmConfig, Model, ModelConfig, Objective, Sizes, Tree, checkpoint,
};
use gradus_tensor::device::testing::Scarce;
use gradus_tensor::device::{Counts, Runs};
use gradus_tensor::rng::Philox;
use gradus_tensor::{Device, Tensor};
use gradus_tests::{Arrays, golden_models, next_tokens};
use gradus_train::optim::{OptimizerKind, ScheduleKind};
use gradus_train::trainer::{Recipe, StepSummary, TrainError, Trainer};

use crate::counts;

const VOCAB: usize = 29;
const CONTEXT: usize = 12;
const SEQUENCES: usize = 4;

pub fn gpt() -> Model<Tensor> {
    gpt_of(2)
}

fn gpt_of(layers: usize) -> Model<Tensor> {
    let config = ModelConfig::gpt(Sizes { vocab: VOCAB, context: CONTEXT, width: 32 }, layers, 4);
    Model::init(&config.with_transformer(|c| c.initializer_range = 0.1).with_dropout(0.1), 1)
}

fn lstm() -> Model<Tensor> {
    let config = ModelConfig::new(
        Sizes { vocab: VOCAB, context: CONTEXT, width: 24 },
        LstmConfig { units: 32, initializer_range: 0.4, ..Default::default() },
    );
    Model::init(&config, 1)
}

pub fn trainer(model: Model<Tensor>, device: &Device) -> Trainer {
    let mut recipe: Recipe = Recipe::new(100, 1);
    recipe.optimizer.lr = 1e-2;
    let mut trainer = Trainer::new(recipe, model);
    trainer.place(device).expect("room for a small model");
    trainer
}

/// Returns the batch of step `t`: every token follows from the one before it, so that the model can learn.
pub fn batch(t: usize) -> Batch {
    let mut rng = Philox::with_stream(5, t as u64);
    let ids = (0..SEQUENCES).flat_map(|_| {
        let first = rng.below(VOCAB as u64) as usize;
        (0..CONTEXT).scan(first, |id, _| Some(std::mem::replace(id, (*id * 3 + 1) % VOCAB) as u32)).collect::<Vec<_>>()
    });
    next_tokens(&ids.collect::<Vec<_>>(), &[CONTEXT as u32; SEQUENCES], Objective::TokenMean)
}

pub fn steps(trainer: &mut Trainer, count: usize) -> Vec<StepSummary> {
    (0..count).map(|_| trainer.step(&batch(trainer.done() as usize)).expect("finite")).collect()
}

pub fn bits(model: &Model<Tensor>) -> Vec<u32> {
    let mut bits = Vec::new();
    model.as_ref().visit(|_, p| bits.extend(p.to_vec().iter().map(|x| x.to_bits())));
    bits
}

/// Trains with dropout, clipping and weight decay.
#[test]
fn a_hundred_steps_follow_the_losses_of_the_cpu() {
    let Some(gpu) = crate::gpu() else { return };
    for (name, model, learnt) in [("GPT", gpt(), 0.7), ("LSTM", lstm(), 0.9)] {
        let [here, there] = [&Device::CPU, &gpu].map(|device| steps(&mut trainer(model.clone(), device), 100));
        assert!(here[99].loss < learnt * here[0].loss, "{name} learns: {} after {}", here[99].loss, here[0].loss);
        for (t, (here, there)) in here.iter().zip(&there).enumerate() {
            let (found, expected) = (there.loss, here.loss);
            assert!((found - expected).abs() < 1e-3, "{name}, step {}: loss {found}, {expected} on the CPU", t + 1);
            assert!((there.gradient_norm / here.gradient_norm - 1.0).abs() < 0.02, "{name}, step {}: {there:?}, {here:?}", t + 1);
        }
    }
}

#[test]
fn a_run_repeats_to_the_bit() {
    let Some(gpu) = crate::gpu() else { return };
    let run = || {
        let mut trainer = trainer(gpt(), &gpu);
        steps(&mut trainer, 3);
        bits(&trainer.params)
    };
    assert_eq!(run(), run());
}

/// Most tensors are longer than a binding.
#[test]
fn tensors_in_windows_train_to_the_same_bits() {
    let Some(scarce) = Device::fresh(Scarce { binding_bytes: Some(8192), ..Scarce::default() }) else { return };
    let gpu = crate::gpu().expect("as before");
    let run = |device: &Device| {
        let mut trainer = trainer(gpt_of(1), device);
        let losses: Vec<f64> = steps(&mut trainer, 2).iter().map(|step| step.loss).collect();
        (losses, bits(&trainer.params))
    };
    assert!(run(&scarce) == run(&gpu));
}

/// Counts are taken after the first three steps, which create all buffers and pipelines.
#[test]
fn a_step_uploads_tokens_reads_once_and_makes_no_buffers() {
    let Some(gpu) = crate::gpu_alone() else { return };
    for (name, model, backward, shards) in [
        ("GPT", gpt(), GradientMode::Whole, 1),
        ("GPT in two shards", gpt(), GradientMode::Whole, 2),
        ("GPT, recomputed", gpt(), GradientMode::Recompute, 1),
        ("LSTM", lstm(), GradientMode::Whole, 1),
    ] {
        let mut trainer = trainer(model, &gpu);
        (trainer.recipe.backward, trainer.recipe.shards) = (backward, shards);
        steps(&mut trainer, 3);
        let (before, shaders, n) = (counts(&gpu), gpu.runs(), 4);
        steps(&mut trainer, n);
        let after = counts(&gpu);
        println!("{name}, dispatches of a step:");
        let mut all = 0;
        for (shader, runs) in gpu.runs() {
            let before = shaders.get(&shader).copied().unwrap_or_default();
            let new = Runs { dispatches: runs.dispatches - before.dispatches, bytes: runs.bytes - before.bytes };
            all += new.dispatches;
            if new.dispatches > 0 {
                println!("{:>8} × {shader}: {} bytes", new.dispatches as f64 / n as f64, new.bytes as f64 / n as f64);
            }
        }
        assert_eq!(all, after.dispatches - before.dispatches, "{name}: each dispatch is in the table");
        let each = |of: fn(&Counts) -> u64| (of(&after) - of(&before)) as f64 / n as f64;
        let [dispatches, submissions, waits] = [each(|c| c.dispatches), each(|c| c.submissions), each(|c| c.waits)];
        let [sent, read] = [each(|c| c.sent_bytes), each(|c| c.read_bytes)];
        println!("{dispatches} dispatches, {submissions} submissions, {waits} waits, {sent} bytes sent, {read} read");
        assert_eq!(after.buffers_made, before.buffers_made, "{name}: buffers are used again");
        let mut parameters = 0;
        trainer.params.as_ref().visit(|_, _| parameters += 1);
        assert_eq!(
            read,
            (4 * (3 * parameters + shards)) as f64,
            "{name}: three words for the norm of each parameter, and the losses"
        );
        // Ids are copied as inputs, as targets, and sorted for the gradient of the embedding; weights are copied too. Recomputing
        // embeds the ids again.
        let (tokens, most) = ((SEQUENCES * CONTEXT) as f64, if backward == GradientMode::Recompute { 28.0 } else { 24.0 });
        assert!(sent <= most * tokens, "{name}: {sent} bytes for {tokens} tokens");
        assert!(waits == 1.0 && submissions <= 6.0, "{name}: {waits} waits, {submissions} submissions");
    }
}

/// The cost of one more block, forward and backward, for each shard. Two shards also add their gradients; recomputing runs each
/// block forward once more.
#[test]
fn a_block_takes_at_most_forty_dispatches() {
    let Some(gpu) = crate::gpu_alone() else { return };
    let mut parameters = 0;
    gpt_of(1).transformer().expect("a GPT").h.0[0].as_ref().visit(|_, _| parameters += 1);
    for (backward, shards, most) in
        [(GradientMode::Whole, 1, 40), (GradientMode::Whole, 2, 2 * 40 + parameters), (GradientMode::Recompute, 1, 40 + 20)]
    {
        let dispatches = |layers| {
            let mut trainer = trainer(gpt_of(layers), &gpu);
            (trainer.recipe.backward, trainer.recipe.shards) = (backward, shards);
            let before = counts(&gpu).dispatches;
            trainer.gradient(&batch(0), Some(DropoutSeed::new(1, 1))).expect("finite");
            counts(&gpu).dispatches - before
        };
        let each = dispatches(3) - dispatches(2);
        println!("{backward:?}, {shards} shards: {each} dispatches");
        assert!(each <= most, "{backward:?}, {shards} shards: {each} dispatches, at most {most} expected");
    }
}

/// SGD moves the parameters by the rate times the gradient, which is far longer than the limit.
#[test]
fn clipping_limits_the_update_on_the_gpu() {
    let Some(gpu) = crate::gpu() else { return };
    let (max, rate) = (1e-3, 0.5);
    for model in [gpt(), lstm()] {
        let mut trainer = trainer(model, &gpu);
        (trainer.recipe.clip, trainer.recipe.optimizer.name) = (Some(max), OptimizerKind::Sgd);
        (trainer.recipe.optimizer.lr, trainer.recipe.optimizer.decay) = (rate, 0.0);
        trainer.recipe.schedule.kind = ScheduleKind::Constant;
        let values = |trainer: &Trainer| {
            let mut all: Vec<f64> = Vec::new();
            trainer.params.as_ref().visit(|_, p| all.extend(p.to_vec().into_iter().map(f64::from)));
            all
        };
        let before = values(&trainer);
        let summary = steps(&mut trainer, 1)[0];
        let moved = values(&trainer).iter().zip(&before).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        assert!(summary.gradient_norm > 100.0 * max, "{summary:?}");
        assert!((moved / (max * summary.rate) - 1.0).abs() < 1e-2, "moved by {moved}, {max} times {}", summary.rate);
    }
}

#[test]
fn fixtures_of_transformers_agree_in_f32() {
    let Some(gpu) = crate::gpu() else { return };
    // The tolerance of f32 on the CPU.
    const TOLERANCE: f64 = 1e-4;
    for dir in golden_models() {
        let params = checkpoint::load(&dir).unwrap().to(&gpu).unwrap();
        let expected = Arrays::read(&dir.join("expected.safetensors"));
        let (ids, shape) = expected.ids("input_ids");
        // The last position of each sequence has no target.
        let batch = next_tokens(&ids, &vec![shape[1] as u32; shape[0]], Objective::TokenMean);
        expected.assert_agrees("f64.logits", params.constants(&Tape::off()).logits(&batch.input).value(), TOLERANCE);
        expected.assert_loss_and_gradient_agree("f64.", &params, &batch, GradientMode::Whole, TOLERANCE);
    }
}

#[test]
fn a_run_resumes_on_either_device() {
    let Some(gpu) = crate::gpu() else { return };
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("trainer.safetensors");
    for [first, second] in [[&gpu, &Device::CPU], [&Device::CPU, &gpu]] {
        let mut whole = trainer(gpt(), &Device::CPU);
        let expected = steps(&mut whole, 10)[9].loss;
        let mut begun = trainer(gpt(), first);
        steps(&mut begun, 5);
        begun.save(&state, "").unwrap();
        let (mut resumed, _) = Trainer::load(&state, begun.params.config(), begun.recipe.clone()).unwrap();
        assert_eq!(bits(&resumed.params), bits(&begun.params), "what was saved is what was there");
        resumed.place(second).unwrap();
        let found = steps(&mut resumed, 5)[4].loss;
        assert!((found - expected).abs() < 1e-3, "{found}, {expected} on the CPU alone");
    }
}

#[test]
fn a_non_finite_value_is_named_and_changes_no_parameter() {
    let Some(gpu) = crate::gpu() else { return };
    let mut trainer = trainer(gpt(), &gpu);
    steps(&mut trainer, 1);
    let name = "h.1.mlp.c_fc.weight";
    trainer.params.as_mut().visit(|found, p| {
        if found == name {
            p.set(7, f32::INFINITY);
        }
    });
    let (before, moments) = (bits(&trainer.params), bits(trainer.moments().0));
    let TrainError::NotFinite { step: 2, anomaly: Some(anomaly), .. } = trainer.step(&batch(1)).unwrap_err() else {
        panic!("a loss or a norm that is not finite")
    };
    assert_eq!((anomaly.op, anomaly.direction), ("linear_gelu", Direction::Forward));
    assert!(bits(&trainer.params) == before && bits(trainer.moments().0) == moments, "nothing has changed");
}

/// Returns a trainer whose model has infinities in the middle, which the ReLU after them cuts off: the loss is finite.
fn hidden_infinity(shards: usize, device: &Device) -> Trainer {
    let config = ModelConfig::gpt(Sizes { vocab: VOCAB, context: CONTEXT, width: 32 }, 2, 4);
    let config = config.with_transformer(|c| (c.activation, c.initializer_range) = (Activation::Relu, 0.1)).with_dropout(0.1);
    let mut trainer = Trainer::new(Recipe::new(100, shards), Model::init(&config, 1));
    trainer.place(device).expect("room for a small model");
    trainer.watches = true;
    trainer.params.as_mut().visit(|name, p| {
        if name == "h.1.mlp.c_fc.bias" {
            p.set(3, f32::NEG_INFINITY);
        }
    });
    trainer
}

/// A CPU and a GPU report the same op, place and inputs, up to rounding.
#[test]
fn an_anomaly_is_reported_alike_on_gpu_and_cpu() {
    let Some(gpu) = crate::gpu() else { return };
    for (shards, backward) in [(1, GradientMode::Whole), (2, GradientMode::Whole), (1, GradientMode::Recompute)] {
        let [here, there] = [&Device::CPU, &gpu].map(|device| {
            let mut trainer = hidden_infinity(shards, device);
            trainer.recipe.backward = backward;
            let (before, moments) = (bits(&trainer.params), bits(trainer.moments().0));
            let TrainError::Anomaly { step: 1, anomaly } = trainer.step(&batch(0)).unwrap_err() else { panic!("an anomaly") };
            assert!(bits(&trainer.params) == before && bits(trainer.moments().0) == moments, "nothing has changed");
            trainer.watches = false;
            trainer.step(&batch(0)).expect("nothing that reaches the loss");
            anomaly
        });
        let what = |a: &Anomaly| {
            (a.op, a.details.clone(), a.node, a.site.clone(), a.direction, a.made.shape, a.made.infinite, a.made.nan)
        };
        assert_eq!(what(&there), what(&here));
        assert_eq!((there.op, &*there.site.scope, there.direction), ("linear", "h1.mlp", Direction::Forward));
        assert_eq!(there.from.len(), here.from.len());
        for ((name, found), (expected_name, expected)) in there.from.iter().zip(&here.from) {
            assert_eq!((name, found.shape, found.infinite), (expected_name, expected.shape, expected.infinite));
            assert!((found.rms - expected.rms).abs() <= 1e-5 * expected.rms.abs(), "{name}: {found}, {expected} on the CPU");
        }
    }
}

#[test]
fn an_observed_step_waits_once_and_has_the_same_bits() {
    let Some(gpu) = crate::gpu_alone() else { return };
    let run = |watches: bool| {
        let mut trainer = trainer(gpt(), &gpu);
        trainer.watches = watches;
        steps(&mut trainer, 3);
        let before = counts(&gpu);
        steps(&mut trainer, 2);
        let after = counts(&gpu);
        assert_eq!(after.waits - before.waits, 2, "one for each step");
        assert!(after.submissions - before.submissions <= 12 && after.buffers_made == before.buffers_made);
        (bits(&trainer.params), after.dispatches - before.dispatches, after.read_bytes - before.read_bytes)
    };
    let ((unseen, few, read), (seen, many, read_watched)) = (run(false), run(true));
    assert!(unseen == seen);
    assert!(many > few + 60, "every value and summand is looked at: {few} dispatches, {many} watched");
    assert_eq!(read_watched, read + 2 * 4, "one mark more in each step");
}

#[test]
fn decoding_on_the_gpu_matches_the_cpu() {
    let Some(gpu) = crate::gpu() else { return };
    for model in [gpt(), lstm()] {
        let there = model.to(&gpu).unwrap();
        let [mut here, mut there] = [Decoder::new(&model), Decoder::new(&there)];
        for ids in [&[3, 1, 4][..], &[1], &[5]] {
            let (found, expected) = (there.read(ids), here.read(ids));
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-4, "{found}, {expected} on the CPU");
            }
        }
    }
}

#[test]
fn evaluation_on_the_gpu_matches_the_cpu() {
    let Some(gpu) = crate::gpu() else { return };
    let batch = random_batch(&mut Philox::new(9), VOCAB, 3, vec![1.0; 3 * CONTEXT]);
    let [here, there] = [&Device::CPU, &gpu].map(|device| gpt().to(device).unwrap().token_losses(&batch).to_vec());
    assert_eq!(here.len(), there.len());
    assert!(here.iter().zip(&there).all(|(a, b)| (a - b).abs() < 1e-4));
}
