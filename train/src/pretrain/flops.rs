//! The floating-point operations of a step of a run on the micro-world.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gradus_autograd::observer::{Applied, Observer};
use gradus_autograd::{Shape, Tape};
use gradus_model::{Batch, Model, Tree};
use gradus_tensor::Tensor;

use super::world::WorldSource;
use super::{PretrainError, PretrainSettings, TextSource, Viewer};

/// Counts the floating-point operations of a step, by the counts of the ops: the mean over the first `steps` steps. It is three
/// times that of the forward passes of the shards, padding included, since the VJP of a product takes two products.
///
/// # Errors
/// Returns an error if the settings do not make a run on the micro-world.
pub fn flops_per_step(settings: &PretrainSettings, steps: u64) -> Result<f64, PretrainError> {
    let source = WorldSource::new(settings, None)?;
    let viewer = Viewer::new(settings, &source)?;
    let settings =
        PretrainSettings { model: settings.model.clone().with_vocab(source.tokenizer().vocab_size()), ..settings.clone() };
    let model = Model::init(&settings.model, settings.seed);
    let shards = settings.recipe(steps).shards;
    let batch = |t| viewer.batch(&source, t, settings.batch);
    let forward: u64 = (1..=steps).map(|t| forward(&model, &batch(t), shards)).sum();
    Ok(3.0 * forward as f64 / steps as f64)
}

/// Counts the operations of the forward passes of a batch's shards.
fn forward(model: &Model<Tensor>, batch: &Batch, shards: usize) -> u64 {
    let counter = Arc::new(Counter::default());
    let tape = Tape::new().observed_by(Some(counter.clone()));
    let leaves = model.leaves(&tape);
    batch.split(shards).iter().for_each(|(_, shard)| _ = leaves.loss(shard, None));
    counter.0.load(Ordering::Relaxed)
}

/// An observer that counts the operations of all ops.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Observer<f32> for Counter {
    fn applied(&self, it: &Applied<'_, f32>) {
        let shapes: Vec<&Shape> = it.ins.iter().map(|x| x.shape()).collect();
        self.0.fetch_add(it.op.flops(&shapes, it.out.shape()), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pretrain::PretrainOptions;
    use crate::systems::{ALL, Card};
    use crate::trainer::Trainer;

    /// Each shard of the first step is trained on by a trainer with an observer.
    #[test]
    fn flops_of_a_step_equal_those_counted_on_its_shards() {
        let settings = |card: &Card| {
            let options = PretrainOptions { system: Some(card.name.into()), ..PretrainOptions::micro_world() };
            options.settle().unwrap()
        };
        for is_next in [true, false] {
            let is_one = |card: &&&Card| card.axes.view.is_next() == is_next && card.axes.body.network().is_some();
            let cards = || ALL.iter().filter(is_one);
            // The views of these cards need the same special tokens.
            let source = WorldSource::new(&settings(cards().next().unwrap()), None).unwrap();
            for card in cards() {
                let settings = settings(card);
                let viewer = Viewer::new(&settings, &source).unwrap();
                let config = settings.model.clone().with_vocab(source.tokenizer().vocab_size());
                let (recipe, model) = (settings.recipe(1), Model::init(&config, 1));
                let whole = viewer.batch(&source, 1, settings.batch);
                let trained = |(_, shard): &(usize, Batch)| {
                    let counter = Arc::new(Counter::default());
                    Trainer::new(recipe.clone(), model.clone()).observed_step(shard, counter.clone()).unwrap();
                    counter.0.load(Ordering::Relaxed)
                };
                let counted = forward(&model, &whole, recipe.shards);
                assert_eq!(counted, whole.split(recipe.shards).iter().map(trained).sum::<u64>(), "{}", card.name);
                let in_one = forward(&model, &whole, 1);
                assert!(is_next || counted < in_one, "{}: a shard of short rows has less padding", card.name);
            }
        }
    }
}
