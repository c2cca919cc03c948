//! Products of matrices whose factors are in half precision.

use gradus_model::{GradientMode, Tree};
use gradus_tensor::Device;
use gradus_tensor::device::MatmulPrecision;
use gradus_train::trainer::{ANOMALY, Replay, TrainError, Trainer};

use crate::models::{batch, bits, gpt, steps, trainer};

/// Opens the GPU with products in f16, in addition to the one in use.
fn half(gpu: &Device) -> Device {
    Device::open_with(&gpu.to_string(), MatmulPrecision::F16).expect("a GPU that computes in f16")
}

/// A factor is off by up to 2⁻¹¹, 5e-4: a loss near 3 is off by about 1e-3, and after a hundred steps by the accumulated error.
#[test]
fn training_in_half_precision_follows_full_precision() {
    let Some(gpu) = crate::gpu() else { return };
    let half = half(&gpu);
    let [full, half] = [&gpu, &half].map(|device| steps(&mut trainer(gpt(), device), 100));
    assert!(full.iter().zip(&half).any(|(full, half)| full.loss != half.loss), "it is another precision");
    for (t, (full, half)) in full.iter().zip(&half).enumerate() {
        assert!((full.loss - half.loss).abs() < 0.02, "step {}: {half:?}, {full:?} in f32", t + 1);
        assert!((half.gradient_norm / full.gradient_norm - 1.0).abs() < 0.1, "step {}: {half:?}, {full:?} in f32", t + 1);
    }
    assert!((full[0].loss - half[0].loss).abs() < 2e-3, "{} at the first step, {} in f32", half[0].loss, full[0].loss);
}

/// The cotangents of a mean over many tokens are small: the scale of the loss keeps them from rounding to 0.
#[test]
fn small_gradients_survive() {
    let Some(gpu) = crate::gpu() else { return };
    let tiny = batch(0).scaled(1e-6);
    let there = trainer(gpt(), &half(&gpu));
    let (_, scaled) = there.gradient(&tiny, None).expect("finite");
    let (_, lost) = there.params.gradient(&tiny, None, GradientMode::Whole);
    let (_, full) = trainer(gpt(), &Device::CPU).gradient(&tiny, None).expect("finite");
    let (mut expected, mut errors) = (0.0, [0.0; 2]);
    full.zip(scaled.zip(lost)).visit(|_, (full, (scaled, lost))| {
        let [full, scaled, lost] = [full, scaled, lost].map(|g| g.expect("a gradient").to_vec());
        expected += full.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>();
        for (error, found) in errors.iter_mut().zip([scaled, lost]) {
            *error += found.iter().zip(&full).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        }
    });
    let [scaled, lost] = errors.map(|error| (error / expected).sqrt());
    assert!(scaled < 0.005 && lost > 0.02, "off by {scaled} with the scale, by {lost} without");
}

#[test]
fn a_factor_beyond_half_precision_stops_the_training_and_is_named() {
    let Some(gpu) = crate::gpu() else { return };
    let mut trainer = trainer(gpt(), &half(&gpu));
    steps(&mut trainer, 1);
    trainer.params.as_mut().visit(|found, p| {
        if found == "h.1.mlp.c_fc.weight" {
            p.set(7, 70_000.0);
        }
    });
    let before = bits(&trainer.params);
    let error = trainer.step(&batch(1)).unwrap_err();
    assert!(matches!(error, TrainError::NotFinite { step: 2, anomaly: Some(_), .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("--matmul-precision f32: a factor of a product in f16 is at most 65,504"), "{message}");
    assert!(message.contains("h1.mlp"), "the place is named: {message}");
    assert!(bits(&trainer.params) == before, "nothing has changed");
    let run = tempfile::tempdir().unwrap();
    let kept = trainer.keep(&batch(1), &error, run.path()).expect("a step that can be repeated");
    assert!(kept.contains("--device 'gpu:"), "{kept}");
    let Replay { trainer: mut again, batch, precision, .. } = Trainer::replay(&run.path().join(ANOMALY)).unwrap();
    assert_eq!(precision.products, MatmulPrecision::F16);
    again.place(&half(&gpu)).unwrap();
    let anomaly = again.anomaly(&batch).expect("the same number");
    assert!(message.contains(&anomaly.to_string()), "{anomaly}, not {message}");
}
