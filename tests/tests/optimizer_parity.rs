//! Ten updates of the real [`Trainer`] against ten of `transformers` with PyTorch's optimizers, for each of the five forms.
//!
//! The fixtures come from `tests/golden/transformers_fixtures.py`; rounding moves them by at most 6e-11 of a tensor's
//! largest entry, while the two closest forms end 3e-3 apart.

use gradus_autograd::Tensor;
use gradus_model::{Batch, GradientMode, Model, ModelConfig, Objective, Tree, checkpoint};
use gradus_tests::{Arrays, golden, golden_models, worst};
use gradus_train::optim::{Optimizer, Schedule, Warmup};
use gradus_train::trainer::{Recipe, Trainer};
use serde::Deserialize;

const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct Recipes {
    steps: u64,
    recipes: std::collections::BTreeMap<String, Written>,
}

/// A recipe as `optimizers.json` has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    form: String,
    lr: f64,
    eps: f64,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
    schedule: String,
    warmup: f64,
    clip: Option<f64>,
}

impl Written {
    fn recipe(&self, updates: u64) -> Recipe {
        let name = serde_json::from_value(self.form.clone().into()).expect("a form of the optimizer");
        let kind = serde_json::from_value(self.schedule.clone().into()).expect("a schedule");
        let &Written { lr, eps, beta1, beta2, weight_decay: decay, clip, .. } = self;
        Recipe {
            optimizer: Optimizer { name, lr, beta1, beta2, eps, decay },
            schedule: Schedule { kind, warmup: Warmup::Share(self.warmup) },
            updates,
            clip,
            shards: 1,
            at_once: 1,
            backward: GradientMode::Whole,
            seed: 0,
        }
    }
}

/// Update `t` of the fixture: sequences (B, T) whose tokens from the second on are predicted.
fn batch(ids: &[u32], shape: &[usize], t: usize) -> Batch {
    let (b, width) = (shape[1], shape[2]);
    let inputs = &ids[t * b * width..][..b * width];
    let last = |i: usize| i % width + 1 == width;
    let targets: Vec<u32> = (0..inputs.len()).map(|i| if last(i) { 0 } else { inputs[i + 1] }).collect();
    let mask: Vec<f64> = (0..inputs.len()).map(|i| if last(i) { 0.0 } else { 1.0 }).collect();
    let weights = Objective::TokenMean.weights(&mask, b);
    Batch { sequences: b, inputs: inputs.into(), targets: targets.into(), weights: weights.into(), labels: None }
}

#[test]
fn ten_updates_of_every_form_agree_to_1e_9() {
    let text = std::fs::read(golden().join("optimizers.json")).unwrap();
    let Recipes { steps, recipes } = serde_json::from_slice(&text).unwrap();
    assert_eq!((steps, recipes.len()), (10, 5));
    let trained: Vec<_> = golden_models().into_iter().filter(|dir| dir.join("steps.safetensors").exists()).collect();
    assert!(trained.len() >= 2, "trained fixtures, found {trained:?}");
    for dir in trained {
        let start = checkpoint::load(&dir).unwrap();
        let config = ModelConfig::from(start.gpt().unwrap().config().clone().with_dropout(0.0));
        let start: Model<Tensor<f64>> = start.with_config(&config).cast();
        let expected = Arrays::read(&dir.join("steps.safetensors"));
        let (ids, shape) = expected.ids("input_ids");
        for (name, written) in &recipes {
            let recipe = written.recipe(steps);
            let mut trainer = Trainer::<f64>::new(recipe, start.clone());
            let seen: Vec<_> = (0..steps as usize).map(|t| trainer.update(&batch(&ids, &shape, t)).unwrap()).collect();
            let check = |what: &str, found: &Tensor<f64>| {
                let error = worst(found, &expected.get(&format!("{name}.{what}")));
                assert!(error <= TOLERANCE, "{}: {name}: {what}: {error:e} of its largest entry", dir.display());
            };
            let series = |f: &dyn Fn(usize) -> f64| Tensor::new([seen.len()], (0..seen.len()).map(f).collect());
            check("loss", &series(&|t| seen[t].loss));
            check("gradient_norm", &series(&|t| seen[t].gradient_norm));
            check("schedule", &series(&|t| seen[t].rate / written.lr));
            let mut compared = 0;
            trainer.params.as_ref().visit(|path, p| {
                compared += 1;
                check(&format!("parameter.{}", checkpoint::hugging_face_name(path)), p);
            });
            let all = expected.names().iter().filter(|n| n.starts_with(&format!("{name}.parameter."))).count();
            assert_eq!(compared, all, "{}: {name}: every parameter of transformers", dir.display());
            assert_eq!(trainer.done(), steps);
        }
    }
}
