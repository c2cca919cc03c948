//! The model against `transformers`: logits, loss and every parameter's gradient, in f64 and f32.
//!
//! The fixtures come from `tests/golden/transformers_fixtures.py`.

use std::sync::Arc;

use gradus_autograd::{Real, Tape, Tensor};
use gradus_model::{Batch, Decoder, Model, Objective, Tree, checkpoint};
use gradus_tests::{Arrays, golden_models, worst};

/// Sequences (B, T): each predicts its tokens from the second on; the last position predicts nothing.
fn batch(ids: &[u32], shape: &[usize]) -> Batch {
    let (b, t) = (shape[0], shape[1]);
    let targets: Vec<u32> = (0..b * t).map(|i| if i % t + 1 < t { ids[i + 1] } else { 0 }).collect();
    let mask: Vec<f64> = (0..b * t).map(|i| if i % t + 1 < t { 1.0 } else { 0.0 }).collect();
    let weights = Objective::TokenMean.weights(&mask, b);
    Batch { sequences: b, inputs: ids.into(), targets: targets.into(), weights: weights.into(), labels: None }
}

fn compare<T: Real>(tolerance: f64) {
    let models = golden_models();
    assert!(models.len() >= 4, "fixtures of several shapes, found {models:?}");
    for dir in models {
        let params: Model<Tensor<T>> = checkpoint::load(&dir).unwrap().cast();
        let expected = Arrays::read(&dir.join("expected.safetensors"));
        let (ids, shape) = expected.ids("input_ids");
        let check = |name: String, found: &Tensor<T>| {
            let error = worst(&found.cast(), &expected.get(&name));
            assert!(error <= tolerance, "{}: {name}: {error:e} of its largest entry, more than {tolerance:e}", dir.display());
        };
        let tape = Tape::off();
        let logits = params.constants(&tape).logits(&ids, shape[0]);
        check("f64.logits".into(), logits.value());

        let tape = Tape::new();
        let leaves = params.leaves(&tape);
        let loss = leaves.loss(&batch(&ids, &shape), None);
        check("f64.loss".into(), loss.value());
        let grads = tape.backward(&loss);
        let mut compared = 0;
        leaves.as_ref().visit(|name, leaf| {
            let gradient = grads.of(leaf).unwrap_or_else(|| panic!("{name} has no gradient"));
            check(format!("f64.gradient.{}", checkpoint::hugging_face_name(name)), gradient);
            compared += 1;
        });
        let all = expected.names().iter().filter(|n| n.starts_with("f64.gradient.")).count();
        assert_eq!(compared, all, "{}: every parameter of transformers", dir.display());
    }
}

#[test]
fn f64_agrees_to_1e_10() {
    compare::<f64>(1e-10);
}

/// f32 arithmetic, against the f64 values: a few layers lose about 1e-6.
#[test]
fn f32_agrees_to_1e_4() {
    compare::<f32>(1e-4);
}

#[test]
fn what_is_saved_is_what_was_loaded() {
    for dir in golden_models() {
        let model = checkpoint::load(&dir).unwrap();
        let copy = tempfile::tempdir().unwrap();
        checkpoint::save(copy.path(), &model).unwrap();
        assert_eq!(checkpoint::load(copy.path()).unwrap(), model);
        let names = |d: &std::path::Path| {
            let mut names = Arrays::read(&d.join(checkpoint::WEIGHTS_FILE)).names();
            names.sort();
            names
        };
        assert_eq!(names(copy.path()), names(&dir));
    }
}

#[test]
fn decoding_with_a_cache_gives_the_logits_of_the_full_pass() {
    for dir in golden_models() {
        let params: Model<Tensor<f64>> = checkpoint::load(&dir).unwrap().cast();
        let (ids, shape) = Arrays::read(&dir.join("expected.safetensors")).ids("input_ids");
        let ids: Arc<[u32]> = ids[..shape[1]].into();
        let tape = Tape::off();
        let full = params.constants(&tape).logits(&ids, 1).into_value();
        let mut decoder = Decoder::new(&params);
        let mut read = 0;
        for step in [2, 1, 1, ids.len() - 4] {
            let logits = decoder.read(&ids[read..read + step]);
            read += step;
            let expected = full.slice(1, read - 1..read).to_vec();
            let largest = expected.iter().fold(1.0f64, |m, x| m.max(x.abs()));
            for (a, b) in logits.iter().zip(&expected) {
                assert!((a - b).abs() <= 1e-12 * largest, "{}: {a} against {b}", dir.display());
            }
        }
    }
}
