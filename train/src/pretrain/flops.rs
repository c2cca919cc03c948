//! What a step of a run on the micro-world computes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gradus_autograd::observer::{Applied, Observer};
use gradus_autograd::{Shape, Tape};
use gradus_model::{Batch, Model, Tree};
use gradus_tensor::Tensor;

use super::stored::batch;
use super::world::WorldSource;
use super::{PretrainError, PretrainSettings, TextSource, Viewer};

/// Floating-point operations of a step, as the ops state them: three times those of the forward pass, since the VJP of a product takes two
/// products; the mean over the first `steps` steps, padding included.
///
/// # Errors
/// Settings that do not make a run on the micro-world.
pub fn flops_per_step(settings: &PretrainSettings, steps: u64) -> Result<f64, PretrainError> {
    let source = WorldSource::new(settings, None)?;
    let viewer = Viewer::new(settings, &source)?;
    let settings =
        PretrainSettings { model: settings.model.clone().with_vocab(source.tokenizer().vocab_size()), ..settings.clone() };
    let model = Model::init(&settings.model_config(), settings.seed);
    let batch = |t| batch(&source, viewer.as_ref(), settings.objective, t, settings.batch);
    let forward: u64 = (1..=steps).map(|t| forward(&model, &batch(t))).sum();
    Ok(3.0 * forward as f64 / steps as f64)
}

fn forward(model: &Model<Tensor>, batch: &Batch) -> u64 {
    let counter = Arc::new(Counter::default());
    let tape = Tape::new().observed_by(Some(counter.clone()));
    model.leaves(&tape).loss(batch, None);
    counter.0.load(Ordering::Relaxed)
}

/// The operations of all ops.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Observer<f32> for Counter {
    fn applied(&self, it: &Applied<'_, f32>) {
        let shapes: Vec<&Shape> = it.ins.iter().map(|x| x.shape()).collect();
        self.0.fetch_add(it.op.flops(&shapes, it.out.shape()), Ordering::Relaxed);
    }
}
