//! Tests of the trainer's guarantees for a step: shards change only rounding, and an error changes nothing.

use std::collections::BTreeMap;

use gradus_autograd::Tensor;
use gradus_autograd::anomaly::Direction;
use gradus_model::check::{Reads, Sample, random_batch, tiny_bert};
use gradus_model::{
    Activation, Batch, Body, ClassLoss, DropoutSeed, Embedding, Form, GradientMode, HeadConfig, Model, ModelConfig, Objective,
    Sizes, Tree,
};
use gradus_tensor::Real;
use gradus_tensor::rng::Philox;
use gradus_train::optim::Schedule;
use gradus_train::trainer::{Recipe, Replay, TrainError, Trainer};
use safetensors::SafeTensors;

fn config() -> ModelConfig {
    ModelConfig::gpt(Sizes { vocab: 23, context: 8, width: 16 }, 2, 4).with_transformer(|c| c.initializer_range = 0.2)
}

fn recipe(shards: usize, concurrent_shards: usize) -> Recipe {
    let schedule = Schedule { warmup: "0.1".parse().unwrap(), ..Schedule::default() };
    Recipe { schedule, concurrent_shards, seed: 3, ..Recipe::new(20, shards) }
}

fn trainer<T: Real>(config: ModelConfig, recipe: Recipe) -> Trainer<T> {
    Trainer::new(recipe, Model::init(&config, 1))
}

/// Returns a batch of seven sequences, which no number of shards divides, of unequal weight.
fn batch(config: &ModelConfig) -> Batch {
    let (b, t) = (7, config.sizes.context);
    let mask: Vec<f64> = (0..b * t).map(|i| if i % t <= i / t { 1.0 } else { 0.0 }).collect();
    random_batch(&mut Philox::new(8), config.sizes.vocab, b, Objective::TokenMean.weights(&mask, b))
}

/// Overwrites one element of a parameter.
fn spoil(trainer: &mut Trainer, parameter: &str, at: usize, value: f32) {
    trainer.params.as_mut().visit(|name, p| {
        if name == parameter {
            p.set(at, value);
        }
    });
}

/// Shards change only the order of sums: every sequence has the same dropout masks, whatever shard it is in.
#[test]
fn shards_give_the_same_loss_and_gradient() {
    for embedding in [Embedding::Separate, Embedding::Joint] {
        let config = config().with_transformer(|c| c.embedding = embedding);
        for dropout in [None, Some(DropoutSeed::new(5, 2))] {
            let run = |shards, concurrent| {
                trainer::<f64>(config.clone(), recipe(shards, concurrent)).gradient(&batch(&config), dropout).unwrap()
            };
            let (loss, gradient) = run(1, 1);
            for (shards, concurrent) in [(2, 1), (2, 2), (3, 2), (3, 3), (7, 4), (50, 50)] {
                let (sharded_loss, sharded) = run(shards, concurrent);
                assert!((sharded_loss - loss).abs() <= 1e-12 * loss, "{shards} shards: loss {sharded_loss} against {loss}");
                sharded.as_ref().zip(gradient.as_ref()).visit(|name, (found, expected)| {
                    // The gradient of a key's bias is 0 up to rounding; it shares a tensor with the queries' and values'.
                    let [found, expected] = [found, expected].map(|g| g.as_ref().unwrap());
                    let largest = |values: &Tensor<f64>| values.to_vec().iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                    let error = largest(&found.zip(expected, |a, b| a - b)) / largest(expected);
                    assert!(error <= 1e-12, "{embedding:?}, {shards} shards: {name}: {error:e} of its largest entry");
                });
            }
        }
    }
}

/// The number of concurrent shards and the recomputation of activations change memory, but no bits.
#[test]
fn concurrent_shards_and_recomputation_do_not_change_a_bit() {
    use GradientMode::{Recompute, Whole};
    for embedding in [Embedding::Separate, Embedding::Joint] {
        let config = config().with_transformer(|c| c.embedding = embedding);
        let run = |shards, concurrent, backward| {
            let recipe = Recipe { backward, ..recipe(shards, concurrent) };
            trainer::<f32>(config.clone(), recipe).gradient(&batch(&config), Some(DropoutSeed::new(5, 2))).unwrap()
        };
        assert_eq!(run(1, 1, Recompute), run(1, 1, Whole), "{embedding:?}");
        let one = run(3, 1, Whole);
        for (concurrent, backward) in [(2, Whole), (3, Whole), (1, Recompute), (2, Recompute)] {
            assert_eq!(run(3, concurrent, backward), one, "{embedding:?}, {concurrent} at once, {backward:?}");
        }
    }
}

/// Returns the tensors that [`Trainer::save`] stores, by name.
fn state(trainer: &Trainer) -> BTreeMap<String, Vec<u8>> {
    let bytes = trainer.state("").unwrap();
    let all = SafeTensors::deserialize(&bytes).unwrap();
    all.iter().map(|(name, values)| (name.to_owned(), values.data().to_vec())).collect()
}

#[test]
fn nan_stops_before_the_step_and_changes_nothing() {
    let (config, batch) = (config(), batch(&config()));
    let mut trainer = trainer::<f32>(config, recipe(2, 2));
    for _ in 0..3 {
        trainer.step(&batch).unwrap();
    }
    for poison in [f32::NAN, f32::INFINITY] {
        let good = trainer.clone();
        spoil(&mut trainer, "h.1.mlp.c_fc.weight", 5, poison);
        let before = state(&trainer);
        let error = trainer.step(&batch).unwrap_err();
        let TrainError::NotFinite { step: 4, loss, norm, anomaly: Some(anomaly), .. } = &error else { panic!("{error}") };
        assert!(!(loss.is_finite() && norm.is_finite()));
        assert_eq!((anomaly.op, &*anomaly.site.scope, anomaly.direction), ("linear_gelu", "h1.mlp", Direction::Forward));
        let weights = anomaly.from[1].1;
        assert_eq!(weights.nan + weights.infinite, 1, "one weight is non-finite: {anomaly}");
        assert_eq!(trainer.done(), 3);
        assert!(state(&trainer) == before, "parameters and moments as before the step that was not taken");
        trainer = good;
    }
    trainer.step(&batch).unwrap();
    assert_eq!(trainer.done(), 4);
}

/// A ReLU turns −∞ into 0: the loss and its gradient are finite, and only an observer of every number detects it.
#[test]
fn an_observer_detects_values_that_never_reach_the_loss() {
    let config = config().with_transformer(|c| c.activation = Activation::Relu);
    let batch = batch(&config);
    for backward in [GradientMode::Whole, GradientMode::Recompute] {
        let mut trainer = trainer::<f32>(config.clone(), Recipe { backward, ..recipe(2, 2) });
        let sound = trainer.clone();
        spoil(&mut trainer, "h.1.mlp.c_fc.bias", 3, f32::NEG_INFINITY);
        let mut watched = trainer.clone();
        watched.watches = true;
        trainer.step(&batch).unwrap();
        let error = watched.step(&batch).unwrap_err();
        let TrainError::Anomaly { step: 1, anomaly } = &error else { panic!("{error}") };
        assert_eq!((anomaly.op, &*anomaly.site.scope, anomaly.direction), ("linear", "h1.mlp", Direction::Forward));
        assert_eq!(anomaly.made.infinite, 3 * 8, "one unit of each token of the first shard: {anomaly}");
        assert_eq!(watched.done(), 0);
        // A finite step has the same bits, watched or not.
        let (mut seen, mut unseen) = (sound.clone(), sound);
        seen.watches = true;
        seen.step(&batch).unwrap();
        unseen.step(&batch).unwrap();
        assert_eq!(seen.params, unseen.params);
    }
}

/// The data stored of a failed step suffices to repeat it alone, with and without labels.
#[test]
fn a_failed_step_is_stored_and_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("anomaly");
    let plain = batch(&config());
    let (b, t) = (plain.input.sequences, plain.input.length());
    let classes = ClassLoss {
        head: 0,
        slots: (0..b).map(|s| (s * t + 1) as u32).collect(),
        group: 1,
        targets: [1.0, 0.0].repeat(b).into(),
        weights: vec![1.0 / b as f64; b].into(),
    };
    for batch in [plain.clone(), plain.with_classes(classes)] {
        let heads = batch.classes().map(|_| HeadConfig::new(Form::Classify, 2)).collect();
        let config = ModelConfig { heads, ..config() };
        let mut trainer: Trainer = Trainer::new(recipe(2, 1), Model::init(&config, 1));
        trainer.step(&batch).unwrap();
        spoil(&mut trainer, "h.0.attn.c_proj.weight", 2, f32::INFINITY);
        let error = trainer.step(&batch).unwrap_err();
        let TrainError::NotFinite { step: 2, anomaly: Some(anomaly), .. } = &error else { panic!("{error}") };
        trainer.dump(&batch, &error, &kept).unwrap();
        let Replay { trainer: again, batch: same, error: message, .. } = Trainer::replay(&kept).unwrap();
        assert_eq!((again.done(), &same, message), (1, &batch, error.to_string()));
        let found = again.anomaly(&same).expect("found again");
        assert_eq!((found.op, found.to_string()), ("linear", anomaly.to_string()));
    }
    let step = kept.join("step.json");
    let whole = std::fs::read_to_string(&step).unwrap();
    std::fs::remove_file(kept.join("checksums.json")).unwrap(); // its check would fail before the checks tested here
    let refused = |text: &str| {
        std::fs::write(&step, text).unwrap();
        let message = Trainer::replay(&kept).unwrap_err().to_string();
        message.strip_prefix(&format!("{}: ", step.display())).expect(&message).to_owned()
    };
    let sequences = refused(&whole.replace("\"sequences\":", "\"sequences\":1"));
    let found = "expected sequences of one length, at most the context of 8; found 17 sequences, 56 tokens";
    assert!(sequences.starts_with(found), "{sequences}");
    let cut = refused(&whole[1..]);
    assert!(cut.contains("line 1 column "), "{cut}");
    let mut read: serde_json::Value = serde_json::from_str(&whole).unwrap();
    read["losses"][1]["classes"]["targets"].as_array_mut().unwrap().truncate(7);
    let classes = refused(&read.to_string());
    assert!(classes.starts_with("found classes that do not match these sequences or this model;"), "{classes}");
    let own = Trainer::replay(dir.path()).unwrap_err().to_string();
    assert!(own.contains(&format!("the run's own directory; its step is in {}", kept.display())), "{own}");
    let empty = tempfile::tempdir().unwrap();
    let missing = Trainer::replay(empty.path()).unwrap_err().to_string();
    assert!(missing.contains(&empty.path().join("step.json").display().to_string()), "{missing}");
}

/// Separate position vectors in a model whose configuration has them in the joint matrix: nothing reads them.
#[test]
fn a_parameter_without_gradient_is_named() {
    let joint = config().with_transformer(|c| c.embedding = Embedding::Joint);
    let [mut params, separate]: [Model<Tensor<f32>>; 2] = [&joint, &config()].map(|config| Model::init(config, 1));
    let Body::Transformer(gpt) = &mut params.body else { unreachable!("a Transformer") };
    gpt.positions_embed = separate.transformer().unwrap().positions_embed.clone();
    let batch = batch(&joint);
    for backward in [GradientMode::Whole, GradientMode::Recompute] {
        let mut trainer = Trainer::new(Recipe { backward, ..recipe(2, 2) }, params.clone());
        let error = trainer.step(&batch).unwrap_err();
        assert_eq!(error, TrainError::NoGradient { step: 1, name: "positions_embed.weight".into() });
        assert!(error.to_string().contains("positions_embed.weight"), "{error}");
        assert_eq!((trainer.done(), &trainer.params), (0, &params));
    }
}

/// Returns a model of two heads that also predicts tokens, a batch with all of its losses, and one with a single head's classes.
fn all_and_one_head() -> (Model<Tensor<f32>>, Batch, Batch) {
    let head = |classes| HeadConfig { pooler: true, bias: true, dropout: 0.0, ..HeadConfig::new(Form::Classify, classes) };
    let sample = Sample::under_all("BERT", tiny_bert(), vec![head(3), head(2)], 1.0).read(Reads::Masked);
    let all = sample.loss(1).batch;
    let one = Batch::of(all.input.clone()).with_classes(all.classes().nth(1).unwrap().clone());
    (Model::init(&sample.config, 1), all, one)
}

/// The update rule and weight decay leave parameters unchanged that no loss of the batch depends on, in any number of shards.
#[test]
fn parameters_outside_the_loss_are_not_updated() {
    let (model, all, one) = all_and_one_head();
    let rests = |name: &str| name.starts_with("transform.") || name.starts_with("score.");
    for shards in [1, 2, 4] {
        let mut trainer = Trainer::new(recipe(4, shards), model.clone());
        trainer.step(&all).unwrap();
        let (params, (m, v)) = (trainer.params.clone(), trainer.moments());
        let (m, v) = (m.clone(), v.clone());
        trainer.step(&one).unwrap();
        let (now_m, now_v) = trainer.moments();
        params.zip(m).zip(v).zip(trainer.params.clone()).zip(now_m.clone()).zip(now_v.clone()).visit(
            |name, (((((p, m), v), now_p), now_m), now_v)| {
                assert_eq!([p == now_p, m == now_m, v == now_v], [rests(name); 3], "{name} in {shards} shards");
            },
        );
    }
}

/// If a batch has two losses, a shard may have only one: the other's parameters get their gradient from other shards.
#[test]
fn a_shard_may_lack_losses_of_the_batch() {
    let (model, all, _) = all_and_one_head();
    let model: Model<Tensor<f64>> = model.cast();
    let tokens = all.tokens().next().unwrap();
    let slots = tokens.slots.as_ref().unwrap();
    // Only the first of four sequences has predicted tokens.
    let first = slots.iter().filter(|&&slot| (slot as usize) < all.input.length()).count();
    let classes = all.classes().fold(Batch::of(all.input.clone()), |batch, classes| batch.with_classes(classes.clone()));
    let some = classes.with_tokens(Some(slots[..first].into()), &tokens.targets[..first], vec![1.0 / first as f64; first]);
    let gradient = |shards| Trainer::new(recipe(2, shards), model.clone()).gradient(&some, None).unwrap();
    let (loss, whole) = gradient(1);
    let (parts_loss, parts) = gradient(4);
    assert!((loss - parts_loss).abs() < 1e-12 * loss);
    whole.zip(parts).visit(|name, (whole, parts)| {
        let (whole, parts) = (whole.unwrap().to_vec(), parts.unwrap().to_vec());
        let largest = whole.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        assert!(largest > 0.0, "{name}");
        assert!(whole.iter().zip(&parts).all(|(w, p)| (w - p).abs() <= 1e-12 * largest), "{name}");
    });
}

/// A shard without a loss does not relax the check: each loss must reach every parameter that it declares, in each shard.
#[test]
fn every_parameter_of_a_loss_must_have_a_gradient() {
    let (model, all, one) = all_and_one_head();
    let error = |model: &Model<Tensor<f32>>, batch: &Batch| Trainer::new(recipe(2, 2), model.clone()).step(batch).err();
    let missing = |name: &str| Some(TrainError::NoGradient { step: 1, name: name.into() });
    assert_eq!([error(&model, &all), error(&model, &one)], [None, None]);
    // A table of positions beside a joint matrix, which has them too: nothing reads the table.
    let joint = model.config().with_transformer(|c| c.embedding = Embedding::Joint);
    let mut unread = Model::init(&joint, 1);
    let Body::Transformer(gpt) = &mut unread.body else { unreachable!("a Transformer") };
    gpt.positions_embed = model.transformer().unwrap().positions_embed.clone();
    assert_eq!([error(&unread, &all), error(&unread, &one)], [(); 2].map(|()| missing("positions_embed.weight")));
}
