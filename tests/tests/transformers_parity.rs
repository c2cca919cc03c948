//! The model against `transformers`: logits, loss and every parameter's gradient, in f64 and f32.
//!
//! The fixtures come from `tests/golden/transformers_fixtures.py`.

use std::sync::Arc;

use gradus_autograd::{Real, Tape, Tensor};
use gradus_model::{Decoder, GradientMode, Input, Model, Objective, Tree, checkpoint};
use gradus_tests::{Arrays, golden_models, next_tokens};

fn compare<T: Real>(tolerance: f64) {
    let models = golden_models();
    assert!(models.len() >= 4, "fixtures of several shapes, found {models:?}");
    for dir in models {
        let params: Model<Tensor<T>> = checkpoint::load(&dir).unwrap().cast();
        let expected = Arrays::read(&dir.join("expected.safetensors"));
        let (ids, shape) = expected.ids("input_ids");
        // The last position of each sequence has no target.
        let batch = next_tokens(&ids, &vec![shape[1] as u32; shape[0]], Objective::TokenMean);
        expected.assert_agrees("f64.logits", params.constants(&Tape::off()).logits(&batch.input).value(), tolerance);
        expected.assert_loss_and_gradient_agree("f64.", &params, &batch, GradientMode::Whole, tolerance);
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
fn saving_reproduces_the_loaded_tensors() {
    for dir in golden_models() {
        let model = checkpoint::load(&dir).unwrap();
        let copy = tempfile::tempdir().unwrap();
        checkpoint::save(copy.path(), &model).unwrap();
        assert_eq!(checkpoint::load(copy.path()).unwrap(), model);
        let names = |d: &std::path::Path| Arrays::read(&d.join(checkpoint::WEIGHTS_FILE)).names();
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
        let full = params.constants(&tape).logits(&Input::causal(1, ids.clone())).into_value();
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
