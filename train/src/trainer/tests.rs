use gradus_collective::testing::processes;
use gradus_model::check::{Loss, Sample, random_batch, tiny_gpt};
use gradus_model::{Form, HeadConfig, ModelConfig, Objective};
use gradus_tensor::rng::Philox;

use super::distributed::StepFlags;
use super::*;

fn batch(config: &ModelConfig) -> Batch {
    let weights = Objective::TokenMean.weights(&[1.0; 12], 3);
    random_batch(&mut Philox::new(8), config.sizes.vocab, 3, weights)
}

fn trainer() -> (Trainer, Batch) {
    let recipe = Recipe { optimizer: Optimizer { lr: 0.01, ..Optimizer::default() }, seed: 3, ..Recipe::new(20, 2) };
    (Trainer::new(recipe, Model::init(&tiny_gpt(), 1)), batch(&tiny_gpt()))
}

/// Scales the loss and the gradient as on a GPU that multiplies in f16. A power of two rounds nothing.
#[test]
fn a_scaled_loss_gives_the_same_step() {
    let (mut plain, batch) = trainer();
    plain.recipe.shards = 1;
    let mut other = plain.clone();
    for _ in 0..2 {
        let expected = plain.step(&batch).unwrap();
        let larger = batch.scaled(8.0);
        let (loss, gradient) = other.only_shard(&larger, Some(other.dropout()), None).unwrap();
        let shards = || Shards::one(loss.clone(), 8.0);

        let (own, unscaled) = shards().unscaled(&[8.0 * expected.loss], gradient.clone());
        assert_eq!(own, expected.loss);
        unscaled.zip(gradient.clone()).visit(|_, (own, larger)| {
            let eighth: Vec<f32> = larger.unwrap().to_vec().iter().map(|g| g / 8.0).collect();
            assert_eq!(own.unwrap().to_vec(), eighth);
        });

        assert_eq!(other.apply(&batch, &shards(), &gradient).unwrap(), expected);
        assert!(other.params == plain.params && other.moments() == plain.moments());
    }
    let (_, gradient) = plain.gradient(&batch, None).unwrap();
    let (_, same) = Shards::one(Tensor::scalar(1.0f32), 1.0).unscaled(&[1.0], gradient.clone());
    assert_eq!(same, gradient);
}

#[test]
fn a_step_is_counted_and_summarized() {
    let (mut trainer, batch) = trainer();
    let (loss, gradient) = trainer.gradient(&batch, Some(trainer.dropout())).unwrap();
    let mut squares = 0.0;
    gradient.visit(|_, g| squares += f64::from(g.unwrap().to_vec().iter().map(|g| g * g).sum::<f32>()));
    let seen = trainer.step(&batch).unwrap();
    assert_eq!((seen.loss, trainer.done()), (loss, 1));
    assert!((seen.gradient_norm - squares.sqrt()).abs() < 1e-5 * seen.gradient_norm);
    assert_eq!(seen.rate, 0.01 * trainer.recipe.factors(1).schedule);
    assert_ne!(trainer.dropout(), DropoutSeed::new(3, 1));
    assert_eq!(trainer.dropout(), DropoutSeed::new(3, 2));
    let next = trainer.step(&batch).unwrap();
    assert_eq!((next.rate, trainer.done()), (0.01 * trainer.recipe.factors(2).schedule, 2));
    assert_ne!(next.rate, seen.rate);
    assert!(trainer.take_times().is_empty(), "a single process waits for no other");
}

#[test]
fn casting_to_another_precision_keeps_the_state() {
    let (mut trainer, batch) = trainer();
    trainer.step(&batch).unwrap();
    trainer.step(&batch).unwrap();
    trainer.watches = true;
    let wide: Trainer<f64> = trainer.cast();
    assert_eq!((wide.done(), wide.watches), (2, true));
    let back: Trainer = wide.cast();
    assert!(back.params == trainer.params && back.moments() == trainer.moments());
    let mut moves = false;
    trainer.moments().1.as_ref().visit(|_, v| moves |= v.to_vec().iter().any(|v| *v != 0.0));
    assert!(moves, "there are moments to be kept");
}

#[test]
fn alarms_start_anew_on_a_new_device() {
    let (mut trainer, _) = trainer();
    (0..100).for_each(|_| trainer.alarms.observe_loss(1.0));
    trainer.place(&Device::CPU).unwrap();
    (0..100).for_each(|_| trainer.alarms.observe_loss(10.0));
    assert_eq!(trainer.alarms.take(), [] as [&str; 0], "10 is the first loss there");
    assert_eq!(needs(5), [("parameters", 5), ("their gradient", 5), ("its two moments", 10)]);
}

#[test]
fn a_step_is_timed() {
    let (mut trainer, batch) = trainer();
    let begin = Instant::now();
    let seconds = trainer.seconds_per_step(&batch, 3).unwrap();
    assert!(seconds > 0.0 && seconds <= begin.elapsed().as_secs_f64(), "{seconds}");
    assert_eq!(trainer.done(), 3);
}

#[test]
fn a_warm_up_longer_than_the_run_is_reported() {
    let doubt = |kind, warmup: &str, steps| {
        let schedule = Schedule { kind, warmup: warmup.parse().unwrap() };
        Recipe { schedule, ..Recipe::new(steps, 1) }.doubt()
    };
    let warning = doubt(ScheduleKind::Paper, "200", 100).unwrap();
    assert!(warning.starts_with("a warm-up of 200 steps in a run of 100: the rate never reaches --lr"), "{warning}");
    assert_eq!(doubt(ScheduleKind::Paper, "100", 100), None);
    assert_eq!(doubt(ScheduleKind::Paper, "0.1", 100), None);
    assert_eq!(doubt(ScheduleKind::Constant, "200", 100), None, "it has no warm-up");
}

#[test]
fn a_batch_has_two_shards_where_possible() {
    assert_eq!([0, 1, 2, 9].map(default_shards), [1, 1, 2, 2]);
}

/// Before the first step the error names the initial model; after it, the training.
#[test]
fn a_non_finite_number_is_attributed_to_model_or_training() {
    let (mut trainer, batch) = trainer();
    assert_eq!(non_finite(&trainer.params), None);
    let sound = trainer.clone();
    let mut spoilt = 0;
    trainer.params.as_mut().visit(|name, p| {
        if name.starts_with("h.0.ln") {
            p.set(1, f32::NAN);
            spoilt += 1;
        }
    });
    assert_eq!((spoilt, non_finite(&trainer.params).as_deref()), (4, Some("h.0.ln_1.weight")), "the first of them");
    assert_eq!(trainer.step(&batch).unwrap_err(), TrainError::Broken { name: "h.0.ln_1.weight".into() });
    let mut later = sound;
    later.step(&batch).unwrap();
    later.params = trainer.params.clone();
    let TrainError::NotFinite { step: 2, anomaly: Some(anomaly), .. } = later.step(&batch).unwrap_err() else { panic!() };
    assert_eq!(anomaly.op, "layer_norm");
    assert_eq!(later.fault(DeviceError::NotBuilt), TrainError::Device { step: 2, error: DeviceError::NotBuilt });
}

#[test]
fn a_divergence_error_gives_the_origin_and_remedies() {
    let message = |matmul_precision, anomaly| {
        TrainError::NotFinite { step: 1, loss: f64::NAN, norm: 2.0, matmul_precision, anomaly }.to_string()
    };
    let plain = message(MatmulPrecision::F32, None);
    let end = "(--clip). Within each shard of the batch every number is finite; only their sum is not";
    assert!(plain.starts_with("step 1: the loss is NaN and its gradient's norm 2: ") && plain.ends_with(end), "{plain}");
    let half = message(MatmulPrecision::F16, None);
    assert!(
        half.contains("(--clip), or with --matmul-precision f32: a factor of a product in f16 is at most 65,504. Within"),
        "{half}"
    );

    let config = tiny_gpt();
    let mut broken: Trainer = Trainer::new(Recipe::new(20, 1), Model::init(&config, 1));
    broken.params.as_mut().visit(|_, p| p.set(0, f32::INFINITY));
    let anomaly = broken.anomaly(&batch(&tiny_gpt())).map(Box::new);
    let named = message(MatmulPrecision::F32, anomaly.clone());
    assert!(named.ends_with(&format!(". The first non-finite number: {}", anomaly.unwrap())), "{named}");
}

/// Returns a model with parameters of more than one part, and a batch for it.
fn larger() -> (Trainer, Batch) {
    let config = tiny_gpt().with_vocab(1500).with_dropout(0.1);
    let recipe = Recipe { optimizer: Optimizer { lr: 0.01, ..Optimizer::default() }, seed: 3, ..Recipe::new(20, 6) };
    let weights = Objective::TokenMean.weights(&[1.0; 24], 6);
    (Trainer::new(recipe, Model::init(&config, 1)), random_batch(&mut Philox::new(8), config.sizes.vocab, 6, weights))
}

#[test]
fn several_processes_make_the_same_steps() {
    let (mut alone, batch) = larger();
    let expected: Vec<StepSummary> = (0..3).map(|_| alone.step(&batch).unwrap()).collect();
    for (count, in_parts) in [(2, false), (3, false), (2, true), (3, true)] {
        let all = processes(count, |rank| {
            let mut trainer = larger().0;
            trainer.collective = rank;
            if in_parts {
                trainer.shard_moments().unwrap();
                assert!(trainer.moments().0.config() == trainer.params.config());
            }
            let made: Vec<StepSummary> = (0..2).map(|_| trainer.step(&batch).unwrap()).collect();
            // A save in between gathers all moments, then keeps only the own parts again.
            trainer.gather_moments().unwrap();
            trainer.forget_moments();
            assert!(!in_parts || held_moments(&trainer) == 0, "the own parts alone");
            let last = trainer.step(&batch).unwrap();
            trainer.gather_moments().unwrap();
            trainer.compare().unwrap();
            ([&made[..], &[last]].concat(), trainer)
        });
        for (process, (made, trainer)) in all.into_iter().enumerate() {
            assert_eq!(made, expected, "process {process} of {count}, in parts: {in_parts}");
            assert!(trainer.params == alone.params && trainer.done() == 3);
            let has_moments = trainer.moments() == alone.moments();
            assert_eq!(has_moments, process == 0 || !in_parts, "process {process} of {count}, in parts: {in_parts}");
            assert!(process == 0 || !in_parts || held_moments(&trainer) == 0, "process 0 alone gathers them");
        }
    }
}

/// A head without labels in the batch is not updated, in one process and in several, also with sharded moments.
#[test]
fn heads_without_labels_are_not_updated_in_several_processes() {
    let head = |classes| HeadConfig::new(Form::Classify, classes);
    let sample = Sample::under_all("two heads", tiny_gpt(), vec![head(3), head(2)], 0.5);
    let Loss { model, batch: all, .. } = sample.loss(1);
    let one = |head: usize| Batch { losses: vec![all.losses[head].clone(), all.losses[2].clone()], ..all.clone() };
    let batches = [all.clone(), one(1), one(0), all.clone()];
    let begin = || Trainer::new(Recipe { seed: 3, ..Recipe::new(20, 4) }, model.cast());
    let mut alone: Trainer = begin();
    let expected: Vec<StepSummary> = batches.iter().map(|batch| alone.step(batch).unwrap()).collect();
    for in_parts in [false, true] {
        let all = processes(2, |rank| {
            let mut trainer = begin();
            trainer.collective = rank;
            if in_parts {
                trainer.shard_moments().unwrap();
            }
            let made: Vec<StepSummary> = batches.iter().map(|batch| trainer.step(batch).unwrap()).collect();
            trainer.gather_moments().unwrap();
            (made, trainer)
        });
        for (process, (made, trainer)) in all.into_iter().enumerate() {
            assert!(made == expected && trainer.params == alone.params, "process {process}, in parts: {in_parts}");
            assert!(process > 0 || trainer.moments() == alone.moments(), "in parts: {in_parts}");
        }
    }
}

fn held_moments(trainer: &Trainer) -> usize {
    let mut held = 0;
    trainer.m.as_ref().visit(|_, m| held += m.len());
    held
}

/// With own times of 2 s and 3 s, the first process waits 1 s for the second and the rest for the wire, but never longer than it
/// waited in total.
#[test]
fn waiting_for_processes_and_for_the_wire_is_separated() {
    assert_eq!(split(1.0, 5.0, 3.0), [4.0, 2.0]);
    let mut trainer = larger().0;
    let times = vec![[2.0, 1.5], [3.0, 0.25], [0.5, 2.0]];
    for _ in 0..2 {
        trainer.record_flags(StepFlags { stops: true, saves: false, times: times.clone() });
    }
    let of = |own, slowest, wire| ProcessTimes { own, slowest, wire };
    assert_eq!(trainer.take_times(), [of(4.0, 2.0, 1.0), of(6.0, 0.0, 0.5), of(1.0, 4.0, 0.0)]);
    assert!(!trainer.stops(), "alone, it is asked itself");
    let stops = processes(2, |rank| {
        let mut trainer = larger().0;
        trainer.collective = rank;
        trainer.stops = true;
        trainer.stops()
    });
    assert_eq!(stops, [true, true]);
}

/// A request to one process reaches all, and a difference in parameters is reported by all.
#[test]
fn processes_share_save_requests_and_detect_differences() {
    let (_, batch) = larger();
    let received = processes(3, |rank| {
        let mut trainer = larger().0;
        let me = Collective::process(&*rank);
        trainer.collective = rank;
        trainer.ask_to_save(me == 1);
        trainer.step(&batch).unwrap();
        let first = trainer.saves();
        if me == 1 {
            trainer.ask_to_save(false); // the others only received the request
        }
        trainer.step(&batch).unwrap();
        assert!(!trainer.saves() && !trainer.stops());
        let times = trainer.take_times();
        assert_eq!(times.len(), 3);
        assert!(times.iter().all(|it| it.own > 0.0 && it.slowest >= 0.0 && it.wire >= 0.0), "{times:?}");
        assert!(trainer.take_times().is_empty());
        if me == 2 {
            trainer.params.as_mut().visit(|name, p| {
                if name == "h.0.ln_1.weight" {
                    p.set(0, 2.0);
                }
            });
        }
        (first, trainer.compare().unwrap_err().problem)
    });
    for (saves, error) in received {
        assert!(saves);
        assert!(error.starts_with("after step 2 the parameters of process 2 are not those of process 0"), "{error}");
    }
}

/// The parameters are compared regularly during training.
#[test]
fn differing_parameters_are_detected_during_training() {
    let (_, batch) = larger();
    let made = processes(2, |rank| {
        let mut trainer = larger().0;
        let me = Collective::process(&*rank);
        trainer.collective = rank;
        trainer.done = 98;
        trainer.step(&batch).unwrap();
        trainer.params.as_mut().visit(|_, p| p.set(0, me as f32));
        trainer.step(&batch).unwrap();
        trainer.step(&batch).map_err(|e| e.to_string())
    });
    for error in made {
        let error = error.unwrap_err();
        assert!(error.starts_with("step 101: after step 100 the parameters of process 1 are not those of process 0"), "{error}");
    }
}

/// A non-finite step changes nothing, also with sharded moments.
#[test]
fn a_non_finite_step_changes_nothing_with_sharded_moments() {
    let (_, batch) = larger();
    let broken = batch.scaled(f64::NAN);
    processes(2, |rank| {
        let mut trainer = larger().0;
        trainer.collective = rank;
        trainer.shard_moments().unwrap();
        trainer.step(&batch).unwrap();
        let before = trainer.params.clone();
        let error = trainer.step(&broken).unwrap_err();
        assert!(matches!(error, TrainError::NotFinite { step: 2, .. }), "{error}");
        assert!(trainer.params == before && trainer.done() == 1);
    });
}
